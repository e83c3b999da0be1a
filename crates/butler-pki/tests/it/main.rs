//! What people rely on when they hold a certificate of ours.

mod authority;
mod expiry;
mod kubeconfig;

use butler_pki::{Authority, Validity};
use jiff::{SignedDuration, Timestamp};

/// A fixed moment, so that every run is the same.
fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a valid timestamp")
}

fn thirty_days() -> Validity {
    Validity::starting(now(), SignedDuration::from_hours(30 * 24))
}

fn authority() -> Authority {
    Authority::new("tenant-ca", thirty_days()).expect("an authority can be made")
}
