//! `NetworkPool`: addresses that clusters, machines and services get theirs from. This controller alone grants.
//!
//! | | |
//! |---|---|
//! | reconciles | `NetworkPool` |
//! | watches | `NetworkPoolLedger`, `IPAllocation`, other `NetworkPool`s (overlaps), `ProviderConfig`, `TenantCluster` and `ButlerConfig` (quotas, gateways), Services, Nodes and Cluster API Machines (addresses in use) |
//! | writes | `NetworkPoolLedger`, each over the very version that was read; the finalizer is held while anything is granted |
//! | conditions | `Ready`, `Disjoint` (no other pool gives out the same addresses), `CapacityWarning`, `CapacityCritical`, `CapacityExhausted` |
//!
//! Before a pass writes grants to the ledger, it raises the numbers in the status. So the status never shows less than what
//! allocations have.

mod observe;
mod perform;
mod plan;
mod status;

use std::{sync::Arc, time::Duration};

use butler_api::{
    butler::{
        butler_config::ButlerConfig,
        ip_allocation::IPAllocation,
        network_pool::{NetworkPool, NetworkPoolStatus},
        provider_config::ProviderConfig,
    },
    keys::finalizers,
};
use butler_runtime::{
    cache::{Store, Whole},
    engine::Verdict,
    failure::Failure,
    object::ObjectKey,
    plan::Plan,
    reconciler::{Context, Reconciler, Sources},
};
use jiff::Timestamp;
use serde::Serialize;

pub use crate::ipam::ledger::{Guard, PageWrite};
use crate::{
    ipam::{
        claimant::Claimant,
        infrastructure::{MachineAddresses, NodeAddresses, ServiceAddresses},
        observe::{covers, pool_of, pools_of},
        pages::CachedPage,
    },
    metrics::Processed,
    projections::TenantClusterFacts,
};
pub use observe::World;

/// What server-side apply cannot do for a pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Effect {
    /// Raises the numbers in the status before the ledger is written. Done only over the very version of the pool that the plan
    /// was made from.
    Announce {
        /// As many addresses as may be allocated on the way.
        allocated: i32,
        /// A revision that the ledger has not reached yet.
        revision: i64,
    },
    /// Writes a page of the ledger.
    Write(PageWrite),
    /// Removes a page that holds nothing.
    Remove {
        /// Which one.
        key: ObjectKey,
        /// Its UID.
        uid: String,
        /// The version that holds nothing.
        resource_version: String,
    },
}

/// The controller of [`NetworkPool`].
#[derive(Debug, Default)]
pub struct NetworkPoolReconciler {
    processed: Arc<Processed>,
}

impl NetworkPoolReconciler {
    /// A controller that counts its grants here.
    pub fn new(processed: &Arc<Processed>) -> Self {
        Self {
            processed: Arc::clone(processed),
        }
    }
}

impl Reconciler for NetworkPoolReconciler {
    const NAME: &'static str = "networkpool";
    const FINALIZER: Option<&'static str> = Some(finalizers::NETWORK_POOL);

    type Object = NetworkPool;
    type Status = NetworkPoolStatus;
    type World = World;
    type Effect = Effect;

    fn sources(&self, sources: &mut Sources<'_, NetworkPool>) {
        // What one pool has granted, another one of the same addresses does not grant.
        sources.reads::<CachedPage>(|page, pools| {
            pools.keys_where(|pool| {
                let is_of_pool = pool.facts.key == page.value.pool;
                is_of_pool || page.value.touches(&pool.value.0.spec.cidr)
            })
        });
        sources.reads::<Whole<IPAllocation>>(|allocation, pools| {
            let allocation = &allocation.value.0;
            let claimant = Claimant::of(allocation);
            if claimant.tenant.is_some() && claimant.has_released() {
                // A quota is for all pools: what is given back to one may be granted by another.
                pools.keys()
            } else {
                present(pools, &pool_of(allocation))
            }
        });
        // A pool that comes, goes or changes frees or takes addresses of others.
        sources.reads::<Whole<NetworkPool>>(|changed, pools| {
            pools.keys_where(|pool| pool.facts.key != changed.facts.key)
        });
        sources.reads::<Whole<ProviderConfig>>(|provider, pools| {
            let named: Vec<_> = pools_of(&provider.value.0).collect();
            pools.keys_where(|pool| named.contains(&pool.facts.key))
        });
        // Which provider a cluster uses decides its quota; that seldom changes, and a look costs nothing.
        sources.reads::<TenantClusterFacts>(|_, pools| pools.keys());
        sources.reads::<Whole<ButlerConfig>>(|_, pools| pools.keys());
        sources.reads::<ServiceAddresses>(|service, pools| {
            pools.keys_where(|pool| covers(&pool.value.0, &service.value.0))
        });
        sources.reads::<NodeAddresses>(|node, pools| {
            pools.keys_where(|pool| covers(&pool.value.0, &node.value.0))
        });
        sources.reads::<MachineAddresses>(|machine, pools| {
            pools.keys_where(|pool| covers(&pool.value.0, &machine.value.0))
        });
    }

    async fn observe(&self, pool: &NetworkPool, context: &Context) -> Result<World, Failure> {
        observe::observe(pool, context).await
    }

    fn plan(
        &self,
        pool: &NetworkPool,
        world: &World,
        now: Timestamp,
    ) -> Plan<NetworkPoolStatus, Effect> {
        plan::plan(pool, world, now)
    }

    fn passed(&self, key: &ObjectKey, verdict: Verdict, _: Duration) {
        if matches!(verdict, Verdict::Forget) {
            self.processed.forget(key);
        }
    }

    async fn perform(
        &self,
        pool: &NetworkPool,
        effect: &Effect,
        context: &Context,
    ) -> Result<(), Failure> {
        perform::perform(pool, effect, &self.processed, context).await
    }
}

fn present(pools: &Store<Whole<NetworkPool>>, key: &ObjectKey) -> Vec<ObjectKey> {
    let pool = pools.get(key);
    pool.map(|pool| pool.facts.key.clone())
        .into_iter()
        .collect()
}
