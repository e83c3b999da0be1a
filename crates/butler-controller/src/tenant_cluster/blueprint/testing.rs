//! Clusters and surroundings for tests, and what has a say about them.

use std::collections::BTreeMap;

use butler_api::{
    butler::{provider_config::ProviderConfig, tenant_cluster::TenantCluster},
    keys::{groups, names},
};
use serde_json::{Value, json};

use super::{Blueprint, Settled, Surroundings, blueprint};

/// The cluster `shop` of the team `retail`.
pub(crate) fn shop(spec: &Value) -> TenantCluster {
    let body = json!({
        "apiVersion": groups::BUTLER_API_VERSION,
        "kind": "TenantCluster",
        "metadata": {
            "name": "shop",
            "namespace": "retail",
            "uid": "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
            "annotations": { "butler.butlerlabs.dev/creator-email": "ada@example.com" },
        },
        "spec": spec,
    });
    serde_json::from_value(body).unwrap()
}

/// A cluster that says as little as can be said, with something more.
pub(crate) fn plain_shop(more: &Value) -> TenantCluster {
    let mut spec = json!({ "kubernetesVersion": "1.36.3", "workers": { "replicas": 2 } });
    let members = more.as_object().unwrap();
    spec.as_object_mut().unwrap().extend(members.clone());
    shop(&spec)
}

/// Nothing but a provider.
pub(crate) fn on(provider: &Value) -> Surroundings {
    let kind = provider["provider"].as_str().unwrap();
    let body = json!({
        "apiVersion": groups::BUTLER_API_VERSION,
        "kind": "ProviderConfig",
        "metadata": { "name": kind, "namespace": names::SYSTEM_NAMESPACE },
        "spec": provider,
    });
    let provider: ProviderConfig = serde_json::from_value(body).unwrap();
    Surroundings {
        config: None,
        team: None,
        provider,
        images: BTreeMap::new(),
        settled: Settled::default(),
        exposure_address: None,
        endpoint: None,
        trust_bundle: None,
    }
}

/// Machines of this host.
pub(crate) fn on_this_host() -> Surroundings {
    on(&json!({ "provider": "local" }))
}

/// Nutanix, through CAPX.
pub(crate) fn on_nutanix() -> Surroundings {
    on(&json!({
        "provider": "nutanix",
        "clusterAPIProvider": "CAPX",
        "credentialsRef": { "name": "prism" },
        "nutanix": {
            "endpoint": "https://prism.example.com:9440/",
            "clusterUUID": "00061663-9fa0-28ca-185b-ac1f6b6f97e2",
            "subnetUUID": "c7938dc6-7659-453e-a688-e26020c68e43",
            "imageUUID": "9f7e1c2b-3d4e-4f5a-8b6c-7d8e9f0a1b2c",
        },
    }))
}

/// Harvester, through CAPK.
pub(crate) fn on_harvester() -> Surroundings {
    on(&json!({
        "provider": "harvester",
        "clusterAPIProvider": "CAPK",
        "credentialsRef": { "name": "harvester", "namespace": "infrastructure" },
        "harvester": {
            "namespace": "tenants",
            "networkName": "networks/workloads",
            "imageName": "images/rocky-9",
        },
    }))
}

/// Adds settings of the platform.
pub(crate) fn with_config(mut surroundings: Surroundings, spec: &Value) -> Surroundings {
    let body = json!({
        "apiVersion": groups::BUTLER_API_VERSION,
        "kind": "ButlerConfig",
        "metadata": { "name": names::BUTLER_CONFIG },
        "spec": spec,
    });
    surroundings.config = Some(serde_json::from_value(body).unwrap());
    surroundings
}

/// Adds the team.
pub(crate) fn with_team(mut surroundings: Surroundings, spec: &Value) -> Surroundings {
    let body = json!({
        "apiVersion": groups::BUTLER_API_VERSION,
        "kind": "Team",
        "metadata": { "name": "retail" },
        "spec": spec,
    });
    surroundings.team = Some(serde_json::from_value(body).unwrap());
    surroundings
}

/// A blueprint that there must be.
pub(crate) fn drawn(cluster: &TenantCluster, surroundings: &Surroundings) -> Blueprint {
    blueprint(cluster, surroundings).unwrap()
}

/// Why there is none, a line for each reason.
pub(crate) fn refusal(cluster: &TenantCluster, surroundings: &Surroundings) -> String {
    let findings = blueprint(cluster, surroundings).unwrap_err();
    let lines = findings.iter();
    let lines: Vec<_> = lines
        .map(|finding| format!("{}: {}", finding.reason, finding.message))
        .collect();
    lines.join("\n")
}
