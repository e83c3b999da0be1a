//! The infrastructure of a cluster as a whole, and the credentials it needs.

use butler_api::{
    butler::tenant_cluster::CniProvider,
    cluster_api::butler_cluster::ButlerCluster,
    keys::{annotations, names, values},
};
use butler_runtime::object::{Kind, Manifest};
use serde_json::{Value, json};

use super::metadata;
use crate::tenant_cluster::{
    blueprint::{Blueprint, ControlPlane, Infrastructure, KubevirtPlace, NutanixPlace},
    kinds,
};

/// The infrastructure. A hosted control plane's endpoint is written into it by whoever hosts it, never by us.
pub(crate) fn infrastructure(blueprint: &Blueprint) -> Manifest {
    let (kind, spec) = match &blueprint.infrastructure {
        Infrastructure::Butler { config, .. } => {
            let mut spec = json!({ "providerRef": config });
            if let ControlPlane::Standalone(wish) = &blueprint.control_plane
                && let Some(endpoint) = &wish.endpoint
            {
                spec["controlPlaneEndpoint"] = json!(endpoint);
            }
            (Kind::of::<ButlerCluster>(), spec)
        }
        Infrastructure::Nutanix(place) => (kinds::nutanix_cluster(), nutanix(blueprint, place)),
        Infrastructure::Kubevirt(place) => (kinds::kubevirt_cluster(), kubevirt(place)),
    };
    let mut metadata = metadata(blueprint, &blueprint.name);
    if blueprint.is_local() && blueprint.cni != Some(CniProvider::Bridge) {
        // Whatever the tenant installs must not meet a network that is there already.
        metadata["annotations"][annotations::POD_NETWORK] = json!(values::POD_NETWORK_NONE);
    }
    let body = json!({ "metadata": metadata, "spec": spec });
    Manifest::new(kind, body)
}

fn nutanix(blueprint: &Blueprint, place: &NutanixPlace) -> Value {
    let mut prism = json!({
        "address": place.address,
        "port": place.port,
        "insecure": place.insecure,
        "credentialRef": {
            "kind": "Secret",
            "name": format!("{}{}", blueprint.name, names::NUTANIX_CREDENTIALS_SUFFIX),
            "namespace": blueprint.namespace,
        },
    });
    if let Some(bundle) = &place.trust_bundle {
        prism["additionalTrustBundle"] = json!({ "kind": "String", "data": bundle });
    }
    json!({ "prismCentral": prism })
}

/// What CAPX reads under the key `credentials` of its Secret.
pub(crate) fn nutanix_credentials(username: &str, password: &str) -> String {
    let entry = json!({
        "type": "basic_auth",
        "data": { "prismCentral": { "username": username, "password": password } },
    });
    json!([entry]).to_string()
}

fn kubevirt(place: &KubevirtPlace) -> Value {
    json!({
        "infraClusterSecretRef": kubevirt_credentials(place),
        // The control plane is elsewhere: the Service that CAPK makes there leads nowhere, so nobody needs to reach it.
        "controlPlaneServiceTemplate": { "spec": { "type": "ClusterIP" } },
    })
}

pub(super) fn kubevirt_credentials(place: &KubevirtPlace) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "name": place.credentials.name,
        "namespace": place.credentials.namespace,
    })
}
