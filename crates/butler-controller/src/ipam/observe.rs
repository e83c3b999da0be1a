//! What decisions about a pool depend on, read from the caches.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use butler_api::{
    butler::{
        ip_allocation::{AllocationType, IPAllocation},
        network_pool::{InfrastructureAllocation, NetworkPool},
        provider_config::{NetworkMode, ProviderConfig},
    },
    keys::annotations,
    net::{AddressRange, Cidr, parse_address},
};
use butler_ipam::{Layout, Owner, overlap};
use butler_runtime::{
    cache::{Caches, Whole},
    object::ObjectKey,
};
use kube::ResourceExt;

use super::{
    claimant::Claimant,
    infrastructure,
    ledger::Ledger,
    pages::{self, CachedPage},
};
use crate::{projections::TenantClusterFacts, provider_config::provider_of};

/// The world around a pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Surroundings {
    /// Who holds what.
    pub(crate) ledger: Ledger,
    /// Why the ledger cannot be read in full, if it cannot.
    pub(crate) unreadable: Option<String>,
    /// The allocations that ask this pool, by UID.
    pub(crate) claimants: BTreeMap<String, Claimant>,
    /// Addresses that other pools give out too, and which pools these are.
    pub(crate) shared: Vec<(AddressRange, String)>,
    /// Gateways and name servers that providers name, and which providers these are.
    pub(crate) services: BTreeMap<IpAddr, String>,
    /// Addresses that the management cluster uses itself.
    pub(crate) infrastructure: BTreeMap<IpAddr, InfrastructureAllocation>,
    /// How many addresses of a type an owner may have, and how many it has in other pools.
    pub(crate) quotas: BTreeMap<(Owner, AllocationType), Share>,
}

/// What an owner may have and has elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// At most this many.
    pub(crate) most: u32,
    /// This many in other pools.
    pub(crate) elsewhere: u32,
}

impl Surroundings {
    /// Allocations that have addresses which the ledger does not know: from before there was a ledger.
    pub(crate) fn unrecorded(&self) -> impl Iterator<Item = &Claimant> {
        let recorded: BTreeSet<_> = self
            .ledger
            .grants()
            .map(|entry| (entry.uid.as_str(), entry.range))
            .collect();
        self.claimants.values().filter(move |claimant| {
            let unrecorded = |range| !recorded.contains(&(claimant.uid.as_str(), range));
            claimant.has_addresses() && claimant.committed.is_some_and(unrecorded)
        })
    }
}

/// Reads the world around a pool from caches that [`crate::network_pool`] and [`crate::ip_allocation`] declare.
pub(crate) fn surroundings(pool: &NetworkPool, layout: &Layout, caches: &Caches) -> Surroundings {
    let key = ObjectKey::of(pool);
    let held = holdings(&key, caches);
    Surroundings {
        quotas: quotas(&held.claimants, &elsewhere(&key, caches), caches),
        shared: shared(pool, layout, caches),
        services: services(&key, caches),
        infrastructure: infrastructure::in_use(caches, &layout.cidr()),
        ..held
    }
}

/// Who holds and who asks for addresses of a pool: all that can be known where its spec makes no sense.
pub(crate) fn holdings(pool: &ObjectKey, caches: &Caches) -> Surroundings {
    let (ledger, unreadable) = ledger(pool, caches);
    let allocations = caches.store::<Whole<IPAllocation>>().list();
    let of_pool = allocations
        .iter()
        .filter(|cached| pool_of(&cached.value.0) == *pool);
    let claimants = of_pool.map(|cached| Claimant::of(&cached.value.0));
    Surroundings {
        claimants: claimants
            .map(|claimant| (claimant.uid.clone(), claimant))
            .collect(),
        ledger,
        unreadable,
        ..Surroundings::default()
    }
}

/// How many addresses of each type the owners of allocations have in other pools.
fn elsewhere(pool: &ObjectKey, caches: &Caches) -> BTreeMap<(Owner, AllocationType), u32> {
    let mut elsewhere = BTreeMap::<_, u32>::new();
    for cached in &caches.store::<Whole<IPAllocation>>().list() {
        let allocation = &cached.value.0;
        let claimant = Claimant::of(allocation);
        if let Some(range) = claimant.committed.filter(|_| pool_of(allocation) != *pool) {
            let count = elsewhere
                .entry((claimant.owner(), claimant.spec.kind))
                .or_default();
            *count = count.saturating_add(u32::try_from(range.count()).unwrap_or(u32::MAX));
        }
    }
    elsewhere
}

/// The pool an allocation asks.
pub(crate) fn pool_of(allocation: &IPAllocation) -> ObjectKey {
    ObjectKey {
        namespace: allocation.namespace(),
        name: allocation.spec.pool_ref.name.clone(),
    }
}

/// The ledger of a pool, and why it cannot be read in full if it cannot.
pub(crate) fn ledger(pool: &ObjectKey, caches: &Caches) -> (Ledger, Option<String>) {
    let cached = caches.store::<CachedPage>().list();
    let of_pool = cached.iter().filter(|page| page.value.pool == *pool);
    let mut unreadable = None;
    let readable =
        of_pool.filter_map(|page| pages::page(page).map_err(|why| unreadable = Some(why)).ok());
    let ledger = Ledger::new(readable);
    (ledger, unreadable)
}

/// Addresses that other pools of the same network give out too.
fn shared(pool: &NetworkPool, layout: &Layout, caches: &Caches) -> Vec<(AddressRange, String)> {
    let key = ObjectKey::of(pool);
    let pools = caches.store::<Whole<NetworkPool>>().list();
    let others = pools.iter().map(|other| &other.value.0);
    others
        .filter(|other| ObjectKey::of(*other) != key && network(other) == network(pool))
        .filter_map(|other| Some((other, Layout::of(&other.spec).ok()?)))
        .flat_map(|(other, theirs)| {
            let name = format!("NetworkPool {}", ObjectKey::of(other));
            let ranges = overlap(layout, &theirs).into_iter();
            ranges.map(move |range| (range, name.clone()))
        })
        .collect()
}

/// The network a pool belongs to: pools of different networks may have the same addresses.
pub(crate) fn network(pool: &NetworkPool) -> &str {
    pool.annotations()
        .get(annotations::NETWORK)
        .map_or("", String::as_str)
}

/// Gateways and name servers of the providers that use a pool.
fn services(pool: &ObjectKey, caches: &Caches) -> BTreeMap<IpAddr, String> {
    let providers = caches.store::<Whole<ProviderConfig>>().list();
    let mut found = BTreeMap::new();
    for cached in &providers {
        let provider = &cached.value.0;
        if !pools_of(provider).any(|named| named == *pool) {
            continue;
        }
        let network = provider.spec.network.iter();
        for (text, what) in network.flat_map(|network| {
            let gateway = network.gateway.iter().map(|gateway| (gateway, "gateway"));
            let servers = network.dns_servers.iter();
            gateway.chain(servers.map(|server| (server, "name server")))
        }) {
            if let Ok(address) = parse_address(text) {
                let provider = &cached.facts.key;
                found.insert(address, format!("the {what} of ProviderConfig {provider}"));
            }
        }
    }
    found
}

/// The pools a provider gives addresses from, in the order written.
pub(crate) fn pools_of(provider: &ProviderConfig) -> impl Iterator<Item = ObjectKey> {
    let namespace = provider.namespace();
    let network = provider.spec.network.iter();
    let network = network.filter(|network| network.mode == NetworkMode::Ipam);
    network
        .flat_map(|network| &network.pool_refs)
        .map(move |pool| ObjectKey {
            namespace: namespace.clone(),
            name: pool.name.clone(),
        })
}

/// What the tenant clusters that ask a pool may have.
fn quotas(
    claimants: &BTreeMap<String, Claimant>,
    elsewhere: &BTreeMap<(Owner, AllocationType), u32>,
    caches: &Caches,
) -> BTreeMap<(Owner, AllocationType), Share> {
    let clusters = caches.store::<TenantClusterFacts>();
    let providers = caches.store::<Whole<ProviderConfig>>();
    let mut quotas = BTreeMap::new();
    let asking: BTreeSet<_> = claimants
        .values()
        .filter_map(|claimant| {
            let reference = claimant.spec.tenant_cluster_ref.as_ref()?;
            Some((reference, claimant.owner(), claimant.spec.kind))
        })
        .collect();
    for (reference, owner, kind) in asking {
        let most = clusters
            .get(&ObjectKey::namespaced(
                &reference.namespace,
                &reference.name,
            ))
            .and_then(|cluster| providers.get(&provider_of(caches, &cluster.value)))
            .and_then(|provider| {
                let network = provider.value.0.spec.network.as_ref()?;
                let quota = network.quota_per_tenant.as_ref()?;
                match kind {
                    AllocationType::Nodes => quota.max_node_ips,
                    AllocationType::Loadbalancer => quota.max_load_balancer_ips,
                }
            });
        if let Some(most) = most.and_then(|most| u32::try_from(most).ok()) {
            let elsewhere = elsewhere.get(&(owner.clone(), kind)).copied();
            let elsewhere = elsewhere.unwrap_or_default();
            quotas.insert((owner, kind), Share { most, elsewhere });
        }
    }
    quotas
}

/// Whether an address lies in the network a pool is written with.
pub(crate) fn covers(pool: &NetworkPool, addresses: &[IpAddr]) -> bool {
    let network = pool.spec.cidr.parse::<Cidr>();
    network.is_ok_and(|network| addresses.iter().any(|address| network.contains(*address)))
}
