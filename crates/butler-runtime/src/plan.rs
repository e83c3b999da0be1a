//! What a controller decides: plain data, to be printed, compared and performed.

use std::time::Duration;

use serde::Serialize;

use crate::object::{Kind, Manifest, ObjectKey};

/// A decision. `Status` and `Effect` belong to the controller; the rest is the same for all.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan<Status, Effect> {
    /// Objects to apply, in this order. One that is refused does not keep the others from being applied, unless they say that they
    /// need it, or live in the namespace that it is. An object that needs another to work is planned once the world holds that other.
    pub apply: Vec<Manifest>,
    /// What becomes of objects we applied earlier and do not list any more.
    pub prune: Prune,
    /// What server-side apply cannot do, in this order, after `apply`. What of it is done after a failure is told by
    /// [`Reconciler::needs`](crate::reconciler::Reconciler::needs).
    pub effects: Vec<Effect>,
    /// The status to show. The engine adds `observedGeneration` and the `Reconciled` condition.
    pub status: Status,
    /// What to tell people as events.
    pub notes: Vec<Note>,
    /// When to look again.
    pub next: Next,
}

impl<Status, Effect> Plan<Status, Effect> {
    /// A plan that changes nothing but the status.
    pub fn status(status: Status) -> Self {
        Self {
            apply: Vec::new(),
            prune: Prune::Keep,
            effects: Vec::new(),
            status,
            notes: Vec::new(),
            next: Next::AwaitChange,
        }
    }
}

/// What becomes of objects this controller applied for this owner and does not list any more. None goes in a pass in which
/// something failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Prune {
    /// They stay: the observation was not complete, or they must outlive the wish.
    Keep,
    /// They go. Only say this from a complete observation.
    Unlisted,
    /// The same, but for these: something still uses them, or they go in an order of their own.
    UnlistedBut(Vec<(Kind, ObjectKey)>),
}

/// When to look at the object again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Next {
    /// When a watched object changes.
    AwaitChange,
    /// After this time at the latest: for what no watch can tell, such as an expiry.
    After(Duration),
    /// Teardown is complete: the finalizer may go.
    Done,
}

/// How an event is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Severity {
    /// For information.
    Normal,
    /// Somebody may have to act.
    Warning,
}

/// Something worth telling, published once as an event although it may be planned in many passes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Note {
    /// How it is shown.
    pub severity: Severity,
    /// CamelCase reason.
    pub reason: String,
    /// The sentence.
    pub message: String,
}

impl Note {
    /// For information.
    pub fn normal(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Normal,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// Somebody may have to act.
    pub fn warning(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            reason: reason.into(),
            message: message.into(),
        }
    }
}
