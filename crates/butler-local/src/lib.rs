//! The network of Kubernetes clusters on local machines: what such a cluster needs of its host beyond machines.
//!
//! Owns: which pod ranges a machine routes to, which machine serves the address of a Service of type `LoadBalancer`, and the
//! books about those addresses: their `IPAllocation`, and what the Service shows. Tenants have ranges of addresses, of which
//! each Service takes one.
//!
//! Must not: touch the kernel. It decides and asks [`Hands`], which are those of this host, or of a test.
//!
//! Two loops run side by side for each cluster, and neither waits for the other. `fabric` brings machines in step with what
//! the caches show, also while the API server is away; `books` writes to the API server what came of it. Between them
//! stands the `board`: where addresses are, and where they may be. Decisions are functions: `members`, `pods`,
//! `placement`, `proxies` (what is made of kube-proxy's answers), `claims` (addresses from a pool), `ranges` (addresses of a tenant), `books::plan` and
//! `books::plan_in_ranges`. `departure` gives back what a tenant had that is gone.

mod allocations;
mod board;
mod books;
mod claims;
mod cluster;
mod departure;
mod fabric;
mod facts;
mod hands;
mod members;
mod placement;
mod pods;
mod proxies;
mod ranges;
mod registry;
mod run;
mod source;
#[cfg(test)]
mod testing;

pub use allocations::Allocations;
pub use butler_host::network::PodNetwork;
pub use cluster::{Cluster, Tenant, Waiting};
pub use departure::Departures;
pub use hands::{AddressChange, Hands, LocalMachine, ProxyAnswer};
pub use run::{ClusterNetwork, ClusterNetworkSettings};
