//! What tenant clusters are held to, and how many there are. Nowhere else.

use crate::report::{Bar, number};

/// Workers of each cluster.
pub(super) const WORKERS: usize = 2;
/// Of as many the memory is measured where all but the controller is played.
pub(super) const FLEETS: [usize; 2] = [10, 200];

/// Created → workers Ready, beside the same by hand with kubeadm.
pub(super) const TIMES_BY_HAND: Bar = Bar::AtMost(1.5);
/// Writes while nothing happens, leases excepted.
pub(super) const WRITES_AT_REST: Bar = Bar::AtMost(0.0);
/// Reads while nothing happens, leases and watches excepted.
pub(super) const READS_AT_REST: Bar = Bar::AtMost(0.0);
/// Requests of passes over clusters that are as they shall be.
pub(super) const REQUESTS_UNCHANGED: Bar = Bar::AtMost(0.0);

/// MiB of a controller without clusters.
const MEMORY_WITHOUT: f64 = 30.0;
/// MiB for each cluster.
const MEMORY_EACH: f64 = 0.25;
/// Percent of a core at rest, for each cluster.
const CPU_EACH: f64 = 0.01;

/// MiB of a controller with as many clusters.
pub(super) fn memory(count: usize) -> Bar {
    Bar::AtMost(MEMORY_WITHOUT + MEMORY_EACH * number(count))
}

/// Percent of a core that as many clusters may take at rest.
pub(super) fn cpu(count: usize) -> Bar {
    Bar::Below(CPU_EACH * number(count))
}
