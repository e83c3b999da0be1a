//! What the plan for a tenant cluster depends on. Cached, but for the authorities in a provider's credentials, which are read once
//! for each version of them, and the last look before a cluster goes.

use std::{collections::BTreeMap, sync::Arc};

use butler_api::{
    butler::{
        butler_config::{ButlerConfig, ExposureMode},
        image_sync::{ImageSync, ImageSyncStatus},
        ip_allocation::{AllocationType, IPAllocation},
        load_balancer_request::{LoadBalancerRequest, LoadBalancerRequestStatus},
        network_pool::NetworkPool,
        provider_config::ProviderConfig,
        team::Team,
        tenant_cluster::TenantCluster,
    },
    cluster_api::{
        butler_cluster::ButlerCluster, butler_machine::ButlerMachine,
        machine_group::MachineDeployment,
    },
    conditions::types,
    keys::{labels, names},
    steward::exposure::IngressControllerType,
};
use butler_runtime::{
    cache::{AnyStore, Cached, Caches, Metadata, Projection, Store, Whole},
    failure::Failure,
    object::{Kind, ObjectKey},
    reconciler::Context,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::{
    addresses,
    credentials::{self, Bundles},
    facts::{
        ControlPlaneFacts, DeploymentFacts, GatewayAddress, HealthCheck, HostedFacts,
        InfrastructureFacts, KamajiFacts, KubeadmFacts, KubevirtFacts, MachineSetFacts,
        NutanixFacts, StewardFacts,
    },
    growth::{self, Demand},
    related::{NamespaceSight, Related, Seen},
    tenant_namespace,
};
use crate::{
    cluster_api::{ClusterFacts, MachineFacts},
    ipam::infrastructure::ServiceAddresses,
    projections::{ProviderCandidate, Said, TenantClusterFacts},
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
    /// Address of what stands before all hosted control planes, where the platform has chosen that.
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
    Ok(World {
        related: related(cluster, context).await?,
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
        exposure_address: config
            .as_ref()
            .and_then(|config| exposure_address(config, caches)),
        others: others.filter(|other| other.key != own).cloned().collect(),
        candidates,
        provider,
        team,
        config,
    })
}

/// What exists in the namespace of a tenant cluster.
async fn related(cluster: &TenantCluster, context: &Context) -> Result<Related, Failure> {
    let caches = context.caches();
    let name = cluster.name_any();
    let namespace = tenant_namespace(cluster);
    let key = ObjectKey::namespaced(&namespace, &name);
    let mut related = Related {
        namespace: namespace_sight(cluster, &namespace, context).await?,
        cluster: seen(caches, &key, |facts: &ClusterFacts| facts.clone()),
        control_plane: control_plane(caches, &key),
        hosted: caches
            .store::<HostedFacts>()
            .get(&key)
            .map(|found| found.value.clone()),
        infrastructure: infrastructure(caches, &key),
        balancer: balancer(cluster, &namespace, caches),
        ..Related::default()
    };
    let within = |key: &ObjectKey| key.namespace.as_deref() == Some(&namespace);
    for found in of_namespace::<DeploymentFacts>(caches, within) {
        let seen = Seen {
            kind: MachineDeployment::kind(&()).into_owned(),
            uid: found.facts.uid.clone(),
            facts: found.value.clone(),
        };
        related
            .deployments
            .insert(found.facts.key.name.clone(), seen);
    }
    for found in of_namespace::<MachineSetFacts>(caches, within) {
        related
            .sets
            .insert(found.facts.key.name.clone(), found.value.clone());
    }
    for found in of_namespace::<MachineFacts>(caches, within) {
        related
            .machines
            .insert(found.facts.key.name.clone(), found.value.clone());
    }
    for found in of_namespace::<Whole<ButlerMachine>>(caches, within) {
        let status = json!({ "status": found.value.0.status });
        let said = Said::by(&status, &[types::READY]).into_iter().next();
        related
            .machine_words
            .extend(said.map(|said| (found.facts.key.name.clone(), said)));
    }
    let secrets = caches.store::<Metadata<Secret>>();
    for suffix in [names::KUBECONFIG_SUFFIX, names::ADMIN_KUBECONFIG_SUFFIX] {
        let key = ObjectKey::namespaced(&namespace, format!("{name}{suffix}"));
        if secrets.get(&key).is_some() {
            related.see_secret(&key.name);
        }
    }
    Ok(related)
}

/// The objects of a kind in a namespace.
fn of_namespace<P: Projection>(
    caches: &Caches,
    within: impl Fn(&ObjectKey) -> bool,
) -> Vec<Arc<Cached<P>>> {
    let store: Arc<Store<P>> = caches.store();
    let keys = store.keys_where(|found| within(&found.facts.key));
    keys.iter().filter_map(|key| store.get(key)).collect()
}

async fn namespace_sight(
    cluster: &TenantCluster,
    namespace: &str,
    context: &Context,
) -> Result<Option<NamespaceSight>, Failure> {
    let key = ObjectKey::cluster(namespace);
    if let Some(found) = context.cache::<Metadata<Namespace>>().get(&key) {
        let deleted_at = found.value.metadata.deletion_timestamp.as_ref();
        return Ok(Some(NamespaceSight {
            owner: found.facts.owner.clone(),
            uid: found.facts.uid.clone(),
            deleted_at: deleted_at.map(|time| time.0),
        }));
    }
    if cluster.metadata.deletion_timestamp.is_none() {
        return Ok(None);
    }
    // That a cache shows none is no proof, and after this nothing holds the cluster back.
    let body = context.api().get(&Kind::of::<Namespace>(), &key).await?;
    let mut related = Related::default();
    if let Some(mut body) = body {
        body["kind"] = "Namespace".into();
        related.see(body);
    }
    Ok(related.namespace)
}

/// An object that was seen, of a kind whose facts are a part of what is cached.
fn seen<P: Projection, T>(
    caches: &Caches,
    key: &ObjectKey,
    facts: impl Fn(&P) -> T,
) -> Option<Seen<T>> {
    let found = caches.store::<P>().get(key)?;
    Some(Seen {
        kind: P::kind().kind,
        uid: found.facts.uid.clone(),
        facts: facts(&found.value),
    })
}

fn control_plane(caches: &Caches, key: &ObjectKey) -> Option<Seen<ControlPlaneFacts>> {
    seen(caches, key, |found: &StewardFacts| found.0.clone())
        .or_else(|| seen(caches, key, |found: &KamajiFacts| found.0.clone()))
        .or_else(|| seen(caches, key, |found: &KubeadmFacts| found.0.clone()))
}

fn infrastructure(caches: &Caches, key: &ObjectKey) -> Option<Seen<InfrastructureFacts>> {
    let of_butler = |found: &Whole<ButlerCluster>| InfrastructureFacts::of(&json!(found.0));
    seen(caches, key, of_butler)
        .or_else(|| seen(caches, key, |found: &NutanixFacts| found.0.clone()))
        .or_else(|| seen(caches, key, |found: &KubevirtFacts| found.0.clone()))
}

fn balancer(
    cluster: &TenantCluster,
    namespace: &str,
    caches: &Caches,
) -> Option<LoadBalancerRequestStatus> {
    let store = caches.store::<Whole<LoadBalancerRequest>>();
    let owned = store.owned_by(&cluster.uid().unwrap_or_default());
    let mut owned = owned.iter().map(|facts| &facts.key);
    let key = owned.find(|key| key.namespace.as_deref() == Some(namespace))?;
    let found = store.get(key)?;
    Some(found.value.0.status.clone().unwrap_or_default())
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

/// Where the one Ingress controller or Gateway is that all API servers are reached through.
fn exposure_address(config: &ButlerConfig, caches: &Caches) -> Option<String> {
    let exposure = config.spec.control_plane_exposure.as_ref()?;
    let services = caches.store::<ServiceAddresses>();
    match exposure.mode {
        ExposureMode::LoadBalancer => None,
        ExposureMode::Ingress => {
            let key = ingress_controller(exposure.controller_type.unwrap_or_default());
            let found = services.get(&key)?;
            found.value.0.first().map(ToString::to_string)
        }
        ExposureMode::Gateway => {
            let (namespace, name) = exposure.gateway_ref.as_deref()?.split_once('/')?;
            let key = ObjectKey::namespaced(namespace, name);
            let found = caches.store::<GatewayAddress>().get(&key)?;
            found.value.0.clone()
        }
    }
}

/// The Service of an Ingress controller, where its own chart puts it.
fn ingress_controller(controller: IngressControllerType) -> ObjectKey {
    let (namespace, name) = match controller {
        IngressControllerType::Nginx => ("ingress-nginx", "ingress-nginx-controller"),
        IngressControllerType::Haproxy => ("haproxy-controller", "haproxy-kubernetes-ingress"),
        IngressControllerType::Traefik | IngressControllerType::Generic => ("traefik", "traefik"),
    };
    ObjectKey::namespaced(namespace, name)
}

/// Whether a Service may be that of the Ingress controller before all API servers.
pub(super) fn is_ingress_controller(service: &ObjectKey) -> bool {
    let controllers = [
        IngressControllerType::Nginx,
        IngressControllerType::Haproxy,
        IngressControllerType::Traefik,
    ];
    controllers
        .into_iter()
        .any(|controller| ingress_controller(controller) == *service)
}
