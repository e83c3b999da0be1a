//! The machines of a tenant cluster: how many, how large, which operating system.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::node_pools::NodeTaint;
use crate::Quantity;
use crate::schema::at_least_rule;

/// The workers of a tenant cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantClusterWorkers {
    /// Number of workers. Zero is allowed: the control plane then runs without nodes, and addons wait for the first one.
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// Size and operating system of each worker. Changing it replaces the workers one after another. What is absent
    /// comes from the environment's or the team's cluster defaults, then from the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_template: Option<MachineTemplate>,
    /// Labels of the nodes. Changing them replaces the workers one after another.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub labels: BTreeMap<String, String>,
    /// Taints that the nodes join with. Changing them replaces the workers one after another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub taints: Vec<NodeTaint>,
}

/// Size and operating system of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(has(self.memory) && has(self.memoryMB))")
    .message("give memory or memoryMB, not both"))]
#[x_kube(validation = Rule::new("!(has(self.diskSize) && has(self.diskGB))")
    .message("give diskSize or diskGB, not both"))]
pub struct MachineTemplate {
    /// Number of virtual CPUs. If absent, the team's default, else 4; on machines of the provider local 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub cpu: Option<i32>,
    /// Memory, with its unit: `16Gi`. A number without a unit is bytes. If absent, the team's default, else 16Gi;
    /// on machines of the provider local, which share one host, 2Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = at_least_rule("memory", "256Mi", "16Gi"))]
    pub memory: Option<Quantity>,
    /// Memory in MiB, as `MachineRequest` spells it; instead of `memory`.
    #[serde(default, rename = "memoryMB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 256))]
    pub memory_mb: Option<i32>,
    /// Size of the root disk, with its unit: `100Gi`. A number without a unit is bytes. If absent, the team's default,
    /// else 100Gi; on machines of the provider local 10Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = at_least_rule("diskSize", "1Gi", "100Gi"))]
    pub disk_size: Option<Quantity>,
    /// Size of the root disk in GiB, as `MachineRequest` spells it; instead of `diskSize`.
    #[serde(default, rename = "diskGB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub disk_gb: Option<i32>,
    /// Operating system of the workers. If absent, the provider's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<OperatingSystem>,
}

/// Operating system of the workers and the image it boots from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatingSystem {
    /// Distribution. If absent, the provider's usual one: Rocky Linux on hypervisors; the local provider has none to
    /// choose, as its machines share the host's system.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub os_type: Option<OperatingSystemType>,
    /// Version of the distribution, such as `9.5` for Rocky Linux. If absent, that of `workers` where they run the same
    /// distribution, else the newest that the platform knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Image to boot, in the provider's own naming. If absent, the image of the `ProviderConfig`, or the one that
    /// `schematicID` brings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_ref: Option<String>,
    /// Schematic of the image factory. When set, or when `ButlerConfig` has a default one, the image is fetched into the
    /// provider before the first of these machines is made. If absent, that of `workers` where they run the same distribution.
    #[serde(
        default,
        rename = "schematicID",
        skip_serializing_if = "Option::is_none"
    )]
    pub schematic_id: Option<String>,
    /// Public SSH key that may log in to the workers. If absent, the one of `ButlerConfig`, if any. Has no use on Talos,
    /// which has no login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_authorized_key: Option<String>,
    /// Settings that only Talos knows; read when `type` is `talos`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub talos: Option<TalosOptions>,
}

/// Distribution of the workers.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum OperatingSystemType {
    /// Rocky Linux, prepared for kubeadm at first boot.
    Rocky,
    /// Flatcar Container Linux.
    Flatcar,
    /// Talos Linux, configured through its API.
    Talos,
    /// Kairos.
    Kairos,
    /// Bottlerocket.
    Bottlerocket,
}

/// Settings of Talos workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TalosOptions {
    /// Talos version, such as `v1.9.3`. If absent, the `version` of the operating system, else the newest that supports
    /// the cluster's Kubernetes version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Disk that Talos installs itself on. If absent, the first disk of the provider's machines: `/dev/vda` on Harvester,
    /// `/dev/sda` elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_disk: Option<String>,
    /// Installer image, with its tag. If absent, the official one of the version, or the image factory's when a schematic
    /// is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installer_image: Option<String>,
}
