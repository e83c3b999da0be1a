//! The objects that the stories are about, and what they show.

use butler_api::{
    butler::{
        butler_config::ButlerConfig, machine_request::MachineRequest, network_pool::NetworkPool,
        provider_config::ProviderConfig, tenant_cluster::TenantCluster,
    },
    keys::names,
};
use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::Deed;
use serde_json::{Value, json};

/// Where clusters without a team are asked for.
pub(crate) const TENANTS: &str = names::DEFAULT_TENANT_NAMESPACE;
/// Where the platform's own objects live.
pub(crate) const SYSTEM: &str = names::SYSTEM_NAMESPACE;
/// The provider of the stories, and its pool.
const LOCAL: &str = "local";

pub(crate) fn tenant_clusters() -> Kind {
    Kind::of::<TenantCluster>()
}

pub(crate) fn requests() -> Kind {
    Kind::of::<MachineRequest>()
}

/// A key where clusters are asked for.
pub(crate) fn here(name: &str) -> ObjectKey {
    ObjectKey::namespaced(TENANTS, name)
}

fn object(kind: &Kind, key: &ObjectKey, spec: &Value) -> Value {
    let mut metadata = json!({ "name": key.name });
    if let Some(namespace) = &key.namespace {
        metadata["namespace"] = namespace.clone().into();
    }
    json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata, "spec": spec,
    })
}

/// A tenant cluster of a version with so many workers.
pub(crate) fn tenant_cluster(name: &str, version: &str, workers: i64) -> Value {
    let spec = json!({ "kubernetesVersion": version, "workers": { "replicas": workers } });
    object(&tenant_clusters(), &here(name), &spec)
}

/// A tenant cluster whose control plane is on so many machines of its own.
fn standalone_cluster(name: &str, version: &str, machines: i64, workers: i64) -> Value {
    let spec = json!({
        "kubernetesVersion": version,
        "controlPlane": { "mode": "Standalone", "replicas": machines },
        "workers": { "replicas": workers },
    });
    object(&tenant_clusters(), &here(name), &spec)
}

/// Clusters begin with so many addresses for Services, and keep them.
pub(crate) fn fixed_ranges() -> Value {
    json!({ "loadBalancer": { "allocationMode": "static", "defaultPoolSize": 2 } })
}

/// What `butleradm up` makes for a platform on one host, with a pool of this size, from which Services get addresses like this.
pub(crate) fn platform(range: &str, addresses: &Value) -> Vec<(Kind, Value)> {
    let system = |name: &str| ObjectKey::namespaced(SYSTEM, name);
    let pool = json!({ "cidr": range });
    let mut network = json!({ "mode": "ipam", "poolRefs": [{ "name": LOCAL }] });
    let members = addresses.as_object().into_iter().flatten();
    for (member, value) in members {
        network[member] = value.clone();
    }
    let provider = json!({ "provider": "local", "network": network });
    let config = json!({
        "multiTenancy": { "mode": "Optional" },
        "defaultNamespace": TENANTS,
        "defaultProviderConfigRef": { "name": LOCAL },
    });
    let (pools, providers) = (Kind::of::<NetworkPool>(), Kind::of::<ProviderConfig>());
    let configs = Kind::of::<ButlerConfig>();
    vec![
        (pools.clone(), object(&pools, &system(LOCAL), &pool)),
        (
            providers.clone(),
            object(&providers, &system(LOCAL), &provider),
        ),
        (
            configs.clone(),
            object(&configs, &ObjectKey::cluster(names::BUTLER_CONFIG), &config),
        ),
    ]
}

/// Somebody asks for a cluster.
pub(crate) fn ask(name: &str, version: &str, workers: i64) -> Deed {
    Deed::create(tenant_clusters(), tenant_cluster(name, version, workers))
}

/// Somebody asks for one whose control plane is on machines of its own.
pub(crate) fn ask_standalone(name: &str, version: &str, machines: i64, workers: i64) -> Deed {
    let body = standalone_cluster(name, version, machines, workers);
    Deed::create(tenant_clusters(), body)
}

/// Somebody wants another number of workers.
pub(crate) fn scale(name: &str, workers: i64) -> Deed {
    Deed::edit(tenant_clusters(), here(name), move |body| {
        body["spec"]["workers"]["replicas"] = workers.into();
    })
}

/// Somebody wants another version.
pub(crate) fn upgrade(name: &str, version: &'static str) -> Deed {
    Deed::edit(tenant_clusters(), here(name), move |body| {
        body["spec"]["kubernetesVersion"] = version.into();
    })
}

/// Somebody deletes a cluster.
pub(crate) fn delete(name: &str) -> Deed {
    Deed::delete(tenant_clusters(), here(name))
}
