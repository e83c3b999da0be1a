//! What Butler reports about a tenant cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reference::{LocalReference, NamespacedReference};

/// What Butler last saw of a tenant cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantClusterStatus {
    /// Generation of the spec that this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One word for people, derived from the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<TenantClusterPhase>,
    /// The facts: access and quota, network, image, control plane, workers, addons, and `Ready` as their summary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// When `phase` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// `ProviderConfig` that the cluster runs on. It stays, also when another one becomes the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_config_ref: Option<NamespacedReference>,
    /// Namespace of the management cluster that holds the control plane and everything else made for this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_namespace: Option<String>,
    /// Host and port of the cluster's API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<String>,
    /// Secret in the tenant namespace with the administrator's kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret_ref: Option<LocalReference>,
    /// `ImageSync` that brings the workers' image to the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_sync_ref: Option<LocalReference>,
    /// Oldest `IPAllocation` of the cluster's machines, where their addresses come from pools. Each machine has one of its own;
    /// all of them have the labels `butler.butlerlabs.dev/source-namespace` and `source-name` of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_allocation_ref: Option<LocalReference>,
    /// First `IPAllocation` of the cluster's load balancer addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lb_allocation_ref: Option<LocalReference>,
    /// Workers that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_nodes_ready: Option<i32>,
    /// Workers that there should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_nodes_desired: Option<i32>,
    /// The workers by pool; those of `spec.workers` are the pool `workers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub node_pools: Vec<ObservedNodePool>,
    /// The versions of Kubernetes that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<ObservedVersions>,
    /// When each stage on the way to the first `Ready` began and ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub stages: Vec<Stage>,
    /// What was found in the cluster itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_state: Option<ObservedState>,
}

/// Where a tenant cluster is in its life. Derived from conditions; code reads those.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum TenantClusterPhase {
    /// Accepted, nothing made yet.
    Pending,
    /// Control plane and machines are being made.
    Provisioning,
    /// Addons are being installed.
    Installing,
    /// Usable.
    Ready,
    /// Usable while a change is carried out.
    Updating,
    /// Being taken down.
    Deleting,
    /// Stopped by something that a person must change.
    Failed,
}

/// The workers of a pool as found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedNodePool {
    /// Name of the pool.
    pub name: String,
    /// Workers that there should be.
    pub desired: i32,
    /// Workers that are ready.
    pub ready: i32,
    /// Workers that have the version and the machine template that are asked for.
    pub updated: i32,
    /// Version that the pool has, or is on the way to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The versions of Kubernetes that run. While a cluster is upgraded they differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedVersions {
    /// Version of the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<String>,
    /// Version of the oldest worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_worker: Option<String>,
    /// Version of the newest worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_worker: Option<String>,
}

/// When a stage on the way to `Ready` began and ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    /// Which stage.
    pub name: StageName,
    /// When everything was there that it needs.
    pub started_at: Time,
    /// When it was done; absent while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
}

/// The stages on the way to `Ready`, in the order in which they end.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum StageName {
    /// Limits, access, addresses and the image.
    Preparation,
    /// Network and endpoint.
    Infrastructure,
    /// The API server answers.
    ControlPlane,
    /// The nodes are ready.
    Workers,
    /// The addons are installed.
    Addons,
}

/// What was found in the cluster itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedState {
    /// Version that the API server reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// The workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<ObservedWorkers>,
    /// The addons, one entry each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addons: Vec<ObservedAddon>,
}

/// The workers as found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedWorkers {
    /// Workers that there should be.
    pub desired: i32,
    /// Workers that are ready.
    pub ready: i32,
    /// Names of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// An addon as found in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedAddon {
    /// Name in the catalogue, such as `cilium`.
    pub name: String,
    /// Version that is installed, or that is being installed.
    pub version: String,
    /// How it does.
    pub status: ObservedAddonStatus,
    /// Who installs and upgrades it.
    pub managed_by: AddonManager,
}

/// How an addon does.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum ObservedAddonStatus {
    /// Waiting for something it needs.
    Pending,
    /// Being installed or upgraded.
    Installing,
    /// Installed and its workloads are available.
    Healthy,
    /// Installed, and some of its workloads are not available.
    Degraded,
    /// Its installation failed.
    Failed,
}

/// Who installs and upgrades an addon.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum AddonManager {
    /// Butler.
    Butler,
    /// Flux, from Git.
    Flux,
    /// Argo CD, from Git.
    Argocd,
    /// A person.
    Manual,
}
