//! Owns leader election over a `coordination.k8s.io` Lease.
//!
//! [`decide`](mod@decide) is pure: what to do next, given what was seen and when. `run` acts on
//! it, `store` reads and writes the Lease. Clocks of other machines are never trusted: a holder is
//! dead when *we* saw no change of its record for as long as the record promises one.

pub mod decide;
mod run;
mod store;

pub use decide::{Decision, LeaderSettings, LeaderSettingsError};
pub use run::{Elector, LeaderError, identity};
pub use store::LeaseName;
