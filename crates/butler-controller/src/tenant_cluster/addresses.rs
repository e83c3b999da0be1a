//! The addresses that a tenant cluster gives to its Services of type `LoadBalancer`.
//!
//! Owns: where they come from ([`first`], [`own_range`]), and what the condition `NetworkReady` says of them. Further ranges come
//! and go by [`super::growth`]. Nothing of the cluster waits for its addresses. They are given back when no machine is left that
//! could answer to them ([`super::end`]).

mod first;
mod own_range;

use butler_api::{
    butler::{
        ip_allocation::{
            AllocationClusterReference, AllocationType, IPAllocation, IPAllocationSpec,
        },
        network_pool::NetworkPool,
        provider_config::{
            AllocationMode, NetworkMode, PoolReference, Provider, ProviderConfig, ProviderNetwork,
        },
        tenant_cluster::{LoadBalancerProvider, TenantCluster},
    },
    conditions::{reasons, types},
    keys::{labels, values},
    normalize::tenant_cluster::{LoadBalancerAddresses, Wish, addons, network},
    reference::LocalReference,
};
use butler_ipam::{Candidate, Standing};
use butler_runtime::{
    conditions::Finding,
    object::{Manifest, ObjectKey},
};
use jiff::Timestamp;
use kube::ResourceExt;
use sha2::{Digest, Sha256};

use super::{
    Effect,
    growth::{Case, Course, Demand},
    status,
    why::Waiting,
};

/// What is decided by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight<'a> {
    /// The cluster.
    pub(super) cluster: &'a TenantCluster,
    /// Its provider.
    pub(super) provider: &'a ProviderConfig,
    /// The pools of the provider that exist.
    pub(super) pools: &'a [NetworkPool],
    /// Its first range, if it is asked for.
    pub(super) first: Option<&'a IPAllocation>,
    /// The ranges that were added.
    pub(super) added: &'a [IPAllocation],
    /// Services that wait.
    pub(super) demand: Option<Demand>,
}

/// What the addresses of a cluster need, and how they stand.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decision {
    /// What is asked for.
    pub(super) manifests: Vec<Manifest>,
    /// What is waited for.
    pub(super) waiting: Option<Waiting>,
    /// What is said when nothing is waited for.
    pub(super) finding: Finding,
    /// Ranges that are given back.
    pub(super) effects: Vec<Effect>,
    /// When to look again although nothing has changed.
    pub(super) next: Option<Timestamp>,
}

impl Decision {
    fn new(manifests: Vec<Manifest>, waiting: Option<Waiting>, finding: Finding) -> Self {
        Self {
            manifests,
            waiting,
            finding,
            effects: Vec::new(),
            next: None,
        }
    }
}

/// Key of the first allocation. Its end tells apart what the names run together: `a-b/c` and `a/b-c`.
pub(super) fn key(cluster: &TenantCluster, provider: &ProviderConfig) -> ObjectKey {
    let own = ObjectKey::of(cluster);
    let digest = hex(&Sha256::digest(own.to_string().as_bytes()));
    let namespace = own.namespace.unwrap_or_default();
    let suffix = digest.get(..8).unwrap_or_default();
    ObjectKey::namespaced(
        provider.namespace().unwrap_or_default(),
        format!("{namespace}-{}-lb-{suffix}", own.name),
    )
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(super) fn plan(sight: &Sight<'_>, now: Timestamp) -> Decision {
    let wished = network(sight.cluster.spec.networking.as_ref()).load_balancer_addresses;
    let spec = sight.provider.spec.network.as_ref();
    let Some(spec) = spec.filter(|network| network.mode == NetworkMode::Ipam) else {
        return settled(match wished {
            LoadBalancerAddresses::Allocated(_) => "the infrastructure gives out addresses",
            LoadBalancerAddresses::Range(_) => {
                "the infrastructure gives out addresses: spec.networking.loadBalancerPool has no effect, since network.mode of the \
                 ProviderConfig is not ipam"
            }
        });
    };
    let off = Wish::<LoadBalancerProvider>::Off;
    if addons(sight.cluster.spec.addons.as_ref()).load_balancer == off {
        return settled("the cluster has no load balancer");
    }
    let asked = match wished {
        LoadBalancerAddresses::Range(range) => return own_range::plan(sight, &range),
        LoadBalancerAddresses::Allocated(asked) => asked,
    };
    match sight.first {
        None => first::ask(sight, spec, asked),
        Some(first) => first::ungranted(sight, spec, asked, first).unwrap_or_else(|| {
            let decision = granted(sight.cluster, first);
            beyond(sight, spec, asked, first, decision, now)
        }),
    }
}

/// Nothing is asked for.
fn settled(message: &str) -> Decision {
    let finding = Finding::new(true, reasons::NOT_REQUIRED, message);
    Decision::new(Vec::new(), None, finding)
}

/// What becomes of the ranges beside the first one.
fn beyond(
    sight: &Sight<'_>,
    spec: &ProviderNetwork,
    asked: Option<i32>,
    first: &IPAllocation,
    mut decision: Decision,
    now: Timestamp,
) -> Decision {
    let balancer = spec.load_balancer.as_ref();
    let elastic = balancer.filter(|balancer| balancer.allocation_mode == AllocationMode::Elastic);
    let is_served = sight.provider.spec.provider == Provider::Local;
    let candidates = candidates(spec, sight.pools);
    let quota = spec.quota_per_tenant.as_ref();
    let course = Case {
        first,
        added: sight.added,
        asked,
        most: quota.and_then(|quota| quota.max_load_balancer_ips),
        increment: elastic.map(|balancer| balancer.growth_increment),
        is_served,
        demand: sight.demand,
        pools: &candidates,
    }
    .course(now);
    let kept = course.keep.iter();
    let kept = kept.map(|range| manifest(sight.cluster, range, values::ALLOCATION_ROLE_GROWTH));
    decision.manifests.extend(kept);
    if let Some(ask) = &course.ask {
        let name = format!("{}-{}", first.name_any(), ask.index);
        let mut range = allocation(sight.cluster, &name, &ask.pool, ask.count);
        range.metadata.namespace = first.namespace();
        let wish = manifest(sight.cluster, &range, values::ALLOCATION_ROLE_GROWTH);
        decision.manifests.push(wish);
    }
    let unused = course.give_back.iter();
    decision.effects = unused.map(|range| give_back(range)).collect();
    decision.next = course.next;
    let mut words = ranges(first, &course);
    if let Some(ask) = &course.ask {
        words = format!("{words}; {} more are asked for", ask.count);
    }
    if elastic.is_some() && !is_served {
        words = format!(
            "{words}; it grows by itself only on local machines, where Butler serves Services: raise spec.networking.lbPoolSize if it is too small"
        );
    }
    let Some(refused) = course.refused else {
        decision.finding = match first::cut(spec, asked) {
            Some(cut) => Finding::new(true, reasons::QUOTA_EXCEEDED, format!("{words}; {cut}")),
            None => Finding::new(true, reasons::READY, words),
        };
        return decision;
    };
    let trouble = format!("more addresses cannot be had: {}", refused.message);
    // A Service without an address holds no cluster up on its way to be ready, and takes nothing from one that is.
    if sight.cluster.status.as_ref().is_some_and(status::was_ready) {
        decision.waiting = Some(waiting(&refused.reason, trouble).needs_somebody());
    }
    let words = format!("{words}; more addresses cannot be had: {}", refused.message);
    decision.finding = Finding::new(true, reasons::POOL_EXHAUSTED, words);
    decision
}

/// Gives back a range in the version in which it was seen.
fn give_back(range: &IPAllocation) -> Effect {
    Effect::GiveBack {
        key: ObjectKey::of(range),
        uid: range.uid().unwrap_or_default(),
        version: range.resource_version().unwrap_or_default(),
    }
}

/// The addresses that a cluster has.
fn ranges(first: &IPAllocation, course: &Course<'_>) -> String {
    let mut granted: Vec<_> = std::iter::once(first)
        .chain(course.keep.iter().copied())
        .filter_map(|range| match butler_ipam::standing(Some(range)) {
            Standing::Granted { range } => Some(range),
            _ => None,
        })
        .collect();
    granted.sort_by_key(butler_api::net::AddressRange::start);
    let texts: Vec<_> = granted.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// Whether a pool gives out addresses at all. One that has not said yet may.
fn is_sound(pool: &NetworkPool) -> bool {
    let conditions = pool.status.as_ref().map(|status| &status.conditions);
    let mut conditions = conditions.into_iter().flatten();
    let is_ill =
        conditions.any(|condition| condition.type_ == types::READY && condition.status == "False");
    pool.metadata.deletion_timestamp.is_none() && !is_ill
}

/// The pools of the provider that give out addresses, with what they say of themselves.
fn candidates<'a>(spec: &'a ProviderNetwork, existing: &[NetworkPool]) -> Vec<Candidate<'a>> {
    let number = |count: Option<i32>| count.and_then(|count| u128::try_from(count).ok());
    let candidate = |reference: &'a PoolReference| {
        let mut existing = existing.iter();
        let found = existing.find(|found| found.name_any() == reference.name)?;
        let status = found.status.as_ref();
        is_sound(found).then(|| Candidate {
            name: &reference.name,
            priority: reference.priority,
            available: number(status.and_then(|status| status.available_ips)),
            largest_free: number(status.and_then(|status| status.largest_free_block)),
        })
    };
    spec.pool_refs.iter().filter_map(candidate).collect()
}

fn waiting(reason: &str, why: String) -> Waiting {
    Waiting::new(types::NETWORK_READY, reason, why)
}

/// So many addresses of a pool for the Services of the cluster.
fn allocation(cluster: &TenantCluster, name: &str, pool: &str, count: i32) -> IPAllocation {
    let spec = IPAllocationSpec {
        pool_ref: LocalReference {
            name: pool.to_owned(),
        },
        tenant_cluster_ref: Some(AllocationClusterReference {
            name: cluster.name_any(),
            namespace: cluster.namespace().unwrap_or_default(),
        }),
        owner_ref: None,
        kind: AllocationType::Loadbalancer,
        count: Some(count),
        pinned_range: None,
    };
    IPAllocation::new(name, spec)
}

/// What was granted stays as it is: addresses do not change under a cluster that uses them.
fn granted(cluster: &TenantCluster, allocation: &IPAllocation) -> Decision {
    let status = allocation.status.clone().unwrap_or_default();
    let range = [status.start_address, status.end_address];
    let range = range.into_iter().flatten().collect::<Vec<_>>().join("-");
    let manifest = manifest(cluster, allocation, values::ALLOCATION_ROLE_INITIAL);
    let finding = Finding::new(true, reasons::READY, range);
    Decision::new(vec![manifest], None, finding)
}

/// The wish as it was first written, with the labels by which people find it.
fn manifest(cluster: &TenantCluster, allocation: &IPAllocation, role: &str) -> Manifest {
    let found = [
        (labels::NETWORK_POOL, allocation.spec.pool_ref.name.clone()),
        (labels::TEAM, cluster.namespace().unwrap_or_default()),
        (labels::TENANT, cluster.name_any()),
        (
            labels::ALLOCATION_TYPE,
            values::ALLOCATION_TYPE_LOAD_BALANCER.to_owned(),
        ),
        (labels::ALLOCATION_ROLE, role.to_owned()),
    ];
    let mut wish = IPAllocation::new(&allocation.name_any(), allocation.spec.clone());
    wish.metadata.namespace = allocation.namespace();
    wish.metadata.labels = Some(
        found
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    );
    Manifest::of(&wish)
}
