//! `StewardControlPlane` and `StewardControlPlaneTemplate`: a hosted control plane, as Cluster API sees it.
//!
//! A `StewardControlPlane` becomes a `TenantControlPlane`. What both spell alike comes from [`crate::steward`]; what only
//! this kind has is in [`settings`].

pub mod settings;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use settings::ControlPlaneSettings;

use super::contract::{ControlPlaneEndpoint, TemplateMetadata};
use crate::steward::deployment::default_replicas;
use crate::version::VERSION_PATTERN;

const SCHEMA: &str = "!has(oldSelf.dataStoreSchema) \
    || (has(self.dataStoreSchema) && self.dataStoreSchema == oldSelf.dataStoreSchema)";

const USERNAME: &str = "!has(oldSelf.dataStoreUsername) \
    || (has(self.dataStoreUsername) && self.dataStoreUsername == oldSelf.dataStoreUsername)";

const CLASS: &str = "self.network.serviceType != 'LoadBalancer' \
    || oldSelf.network.serviceType != 'LoadBalancer' \
    || ((has(self.network.loadBalancerConfig) \
    && has(self.network.loadBalancerConfig.loadBalancerClass)) \
    ? (has(oldSelf.network.loadBalancerConfig) \
    && has(oldSelf.network.loadBalancerConfig.loadBalancerClass) \
    && self.network.loadBalancerConfig.loadBalancerClass \
    == oldSelf.network.loadBalancerConfig.loadBalancerClass) \
    : !(has(oldSelf.network.loadBalancerConfig) \
    && has(oldSelf.network.loadBalancerConfig.loadBalancerClass)))";

const HOST: &str = "!has(self.deployment.externalClusterReference) == !has(oldSelf.deployment.externalClusterReference) \
    && (!has(self.deployment.externalClusterReference) \
    || self.deployment.externalClusterReference.deploymentNamespace \
    == oldSelf.deployment.externalClusterReference.deploymentNamespace)";

/// What the control plane of a cluster should be.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "StewardControlPlane",
    plural = "stewardcontrolplanes",
    shortname = "stcp",
    category = "cluster-api",
    category = "steward",
    namespaced,
    status = "StewardControlPlaneStatus",
    derive = "PartialEq",
    doc = "The hosted control plane of a Cluster API cluster. Steward runs it as a TenantControlPlane of the same name.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = r".metadata.labels['cluster\.x-k8s\.io/cluster-name']"
    ),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(
        name = "Initialized",
        type_ = "boolean",
        json_path = ".status.initialization.controlPlaneInitialized"
    ),
    printcolumn(name = "Ready", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(SCHEMA).message("dataStoreSchema cannot be changed or removed: the state is kept under it"),
    validation = Rule::new(USERNAME).message("dataStoreUsername cannot be changed or removed: the state belongs to it"),
    validation = Rule::new(CLASS).message("network.loadBalancerConfig.loadBalancerClass is fixed while the Service is a LoadBalancer: change serviceType first"),
    validation = Rule::new(HOST).message("deployment.externalClusterReference cannot be added or removed, nor its deploymentNamespace changed: a control plane cannot be moved")
)]
pub struct StewardControlPlaneSpec {
    /// Version of Kubernetes, such as `v1.35.2`. Raise it by at most one minor at a time.
    #[schemars(regex(pattern = VERSION_PATTERN))]
    pub version: String,
    /// How many copies of the control plane run. Zero puts it to sleep: its data and address stay.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// Where the API server is reached. Set by Steward once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ControlPlaneEndpoint>,
    /// Everything that a template can say too.
    #[serde(flatten)]
    pub settings: ControlPlaneSettings,
}

/// What is known about the control plane of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StewardControlPlaneStatus {
    /// How far the control plane has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<ControlPlaneInitialization>,
    /// Version of the control plane that runs; the lowest one during an upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Versions that run, with the number of replicas of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<VersionReplicas>,
    /// Label selector of the control plane's pods, as text; the scale subresource reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Replicas in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Replicas that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Replicas that have been ready for long enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Replicas as the spec wants them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to_date_replicas: Option<i32>,
    /// The control plane has no machines of its own; always true.
    #[serde(default = "always")]
    pub external_managed_control_plane: bool,
    /// For contract v1beta1: whether the API server has answered once. Stays true from then on.
    #[serde(default)]
    pub initialized: bool,
    /// For contract v1beta1: whether the API server answers now.
    #[serde(default)]
    pub ready: bool,
    /// For contract v1beta1: the same as `upToDateReplicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// For contract v1beta1: replicas that are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<i32>,
    /// For contract v1beta1: why the control plane can never become ready, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// For contract v1beta1: the same in a sentence, with what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// Generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Available`, `RollingOut`, `ScalingUp`, `ScalingDown` and `Paused` as the contract asks, and each step on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl Default for StewardControlPlaneStatus {
    fn default() -> Self {
        Self {
            initialization: None,
            version: None,
            versions: Vec::new(),
            selector: None,
            replicas: None,
            ready_replicas: None,
            available_replicas: None,
            up_to_date_replicas: None,
            external_managed_control_plane: always(),
            initialized: false,
            ready: false,
            updated_replicas: None,
            unavailable_replicas: None,
            failure_reason: None,
            failure_message: None,
            observed_generation: None,
            conditions: Vec::new(),
        }
    }
}

fn always() -> bool {
    true
}

/// Whether a control plane can be used, as Cluster API asks during the creation of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneInitialization {
    /// True once the API server has answered; it stays true from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_initialized: Option<bool>,
}

/// How many replicas run a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionReplicas {
    /// Version of Kubernetes.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
    /// Replicas that run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// Control planes made alike by a `ClusterClass`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "StewardControlPlaneTemplate",
    plural = "stewardcontrolplanetemplates",
    shortname = "stcpt",
    category = "cluster-api",
    category = "steward",
    namespaced,
    derive = "PartialEq",
    doc = "What a ClusterClass makes StewardControlPlanes from. Version and replicas come from the Cluster's topology.",
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct StewardControlPlaneTemplateSpec {
    /// The object to make.
    pub template: StewardControlPlaneTemplateResource,
}

/// A `StewardControlPlane` to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StewardControlPlaneTemplateResource {
    /// Labels and annotations of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Spec of the object, without what the topology sets.
    pub spec: ControlPlaneSettings,
}

#[cfg(test)]
mod tests;
