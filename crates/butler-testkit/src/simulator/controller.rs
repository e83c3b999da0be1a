//! A controller as an actor: the real engine, with caches that lag, passes polled by hand, and a process that can die.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use butler_runtime::{
    cache::{Caches, Whole},
    engine::{Engine, Report, Verdict},
    object::ObjectKey,
    reconciler::Reconciler,
};
use jiff::{SignedDuration, Timestamp};
use rand::RngExt;

use super::{
    actor::{Actor, Mishap, Move, World},
    server::SimulatedApiServer,
    watch::Watch,
};

/// How many objects a process works on at the same time.
const WORKERS: usize = 4;
/// What a pass that was cut off is told to have exceeded.
const DEADLINE: Duration = Duration::from_mins(1);

/// A controller, over all lives of its process.
pub(super) struct ControllerActor<R: Reconciler> {
    name: String,
    component: String,
    build: Box<dyn Fn() -> R>,
    process: Process<R>,
}

/// One life of a controller's process.
struct Process<R: Reconciler> {
    engine: Arc<Engine<R>>,
    caches: Arc<Caches>,
    watches: Vec<Watch>,
    ready: Keys,
    delayed: BTreeMap<ObjectKey, Timestamp>,
    passes: BTreeMap<ObjectKey, Pass>,
}

#[derive(Clone, Default)]
struct Keys(Arc<Mutex<BTreeSet<ObjectKey>>>);

impl Keys {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<ObjectKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pass under way.
struct Pass {
    future: Pin<Box<dyn Future<Output = Report> + Send>>,
    /// Requests it waits for.
    waits_for: Vec<u64>,
}

impl<R: Reconciler> ControllerActor<R> {
    pub(super) fn new(
        name: String,
        component: &str,
        build: Box<dyn Fn() -> R>,
        world: &mut World,
    ) -> Self {
        let process = start(build(), &name, component, world);
        Self {
            name,
            component: component.to_owned(),
            build,
            process,
        }
    }

    /// Polls a pass as far as it goes without an answer.
    fn poll(&mut self, key: &ObjectKey, world: &mut World) -> Option<String> {
        let pass = self.process.passes.get_mut(key)?;
        let polled = pass
            .future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        pass.waits_for.extend(world.wire.just_sent());
        world.wire.still_open(&mut pass.waits_for);
        let Poll::Ready(report) = polled else {
            return None;
        };
        self.process.passes.remove(key);
        if let Verdict::After(wait) = report.verdict {
            let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
            let due = world
                .store
                .now()
                .checked_add(wait)
                .unwrap_or(Timestamp::MAX);
            self.process.delayed.insert(key.clone(), due);
        }
        Some(format!("ends {key}: {}", told(&report)))
    }

    fn begin(
        &mut self,
        key: &ObjectKey,
        future: Pin<Box<dyn Future<Output = Report> + Send>>,
        world: &mut World,
    ) -> Option<String> {
        let pass = Pass {
            future,
            waits_for: Vec::new(),
        };
        self.process.passes.insert(key.clone(), pass);
        self.poll(key, world)
    }
}

/// Starts a process: nothing is known, everything is to be listed.
fn start<R: Reconciler>(
    reconciler: R,
    name: &str,
    component: &str,
    world: &mut World,
) -> Process<R> {
    let caches = Arc::new(Caches::default());
    let ready = Keys::default();
    let queue = ready.clone();
    let enqueue = Arc::new(move |key| {
        queue.lock().insert(key);
    });
    let api = Arc::new(SimulatedApiServer::on_wire(name, world.wire.clone()));
    let seed = world.random.random();
    let engine = Engine::new(
        reconciler,
        component,
        api,
        Arc::clone(&caches),
        enqueue,
        seed,
    );
    let mut watches: Vec<_> = caches.all().into_iter().map(Watch::new).collect();
    watches.sort_by_key(Watch::rank);
    Process {
        engine: Arc::new(engine),
        caches,
        watches,
        ready,
        delayed: BTreeMap::new(),
        passes: BTreeMap::new(),
    }
}

fn told(report: &Report) -> String {
    let mut words = match report.verdict {
        Verdict::Forget => "forgotten".to_owned(),
        Verdict::AwaitChange => "awaits a change".to_owned(),
        Verdict::After(wait) => format!("again after {:.1}s", wait.as_secs_f64()),
    };
    // Writing to a String cannot fail.
    let _ = write!(words, ", {} writes", report.writes);
    if let Some(failure) = &report.failure {
        let _ = write!(words, ", {}: {failure}", failure.reason);
    }
    words
}

impl<R: Reconciler> Actor for ControllerActor<R> {
    fn name(&self) -> &str {
        &self.name
    }

    fn moves(&self, world: &World) -> Vec<Move> {
        let process = &self.process;
        let watches = process.watches.iter().enumerate();
        let news = watches.filter(|(_, watch)| watch.has_news(&world.store));
        let mut moves: Vec<_> = news.map(|(index, _)| Move::Deliver(index)).collect();
        let resumable = process.passes.iter().filter(|(_, pass)| {
            // A pass that waits for nothing we know of is polled, so that a pass stuck for good is seen as restless.
            pass.waits_for.is_empty() || world.wire.has_answer(&pass.waits_for)
        });
        moves.extend(resumable.map(|(key, _)| Move::Resume(key.clone())));
        if process.watches.iter().all(Watch::is_synced) && process.passes.len() < WORKERS {
            let due = process
                .delayed
                .iter()
                .filter(|(_, due)| **due <= world.store.now());
            let mut keys: BTreeSet<_> = due.map(|(key, _)| key.clone()).collect();
            keys.extend(process.ready.lock().iter().cloned());
            let free = keys
                .into_iter()
                .filter(|key| !process.passes.contains_key(key));
            moves.extend(free.map(Move::Begin));
        }
        moves
    }

    fn make(&mut self, next: &Move, world: &mut World) -> Option<String> {
        match next {
            Move::Deliver(index) => self.process.watches.get_mut(*index)?.deliver(&world.store),
            Move::Begin(key) => {
                self.process.ready.lock().remove(key);
                self.process.delayed.remove(key);
                let (engine, object, now) = (
                    Arc::clone(&self.process.engine),
                    key.clone(),
                    world.store.now(),
                );
                let ended = self.begin(
                    key,
                    Box::pin(async move { engine.pass(&object, now).await }),
                    world,
                );
                Some(ended.map_or_else(
                    || format!("begins {key}"),
                    |ended| format!("begins {key}, {ended}"),
                ))
            }
            Move::Resume(key) => self.poll(key, world),
            Move::Act => None,
        }
    }

    fn timer(&self, now: Timestamp) -> Option<Timestamp> {
        self.process
            .delayed
            .values()
            .copied()
            .filter(|due| *due > now)
            .min()
    }

    fn exposure(&self, mishap: Mishap) -> u32 {
        let working = !self.process.passes.is_empty();
        match mishap {
            Mishap::Crash => {
                if working {
                    4
                } else {
                    1
                }
            }
            Mishap::Relist => 1,
            Mishap::CutOff => u32::from(working),
        }
    }

    fn suffer(&mut self, mishap: Mishap, world: &mut World) -> Option<String> {
        let words = match mishap {
            Mishap::Crash => {
                self.process = start((self.build)(), &self.name, &self.component, world);
                "crashes and starts anew".to_owned()
            }
            Mishap::Relist => {
                let index = world.random.random_range(0..self.process.watches.len());
                self.process.watches.get_mut(index)?.lose()
            }
            Mishap::CutOff => {
                let index = world.random.random_range(0..self.process.passes.len());
                let key = self.process.passes.keys().nth(index)?.clone();
                self.process.passes.remove(&key);
                let (engine, object, now) = (
                    Arc::clone(&self.process.engine),
                    key.clone(),
                    world.store.now(),
                );
                let future = Box::pin(async move { engine.overdue(&object, DEADLINE, now).await });
                let ended = self.begin(&key, future, world);
                ended.map_or_else(
                    || format!("cuts off {key}"),
                    |ended| format!("cuts off {key}, {ended}"),
                )
            }
        };
        world.wire.settle_abandoned(&mut world.random);
        Some(words)
    }

    fn look_again(&mut self) {
        let objects = self.process.caches.store::<Whole<R::Object>>().list();
        self.process
            .ready
            .lock()
            .extend(objects.iter().map(|cached| cached.facts.key.clone()));
    }
}
