//! The network of Kubernetes clusters on local machines: what such a cluster needs of its host beyond machines.
//!
//! Owns: which pod ranges a machine routes to, which machine serves the address of a Service of type `LoadBalancer`, and the
//! books about those addresses: their `IPAllocation`, and what the Service shows.
//!
//! Must not: touch the kernel. It decides and asks [`Hands`], which are those of this host, or of a test.
//!
//! Two loops run side by side for each cluster, and neither waits for the other. `fabric` brings machines in step with what
//! the caches show, also while the API server is away; `books` writes to the API server what came of it. Between them
//! stands the `board`: where addresses are, and where they may be. Decisions are functions: `members`, `pods`,
//! `placement`, `claims` and `books::plan`.

mod board;
mod books;
mod claims;
mod cluster;
mod fabric;
mod facts;
mod hands;
mod members;
mod placement;
mod pods;
mod registry;
mod run;
#[cfg(test)]
mod testing;

pub use butler_host::network::PodNetwork;
pub use cluster::Cluster;
pub use hands::{AddressChange, Hands, LocalMachine};
pub use run::{ClusterNetwork, ClusterNetworkSettings};
