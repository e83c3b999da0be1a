//! What takes part in a simulation: something that can make moves, of which the scheduler picks one at a time.

use butler_runtime::object::ObjectKey;
use jiff::Timestamp;
use rand::rngs::SmallRng;

use super::{store::ObjectStore, wire::Wire};

/// Something an actor can do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// The watch of this number brings its next news.
    Deliver(usize),
    /// A pass over an object begins.
    Begin(ObjectKey),
    /// A pass over an object takes an answer and goes on.
    Resume(ObjectKey),
    /// The actor does the one thing it has to do.
    Act,
}

/// A mishap that can befall an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mishap {
    /// Its process dies and starts anew.
    Crash,
    /// One of its watches is lost and begins anew.
    Relist,
    /// One of its passes is cut off by the deadline.
    CutOff,
}

/// What actors share.
pub(super) struct World {
    pub(super) store: ObjectStore,
    pub(super) random: SmallRng,
    pub(super) wire: Wire,
}

/// A participant.
pub(super) trait Actor {
    /// Its name in the log.
    fn name(&self) -> &str;

    /// What it can do now.
    fn moves(&self, world: &World) -> Vec<Move>;

    /// Makes a move; gives the words for the log if it can be seen.
    fn make(&mut self, next: &Move, world: &mut World) -> Option<String>;

    /// When it wants to be woken next.
    fn timer(&self, _: Timestamp) -> Option<Timestamp> {
        None
    }

    /// Whether it has something to do once everything else is at rest.
    fn waits_for_rest(&self) -> bool {
        false
    }

    /// Everything else is at rest.
    fn rest_came(&mut self) {}

    /// How much a mishap would hurt; 0 if it cannot happen.
    fn exposure(&self, _: Mishap) -> u32 {
        0
    }

    /// Suffers a mishap; gives the words for the log.
    fn suffer(&mut self, _: Mishap, _: &mut World) -> Option<String> {
        None
    }

    /// Has another look at everything it knows.
    fn look_again(&mut self) {}
}
