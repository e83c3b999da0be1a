//! The first range of a cluster: how many addresses, of which pool, and what becomes of it while it is not granted.
//!
//! An allocation never changes. One that is not granted is given back and asked for anew where that helps: another pool has room,
//! or the cluster wishes for something else since.

use butler_api::{
    butler::{
        ip_allocation::{AllocationPhase, IPAllocation},
        provider_config::{AllocationMode, ProviderNetwork},
        tenant_cluster::TenantCluster,
    },
    conditions::reasons,
    keys::values,
};
use butler_ipam::{Candidate, Standing, choose, standing};
use butler_runtime::conditions::Finding;
use kube::ResourceExt;

use super::{Decision, Sight, allocation, candidates, give_back, is_sound, key, manifest, waiting};
use crate::tenant_rules::pools_of;

/// How many addresses a cluster has when neither it nor its provider says.
const USUAL_COUNT: i32 = 8;

/// How many addresses a cluster may have.
fn most(spec: &ProviderNetwork) -> Option<i32> {
    let quota = spec.quota_per_tenant.as_ref();
    quota.and_then(|quota| quota.max_load_balancer_ips)
}

/// How many addresses a cluster gets at first.
fn count(spec: &ProviderNetwork, asked: Option<i32>) -> i32 {
    let balancer = spec.load_balancer.as_ref();
    let usual = balancer.map_or(USUAL_COUNT, |balancer| match balancer.allocation_mode {
        AllocationMode::Static => balancer.default_pool_size,
        AllocationMode::Elastic => balancer.initial_pool_size,
    });
    let count = asked.unwrap_or(usual).max(1);
    most(spec).map_or(count, |most| count.min(most))
}

/// That a cluster asks for more than it may have, if it does.
pub(super) fn cut(spec: &ProviderNetwork, asked: Option<i32>) -> Option<String> {
    let (asked, most) = asked.zip(most(spec))?;
    (asked > most).then(|| {
        format!(
            "spec.networking.lbPoolSize asks for {asked} addresses, and quotaPerTenant.maxLoadBalancerIPs of its provider allows \
             {most}"
        )
    })
}

/// The longest run that a pool has, if it has counted.
fn room(pool: &Candidate<'_>) -> Option<u128> {
    pool.largest_free.or(pool.available)
}

/// The pool to ask for so many addresses, if one has them in one run or has not counted yet.
fn pool_with_room(sight: &Sight<'_>, spec: &ProviderNetwork, count: i32) -> Option<String> {
    let candidates = candidates(spec, sight.pools);
    let count = u32::try_from(count).unwrap_or(1);
    let chosen = choose(&candidates, count)?;
    let has_room = room(chosen).is_none_or(|room| room >= u128::from(count));
    has_room.then(|| chosen.name.to_owned())
}

/// Asks the first pool that has room.
pub(super) fn ask(sight: &Sight<'_>, spec: &ProviderNetwork, asked: Option<i32>) -> Decision {
    let Sight {
        cluster, provider, ..
    } = *sight;
    let count = count(spec, asked);
    let Some(pool) = pool_with_room(sight, spec, count) else {
        let pools = described(sight, spec);
        let why = format!("no pool of its provider has {count} addresses left in one run: {pools}");
        let waiting = waiting(reasons::POOL_EXHAUSTED, why)
            .advise("enlarge a pool, add one to the ProviderConfig, or ask for fewer in spec.networking.lbPoolSize");
        return Decision::new(Vec::new(), Some(waiting), not_yet());
    };
    let mut allocation = allocation(cluster, &key(cluster, provider).name, &pool, count);
    allocation.metadata.namespace = provider.namespace();
    let mut why = format!("{count} addresses of the pool {pool} are asked for");
    if let Some(cut) = cut(spec, asked) {
        why = format!("{why}; {cut}");
    }
    let manifest = manifest(cluster, &allocation, values::ALLOCATION_ROLE_INITIAL);
    let waiting = waiting(reasons::NETWORK_NOT_READY, why);
    Decision::new(vec![manifest], Some(waiting), not_yet())
}

/// The pools of a provider, with the longest run that each has.
fn described(sight: &Sight<'_>, spec: &ProviderNetwork) -> String {
    let candidates = candidates(spec, sight.pools);
    let described = |name: &str| {
        let pool = sight.pools.iter().find(|pool| pool.name_any() == name);
        let mut candidates = candidates.iter();
        let candidate = candidates.find(|candidate| candidate.name == name);
        match (pool, candidate.and_then(room)) {
            (None, _) => format!("{name} does not exist"),
            (Some(pool), _) if !is_sound(pool) => format!("{name} gives out none"),
            (Some(_), None) => format!("{name} has not counted yet"),
            (Some(_), Some(room)) => format!("{name} has {room}"),
        }
    };
    let pools = pools_of(sight.provider);
    let pools: Vec<_> = pools.iter().map(|pool| described(&pool.name)).collect();
    pools.join(", ")
}

/// What is said of a range that is not granted. What is waited for says more.
pub(super) fn not_yet() -> Finding {
    Finding::new(false, reasons::NETWORK_NOT_READY, "")
}

/// What becomes of a first range that is there; nothing to decide if it is granted.
pub(super) fn ungranted(
    sight: &Sight<'_>,
    spec: &ProviderNetwork,
    asked: Option<i32>,
    first: &IPAllocation,
) -> Option<Decision> {
    let count = count(spec, asked);
    let is_wished = first.spec.pinned_range.is_none() && first.spec.count == Some(count);
    let state = standing(Some(first));
    let phase = first.status.as_ref().and_then(|status| status.phase);
    match state {
        Standing::Granted { .. } => None,
        // Whoever deleted it: Services have its addresses until they are let go.
        Standing::Releasing if phase == Some(AllocationPhase::Allocated) => None,
        Standing::Releasing | Standing::Missing => Some(releasing(first)),
        Standing::Waiting { .. } | Standing::Refused { .. } if !is_wished => {
            Some(given_back(first, "the cluster asks for something else now"))
        }
        Standing::Waiting { .. } => Some(awaited(sight.cluster, first)),
        Standing::Refused { reason, message } => {
            // What is asked for after that is asked for there: the same pools are looked at in the same way.
            let other = pool_with_room(sight, spec, count);
            let other = other.filter(|pool| *pool != first.spec.pool_ref.name);
            Some(match other {
                Some(pool) => given_back(first, &format!("the pool {pool} has room for it")),
                None => refused(sight.cluster, first, &reason, &message),
            })
        }
    }
}

/// A range that was asked for and not decided on.
pub(super) fn awaited(cluster: &TenantCluster, first: &IPAllocation) -> Decision {
    let why = format!("the IPAllocation {} is not granted yet", first.name_any());
    let manifest = manifest(cluster, first, values::ALLOCATION_ROLE_INITIAL);
    let waiting = waiting(reasons::NETWORK_NOT_READY, why);
    Decision::new(vec![manifest], Some(waiting), not_yet())
}

/// A range that cannot be had now. The pool looks at it again whenever something changes.
pub(super) fn refused(
    cluster: &TenantCluster,
    first: &IPAllocation,
    reason: &str,
    message: &str,
) -> Decision {
    let why = format!("the IPAllocation {}: {message}", first.name_any());
    let manifest = manifest(cluster, first, values::ALLOCATION_ROLE_INITIAL);
    Decision::new(vec![manifest], Some(waiting(reason, why)), not_yet())
}

/// A range that nobody was granted, and that is not what shall be asked for. When it is gone, it is asked for anew.
pub(super) fn given_back(first: &IPAllocation, why: &str) -> Decision {
    let why = format!("the IPAllocation {} is given back: {why}", first.name_any());
    let waiting = waiting(reasons::NETWORK_NOT_READY, why);
    Decision {
        effects: vec![give_back(first)],
        ..Decision::new(Vec::new(), Some(waiting), not_yet())
    }
}

/// A range that is on its way back.
pub(super) fn releasing(first: &IPAllocation) -> Decision {
    let why = format!(
        "the IPAllocation {} is being given back, and addresses are asked for when it is gone",
        first.name_any()
    );
    let waiting = waiting(reasons::NETWORK_NOT_READY, why);
    Decision::new(Vec::new(), Some(waiting), not_yet())
}

#[cfg(test)]
#[path = "first_tests.rs"]
mod tests;
