//! `ButlerCluster` and `ButlerClusterTemplate`: the infrastructure of a tenant cluster, as Cluster API sees it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::contract::{
    ControlPlaneEndpoint, FailureDomain, InfrastructureInitialization, TemplateMetadata,
};
use crate::reference::NamespacedReference;

/// On which infrastructure a cluster runs.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "ButlerCluster",
    plural = "butlerclusters",
    category = "cluster-api",
    namespaced,
    status = "ButlerClusterStatus",
    derive = "PartialEq",
    doc = "The infrastructure of a tenant cluster whose machines come from a Butler provider.",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = r".metadata.labels['cluster\.x-k8s\.io/cluster-name']"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".spec.controlPlaneEndpoint.host"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ButlerClusterSpec {
    /// The `ProviderConfig` of the infrastructure. Machines that name none of their own come from it.
    pub provider_ref: NamespacedReference,
    /// Where the API server is reached. Set by the control plane's controller once it is known; set it yourself for
    /// a control plane that has no such controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ControlPlaneEndpoint>,
}

/// What is known about the infrastructure of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ButlerClusterStatus {
    /// How far the infrastructure has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<InfrastructureInitialization>,
    /// The same in one word, for contract v1beta1.
    #[serde(default)]
    pub ready: bool,
    /// Places over which machines can be spread; none if the provider knows of no difference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    pub failure_domains: Vec<FailureDomain>,
    /// Generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready` sums up the infrastructure; `Paused` says whether anybody works on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Clusters made alike by a `ClusterClass`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "ButlerClusterTemplate",
    plural = "butlerclustertemplates",
    category = "cluster-api",
    namespaced,
    derive = "PartialEq",
    doc = "What a ClusterClass makes ButlerClusters from.",
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ButlerClusterTemplateSpec {
    /// The object to make.
    pub template: ButlerClusterTemplateResource,
}

/// A `ButlerCluster` to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ButlerClusterTemplateResource {
    /// Labels and annotations of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Spec of the object.
    pub spec: ButlerClusterSpec,
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::testing;

    const CLUSTER: &str = include_str!("../../../../examples/butler-cluster.yaml");
    const TEMPLATE: &str = include_str!("../../../../examples/butler-cluster-template.yaml");

    #[test]
    fn users_manifests_are_kept_as_written() {
        let cluster: ButlerCluster = testing::read(CLUSTER);
        let template: ButlerClusterTemplate = testing::read(TEMPLATE);
        assert_eq!(
            cluster.spec.provider_ref,
            template.spec.template.spec.provider_ref
        );
    }

    #[test]
    fn the_crd_says_what_cluster_api_and_kubectl_need() {
        assert_eq!(
            testing::crd_part::<ButlerCluster>("metadata/name"),
            "butlerclusters.infrastructure.cluster.x-k8s.io"
        );
        assert_eq!(
            testing::crd_part::<ButlerCluster>("spec/names/categories"),
            json!(["cluster-api"])
        );
        assert_eq!(
            testing::field::<ButlerCluster>("status.failureDomains")["x-kubernetes-list-map-keys"],
            json!(["name"])
        );
    }
}
