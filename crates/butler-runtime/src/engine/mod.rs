//! The engine: drives one controller's `observe → plan → perform`, one object at a time.
//!
//! Owns what no controller should: finalizers, server-side apply with its skip rule, pruning, the one status write of a pass,
//! events, pause, dry run and the memory between passes. It must not decide anything about the domain. It needs no runtime:
//! time comes in as an argument and waiting goes out as a [`Verdict`], so the simulator can run it step by step.

mod memory;
mod perform;
mod setbacks;
mod status;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use butler_api::{conditions::reasons, keys::annotations};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use serde_json::{Value, json};

use crate::{
    api_server::{ApiServer, Part},
    backoff::Backoff,
    cache::{AnyStore, Cached, Caches, Facts, Malformed, Whole},
    events::{Subject, publish},
    failure::{Class, Failure},
    fields::hash_of_intent,
    object::{Kind, ObjectKey},
    plan::{Next, Note, Plan},
    reconciler::{Claim, Context, Enqueue, Objects, Reconciler, Sources},
    recorder::Recorder,
};
use memory::Memory;
use perform::Hands;
use setbacks::Setbacks;

/// What becomes of an object after a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is gone.
    Forget,
    /// A watch will bring us back.
    AwaitChange,
    /// Look again after this time, or earlier if a watch brings us back.
    After(Duration),
}

/// What a pass did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// When to come back.
    pub verdict: Verdict,
    /// API writes made, the status included.
    pub writes: usize,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// What was told as events.
    pub told: Vec<Note>,
}

impl Report {
    fn quiet(verdict: Verdict) -> Self {
        Self {
            verdict,
            writes: 0,
            failure: None,
            told: Vec::new(),
        }
    }

    /// The same, but the object is looked at again when this says at the latest.
    fn at_the_latest(mut self, next: Next) -> Self {
        if let (Verdict::After(wait), Next::After(due)) = (self.verdict, next) {
            self.verdict = Verdict::After(wait.min(due));
        }
        self
    }
}

/// A controller with everything it needs to run.
pub struct Engine<R: Reconciler> {
    reconciler: R,
    manager: String,
    kind: Kind,
    api: Arc<dyn ApiServer>,
    caches: Arc<Caches>,
    objects: Objects<R::Object>,
    owned: Vec<Arc<dyn AnyStore>>,
    /// Every cache this controller reads, its own objects' included.
    watched: Vec<Arc<dyn AnyStore>>,
    backoff: Backoff,
    memories: Mutex<BTreeMap<ObjectKey, Memory>>,
    random: Mutex<SmallRng>,
}

impl<R: Reconciler> Engine<R> {
    /// Sets a controller up: declares its watches in `caches` and has `enqueue` called for every object that deserves a pass.
    /// `component` is the process' name in field managers, `seed` that of the backoff's jitter.
    pub fn new(
        reconciler: R,
        component: &str,
        api: Arc<dyn ApiServer>,
        caches: Arc<Caches>,
        enqueue: Enqueue,
        seed: u64,
    ) -> Self {
        let mut sources = Sources::new(&caches, enqueue);
        reconciler.sources(&mut sources);
        let (objects, owned, watched) = sources.into_parts();
        if R::FOREIGN {
            objects.may_be_absent();
        }
        Self {
            manager: format!("{component}/{}", R::NAME),
            kind: Kind::of::<R::Object>(),
            reconciler,
            api,
            caches,
            objects,
            owned,
            watched,
            backoff: Backoff::default(),
            memories: Mutex::default(),
            random: Mutex::new(SmallRng::seed_from_u64(seed)),
        }
    }

    /// The field manager of everything this controller applies.
    pub fn manager(&self) -> &str {
        &self.manager
    }

    /// What the controller would do for an object. Changes nothing.
    pub async fn dry_run(
        &self,
        object: &R::Object,
        now: Timestamp,
    ) -> Result<Plan<R::Status, R::Effect>, Failure> {
        let context = Context::new(Arc::clone(&self.api), Arc::clone(&self.caches));
        let world = self.reconciler.observe(object, &context).await?;
        Ok(self.reconciler.plan(object, &world, now))
    }

    /// One pass over one object.
    pub async fn pass(&self, key: &ObjectKey, now: Timestamp) -> Report {
        let Some(cached) = self.objects.get(key) else {
            if let Some(malformed) = self.objects.malformed(key) {
                return self.report_malformed(key, &malformed, now).await;
            }
            self.memories().remove(key);
            return Report::quiet(Verdict::Forget);
        };
        if let Some(left) = self.remember(key, |memory| memory.caches_behind(now)) {
            return Report::quiet(Verdict::After(left.unsigned_abs()));
        }
        let recorder = self.recorder(&cached.facts);
        let mut hands = Hands::new(self, &cached, &recorder);
        let report = self.pass_with(&cached, &mut hands, now).await;
        self.remember(key, |memory| memory.await_writes(recorder.take(), now));
        report
    }

    /// Shows that a pass was cut off by its deadline.
    pub async fn overdue(&self, key: &ObjectKey, deadline: Duration, now: Timestamp) -> Report {
        let Some(cached) = self.objects.get(key) else {
            return Report::quiet(Verdict::Forget);
        };
        let recorder = self.recorder(&cached.facts);
        let mut hands = Hands::new(self, &cached, &recorder);
        let message = format!(
            "the pass did not end within {deadline:?}; it was stopped and will be tried again"
        );
        let failure = Failure::retry(reasons::DEADLINE_EXCEEDED, message);
        let report = self.conclude_failed(&mut hands, None, failure, now).await;
        self.remember(key, |memory| memory.await_writes(recorder.take(), now));
        report
    }

    /// Notes that a pass panicked. Nothing is written: the defect may be in what we would write.
    pub(crate) fn panicked(&self, key: &ObjectKey, message: &str) -> Report {
        let failure = Failure::terminal(
            reasons::TERMINAL,
            format!("the controller panicked: {message}"),
        );
        self.failed(key, failure)
    }

    /// Tells the controller that a pass ended.
    pub(crate) fn passed(&self, key: &ObjectKey, verdict: Verdict, took: Duration) {
        self.reconciler.passed(key, verdict, took);
    }

    fn recorder(&self, facts: &Facts) -> Arc<Recorder> {
        let api = Arc::clone(&self.api);
        Recorder::new(api, self.watched.clone(), self.kind.clone(), facts)
    }

    async fn pass_with(
        &self,
        cached: &Cached<Whole<R::Object>>,
        hands: &mut Hands<'_, R>,
        now: Timestamp,
    ) -> Report {
        let object = &cached.value.0;
        let deleting = object.meta().deletion_timestamp.is_some();
        let context = Context::new(hands.recorder(), Arc::clone(&self.caches));
        let claim = self.reconciler.claim(object, &context);
        if claim == Claim::Foreign {
            return Report::quiet(Verdict::AwaitChange);
        }
        if let Some(how_to_go_on) = self.paused(object, &context) {
            return self.pause(hands, &context, &how_to_go_on, now).await;
        }
        let holds_finalizer = R::FINALIZER
            .is_some_and(|finalizer| object.finalizers().iter().any(|held| held == finalizer));
        if deleting && !holds_finalizer {
            return Report::quiet(Verdict::AwaitChange);
        }
        if let Some(finalizer) = R::FINALIZER.filter(|_| claim == Claim::Ours && !holds_finalizer)
            && let Err(failure) = hands.add_finalizer(finalizer).await
        {
            return self.conclude_failed(hands, None, failure, now).await;
        }
        hands.note_owned();
        let world = match self.reconciler.observe(object, &context).await {
            Ok(world) => world,
            Err(failure) => return self.conclude_failed(hands, None, failure, now).await,
        };
        let plan = self.reconciler.plan(object, &world, now);
        let setbacks = hands.perform(&plan, &context).await;
        if let Some(failure) = setbacks.failure() {
            let next = setbacks.next(plan.next);
            let report = self.conclude_failed(hands, Some(&plan), failure, now).await;
            return report.at_the_latest(next);
        }
        if deleting && plan.next == Next::Done {
            return match hands.remove_finalizer().await {
                Ok(()) => self.concluded(hands, Verdict::AwaitChange),
                Err(failure) => self.conclude_failed(hands, None, failure, now).await,
            };
        }
        self.conclude(hands, &plan, now).await
    }

    /// The end of a pass that went well.
    async fn conclude(
        &self,
        hands: &mut Hands<'_, R>,
        plan: &Plan<R::Status, R::Effect>,
        now: Timestamp,
    ) -> Report {
        let before = hands.status();
        let status = status::compose(json!(plan.status), &before, hands.generation(), None, now);
        if let Err(failure) = hands.write_status(&self.manager, &status).await {
            return self.fail(hands, failure);
        }
        self.tell(hands, &plan.notes, now).await;
        let verdict = match plan.next {
            Next::AwaitChange | Next::Done => Verdict::AwaitChange,
            Next::After(wait) => Verdict::After(wait),
        };
        self.concluded(hands, verdict)
    }

    /// The end of a pass that failed: the status says so, once. If the API server refuses that status as out of date, nothing
    /// is told and the object is looked at anew.
    async fn conclude_failed(
        &self,
        hands: &mut Hands<'_, R>,
        plan: Option<&Plan<R::Status, R::Effect>>,
        failure: Failure,
        now: Timestamp,
    ) -> Report {
        if failure.class != Class::Stale {
            let before = hands.status();
            let generation = hands.generation();
            let (manager, status) = if let Some(plan) = plan {
                let status = json!(plan.status);
                let status = status::compose(status, &before, generation, Some(&failure), now);
                (self.manager.clone(), status)
            } else {
                let status = status::unplanned(&before, generation, &failure, now);
                (format!("{}/failure", self.manager), status)
            };
            match hands.write_status(&manager, &status).await {
                Ok(()) => {}
                // The object is not what we looked at: what failed may not even be wanted any more.
                Err(stale) if stale.class == Class::Stale => return self.fail(hands, stale),
                Err(error) => tracing::warn!(%error, "could not show a failure in the status"),
            }
            let mut notes = plan.map(|plan| plan.notes.clone()).unwrap_or_default();
            notes.push(Note::warning(failure.reason, &failure.message));
            self.tell(hands, &notes, now).await;
        }
        self.fail(hands, failure)
    }

    fn fail(&self, hands: &Hands<'_, R>, failure: Failure) -> Report {
        let report = self.failed(hands.key(), failure);
        Report {
            writes: hands.writes(),
            told: hands.told().to_vec(),
            ..report
        }
    }

    fn failed(&self, key: &ObjectKey, failure: Failure) -> Report {
        let failures = self.remember(key, |memory| {
            memory.failures = memory.failures.saturating_add(1);
            memory.failures
        });
        let jitter = self
            .random
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .random::<f64>();
        let wait = self.backoff.after(failures, failure.class, jitter);
        Report {
            failure: Some(failure),
            ..Report::quiet(Verdict::After(wait))
        }
    }

    fn concluded(&self, hands: &Hands<'_, R>, verdict: Verdict) -> Report {
        self.remember(hands.key(), |memory| memory.failures = 0);
        Report {
            writes: hands.writes(),
            told: hands.told().to_vec(),
            ..Report::quiet(verdict)
        }
    }

    /// How to go on with an object that somebody paused.
    fn paused(&self, object: &R::Object, context: &Context) -> Option<String> {
        let value = object.annotations().get(annotations::PAUSED);
        let ours = value.is_some_and(|value| value == "true");
        let ours = ours.then(|| format!("remove the annotation {} to go on", annotations::PAUSED));
        ours.or_else(|| self.reconciler.paused(object, context))
    }

    /// Has others leave alone what belongs to a paused object, and says that it is paused. What did not come to rest is told in
    /// the same sentence.
    async fn pause(
        &self,
        hands: &mut Hands<'_, R>,
        context: &Context,
        how_to_go_on: &str,
        now: Timestamp,
    ) -> Report {
        let effects = self.reconciler.rest(hands.object(), context);
        let mut setbacks = Setbacks::default();
        hands.carry_out(&effects, context, &mut setbacks).await;
        let failure = setbacks.failure();
        let message = match &failure {
            None => how_to_go_on.to_owned(),
            Some(failure) => format!("{}; {how_to_go_on}", failure.message),
        };
        let status = status::paused(&hands.status(), hands.generation(), &message, now);
        let manager = format!("{}/pause", self.manager);
        let written = hands.write_status(&manager, &status).await;
        match failure.or_else(|| written.err()) {
            None => self.concluded(hands, Verdict::AwaitChange),
            Some(failure) => self.fail(hands, failure),
        }
    }

    async fn tell(&self, hands: &mut Hands<'_, R>, notes: &[Note], now: Timestamp) {
        if hands.writes() == 0 {
            return;
        }
        let fresh = self.remember(hands.key(), |memory| memory.published.fresh(notes));
        let subject = Subject {
            kind: &self.kind,
            key: hands.key(),
            uid: hands.uid(),
        };
        for note in &fresh {
            publish(self.api.as_ref(), &self.manager, &subject, note, now).await;
        }
        hands.has_told(fresh);
    }

    /// An object that does not fit its type is told so in its own status; the others go on.
    async fn report_malformed(
        &self,
        key: &ObjectKey,
        malformed: &Malformed,
        now: Timestamp,
    ) -> Report {
        let manager = format!("{}/malformed", self.manager);
        let failure = Failure::terminal(reasons::MALFORMED, malformed.error.clone());
        let quiet = Report {
            failure: Some(failure),
            ..Report::quiet(Verdict::AwaitChange)
        };
        let status = status::malformed(&malformed.error, &malformed.status, now);
        let body = status_body(&self.kind, key, &malformed.facts.uid, &status);
        let is_told =
            malformed.facts.applied(&manager, Part::Status) == Some(hash_of_intent(&body));
        if is_told || R::FOREIGN {
            return quiet;
        }
        let recorder = self.recorder(&malformed.facts);
        if let Err(error) = recorder
            .apply(&self.kind, key, Part::Status, &manager, body)
            .await
        {
            return Report {
                writes: 1,
                ..self.failed(key, error.into())
            };
        }
        Report { writes: 1, ..quiet }
    }

    fn memories(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Memory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember<T>(&self, key: &ObjectKey, with: impl FnOnce(&mut Memory) -> T) -> T {
        with(self.memories().entry(key.clone()).or_default())
    }
}

/// The body of a status write. Of the object it names no more than is needed to find that very one.
fn status_body(kind: &Kind, key: &ObjectKey, uid: &str, status: &Value) -> Value {
    let mut body = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": { "name": key.name, "uid": uid },
        "status": status,
    });
    if let Some(namespace) = &key.namespace {
        body["metadata"]["namespace"] = namespace.clone().into();
    }
    body
}

/// The status of a typed object as JSON.
fn status_of<K: serde::Serialize>(object: &K) -> Value {
    serde_json::to_value(object).map_or(Value::Null, |mut body| body["status"].take())
}
