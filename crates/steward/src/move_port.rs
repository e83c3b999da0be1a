//! The way to move a control plane's state between stores, as the controller asks for it.
//!
//! Copying takes as long as it takes, longer than a pass may: so it is an *errand*, which goes on beside all passes. What is
//! known of errands is in memory alone; after a restart they are begun anew, which all of them allow.

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;

use crate::store::{StoreAccess, StoreGrant};

/// Something to be done in stores that may take long. Two that are equal are the same errand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Errand {
    /// What is to be done.
    pub task: ErrandTask,
    /// When the stage of the move began that it belongs to.
    pub since: Timestamp,
    /// Fingerprint of the access to the stores: with new credentials it is another errand.
    pub access: String,
}

/// What is to be done in stores. The names are those of `DataStore`s.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ErrandTask {
    /// Copies the whole state, and verifies that all of it arrived. From when it begins, the store
    /// takes no writes of the control plane, until it is opened again or, if the copy fails, by itself.
    Copy {
        /// Where it is.
        from: String,
        /// Where it goes.
        to: String,
        /// What keeps it from being written to meanwhile.
        stillness: Stillness,
        /// What becomes of state of the control plane that is there already.
        remains: Remains,
    },
    /// Gives back to the control plane's account what it may do.
    Open {
        /// Where.
        store: String,
    },
    /// Takes away, at once, what the control plane's account may do; its state stays.
    Seal {
        /// Where.
        store: String,
    },
    /// Removes the control plane's state and account.
    Clear {
        /// Where.
        store: String,
        /// Whether the store is itself being deleted: what it does not do it need not do.
        leaving: bool,
    },
}

/// What becomes of state of a control plane that is in the store to which it moves before it gets there: of an attempt that was cut
/// off, or of the time before it moved away from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Remains {
    /// It goes: what moves is what counts.
    Go,
    /// It stays, and is in the way.
    Stay,
}

/// Why nobody writes into the state. What was copied under one of these is not used under another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Stillness {
    /// All API servers refuse writes.
    Frozen,
    /// No API server runs, as of this generation of the Deployment.
    Asleep(Option<i64>),
}

/// How far an errand has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is under way.
    Working,
    /// It did not succeed, for this reason, and is tried again.
    Failing(String),
    /// It cannot succeed, for this reason, and is not tried again.
    Refused(String),
    /// It is done; of a copy, what arrived.
    Done(Option<Arrival>),
}

/// What a copy brought to another store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// How many entries.
    pub entries: u64,
    /// How far the store's revisions are behind those that clients may know of the old one; 0 if they are not.
    pub behind: u64,
}

/// What is known of the errand of a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrandState {
    /// The errand.
    pub errand: Errand,
    /// How far it has come.
    pub progress: Progress,
}

/// An errand with all that it takes to run it.
#[derive(Clone, Debug)]
pub struct Job {
    /// The errand.
    pub errand: Errand,
    /// What the control plane has in stores.
    pub grant: StoreGrant,
    /// The store that the errand is about; of a copy, where the state is.
    pub store: StoreAccess,
    /// Of a copy, where the state goes.
    pub target: Option<StoreAccess>,
}

/// Runs errands, one at a time for each control plane.
pub trait MovePort: Send + Sync + 'static {
    /// What is known of the errand of a control plane, by its UID. Answered from memory.
    fn state(&self, uid: &str) -> Option<ErrandState>;

    /// Begins an errand. Another one of the same control plane ends first.
    fn begin(&self, job: Job) -> BoxFuture<'_, ()>;

    /// Ends the errand of a control plane, and forgets it.
    fn stop<'a>(&'a self, uid: &'a str) -> BoxFuture<'a, ()>;
}
