//! What Butler reports about a tenant cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reference::LocalReference;

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
    /// `IPAllocation` of the workers' addresses.
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
