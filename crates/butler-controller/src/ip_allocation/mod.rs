//! `IPAllocation`: addresses of a pool for one owner, from the asking to the giving back.
//!
//! | | |
//! |---|---|
//! | reconciles | `IPAllocation` |
//! | watches | `NetworkPoolLedger` (the grant), `NetworkPool`, and what decides why there is none; owners: `TenantCluster`, `MachineRequest`, `LoadBalancerRequest`, Services, Nodes |
//! | writes | nothing but the status; deletes an allocation whose owner is gone |
//! | conditions | `Ready` (granted, or why not), `OwnerPresent`, `Deleting` (what the release waits for) |
//!
//! It grants nothing. Its status says which grant of the ledger the allocation uses, and that never changes afterwards. A release
//! is public (`Released`) before the pool takes the addresses back, and it waits for every finalizer but ours: whoever uses the
//! addresses holds one.

mod observe;
mod plan;

use std::{sync::Arc, time::Duration};

use butler_api::{
    butler::{
        butler_config::ButlerConfig,
        ip_allocation::{IPAllocation, IPAllocationStatus},
        load_balancer_request::LoadBalancerRequest,
        machine_request::MachineRequest,
        network_pool::NetworkPool,
        provider_config::ProviderConfig,
    },
    keys::finalizers,
};
use butler_runtime::{
    api_server::Preconditions,
    cache::{Cached, Metadata, Projection, Store, Whole},
    failure::Failure,
    object::{Kind, ObjectKey},
    plan::Plan,
    reconciler::{Context, Reconciler, Sources},
};
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::json;

use crate::{
    ipam::{
        claimant::Claimant,
        infrastructure::{MachineAddresses, NodeAddresses, ServiceAddresses},
        observe::pool_of,
        owners::sought,
        pages::CachedPage,
    },
    metrics::{Outcome, Processed},
    projections::TenantClusterFacts,
};
pub use observe::World;

/// How long an owner must be gone before its addresses are collected: long enough to restore one that was lost.
pub const ORPHAN_GRACE_PERIOD: Duration = Duration::from_mins(10);

/// What server-side apply cannot do for an allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Effect {
    /// Counts that it was refused.
    CountRefusal,
    /// Deletes it: its owner is gone.
    Collect,
    /// Takes the mark of a user off it that is gone with its owner.
    LetGo,
}

/// The controller of [`IPAllocation`].
#[derive(Debug)]
pub struct IPAllocationReconciler {
    processed: Arc<Processed>,
    grace: Duration,
}

impl IPAllocationReconciler {
    /// A controller that counts refusals here and collects what has had no owner for this long.
    pub fn new(processed: &Arc<Processed>, grace: Duration) -> Self {
        Self {
            processed: Arc::clone(processed),
            grace,
        }
    }
}

impl Default for IPAllocationReconciler {
    fn default() -> Self {
        Self::new(&Arc::default(), ORPHAN_GRACE_PERIOD)
    }
}

impl Reconciler for IPAllocationReconciler {
    const NAME: &'static str = "ipallocation";
    const FINALIZER: Option<&'static str> = Some(finalizers::IP_ALLOCATION);

    type Object = IPAllocation;
    type Status = IPAllocationStatus;
    type World = World;
    type Effect = Effect;

    fn sources(&self, sources: &mut Sources<'_, IPAllocation>) {
        sources.reads::<CachedPage>(|page, allocations| unsettled(allocations, &page.value.pool));
        sources.reads::<Whole<NetworkPool>>(|pool, allocations| {
            unsettled(allocations, &pool.facts.key)
        });
        sources.reads::<TenantClusterFacts>(owned_by);
        sources.reads::<Metadata<MachineRequest>>(owned_by);
        sources.reads::<Metadata<LoadBalancerRequest>>(owned_by);
        sources.reads::<ServiceAddresses>(owned_by);
        sources.reads::<NodeAddresses>(owned_by);
        // These matter through the pool, whose status changes with them.
        sources.reads::<MachineAddresses>(|_, _| Vec::new());
        sources.reads::<Whole<ProviderConfig>>(|_, _| Vec::new());
        sources.reads::<Whole<ButlerConfig>>(|_, _| Vec::new());
    }

    async fn observe(
        &self,
        allocation: &IPAllocation,
        context: &Context,
    ) -> Result<World, Failure> {
        observe::observe(allocation, context).await
    }

    fn plan(
        &self,
        allocation: &IPAllocation,
        world: &World,
        now: Timestamp,
    ) -> Plan<IPAllocationStatus, Effect> {
        plan::plan(allocation, world, self.grace, now)
    }

    async fn perform(
        &self,
        allocation: &IPAllocation,
        effect: &Effect,
        context: &Context,
    ) -> Result<(), Failure> {
        let kind = Kind::of::<IPAllocation>();
        let key = ObjectKey::of(allocation);
        match effect {
            Effect::CountRefusal => {
                self.processed
                    .count(&pool_of(allocation), Outcome::Failed, 1);
            }
            Effect::Collect => {
                let preconditions = Preconditions {
                    uid: allocation.uid(),
                    resource_version: None,
                };
                context.api().delete(&kind, &key, preconditions).await?;
            }
            Effect::LetGo => {
                let held = allocation.finalizers().iter();
                let others: Vec<_> = held
                    .filter(|held| *held != finalizers::ADDRESSES_IN_USE)
                    .collect();
                let patch = json!({ "metadata": {
                    "uid": allocation.uid(),
                    "resourceVersion": allocation.resource_version(),
                    "finalizers": others,
                } });
                context.api().merge(&kind, &key, patch).await?;
            }
        }
        Ok(())
    }
}

/// The allocations of a pool that are not simply using their addresses.
fn unsettled(allocations: &Store<Whole<IPAllocation>>, pool: &ObjectKey) -> Vec<ObjectKey> {
    allocations.keys_where(|cached| {
        let allocation = &cached.value.0;
        pool_of(allocation) == *pool && !Claimant::of(allocation).is_settled()
    })
}

/// The allocations that are for an object.
fn owned_by<P: Projection>(
    owner: &Cached<P>,
    allocations: &Store<Whole<IPAllocation>>,
) -> Vec<ObjectKey> {
    let kind = P::kind();
    allocations.keys_where(|allocation| {
        sought(&allocation.value.0).is_some_and(|sought| sought.is(&kind, &owner.facts.key))
    })
}
