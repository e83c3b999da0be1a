//! Users and foreign controllers: actors that tests write down.

use std::time::Duration;

use butler_runtime::object::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    actor::{Actor, Move, World},
    operation::Operation,
    server::performed,
    store::ObjectStore,
};

/// When a user's next step is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// At any time after the step before.
    Anytime,
    /// This long after the step before, or later.
    After(Duration),
    /// When nothing else is left to be done.
    AtRest,
}

type Edit = Box<dyn Fn(&mut Value)>;

/// What a user does.
pub enum Deed {
    /// One request.
    Request(Operation),
    /// Reads an object, changes it and replaces it. Nothing happens if it is not there.
    Edit(Kind, ObjectKey, Edit),
}

impl Deed {
    /// Creates an object whose body names it.
    pub fn create(kind: Kind, body: Value) -> Self {
        Self::Request(Operation::create(kind, body))
    }

    /// Deletes an object.
    pub fn delete(kind: Kind, key: ObjectKey) -> Self {
        Self::Request(Operation::delete(kind, key))
    }

    /// Sets an annotation.
    pub fn annotate(kind: Kind, key: ObjectKey, name: &str, value: &str) -> Self {
        let patch = json!({ "metadata": { "annotations": { name: value } } });
        Self::Request(Operation::Merge(kind, key, patch))
    }

    /// Reads an object, changes it and replaces it.
    pub fn edit(kind: Kind, key: ObjectKey, edit: impl Fn(&mut Value) + 'static) -> Self {
        Self::Edit(kind, key, Box::new(edit))
    }

    fn perform(self, client: &str, store: &mut ObjectStore) -> String {
        match self {
            Self::Request(operation) => performed(store, client, operation).1,
            Self::Edit(kind, key, edit) => {
                let Some(object) = store.get(&kind, &key) else {
                    return format!("finds no {kind} {key} to edit");
                };
                let mut body = object.as_ref().clone();
                edit(&mut body);
                performed(store, client, Operation::Replace(kind, key, body)).1
            }
        }
    }
}

/// A user who does one thing after the other.
pub(super) struct User {
    name: String,
    steps: Vec<(Moment, Deed)>,
    since: Timestamp,
    at_rest: bool,
}

impl User {
    pub(super) fn new(name: &str, mut steps: Vec<(Moment, Deed)>, now: Timestamp) -> Self {
        steps.reverse();
        Self {
            name: name.to_owned(),
            steps,
            since: now,
            at_rest: false,
        }
    }

    fn due(&self) -> Option<Timestamp> {
        match self.steps.last()?.0 {
            Moment::Anytime => Some(self.since),
            Moment::After(wait) => {
                let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
                self.since.checked_add(wait).ok()
            }
            Moment::AtRest => self.at_rest.then_some(self.since),
        }
    }
}

impl Actor for User {
    fn name(&self) -> &str {
        &self.name
    }

    fn moves(&self, world: &World) -> Vec<Move> {
        let due = self.due().filter(|due| *due <= world.store.now());
        due.map(|_| Move::Act).into_iter().collect()
    }

    fn make(&mut self, _: &Move, world: &mut World) -> Option<String> {
        let (_, deed) = self.steps.pop()?;
        self.since = world.store.now();
        self.at_rest = false;
        Some(deed.perform(&self.name, &mut world.store))
    }

    fn timer(&self, now: Timestamp) -> Option<Timestamp> {
        self.due().filter(|due| *due > now)
    }

    fn waits_for_rest(&self) -> bool {
        matches!(self.steps.last(), Some((Moment::AtRest, _)))
    }

    fn rest_came(&mut self) {
        self.at_rest = true;
    }
}

/// What a foreign controller makes of its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It did one thing; the words are for the log.
    Did(String),
    /// It finds nothing to do until then, unless something changes.
    Waits(Timestamp),
    /// It finds nothing to do, unless something changes.
    Rests,
}

impl From<Option<String>> for Turn {
    fn from(did: Option<String>) -> Self {
        did.map_or(Self::Rests, Self::Did)
    }
}

type Habit = Box<dyn FnMut(&mut ObjectStore) -> Turn>;

/// A foreign controller: does one thing at a time to the store, until it finds nothing to do.
pub(super) struct Foreign {
    name: String,
    habit: Habit,
    /// The revision at which there was nothing to do.
    idle_at: Option<u64>,
    /// When there will be something to do although nothing changes.
    due: Option<Timestamp>,
}

impl Foreign {
    pub(super) fn new(name: &str, habit: Habit) -> Self {
        Self {
            name: name.to_owned(),
            habit,
            idle_at: None,
            due: None,
        }
    }
}

impl Actor for Foreign {
    fn name(&self) -> &str {
        &self.name
    }

    fn moves(&self, world: &World) -> Vec<Move> {
        let idle = self.idle_at == Some(world.store.revision());
        let is_due = self.due.is_some_and(|due| due <= world.store.now());
        (!idle || is_due).then_some(Move::Act).into_iter().collect()
    }

    fn make(&mut self, _: &Move, world: &mut World) -> Option<String> {
        let (did, due) = match (self.habit)(&mut world.store) {
            Turn::Did(what) => (Some(what), None),
            Turn::Waits(until) => (None, Some(until)),
            Turn::Rests => (None, None),
        };
        self.idle_at = did.is_none().then(|| world.store.revision());
        self.due = due;
        did
    }

    fn timer(&self, now: Timestamp) -> Option<Timestamp> {
        self.due.filter(|due| *due > now)
    }
}
