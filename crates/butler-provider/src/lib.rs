//! Machines and load balancers by request.
//!
//! Owns: the contract every infrastructure follows ([`Provider`]), the controllers that turn `MachineRequest` and
//! `LoadBalancerRequest` objects into calls of it, the suite that shows whether a provider keeps the contract
//! ([`conformance`]), and the provider for machines on this host ([`local`]).
//!
//! Must not: decide which machines there should be; whoever writes the requests does.

mod access;
mod allocation;
mod attempts;
pub mod conformance;
mod error;
pub mod fake;
pub mod load_balancer_request;
pub mod local;
pub mod machine_request;
mod order;
mod provider;
pub mod run;
mod secrets;
#[cfg(test)]
mod testing;

pub use error::{ErrorClass, ProviderError};
pub use order::{
    Access, LoadBalancerIdentity, LoadBalancerObservation, LoadBalancerOrder, MachineIdentity,
    MachineObservation, MachineOrder, MachineState,
};
pub use provider::{AddressSource, Capabilities, Changed, Deletion, Provider};
pub use secrets::{Credentials, UserData};
