//! `Cluster` of Cluster API, as far as Butler reads it.
//!
//! Must not: be written. What is not named here would be lost. Who has a word to say of a Cluster applies that word alone.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::contract::{ContractReference, ControlPlaneEndpoint};
use crate::keys::{annotations, groups, labels};

/// A cluster: what it is made of, and how far it has come.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Cluster {
    /// Name, labels and the rest of what every object has.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the cluster is made of.
    #[serde(default)]
    pub spec: ClusterSpec,
    /// What is known about the cluster.
    #[serde(default)]
    pub status: ClusterStatus,
}

/// What a cluster is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSpec {
    /// Whether everybody leaves the cluster and all that belongs to it alone.
    pub paused: Option<bool>,
    /// Its networks.
    pub cluster_network: ClusterNetwork,
    /// Where its API server is reached.
    pub control_plane_endpoint: Option<ControlPlaneEndpoint>,
    /// Its control plane.
    pub control_plane_ref: Option<ContractReference>,
    /// Its infrastructure.
    pub infrastructure_ref: Option<ContractReference>,
}

/// The networks of a cluster. What is absent, its control plane chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterNetwork {
    /// Port of the API server.
    pub api_server_port: Option<i32>,
    /// Networks of Services.
    pub services: NetworkRanges,
    /// Networks of pods.
    pub pods: NetworkRanges,
    /// DNS domain of Services.
    pub service_domain: Option<String>,
}

/// Networks, one or one of each family.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkRanges {
    /// Each as a CIDR.
    pub cidr_blocks: Vec<String>,
}

/// What is known about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// How far it has come.
    pub initialization: ClusterInitialization,
    /// `Available`, `InfrastructureReady`, `ControlPlaneAvailable` and what else Cluster API says.
    pub conditions: Vec<Condition>,
}

/// How far a cluster has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterInitialization {
    /// Whether its infrastructure is there.
    pub infrastructure_provisioned: Option<bool>,
    /// Whether its control plane answered once.
    pub control_plane_initialized: Option<bool>,
}

impl Cluster {
    /// Whether Butler paused it, because the tenant cluster that it was made for is paused.
    pub fn rests_with_its_tenant(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations.is_some_and(|found| found.contains_key(annotations::PAUSED))
    }

    /// How to go on with a Cluster that is paused, in words; `None` if it is not. Whoever set the field back by hand while the
    /// tenant cluster is paused would see it set again.
    pub fn how_to_go_on(&self) -> Option<String> {
        if self.spec.paused != Some(true) {
            return None;
        }
        let labels = self.metadata.labels.as_ref();
        let said = |key: &str| labels?.get(key);
        let tenant = said(labels::SOURCE_NAMESPACE).zip(said(labels::SOURCE_NAME));
        if let Some((namespace, name)) = tenant.filter(|_| self.rests_with_its_tenant()) {
            return Some(format!(
                "remove the annotation {} of the TenantCluster {namespace}/{name} to go on",
                annotations::PAUSED
            ));
        }
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let name = self.metadata.name.as_deref().unwrap_or_default();
        Some(format!(
            "set spec.paused of the Cluster {namespace}/{name} to false to go on"
        ))
    }
}

impl Resource for Cluster {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Cow::Borrowed("Cluster")
    }

    fn group((): &()) -> Cow<'_, str> {
        Cow::Borrowed(groups::CLUSTER_API)
    }

    fn version((): &()) -> Cow<'_, str> {
        Cow::Borrowed(groups::CLUSTER_API_VERSION)
    }

    fn plural((): &()) -> Cow<'_, str> {
        Cow::Borrowed("clusters")
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_is_found_where_cluster_api_serves_it() {
        assert_eq!(
            Cluster::url_path(&(), Some("payments")),
            "/apis/cluster.x-k8s.io/v1beta2/namespaces/payments/clusters"
        );
    }

    #[test]
    fn what_matters_is_read_and_the_rest_is_passed_over() {
        let cluster: Cluster = serde_json::from_value(json!({
            "metadata": { "name": "production", "namespace": "payments" },
            "spec": {
                "paused": true,
                "clusterNetwork": { "serviceDomain": "cluster.local", "pods": { "cidrBlocks": ["10.1.0.0/16"] } },
                "topology": { "version": "v1.36.3" },
                "controlPlaneEndpoint": { "host": "192.0.2.10", "port": 6443 },
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ButlerCluster", "name": "production",
                },
            },
            "status": { "phase": "Provisioned", "initialization": { "infrastructureProvisioned": true } },
        }))
        .expect("cluster");
        assert_eq!(cluster.spec.paused, Some(true));
        assert_eq!(cluster.spec.control_plane_ref, None);
        let network = &cluster.spec.cluster_network;
        assert_eq!(network.service_domain.as_deref(), Some("cluster.local"));
        assert_eq!(network.pods.cidr_blocks, ["10.1.0.0/16"]);
        let infrastructure = cluster.spec.infrastructure_ref.expect("reference");
        assert_eq!(infrastructure.kind, "ButlerCluster");
        let initialization = cluster.status.initialization;
        assert_eq!(initialization.infrastructure_provisioned, Some(true));
        assert_eq!(initialization.control_plane_initialized, None);
    }

    #[test]
    fn whoever_finds_a_cluster_paused_is_told_where_to_go_on() {
        let cluster = |paused: bool, annotations: serde_json::Value| -> Cluster {
            serde_json::from_value(json!({
                "metadata": {
                    "name": "shop", "namespace": "shop-0a1b2c3d", "annotations": annotations,
                    "labels": { labels::SOURCE_NAMESPACE: "payments", labels::SOURCE_NAME: "shop" },
                },
                "spec": { "paused": paused },
            }))
            .expect("cluster")
        };
        let by_butler = json!({ annotations::PAUSED: "true" });
        assert_eq!(
            cluster(true, by_butler.clone()).how_to_go_on().as_deref(),
            Some(
                "remove the annotation butler.butlerlabs.dev/paused of the TenantCluster payments/shop to go on"
            )
        );
        assert_eq!(
            cluster(true, json!({})).how_to_go_on().as_deref(),
            Some("set spec.paused of the Cluster shop-0a1b2c3d/shop to false to go on")
        );
        assert_eq!(cluster(false, by_butler).how_to_go_on(), None);
    }

    #[test]
    fn a_cluster_that_was_just_made_has_nothing() {
        let cluster: Cluster =
            serde_json::from_value(json!({ "metadata": { "name": "new" } })).expect("cluster");
        assert_eq!(cluster.spec, ClusterSpec::default());
        assert_eq!(cluster.status, ClusterStatus::default());
    }
}
