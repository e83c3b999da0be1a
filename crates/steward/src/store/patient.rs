//! A way to data stores that lets nobody wait long for one that does not answer.
//!
//! Passes over control planes share a few workers. A store that swallows what it is asked would hold all of them, and with them the
//! control planes of every other store. So one pass at a time finds out whether such a store answers; the others are told what is
//! known, at once, and come again. And whatever takes long needs one of a few places, fewer than there are workers.
//!
//! Owns: which stores answered lately, and which did not, in memory. Must not: decide what is done in a store.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Mutex as Turn, Semaphore},
    time::{Instant, timeout},
};

use super::{StoreAccess, StoreAnswer, StoreError, StoreErrorKind, StoreGrant, StorePort};

/// What takes longer needs a place. Longer than one member of a store that is down holds up those who ask the next one.
const SOON: Duration = Duration::from_secs(8);
/// How long somebody waits for another to hear from a store.
const MOMENT: Duration = Duration::from_secs(1);
/// How long a store that answered counts as answering: longer than the time between two questions of the controller of stores.
const FRESH: Duration = Duration::from_secs(90);
/// How long a store that did not answer is left alone.
const REST: Duration = Duration::from_secs(15);

/// The way to stores, with the memory of which of them answer.
pub struct Patient {
    stores: Arc<dyn StorePort>,
    known: Mutex<BTreeMap<Identity, Arc<Known>>>,
    places: Semaphore,
}

/// A store, and where it is: elsewhere it is another one.
type Identity = (String, Vec<String>);

/// What is known of a store.
#[derive(Default)]
struct Known {
    heard: Mutex<Heard>,
    /// Held by whoever asks it whether it answers.
    turn: Turn<()>,
}

/// What was heard of a store last.
#[derive(Clone, Debug, Default)]
enum Heard {
    /// Nothing yet, or nothing that counts.
    #[default]
    Nothing,
    /// It answered.
    Answer(Instant),
    /// It did not.
    Silence(Instant, String),
}

impl Known {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it answers; nothing if that has to be found out.
    fn verdict(&self) -> Option<Result<(), StoreError>> {
        match &*self.heard() {
            Heard::Answer(at) if at.elapsed() < FRESH => Some(Ok(())),
            Heard::Silence(at, why) if at.elapsed() < REST => Some(Err(told(why))),
            _ => None,
        }
    }

    /// Learns from what became of a call that began then. What is refused at once costs nobody any time.
    fn learn(&self, outcome: &Result<(), StoreError>, begun: Instant) {
        let silence = match outcome {
            Err(error) if error.kind == StoreErrorKind::Unreachable => Some(&error.message),
            _ => None,
        };
        *self.heard() = match silence {
            None => Heard::Answer(Instant::now()),
            Some(_) if begun.elapsed() < MOMENT => Heard::Nothing,
            Some(why) => Heard::Silence(Instant::now(), why.clone()),
        };
    }
}

impl Patient {
    /// A way that is patient with as many stores at the same time.
    pub fn new(stores: Arc<dyn StorePort>, places: usize) -> Self {
        Self {
            stores,
            known: Mutex::default(),
            places: Semaphore::new(places),
        }
    }

    fn known(&self, store: &StoreAccess) -> Arc<Known> {
        let identity = (store.name.clone(), store.endpoints.clone());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(identity).or_default())
    }

    /// Goes on only if the store answers.
    async fn require_answer(&self, store: &StoreAccess, known: &Known) -> Result<(), StoreError> {
        if let Some(verdict) = known.verdict() {
            return verdict;
        }
        let Ok(_turn) = timeout(MOMENT, known.turn.lock()).await else {
            return Err(told("it has not answered yet"));
        };
        if let Some(verdict) = known.verdict() {
            return verdict;
        }
        let Ok(_place) = self.places.try_acquire() else {
            return Err(crowded());
        };
        let begun = Instant::now();
        let answer = self.stores.check(store).await;
        known.learn(&answer, begun);
        match answer {
            Err(error) if error.kind == StoreErrorKind::Unreachable => Err(error),
            // What else is wrong with it, who asks for more is told.
            _ => Ok(()),
        }
    }

    async fn ask(&self, store: &StoreAccess, mut call: StoreAnswer<'_>) -> Result<(), StoreError> {
        let known = self.known(store);
        self.require_answer(store, &known).await?;
        let begun = Instant::now();
        if let Ok(outcome) = timeout(SOON, &mut call).await {
            known.learn(&outcome, begun);
            return outcome;
        }
        // It may have much to do, or have gone: whoever comes next finds out.
        *known.heard() = Heard::Nothing;
        let Ok(_place) = self.places.try_acquire() else {
            return Err(crowded());
        };
        let outcome = call.await;
        known.learn(&outcome, begun);
        outcome
    }
}

fn told(why: &str) -> StoreError {
    StoreError {
        kind: StoreErrorKind::Unreachable,
        message: format!("it was asked a moment ago, and will be again: {why}"),
    }
}

fn crowded() -> StoreError {
    StoreError {
        kind: StoreErrorKind::Unreachable,
        message: "other data stores take long to answer, and no more are waited for at the same time; it will be asked \
                  in its turn"
            .to_owned(),
    }
}

impl StorePort for Patient {
    fn check<'a>(&'a self, store: &'a StoreAccess) -> StoreAnswer<'a> {
        // Whoever asks this has workers of their own, and is who finds out that a store answers again.
        Box::pin(async {
            let begun = Instant::now();
            let answer = self.stores.check(store).await;
            self.known(store).learn(&answer, begun);
            answer
        })
    }

    fn ensure<'a>(&'a self, store: &'a StoreAccess, grant: &'a StoreGrant) -> StoreAnswer<'a> {
        Box::pin(self.ask(store, self.stores.ensure(store, grant)))
    }

    fn discard<'a>(&'a self, store: &'a StoreAccess, grant: &'a StoreGrant) -> StoreAnswer<'a> {
        Box::pin(self.ask(store, self.stores.discard(store, grant)))
    }
}

#[cfg(test)]
#[path = "patient_tests.rs"]
mod tests;
