//! What the API server asks us before it takes a manifest: rules that a schema and CEL cannot say.
//!
//! CEL has no order of IPv6 addresses, and it sees one object at a time. Everything else is in the definitions themselves.
//! A reviewer decides from the request and from caches; what must hold in spite of a stale cache is held by a finalizer too.

mod allocations;
mod pools;
mod provider_in_use;
mod ranges;

use std::sync::Arc;

use butler_api::butler::{
    ip_allocation::IPAllocation, network_pool::NetworkPool, provider_config::ProviderConfig,
    tenant_cluster::TenantCluster,
};
use butler_runtime::{admission::Webhooks, cache::Caches};

use allocations::AllocationRules;
use pools::PoolRules;
use provider_in_use::ProviderInUse;
use ranges::OrderedRanges;

/// The reviewers of these controllers.
pub fn webhooks(caches: &Arc<Caches>) -> Webhooks {
    Webhooks::new()
        .validating::<NetworkPool, _>(PoolRules::new(caches))
        .validating::<IPAllocation, _>(AllocationRules::new(caches))
        .validating::<TenantCluster, _>(OrderedRanges)
        .validating::<ProviderConfig, _>(ProviderInUse::new(caches))
}
