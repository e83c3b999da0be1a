//! What decisions about a pool depend on, read from the caches.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
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
use butler_ipam::{Layout, Owner, Violation, overlap};
use butler_runtime::{
    cache::{Cached, Caches, Whole},
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
    /// Addresses that allocations of other pools have although those pools do not give them out any more, and which
    /// pools these are.
    pub(crate) left_over: Vec<(AddressRange, String)>,
    /// Networks of other pools whose latest spec their controller has not seen: it may still give out what it had before.
    pub(crate) unsettled: Vec<AddressRange>,
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
        left_over: left_over(pool, layout, caches),
        unsettled: unsettled(pool, caches),
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
        // What is given back counts no longer: nobody is told when the allocation itself goes.
        let counts = claimant.has_addresses() && pool_of(allocation) != *pool;
        if let Some(range) = claimant.committed.filter(|_| counts) {
            let count = elsewhere
                .entry((claimant.counted(), claimant.spec.kind))
                .or_default();
            *count = count.saturating_add(u32::try_from(range.count()).unwrap_or(u32::MAX));
        }
    }
    elsewhere
}

/// The name of a pool becomes a label of ledgers and allocations.
const LONGEST_NAME: usize = 63;

/// What a pool's manifest means, or everything that is wrong with it.
pub(crate) fn layout(pool: &NetworkPool) -> Result<Layout, Vec<Violation>> {
    let layout = Layout::of(&pool.spec);
    if pool.name_any().len() <= LONGEST_NAME {
        return layout;
    }
    let mut violations = layout.err().unwrap_or_default();
    violations.push(Violation {
        field: "metadata.name".to_owned(),
        rule: format!("must be at most {LONGEST_NAME} characters: it becomes a label"),
    });
    Err(violations)
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
    let pages = caches.store::<CachedPage>().list();
    let of_pool = pages.iter().filter(|page| page.value.pool == *pool);
    let mut unreadable = None;
    let readable =
        of_pool.filter_map(|page| pages::page(page).map_err(|why| unreadable = Some(why)).ok());
    let ledger = Ledger::new(readable);
    (ledger, unreadable)
}

/// The other pools of the same network.
fn neighbours(pool: &NetworkPool, caches: &Caches) -> Vec<Arc<Cached<Whole<NetworkPool>>>> {
    let key = ObjectKey::of(pool);
    let mut pools = caches.store::<Whole<NetworkPool>>().list();
    pools.retain(|other| other.facts.key != key && network(&other.value.0) == network(pool));
    pools
}

/// Addresses that other pools of the same network give out too.
pub(crate) fn shared(
    pool: &NetworkPool,
    layout: &Layout,
    caches: &Caches,
) -> Vec<(AddressRange, String)> {
    let others = neighbours(pool, caches);
    others
        .iter()
        .filter_map(|other| Some((other, Layout::of(&other.value.0.spec).ok()?)))
        .flat_map(|(other, theirs)| {
            let name = format!("NetworkPool {}", other.facts.key);
            let ranges = overlap(layout, &theirs).into_iter();
            ranges.map(move |range| (range, name.clone()))
        })
        .collect()
}

/// What other pools of the same network have granted of this one's network. What they still give out is shared anyway; a pool
/// that was narrowed has granted more.
fn left_over(pool: &NetworkPool, layout: &Layout, caches: &Caches) -> Vec<(AddressRange, String)> {
    let network = layout.cidr().range();
    neighbours(pool, caches)
        .iter()
        .flat_map(|other| {
            let key = &other.facts.key;
            let (ledger, _) = ledger(key, caches);
            let grants = ledger.grants().cloned().collect::<Vec<_>>().into_iter();
            let within = grants.filter(|entry| entry.range.overlaps(&network));
            within.map(move |entry| (entry.range, format!("granted by NetworkPool {key}")))
        })
        .collect()
}

/// Networks of other pools whose latest spec their controller has not seen, or whose ledger we do not see in full.
fn unsettled(pool: &NetworkPool, caches: &Caches) -> Vec<AddressRange> {
    let others = neighbours(pool, caches);
    let others = others.iter().map(|other| &other.value.0);
    let unsettled = others.filter(|other| {
        let status = other.status.as_ref();
        let seen = status.and_then(|status| status.observed_generation);
        let announced = status.and_then(|status| status.ledger_revision);
        let (ledger, unreadable) = ledger(&ObjectKey::of(*other), caches);
        let behind = announced.is_some_and(|announced| announced > ledger.revision());
        seen != other.metadata.generation || behind || unreadable.is_some()
    });
    unsettled
        .filter_map(|other| other.spec.cidr.parse::<Cidr>().ok())
        .map(|network| network.range())
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
    let mut quotas = BTreeMap::new();
    for claimant in claimants.values() {
        let of = (claimant.counted(), claimant.spec.kind);
        if quotas.contains_key(&of) {
            continue;
        }
        if let Some(most) = quota(claimant, caches) {
            let elsewhere = elsewhere.get(&of).copied().unwrap_or_default();
            quotas.insert(of, Share { most, elsewhere });
        }
    }
    quotas
}

/// How many addresses of its type the tenant cluster of an allocation may have, if its provider limits them.
pub(crate) fn quota(claimant: &Claimant, caches: &Caches) -> Option<u32> {
    let reference = claimant.tenant.as_ref()?;
    let cluster = ObjectKey::namespaced(&reference.namespace, &reference.name);
    let cluster = caches.store::<TenantClusterFacts>().get(&cluster)?;
    let providers = caches.store::<Whole<ProviderConfig>>();
    let provider = providers.get(&provider_of(caches, &cluster.value)?)?;
    let network = provider.value.0.spec.network.as_ref()?;
    let quota = network.quota_per_tenant.as_ref()?;
    let most = match claimant.spec.kind {
        AllocationType::Nodes => quota.max_node_ips,
        AllocationType::Loadbalancer => quota.max_load_balancer_ips,
    };
    u32::try_from(most?).ok()
}

/// Whether an address lies in the network a pool is written with.
pub(crate) fn covers(pool: &NetworkPool, addresses: &[IpAddr]) -> bool {
    let network = pool.spec.cidr.parse::<Cidr>();
    network.is_ok_and(|network| addresses.iter().any(|address| network.contains(*address)))
}
