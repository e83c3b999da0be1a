//! What the engine remembers of an object between passes. Losing it (a restart) costs at most no-op calls, never a mistake.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::{
    api_server::Part,
    events::Published,
    fields::IntentHash,
    object::{Kind, ObjectKey},
    recorder::Write,
};

/// If a cache does not show a write after this time, something is odd with the watch; go on with what we see.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// What was applied last: applying the same again to the same version changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) manager: String,
    pub(super) intent: IntentHash,
    pub(super) resource_version: String,
}

/// What the engine remembers of an object.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) applied: BTreeMap<(Kind, ObjectKey, Part), Applied>,
    /// UIDs whose deletion was asked for: the cache may show them a little longer.
    pub(super) deleted: BTreeSet<String>,
    pub(super) published: Published,
    pub(super) failures: u32,
    awaited: Vec<Write>,
    awaited_since: Option<Timestamp>,
}

impl Memory {
    /// Waits for these writes before the next pass.
    pub(super) fn await_writes(&mut self, writes: Vec<Write>, now: Timestamp) {
        self.awaited_since = (!writes.is_empty()).then_some(now);
        self.awaited = writes;
    }

    /// How much longer to wait for the caches to show our last writes, if at all.
    pub(super) fn caches_behind(&mut self, now: Timestamp) -> Option<SignedDuration> {
        self.awaited.retain(|write| !write.is_visible());
        let since = self.awaited_since.filter(|_| !self.awaited.is_empty())?;
        let left = PATIENCE - now.duration_since(since);
        if left.is_positive() {
            return Some(left);
        }
        tracing::warn!("a cache did not show our own write in time; going on without it");
        self.awaited.clear();
        None
    }
}
