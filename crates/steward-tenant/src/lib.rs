//! What a tenant cluster needs inside of it, so that a plain `kubeadm join` works and the cluster is whole.
//!
//! Owns: what kubeadm would write into a new cluster (configuration for joining nodes, what bootstrap tokens may do, rights), `CoreDNS`,
//! kube-proxy, and the policies that refuse writes. All of it is computed from [`TenantFacts`] by pure functions
//! ([`desired`]), compared with what is there ([`plan`](plan())), and written by [`TenantSide`] with server-side apply.
//!
//! Must not: run kubeadm, know the management cluster, watch a tenant, or touch an object that is not its own.

mod build;
mod checksum;
mod desired;
mod facts;
mod object;
mod observe;
mod part;
mod places;
mod plan;
mod reconcile;
mod report;

pub use build::freeze::{FREEZE_POLICY, writes_are_frozen};
pub use build::patch::PatchError;
pub use build::versions::core_dns_tag;
pub use build::write_permissions::{SUPER_ADMINISTRATOR, WRITE_PERMISSIONS_POLICY};
pub use desired::{Claim, Desired, DesiredObject, Problem, desired};
pub use facts::{FactsError, ImageOverride, KubeProxyFacts, TenantFacts};
pub use object::ObjectId;
pub use observe::{Observed, ObservedObject, observe};
pub use part::TenantPart;
pub use places::Place;
pub use plan::{Effect, Plan, Settled, plan};
pub use reconcile::TenantSide;
pub use report::Report;
