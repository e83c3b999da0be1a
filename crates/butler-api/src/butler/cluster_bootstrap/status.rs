//! How far a management cluster has come.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::butler::machine_request::{MachinePhase, MachineRole, SensitiveText};
use crate::reference::SecretReference;

/// How far the cluster has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterBootstrapStatus {
    /// How far the cluster has come, for people. Programs read the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ClusterBootstrapPhase>,
    /// Where the API server is reached, such as `https://10.40.0.200:6443`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<String>,
    /// The administrator's kubeconfig in base64, for programs that look for it here. Whoever can read this status can
    /// administer the cluster; prefer `kubeconfigSecretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<SensitiveText>,
    /// Secret that holds the administrator's kubeconfig; the key is `value` if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret_ref: Option<SecretReference>,
    /// The administrator's talosconfig in base64, for programs that look for it here; prefer `talosconfigSecretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub talosconfig: Option<SensitiveText>,
    /// Secret that holds the administrator's talosconfig; the key is `talosconfig` if none is given. Absent for `local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub talosconfig_secret_ref: Option<SecretReference>,
    /// Where the console is reached, or the command that opens a way to it.
    #[serde(
        default,
        rename = "consoleURL",
        skip_serializing_if = "Option::is_none"
    )]
    pub console_url: Option<String>,
    /// The machines of the cluster, control plane first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<BootstrapMachine>,
    /// For each addon, whether it is installed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub addons_installed: BTreeMap<String, bool>,
    /// Why the bootstrap failed, as one word for programs. Empty while nothing failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Why the bootstrap failed and what to do about it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// What is known about the cluster, one entry for each aspect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// When this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// The `metadata.generation` of the request that this status answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// One machine of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapMachine {
    /// Name of the machine and of its `MachineRequest`.
    pub name: String,
    /// What the machine is for.
    pub role: MachineRole,
    /// Where the machine is in its life, as its `MachineRequest` says.
    pub phase: MachinePhase,
    /// Address of the machine, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
    /// Whether the machine has received its Talos configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub talos_configured: Option<bool>,
    /// Whether the machine's Kubernetes node is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
}

/// How far a management cluster has come.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum ClusterBootstrapPhase {
    /// Asked for; nothing has begun.
    Pending,
    /// The provider is making the machines.
    ProvisioningMachines,
    /// The machines are given their operating system's configuration.
    ConfiguringTalos,
    /// The first control plane node starts Kubernetes.
    BootstrappingCluster,
    /// The addons are being installed.
    InstallingAddons,
    /// Butler's own objects are being handed to the new cluster.
    Pivoting,
    /// The cluster runs by itself; the temporary control plane is still there.
    Ready,
    /// The cluster runs by itself and nothing is left to be done.
    Complete,
    /// The bootstrap cannot go on.
    Failed,
}
