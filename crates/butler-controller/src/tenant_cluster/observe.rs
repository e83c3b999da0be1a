//! What the plan for a tenant cluster depends on. Cached, but for the authorities in a provider's credentials, which are read once
//! for each version of them, and the last look before a cluster goes.

mod tenant;

use std::collections::BTreeMap;

use butler_api::{
    butler::{
        butler_config::ButlerConfig,
        image_sync::{ImageSync, ImageSyncStatus},
        ip_allocation::{AllocationType, IPAllocation},
        network_pool::NetworkPool,
        provider_config::ProviderConfig,
        team::Team,
        tenant_cluster::TenantCluster,
    },
    cluster_api::butler_cluster::ButlerCluster,
    keys::{labels, names},
};
use butler_runtime::{
    cache::{AnyStore, Caches, Whole},
    failure::Failure,
    object::ObjectKey,
    reconciler::Context,
};
use kube::ResourceExt;

use super::{
    addresses,
    credentials::{self, Bundles},
    exposure,
    facts::HealthCheck,
    growth::{self, Demand},
    origin,
    related::Related,
    tenant_namespace,
};
use crate::{
    projections::{ProviderCandidate, TenantClusterFacts},
    tenant_rules::{self, Voices},
};

/// The world around a tenant cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct World {
    /// Settings of the platform.
    pub config: Option<ButlerConfig>,
    /// The team that it names, if there is such a one.
    pub team: Option<Team>,
    /// The providers that may be taken where nobody names one.
    pub candidates: Vec<ProviderCandidate>,
    /// The provider that it runs on, if it exists.
    pub provider: Option<ProviderConfig>,
    /// The pools of the provider that exist.
    pub pools: Vec<NetworkPool>,
    /// All other tenant clusters.
    pub others: Vec<TenantClusterFacts>,
    /// What exists for it.
    pub related: Related,
    /// Whether machines are replaced already whose nodes are not ready.
    pub nodes_are_judged: bool,
    /// Its images by the name of the `ImageSync`.
    pub images: BTreeMap<String, ImageSight>,
    /// Its first addresses, granted or asked for.
    pub addresses: Option<IPAllocation>,
    /// The ranges of addresses that were added to the first, in the order of their names.
    pub added_addresses: Vec<IPAllocation>,
    /// Name of the oldest allocation of its machines, where their addresses come from pools. Each machine has its own.
    pub machine_addresses: Option<String>,
    /// Its Services that wait for an address.
    pub demand: Option<Demand>,
    /// `IPAllocations` that are its own, with their UIDs, and whether they are going.
    pub allocations: Vec<(ObjectKey, String, bool)>,
    /// The credentials of its provider, and its copy of them.
    pub credentials: credentials::Sight,
    /// Address of what stands before its hosted control plane and others, where they are reached through one entrance.
    pub exposure_address: Option<String>,
}

/// What is seen of an image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImageSight {
    /// UID of the `ImageSync`.
    pub uid: String,
    /// Whether it is going.
    pub going: bool,
    /// How far the image has come.
    pub status: ImageSyncStatus,
}

pub(super) async fn observe(
    cluster: &TenantCluster,
    bundles: &Bundles,
    context: &Context,
) -> Result<World, Failure> {
    let caches = context.caches();
    let config = caches
        .store::<Whole<ButlerConfig>>()
        .get(&ObjectKey::cluster(names::BUTLER_CONFIG));
    let config = config.map(|config| config.value.0.clone());
    let team = ObjectKey::cluster(tenant_rules::team_of(cluster));
    let team = caches.store::<Whole<Team>>().get(&team);
    let team = team.map(|team| team.value.0.clone());
    let candidates = ProviderCandidate::all(caches);
    let voices = Voices {
        config: config.as_ref(),
        team: team.as_ref(),
        candidates: &candidates,
    };
    let provider_key = tenant_rules::choice_of(cluster, &voices).key;
    let provider = caches.store::<Whole<ProviderConfig>>().get(&provider_key);
    let provider = provider.map(|provider| provider.value.0.clone());
    let pools = provider
        .as_ref()
        .map(tenant_rules::pools_of)
        .unwrap_or_default();
    let pools = pools
        .iter()
        .filter_map(|pool| caches.store::<Whole<NetworkPool>>().get(pool));
    let own = ObjectKey::of(cluster);
    let others = caches.store::<TenantClusterFacts>().list();
    let others = others.iter().map(|other| &other.value);
    let uid = cluster.uid().unwrap_or_default();
    let related = tenant::related(cluster, context).await?;
    let settled = origin::settled(&related).exposure;
    let platforms = config
        .as_ref()
        .and_then(|config| config.spec.control_plane_exposure.clone());
    Ok(World {
        nodes_are_judged: nodes_are_judged(&uid, caches),
        images: images(&uid, caches),
        addresses: provider
            .as_ref()
            .and_then(|provider| addresses(cluster, provider, caches)),
        added_addresses: added_addresses(&uid, caches),
        machine_addresses: machine_addresses(&own, caches),
        demand: demand(cluster, caches),
        pools: pools.map(|pool| pool.value.0.clone()).collect(),
        allocations: allocations(&uid, caches),
        credentials: credentials::sight(cluster, provider.as_ref(), bundles, context).await?,
        exposure_address: settled
            .or(platforms)
            .and_then(|exposure| exposure::address(&exposure, caches)),
        related,
        others: others.filter(|other| other.key != own).cloned().collect(),
        candidates,
        provider,
        team,
        config,
    })
}

fn nodes_are_judged(uid: &str, caches: &Caches) -> bool {
    let store = caches.store::<HealthCheck>();
    let owned = store.owned_by(uid).into_iter();
    let mut owned = owned.filter_map(|facts| store.get(&facts.key));
    owned.any(|found| found.value.0.judges_nodes)
}

fn images(uid: &str, caches: &Caches) -> BTreeMap<String, ImageSight> {
    let store = caches.store::<Whole<ImageSync>>();
    let owned = store.owned_by(uid).into_iter();
    let owned = owned.filter_map(|facts| store.get(&facts.key));
    owned
        .map(|found| {
            let sight = ImageSight {
                uid: found.facts.uid.clone(),
                going: found.facts.deleting,
                status: found.value.0.status.clone().unwrap_or_default(),
            };
            (found.facts.key.name.clone(), sight)
        })
        .collect()
}

fn addresses(
    cluster: &TenantCluster,
    provider: &ProviderConfig,
    caches: &Caches,
) -> Option<IPAllocation> {
    let store = caches.store::<Whole<IPAllocation>>();
    let allocation = store.get(&addresses::key(cluster, provider));
    allocation.map(|found| found.value.0.clone())
}

fn added_addresses(uid: &str, caches: &Caches) -> Vec<IPAllocation> {
    let store = caches.store::<Whole<IPAllocation>>();
    let owned = store.owned_by(uid).into_iter();
    let owned = owned.filter_map(|facts| store.get(&facts.key));
    let mut found: Vec<_> = owned
        .map(|found| found.value.0.clone())
        .filter(growth::is_growth)
        .collect();
    found.sort_by_key(ResourceExt::name_any);
    found
}

fn machine_addresses(cluster: &ObjectKey, caches: &Caches) -> Option<String> {
    let store = caches.store::<Whole<IPAllocation>>();
    let keys = store.keys_where(|found| {
        machines_tenant(&found.value.0).is_some_and(|tenant| tenant == *cluster)
    });
    let found = keys.iter().filter_map(|key| store.get(key));
    let oldest = found.min_by_key(|found| {
        let allocation = &found.value.0;
        let created = allocation.creation_timestamp().map(|time| time.0);
        (created, allocation.name_any())
    });
    oldest.map(|found| found.facts.key.name.clone())
}

/// The tenant cluster that an allocation for a machine names.
pub(super) fn machines_tenant(allocation: &IPAllocation) -> Option<ObjectKey> {
    let said = |label: &str| allocation.labels().get(label);
    let (namespace, name) = said(labels::SOURCE_NAMESPACE).zip(said(labels::SOURCE_NAME))?;
    let is_of_machine = allocation.spec.kind == AllocationType::Nodes;
    is_of_machine.then(|| ObjectKey::namespaced(namespace, name))
}

fn demand(cluster: &TenantCluster, caches: &Caches) -> Option<Demand> {
    let key = ObjectKey::namespaced(tenant_namespace(cluster), cluster.name_any());
    let infrastructure = caches.store::<Whole<ButlerCluster>>().get(&key)?;
    Demand::of(&infrastructure.value.0)
}

fn allocations(uid: &str, caches: &Caches) -> Vec<(ObjectKey, String, bool)> {
    let store = caches.store::<Whole<IPAllocation>>();
    let owned = store.owned_by(uid).into_iter();
    owned
        .map(|facts| (facts.key, facts.uid, facts.deleting))
        .collect()
}
