//! `TenantCluster`: a Kubernetes cluster that a team asks for.
//!
//! Owns the wire form of the request and of what is reported back. Two spellings of one wish (`memory` and `memoryMB`,
//! `flux` and `fluxcd`) are both kept here as written; [`crate::normalize::tenant_cluster`] gives the one reading.
//! Defaults that depend on the infrastructure provider or on the team are deliberately absent from the schema: a
//! schema default is filled in before anyone can tell which provider or team is meant.
//!
//! Enums have an empty schema description, here and in the other kinds: kube would put it in the place of what the
//! optional field says about itself.

mod addons;
mod control_plane;
mod infrastructure;
mod machine_health;
mod networking;
mod node_pools;
mod status;
mod workers;
mod workspaces;

#[cfg(test)]
mod tests;

pub use addons::{
    CertManagerAddon, CniAddon, CniProvider, GitOpsAddon, GitOpsProvider, GitOpsRepository,
    IngressAddon, IngressProvider, LoadBalancerAddon, LoadBalancerProvider, StorageAddon,
    StorageProvider, TenantClusterAddons,
};
pub use control_plane::{ControlPlaneMode, ControlPlaneServiceType, TenantClusterControlPlane};
pub use infrastructure::{
    GcpOverride, HarvesterOverride, InfrastructureOverride, NutanixOverride, ProxmoxOverride,
};
pub use machine_health::{DEFAULT_NODE_STARTUP_TIMEOUT, DEFAULT_UNHEALTHY_TIMEOUT, MachineHealth};
pub use networking::{
    DEFAULT_POD_CIDR, DEFAULT_SERVICE_CIDR, LoadBalancerPool, TenantClusterNetworking,
};
pub use node_pools::{
    NodePool, NodeTaint, POOL_NAME_LENGTH, RESERVED_POOLS, TaintEffect, WORKERS_POOL,
};
pub use status::{
    AddonManager, ObservedAddon, ObservedAddonStatus, ObservedNodePool, ObservedState,
    ObservedVersions, ObservedWorkers, Stage, StageName, TenantClusterPhase, TenantClusterStatus,
};
pub use workers::{
    MachineTemplate, OperatingSystem, OperatingSystemType, TalosOptions, TenantClusterWorkers,
};
pub use workspaces::{TenantClusterWorkspaces, WorkspaceQuota};

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reference::{LocalReference, NamespacedReference};
use crate::version::VERSION_PATTERN;

/// What a team asks for: a Kubernetes cluster of a version, a size and a set of addons.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "TenantCluster",
    plural = "tenantclusters",
    shortname = "tc",
    namespaced,
    status = "TenantClusterStatus",
    derive = "PartialEq",
    doc = "A Kubernetes cluster that Butler creates, runs and keeps for a team.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "K8s Version",
        type_ = "string",
        json_path = ".spec.kubernetesVersion"
    ),
    printcolumn(
        name = "Workers",
        type_ = "integer",
        json_path = ".status.observedState.workers.ready"
    ),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".status.controlPlaneEndpoint"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = networking::unchangeable("podCIDR", DEFAULT_POD_CIDR))]
#[x_kube(validation = networking::unchangeable("serviceCIDR", DEFAULT_SERVICE_CIDR))]
#[x_kube(validation = control_plane::unchangeable_mode())]
pub struct TenantClusterSpec {
    /// Kubernetes version of the control plane and the workers, such as `v1.35.2`; the leading `v` may be left out.
    /// Changing it upgrades the control plane first and then rolls the workers.
    #[schemars(regex(pattern = VERSION_PATTERN), length(max = 32))]
    pub kubernetes_version: String,
    /// `ProviderConfig` whose infrastructure runs the workers. If its namespace is absent, `butler-system` is meant.
    /// If the whole reference is absent, the provider of the team is used, else the one that `ButlerConfig` names as default, else
    /// the `ProviderConfig` called `default` in `butler-system`, else the first by name in there that the cluster may use. The
    /// condition `ProviderAccessGranted` says which one was taken, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_config_ref: Option<NamespacedReference>,
    /// Team the cluster belongs to. Required where multi-tenancy is enforced; the cluster must then be in the team's
    /// namespace. Its members get access and its limits apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_ref: Option<LocalReference>,
    /// The control plane. If absent, one hosted replica with the platform's default resources is run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<TenantClusterControlPlane>,
    /// The machines that run the workloads.
    pub workers: TenantClusterWorkers,
    /// Further groups of workers, at most ten, each with its own size, machine template, labels and taints. If absent, there
    /// are only those of `workers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub node_pools: Vec<NodePool>,
    /// Whether and when machines are replaced that no longer work. If absent, a machine is replaced that is no node after 20
    /// minutes, or whose node is not ready for 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_health: Option<MachineHealth>,
    /// Address ranges of the cluster. If absent, pods are in 10.244.0.0/16, Services in 10.96.0.0/12, and addresses for
    /// load balancers come from the provider's pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networking: Option<TenantClusterNetworking>,
    /// Addons that make the cluster usable. What is not mentioned is decided by the platform: each provider has a set
    /// that suits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addons: Option<TenantClusterAddons>,
    /// Values of the `ProviderConfig` that this cluster replaces for its own machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_override: Option<InfrastructureOverride>,
    /// Who changes the cluster after creation. If absent, Butler keeps it as this object says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub management_policy: Option<ManagementPolicy>,
    /// NTP servers of the workers, by name or address. If absent, those of the `ProviderConfig` are used, then those of
    /// `ButlerConfig`, then `pool.ntp.org`. Machines of the provider local have the time of their host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 253)))]
    pub time_servers: Vec<String>,
    /// Developer workspaces on this cluster. If absent, none may be created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<TenantClusterWorkspaces>,
}

/// Who may change the cluster once it exists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagementPolicy {
    /// How far Butler goes: `Active` keeps the cluster as declared, `Observe` only reports, `GitOps` leaves the addons to
    /// the Git repository of `addons.gitops`. Default `Active`.
    #[serde(default)]
    pub mode: ManagementMode,
}

/// How far Butler goes in keeping a cluster as declared.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum ManagementMode {
    /// Butler makes the cluster match this object and repairs what drifts.
    #[default]
    Active,
    /// Butler reports the state and changes nothing.
    Observe,
    /// Butler keeps control plane and workers; addons are changed through Git only.
    GitOps,
}
