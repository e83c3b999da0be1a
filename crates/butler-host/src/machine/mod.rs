//! What a machine is: its specification, its disk and its OCI bundle, all as data.
//!
//! Owns: the rules a specification keeps, the layout of a machine's directory, and the configuration that `runc` gets.
//!
//! Must not: make anything. [`crate::host`] does, from what is decided here. The one thing read here is what the host can
//! give ([`HostFacts::read`]).

mod facts;
mod layout;
mod oci;
mod reported;
mod spec;

pub use facts::{FactsError, HostFacts, TopLevel};
pub(crate) use layout::{Entry, REPORTED, ROOT, USR_UPPER, USR_WORK, disk_layout};
pub(crate) use oci::{Places, runtime_config};
#[cfg(test)]
pub(crate) use spec::tests::worker as worker_for_tests;
pub use spec::{Bind, DiskContents, DiskFile, MachineId, MachineIdError, MachineSpec, SpecError};

/// Where user data is found inside of a machine.
pub const SEED_DIRECTORY: &str = "/opt/butler/seed";
/// Programs that are bound into a machine; the first place where a program is looked for.
pub const PROGRAM_DIRECTORY: &str = "/opt/butler/bin";
