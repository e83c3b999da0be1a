//! The objects of a cluster on machines of Butler.

use butler_api::{
    butler::{machine_request::MachineRequest, provider_config::ProviderConfig},
    cluster_api::{
        butler_cluster::ButlerCluster, butler_machine::ButlerMachine, cluster::Cluster,
        machine::Machine,
    },
    keys::groups,
};
use butler_runtime::object::{Kind, ObjectKey};
use serde_json::{Value, json};

use crate::scene::{TEAM, object};

/// The cluster of the stories, and its infrastructure.
pub(super) const CLUSTER: &str = "shop";

pub(super) fn cluster_kind() -> Kind {
    Kind::of::<Cluster>()
}

pub(super) fn machine_kind() -> Kind {
    Kind::of::<Machine>()
}

pub(super) fn butler_cluster_kind() -> Kind {
    Kind::of::<ButlerCluster>()
}

pub(super) fn butler_machine_kind() -> Kind {
    Kind::of::<ButlerMachine>()
}

pub(super) fn request_kind() -> Kind {
    Kind::of::<MachineRequest>()
}

/// A key in the team's namespace.
pub(super) fn here(name: &str) -> ObjectKey {
    ObjectKey::namespaced(TEAM, name)
}

fn reference(kind: &str, name: &str) -> Value {
    json!({ "apiGroup": groups::INFRASTRUCTURE, "kind": kind, "name": name })
}

/// The Cluster, as its owner writes it.
pub(super) fn cluster() -> Value {
    let spec = json!({ "infrastructureRef": reference("ButlerCluster", CLUSTER) });
    object(&cluster_kind(), &here(CLUSTER), json!({ "spec": spec }))
}

/// Its infrastructure, with an endpoint.
pub(super) fn butler_cluster(provider: &ObjectKey) -> Value {
    let spec = json!({
        "providerRef": { "name": provider.name, "namespace": provider.namespace },
        "controlPlaneEndpoint": { "host": "192.0.2.10", "port": 6443 },
    });
    let key = here(CLUSTER);
    object(&butler_cluster_kind(), &key, json!({ "spec": spec }))
}

/// A Machine of the cluster, with bootstrap data that its owner has ready, or without.
pub(super) fn machine(name: &str, bootstrap_data: Option<&str>) -> Value {
    let mut spec = json!({
        "clusterName": CLUSTER,
        "bootstrap": {},
        "infrastructureRef": reference("ButlerMachine", name),
    });
    if let Some(secret) = bootstrap_data {
        spec["bootstrap"]["dataSecretName"] = secret.into();
    }
    object(&machine_kind(), &here(name), json!({ "spec": spec }))
}

/// The machine itself.
pub(super) fn butler_machine(name: &str) -> Value {
    let spec = json!({ "cpu": 2, "memory": "2Gi", "disk": "20Gi" });
    let key = here(name);
    object(&butler_machine_kind(), &key, json!({ "spec": spec }))
}

/// What a provider that clusters can be made with says of itself.
pub(super) fn provider_status() -> Value {
    json!({
        "ready": true,
        "validated": true,
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    })
}

pub(super) fn provider_kind() -> Kind {
    Kind::of::<ProviderConfig>()
}
