//! The tenant clusters that are measured, all alike, and the platform of those that are played.

use butler_api::{
    butler::tenant_cluster::TenantCluster,
    keys::{groups, names},
};
use butler_assets::{Asset, Component, Resolver, Settings};
use butler_cli::adm::recipe;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::bars;

/// Where clusters are asked for: what an installation has for those without a team.
pub(super) const NAMESPACE: &str = names::DEFAULT_TENANT_NAMESPACE;
/// Where provider and pool are.
pub(super) const SYSTEM: &str = names::SYSTEM_NAMESPACE;
/// Of the provider and of its pool, as `butleradm up` calls them.
pub(super) const LOCAL: &str = "local";
/// Room for machines and Services of every cluster that is played. Nothing is sent there.
const POOL: &str = "10.64.0.0/16";

/// The version that clusters run, with its v.
pub(super) fn version() -> String {
    format!("v{}", Asset::default_of(Component::Kubelet).version)
}

/// A cluster with small workers.
pub(super) fn cluster(name: &str) -> anyhow::Result<TenantCluster> {
    let body = json!({
        "apiVersion": groups::BUTLER_API_VERSION,
        "kind": "TenantCluster",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "kubernetesVersion": version(),
            "workers": {
                "replicas": bars::WORKERS,
                "machineTemplate": { "cpu": 1, "memory": "1Gi", "diskSize": "10Gi" },
            },
        },
    });
    Ok(serde_json::from_value(body)?)
}

/// What a fresh installation has, in an order that works.
pub(super) fn platform() -> Vec<Value> {
    let of_butler = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": groups::BUTLER_API_VERSION,
            "kind": kind,
            "metadata": { "name": name, "namespace": SYSTEM },
            "spec": spec,
        })
    };
    let namespace = |name: &str| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    let mut config = of_butler(
        "ButlerConfig",
        names::BUTLER_CONFIG,
        json!({
            "multiTenancy": { "mode": "Optional" },
            "defaultNamespace": NAMESPACE,
            "defaultProviderConfigRef": { "name": LOCAL },
        }),
    );
    config["metadata"]["namespace"] = Value::Null;
    let network = json!({ "mode": "ipam", "poolRefs": [{ "name": LOCAL }] });
    vec![
        namespace(SYSTEM),
        namespace(NAMESPACE),
        of_butler("NetworkPool", LOCAL, json!({ "cidr": POOL })),
        of_butler(
            "ProviderConfig",
            LOCAL,
            json!({ "provider": "local", "network": network }),
        ),
        config,
    ]
}

/// Cluster API's own definitions. Nobody is there who could convert objects to older versions, so nobody is asked to.
pub(super) async fn definitions() -> anyhow::Result<Vec<CustomResourceDefinition>> {
    let resolver = Resolver::new(Settings::from_env()?);
    let objects = recipe::cluster_api(&resolver).await?.into_iter();
    let definitions = objects.filter(|object| object["kind"] == "CustomResourceDefinition");
    let read = |mut object: Value| {
        object["spec"]["conversion"] = json!({ "strategy": "None" });
        Ok(serde_json::from_value(object)?)
    };
    definitions.map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_asks_for_as_many_workers_as_are_waited_for() {
        let cluster = cluster("one").unwrap();
        let read = butler_api::normalize::tenant_cluster::read(&cluster.spec);
        assert_eq!(
            usize::try_from(read.worker_replicas()).unwrap(),
            bars::WORKERS
        );
    }
}
