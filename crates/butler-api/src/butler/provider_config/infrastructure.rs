//! The settings each kind of infrastructure has of its own.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of Harvester.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HarvesterProvider {
    /// Address of Harvester's API; the one in the kubeconfig if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Namespace of Harvester that machines are made in.
    #[serde(default = "harvester_namespace")]
    pub namespace: String,
    /// Network of the machines, written `namespace/name`.
    #[schemars(regex(pattern = "^[a-z0-9-]+/[a-z0-9-]+$"))]
    pub network_name: String,
    /// Image of machines that name none, written `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_name: Option<String>,
    /// Storage class of the machines' disks; Harvester's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
}

fn harvester_namespace() -> String {
    "default".to_owned()
}

/// Settings of Nutanix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NutanixProvider {
    /// Address of Prism Central.
    #[schemars(regex(pattern = "^https?://"))]
    pub endpoint: String,
    /// Port of Prism Central.
    #[serde(default = "nutanix_port")]
    pub port: i32,
    /// Whether Prism Central's certificate is left unchecked.
    #[serde(default)]
    pub insecure: bool,
    /// UUID of the Nutanix cluster machines are made in.
    #[serde(rename = "clusterUUID")]
    pub cluster_uuid: String,
    /// UUID of the subnet machines are put in.
    #[serde(rename = "subnetUUID")]
    pub subnet_uuid: String,
    /// UUID of the image of machines that name none.
    #[serde(rename = "imageUUID", default, skip_serializing_if = "Option::is_none")]
    pub image_uuid: Option<String>,
    /// UUID of the storage container of the machines' disks; the cluster's default if absent.
    #[serde(
        rename = "storageContainerUUID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub storage_container_uuid: Option<String>,
}

fn nutanix_port() -> i32 {
    9440
}

/// Settings of Proxmox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxmoxProvider {
    /// Address of the Proxmox API.
    #[schemars(regex(pattern = "^https?://"))]
    pub endpoint: String,
    /// Whether the API's certificate is left unchecked.
    #[serde(default)]
    pub insecure: bool,
    /// Nodes that machines are spread over.
    #[schemars(length(min = 1))]
    pub nodes: Vec<String>,
    /// Storage of the machines' disks.
    pub storage: String,
    /// Identifier of the template that machines are cloned from, where they name none.
    #[serde(
        rename = "templateID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub template_id: Option<i32>,
    /// Identifiers that new machines may get; any free one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmid_range: Option<VmidRange>,
}

/// Identifiers from `start` to `end`, both included.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("self.start <= self.end").message("start must not come after end")
)]
#[serde(rename_all = "camelCase")]
pub struct VmidRange {
    /// Lowest identifier.
    #[schemars(range(min = 100))]
    pub start: i32,
    /// Highest identifier.
    #[schemars(range(min = 100))]
    pub end: i32,
}

/// Settings of Azure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AzureProvider {
    /// Subscription that is charged.
    #[serde(rename = "subscriptionID")]
    #[schemars(length(min = 1))]
    pub subscription_id: String,
    /// Resource group that everything is made in.
    #[schemars(length(min = 1))]
    pub resource_group: String,
    /// Region: `westeurope`; the resource group's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Virtual network of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnet_name: Option<String>,
    /// Subnet of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_name: Option<String>,
    /// Size of machines whose own size is not looked up by CPU and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm_size: Option<String>,
    /// Image of machines that name none, as `publisher:offer:sku:version`.
    #[serde(rename = "imageURN", default, skip_serializing_if = "Option::is_none")]
    pub image_urn: Option<String>,
}

/// Settings of AWS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AwsProvider {
    /// Region: `eu-central-1`.
    #[schemars(length(min = 1))]
    pub region: String,
    /// Virtual private cloud of the machines; the region's default if absent.
    #[serde(rename = "vpcID", default, skip_serializing_if = "Option::is_none")]
    pub vpc_id: Option<String>,
    /// Subnets that machines are spread over.
    #[serde(rename = "subnetIDs", default, skip_serializing_if = "Vec::is_empty")]
    pub subnet_ids: Vec<String>,
    /// Security groups of the machines.
    #[serde(
        rename = "securityGroupIDs",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub security_group_ids: Vec<String>,
}

/// Settings of Google Cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcpProvider {
    /// Project that is charged.
    #[serde(rename = "projectID")]
    #[schemars(length(min = 1))]
    pub project_id: String,
    /// Region: `europe-west3`.
    #[schemars(length(min = 1))]
    pub region: String,
    /// Zone; the region's zone `a` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Network of the machines; the project's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Subnetwork of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnetwork: Option<String>,
    /// Type of machines whose own type is not looked up by CPU and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<String>,
    /// Project the image family is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_project: Option<String>,
    /// Image family of machines that name no image; its newest image is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_family: Option<String>,
    /// Image of machines that name none; wins over the family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Service account that machines run as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// Network tags of the machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// Settings of the machine that Butler itself runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalProvider {
    /// Bridge that machines are attached to; it is made if it does not exist.
    #[serde(default = "local_bridge")]
    #[schemars(
        length(min = 1, max = 15),
        regex(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    )]
    pub bridge: String,
    /// Network on the bridge, in CIDR notation; the provider chooses a free one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::cidr")]
    pub cidr: Option<String>,
    /// Whether machines can reach what is outside this machine: `none`, or `nat` behind its address.
    #[serde(default)]
    pub egress: LocalEgress,
}

impl Default for LocalProvider {
    fn default() -> Self {
        Self {
            bridge: local_bridge(),
            cidr: None,
            egress: LocalEgress::default(),
        }
    }
}

fn local_bridge() -> String {
    crate::keys::names::DEFAULT_LOCAL_BRIDGE.to_owned()
}

/// Whether local machines can reach what is outside.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum LocalEgress {
    /// They cannot.
    #[default]
    None,
    /// They can, behind this machine's address.
    Nat,
}
