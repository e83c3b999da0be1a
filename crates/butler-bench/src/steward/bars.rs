//! What Steward holds itself to, and how many control planes it is tried with. Nowhere else.
//!
//! The Go original on the same kind of machine: 3.7 times as long as a bare kube-apiserver for one, 4.2 times for eight at
//! once, 88 writes for each, 63 s to delete ten, 94 MB of memory and 5 MB more for each.

use crate::report::{Bar, number};

/// Created at the same time, by Steward and by hand.
pub(super) const AT_ONCE: usize = 8;
/// Deleted at the same time.
pub(super) const DELETED: usize = 10;
/// Of as many the memory is measured where they are objects only.
pub(super) const OBJECTS: [usize; 3] = [1, 10, 200];

/// Created → `/readyz`, beside the same pod by hand with certificates at hand.
pub(super) const TIMES_BY_HAND: Bar = Bar::AtMost(1.25);
/// Created → `/readyz`, beside a bare kube-apiserver.
pub(super) const TIMES_BARE: Bar = Bar::AtMost(2.0);
/// Milliseconds between `/readyz` and the status that says so, whichever was first: a status that runs ahead is wrong as well.
pub(super) const STATUS_AFTER: Bar = Bar::AtMost(1000.0);
/// API writes of Steward for each control plane.
pub(super) const WRITES_EACH: Bar = Bar::AtMost(30.0);
/// Seconds until ten are gone with all that was made for them.
pub(super) const DELETION: Bar = Bar::AtMost(15.0);
/// Writes while nothing happens, leases excepted.
pub(super) const WRITES_AT_REST: Bar = Bar::AtMost(0.0);

/// MiB of a Steward without control planes.
const MEMORY_WITHOUT: f64 = 30.0;
/// MiB for each control plane.
const MEMORY_EACH: f64 = 0.25;

/// MiB of a Steward with as many control planes.
pub(super) fn memory(count: usize) -> Bar {
    Bar::AtMost(MEMORY_WITHOUT + MEMORY_EACH * number(count))
}
