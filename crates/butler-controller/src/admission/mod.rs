//! What the API server asks us before it takes a manifest: rules that a schema and CEL cannot say.
//!
//! CEL has no order of IPv6 addresses, and it sees one object at a time. Everything else is in the definitions themselves.
//! A reviewer decides from the request and from caches; what must hold in spite of a stale cache is held by a finalizer or a
//! controller too. The rules of tenant clusters are in `crate::tenant_rules`, where their controller finds them as well.

mod allocations;
mod pools;
mod provider_in_use;
mod tenant_clusters;

use std::sync::Arc;

use butler_api::butler::{
    ip_allocation::IPAllocation, network_pool::NetworkPool, provider_config::ProviderConfig,
    tenant_cluster::TenantCluster,
};
use butler_runtime::{admission::Webhooks, cache::Caches};
use kube::Client;

use allocations::AllocationRules;
use pools::PoolRules;
use provider_in_use::ProviderInUse;
use tenant_clusters::TenantClusterRules;

/// The reviewers of these controllers. The client is asked for what a cache may not have seen yet, before it is said not to exist.
pub fn webhooks(caches: &Arc<Caches>, client: &Client) -> Webhooks {
    Webhooks::new()
        .validating::<NetworkPool, _>(PoolRules::new(caches))
        .validating::<IPAllocation, _>(AllocationRules::new(caches))
        .validating_with_reads::<TenantCluster, _>(TenantClusterRules::new(caches, client))
        .validating::<ProviderConfig, _>(ProviderInUse::new(caches))
}
