//! Provider settings written into a `ClusterBootstrap` itself.
//!
//! The fields of each section are those of the same section of a `ProviderConfig`, with the credentials beside them.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reference::SecretReference;

/// Settings of one provider: exactly one section is given, the one that `spec.provider` names.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.harvester), has(self.nutanix), has(self.proxmox), has(self.aws), has(self.azure), has(self.gcp)].filter(given, given).size() == 1")
        .message("providerConfig needs exactly one of harvester, nutanix, proxmox, aws, azure and gcp")
)]
pub struct InlineProviderConfig {
    /// Settings for Harvester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harvester: Option<InlineHarvester>,
    /// Settings for Nutanix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nutanix: Option<InlineNutanix>,
    /// Settings for Proxmox VE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxmox: Option<InlineProxmox>,
    /// Settings for Amazon Web Services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws: Option<InlineAws>,
    /// Settings for Microsoft Azure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure: Option<InlineAzure>,
    /// Settings for Google Cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcp: Option<InlineGcp>,
}

/// Settings for Harvester.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InlineHarvester {
    /// Secret with a kubeconfig of the Harvester cluster; the key is `kubeconfig` if none is given.
    pub credentials_ref: SecretReference,
    /// Address of the Harvester API. The one in the kubeconfig if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Namespace on the Harvester cluster that holds the virtual machines.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Network of the virtual machines, as `namespace/name`.
    #[schemars(length(max = 253), regex(pattern = "^[a-z0-9-]+/[a-z0-9-]+$"))]
    pub network_name: String,
    /// Image of the virtual machines, as `namespace/name`. An image is brought from the image factory if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_name: Option<String>,
    /// Storage class of the root disks. The one that belongs to the image if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
}

fn default_namespace() -> String {
    "default".to_owned()
}

/// Settings for Nutanix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InlineNutanix {
    /// Secret with the keys `username` and `password` of Prism Central.
    pub credentials_ref: SecretReference,
    /// Address of Prism Central, such as `https://prism.example.org`.
    #[schemars(length(max = 2048), regex(pattern = "^https?://"))]
    pub endpoint: String,
    /// Port of Prism Central.
    #[serde(default = "prism_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Whether a certificate that cannot be verified is accepted.
    #[serde(default)]
    pub insecure: bool,
    /// UUID of the Nutanix cluster that runs the machines.
    #[serde(rename = "clusterUUID")]
    pub cluster_uuid: String,
    /// UUID of the subnet the machines are attached to.
    #[serde(rename = "subnetUUID")]
    pub subnet_uuid: String,
    /// UUID of the image the machines boot. An image is brought from the image factory if absent.
    #[serde(default, rename = "imageUUID", skip_serializing_if = "Option::is_none")]
    pub image_uuid: Option<String>,
    /// UUID of the container that holds the disks. The container of the image if absent.
    #[serde(
        default,
        rename = "storageContainerUUID",
        skip_serializing_if = "Option::is_none"
    )]
    pub storage_container_uuid: Option<String>,
}

const fn prism_port() -> i32 {
    9440
}

/// Settings for Proxmox VE.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InlineProxmox {
    /// Secret with the keys `token` and `tokenSecret`, or `username` and `password`.
    pub credentials_ref: SecretReference,
    /// Address of the API, such as `https://pve.example.org:8006`.
    #[schemars(length(max = 2048), regex(pattern = "^https?://"))]
    pub endpoint: String,
    /// Whether a certificate that cannot be verified is accepted.
    #[serde(default)]
    pub insecure: bool,
    /// Nodes that machines are spread over; at least one.
    #[schemars(length(min = 1))]
    pub nodes: Vec<String>,
    /// Storage that holds the disks.
    pub storage: String,
    /// Number of the template that machines are cloned from. An image is brought from the image factory if absent.
    #[serde(
        default,
        rename = "templateID",
        skip_serializing_if = "Option::is_none"
    )]
    pub template_id: Option<i32>,
    /// Numbers that machines may get. The next free number of the cluster if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmid_range: Option<MachineIdRange>,
}

/// Numbers that Proxmox machines may get, both ends included.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.start <= self.end").message("vmidRange: start must not be above end"))]
pub struct MachineIdRange {
    /// First number, at least 100.
    #[schemars(range(min = 100))]
    pub start: i32,
    /// Last number.
    #[schemars(range(min = 100))]
    pub end: i32,
}

/// Settings for Amazon Web Services.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InlineAws {
    /// Secret with the keys `accessKeyID` and `secretAccessKey`.
    pub credentials_ref: SecretReference,
    /// Region, such as `eu-central-1`.
    #[schemars(length(min = 1))]
    pub region: String,
    /// The VPC of the machines. The one of the first subnet if absent.
    #[serde(default, rename = "vpcID", skip_serializing_if = "Option::is_none")]
    pub vpc_id: Option<String>,
    /// Subnets that machines and load balancers are attached to. The default subnets of the region if empty.
    #[serde(default, rename = "subnetIDs", skip_serializing_if = "Vec::is_empty")]
    pub subnet_ids: Vec<String>,
    /// Security groups of the machines. The default group of the VPC if empty.
    #[serde(
        default,
        rename = "securityGroupIDs",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub security_group_ids: Vec<String>,
}

/// Settings for Microsoft Azure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InlineAzure {
    /// Secret with the keys `clientID`, `clientSecret` and `tenantID`.
    pub credentials_ref: SecretReference,
    /// Subscription that is billed.
    #[serde(rename = "subscriptionID")]
    #[schemars(length(min = 1))]
    pub subscription_id: String,
    /// Resource group that holds everything Butler makes.
    #[schemars(length(min = 1))]
    pub resource_group: String,
    /// Region, such as `westeurope`. The one of the resource group if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Virtual network of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnet_name: Option<String>,
    /// Subnet of the machines within the virtual network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_name: Option<String>,
    /// Size of the machines, such as `Standard_D4s_v5`. One that fits the asked processors and memory if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm_size: Option<String>,
    /// Image of the machines: `publisher:offer:sku:version`, or the ID of a managed image or gallery version.
    #[serde(default, rename = "imageURN", skip_serializing_if = "Option::is_none")]
    pub image_urn: Option<String>,
}

/// Settings for Google Cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InlineGcp {
    /// Secret with the key `serviceAccountKey`.
    pub credentials_ref: SecretReference,
    /// Project that is billed.
    #[serde(rename = "projectID")]
    #[schemars(length(min = 1))]
    pub project_id: String,
    /// Region, such as `europe-west3`.
    #[schemars(length(min = 1))]
    pub region: String,
    /// Zone of the machines. Zone `a` of the region if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Network of the machines. The project's network `default` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Subnetwork of the machines. The one of the region if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnetwork: Option<String>,
    /// Machine type, such as `n2-standard-4`. One that fits the asked processors and memory if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<String>,
    /// Project that holds the image. The billed project if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_project: Option<String>,
    /// Family whose newest image is used. Not used if `image` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_family: Option<String>,
    /// Image of the machines. An image is brought from the image factory if neither image nor family is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Service account the machines act as. None if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// Network tags of the machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}
