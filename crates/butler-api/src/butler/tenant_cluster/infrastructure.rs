//! What one tenant cluster replaces of its `ProviderConfig`.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Replacements for values of the `ProviderConfig`, for the provider that the cluster runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "[has(self.gcp), has(self.harvester), has(self.nutanix), has(self.proxmox)].filter(given, given).size() <= 1"
).message("a cluster runs on one provider: give the override of that provider only"))]
pub struct InfrastructureOverride {
    /// For clusters on Google Cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcp: Option<GcpOverride>,
    /// For clusters on Harvester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harvester: Option<HarvesterOverride>,
    /// For clusters on Nutanix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nutanix: Option<NutanixOverride>,
    /// For clusters on Proxmox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxmox: Option<ProxmoxOverride>,
}

/// Replacements on Google Cloud. What is absent comes from the `ProviderConfig`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcpOverride {
    /// Machine type, such as `e2-standard-4`; it replaces the `cpu` and `memory` of the workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<String>,
    /// Image of the boot disk, by name or full path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Image family whose newest image is booted; read when `image` is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_family: Option<String>,
    /// Subnetwork of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnetwork: Option<String>,
    /// Zone of the machines, such as `europe-west3-a`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// Replacements on Harvester. What is absent comes from the `ProviderConfig`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HarvesterOverride {
    /// Harvester namespace that holds the virtual machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// VM network, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_name: Option<String>,
    /// Image of the root disk, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_name: Option<String>,
}

/// Replacements on Nutanix. What is absent comes from the `ProviderConfig`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NutanixOverride {
    /// Prism Element cluster that runs the machines, by its UUID.
    #[serde(
        default,
        rename = "clusterUUID",
        skip_serializing_if = "Option::is_none"
    )]
    pub cluster_uuid: Option<String>,
    /// Subnet of the machines, by its UUID.
    #[serde(
        default,
        rename = "subnetUUID",
        skip_serializing_if = "Option::is_none"
    )]
    pub subnet_uuid: Option<String>,
    /// Image of the root disk, by its UUID.
    #[serde(default, rename = "imageUUID", skip_serializing_if = "Option::is_none")]
    pub image_uuid: Option<String>,
    /// Storage container of the disks, by its UUID.
    #[serde(
        default,
        rename = "storageContainerUUID",
        skip_serializing_if = "Option::is_none"
    )]
    pub storage_container_uuid: Option<String>,
}

/// Replacements on Proxmox. What is absent comes from the `ProviderConfig`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxmoxOverride {
    /// Proxmox node that runs the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Storage of the disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<String>,
    /// Template that the machines are cloned from, by its number.
    #[serde(
        default,
        rename = "templateID",
        skip_serializing_if = "Option::is_none"
    )]
    pub template_id: Option<i64>,
}
