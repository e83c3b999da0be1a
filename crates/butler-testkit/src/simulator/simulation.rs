//! A world of actors under a scheduler that draws every step from a seed: the same seed, the same run.

use std::time::Duration;

use butler_runtime::reconciler::Reconciler;
use jiff::{SignedDuration, Timestamp};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{
    actor::{Actor, Mishap, Move, World},
    chances::{Chances, Temper},
    controller::ControllerActor,
    housekeeping::Housekeeper,
    log::Log,
    outcome::{Failed, Outcome, Problem},
    script::{Deed, Foreign, Moment, Turn, User},
    store::ObjectStore,
    wire::{Handling, Wire},
};

/// Timers further away than this do not keep a world from being at rest. Longer than the longest backoff.
const HORIZON: Duration = Duration::from_mins(10);

type Check = Box<dyn Fn(&ObjectStore) -> Result<(), String>>;

/// A seeded world.
pub struct Simulation {
    seed: u64,
    step: u64,
    world: World,
    actors: Vec<Box<dyn Actor>>,
    invariants: Vec<(String, Check)>,
    chances: Chances,
    /// Crashes since the world was last at rest.
    crashes: u32,
    /// As many requests are handled until every process dies.
    doom: Option<u64>,
    temper: Temper,
    horizon: Duration,
    log: Log,
}

/// A step the scheduler can take.
enum Step {
    /// An actor makes a move.
    Move(usize, Move),
    /// A request is handled.
    Handle(u64),
}

impl Simulation {
    /// A world with Kubernetes' own housekeeping and nobody else.
    pub fn new(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let temper = Temper::draw(&mut random);
        let world = World {
            store: ObjectStore::new(),
            random,
            wire: Wire::default(),
        };
        Self {
            seed,
            step: 0,
            world,
            actors: vec![
                Box::new(Housekeeper::garbage_collector()),
                Box::new(Housekeeper::namespaces()),
            ],
            invariants: Vec::new(),
            chances: Chances::default(),
            crashes: 0,
            doom: None,
            temper,
            horizon: HORIZON,
            log: Log::default(),
        }
    }

    /// Says how rough the world is from now on.
    pub fn chances(&mut self, chances: Chances) {
        self.chances = chances;
    }

    /// Timers further away than this do not keep the world from being at rest.
    pub fn horizon(&mut self, horizon: Duration) {
        self.horizon = horizon;
    }

    /// Adds a controller. `build` is called for every life of its process. Adding the same again makes a second replica;
    /// there is no leader election between them.
    pub fn controller<R: Reconciler>(&mut self, component: &str, build: impl Fn() -> R + 'static) {
        let prefix = format!("{}[", R::NAME);
        let replicas = self
            .actors
            .iter()
            .filter(|actor| actor.name().starts_with(&prefix))
            .count();
        let name = format!("{}[{replicas}]", R::NAME);
        let actor = ControllerActor::new(name, component, Box::new(build), &mut self.world);
        self.actors.push(Box::new(actor));
    }

    /// Adds a user who does one thing after the other.
    pub fn user(&mut self, name: &str, steps: Vec<(Moment, Deed)>) {
        let user = User::new(name, steps, self.world.store.now());
        self.actors.push(Box::new(user));
    }

    /// Adds a foreign controller: `habit` does one thing to the store and says what, or finds nothing to do, be it for a while.
    pub fn foreign<T: Into<Turn>>(
        &mut self,
        name: &str,
        mut habit: impl FnMut(&mut ObjectStore) -> T + 'static,
    ) {
        let habit = Box::new(move |store: &mut ObjectStore| habit(store).into());
        self.actors.push(Box::new(Foreign::new(name, habit)));
    }

    /// Adds what must hold after every step.
    pub fn invariant(
        &mut self,
        name: &str,
        check: impl Fn(&ObjectStore) -> Result<(), String> + 'static,
    ) {
        self.invariants.push((name.to_owned(), Box::new(check)));
    }

    /// The objects as they are.
    pub fn store(&self) -> &ObjectStore {
        &self.world.store
    }

    /// The objects, for setting the scene.
    pub fn store_mut(&mut self) -> &mut ObjectStore {
        &mut self.world.store
    }

    /// Where simulated ports of other systems send their requests.
    pub fn wire(&self) -> Wire {
        self.world.wire.clone()
    }

    /// What happened so far.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Has every controller make another pass over every object it knows.
    pub fn look_again(&mut self) {
        self.actors.iter_mut().for_each(|actor| actor.look_again());
    }

    /// Has every controller's process die and start anew.
    pub fn restart(&mut self) {
        for index in 0..self.actors.len() {
            self.befall(index, Mishap::Crash);
        }
    }

    /// Has every controller's process die right after this many more requests were handled, before anybody hears the last answer.
    /// Told for each number from one on, that is a death after every single request of a story.
    pub fn doom(&mut self, requests: u64) {
        self.doom = Some(requests);
    }

    /// Whether the death that was announced is still to come. No more can be learnt from greater numbers then.
    pub fn is_doomed(&self) -> bool {
        self.doom.is_some()
    }

    fn doom_draws_nearer(&mut self) {
        self.doom = self.doom.map(|left| left.saturating_sub(1));
        if self.doom == Some(0) {
            self.doom = None;
            self.restart();
        }
    }

    /// Takes steps until the world is at rest: no news undelivered, no request under way, no work due, and no timer within
    /// the horizon.
    pub fn run(&mut self, most_steps: u64) -> Result<Outcome, Failed> {
        self.crashes = 0;
        let first = self.step;
        let requests = self.world.store.requests().len();
        while self.step - first < most_steps {
            self.step += 1;
            if !self.take_step() {
                let writes = self.world.store.requests().iter().skip(requests);
                return Ok(Outcome {
                    store: self.world.store.clone(),
                    steps: self.step - first,
                    writes: writes.cloned().collect(),
                });
            }
            self.check()?;
        }
        Err(self.failed(Problem::Restless))
    }

    fn check(&self) -> Result<(), Failed> {
        for (name, check) in &self.invariants {
            check(&self.world.store).map_err(|message| {
                let invariant = name.clone();
                self.failed(Problem::Broken { invariant, message })
            })?;
        }
        Ok(())
    }

    fn failed(&self, problem: Problem) -> Failed {
        Failed {
            seed: self.seed,
            step: self.step,
            problem,
            log: self.log.clone(),
        }
    }

    /// Takes one step; false if there is none to take.
    fn take_step(&mut self) -> bool {
        let steps = self.possible_steps();
        if steps.is_empty() {
            return self.let_time_pass() || self.rest_comes();
        }
        if self.mishap_happens() {
            return true;
        }
        if self.world.random.random_bool(self.chances.delay) && self.let_time_pass() {
            return true;
        }
        let total: u32 = steps.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.world.random.random_range(0..total);
        for (weight, step) in steps {
            if drawn < weight {
                self.take(&step);
                break;
            }
            drawn -= weight;
        }
        true
    }

    fn possible_steps(&self) -> Vec<(u32, Step)> {
        let actors = self.actors.iter().enumerate();
        let moves = actors.flat_map(|(index, actor)| {
            let moves = actor.moves(&self.world).into_iter();
            moves.map(move |next| (self.weight(&next), Step::Move(index, next)))
        });
        let requests = self.world.wire.sent().into_iter();
        let requests = requests.map(|id| (self.temper.handle, Step::Handle(id)));
        moves.chain(requests).collect()
    }

    fn weight(&self, next: &Move) -> u32 {
        match next {
            Move::Deliver(_) => self.temper.deliver,
            Move::Begin(_) => self.temper.begin,
            Move::Resume(_) => self.temper.resume,
            Move::Act => self.temper.act,
        }
    }

    fn take(&mut self, step: &Step) {
        let said = match step {
            Step::Move(index, next) => self.actors.get_mut(*index).and_then(|actor| {
                let what = actor.make(next, &mut self.world)?;
                Some((actor.name().to_owned(), what))
            }),
            Step::Handle(id) => {
                let wire = self.world.wire.clone();
                let mut handling = Handling {
                    store: &mut self.world.store,
                    random: &mut self.world.random,
                    chances: &self.chances,
                };
                wire.handle(*id, &mut handling)
            }
        };
        if let Some((who, what)) = said {
            self.say(&who, &what);
        }
        if matches!(step, Step::Handle(_)) {
            self.doom_draws_nearer();
        }
    }

    fn say(&mut self, who: &str, what: &str) {
        self.log.say(self.step, self.world.store.now(), who, what);
    }

    fn mishap_happens(&mut self) -> bool {
        let chances = self.chances;
        let crash = if self.crashes < chances.crashes {
            chances.crash
        } else {
            0.0
        };
        let mishaps = [
            (Mishap::Crash, crash),
            (Mishap::Relist, chances.relist),
            (Mishap::CutOff, chances.cut_off),
        ];
        let drawn = mishaps
            .into_iter()
            .find(|(_, chance)| self.world.random.random_bool(*chance));
        let Some((mishap, _)) = drawn else {
            return false;
        };
        let exposed: Vec<_> = self
            .actors
            .iter()
            .map(|actor| actor.exposure(mishap))
            .collect();
        let total: u32 = exposed.iter().sum();
        if total == 0 {
            return false;
        }
        let mut drawn = self.world.random.random_range(0..total);
        for (index, exposure) in exposed.into_iter().enumerate() {
            if drawn < exposure {
                self.crashes += u32::from(mishap == Mishap::Crash);
                self.befall(index, mishap);
                break;
            }
            drawn -= exposure;
        }
        true
    }

    fn befall(&mut self, index: usize, mishap: Mishap) {
        let suffered = self.actors.get_mut(index).and_then(|actor| {
            let what = actor.suffer(mishap, &mut self.world)?;
            Some((actor.name().to_owned(), what))
        });
        if let Some((who, what)) = suffered {
            self.say(&who, &what);
        }
    }

    /// Moves the clock to the next timer within the horizon.
    fn let_time_pass(&mut self) -> bool {
        let now = self.world.store.now();
        let horizon = SignedDuration::try_from(self.horizon).unwrap_or(SignedDuration::MAX);
        let horizon = now.checked_add(horizon).unwrap_or(Timestamp::MAX);
        let timers = self.actors.iter().filter_map(|actor| actor.timer(now));
        let Some(next) = timers.min().filter(|next| *next <= horizon) else {
            return false;
        };
        self.world.store.advance(next);
        self.say("time", "passes");
        true
    }

    /// Wakes those who wait for rest; false if nobody does. What they begin is as rough as what came before.
    fn rest_comes(&mut self) -> bool {
        let waiting = self.actors.iter_mut().find(|actor| actor.waits_for_rest());
        let Some(actor) = waiting else {
            return false;
        };
        actor.rest_came();
        self.crashes = 0;
        true
    }
}
