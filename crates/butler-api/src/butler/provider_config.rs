//! `ProviderConfig`: a place where machines can be made, and the way to get them there.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reference::{LocalReference, SecretReference};

/// The rule that a provider's own block is there when that provider is chosen.
fn block_rule(provider: &str) -> Rule {
    Rule::new(format!("self.provider != '{provider}' || has(self.{provider})"))
        .message(format!("{provider} is required when provider is {provider}").as_str())
}

/// Which infrastructure it is, who may use it and where addresses come from.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "ProviderConfig",
    plural = "providerconfigs",
    shortname = "pc",
    namespaced,
    status = "ProviderConfigStatus",
    derive = "PartialEq",
    doc = "Infrastructure that clusters can be made on, with its credentials, network and limits.",
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.provider"),
    printcolumn(name = "Scope", type_ = "string", json_path = ".spec.scope.type"),
    printcolumn(name = "Ready", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "Validated", type_ = "boolean", json_path = ".status.validated"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("self.provider == 'local' || has(self.credentialsRef)")
        .message("credentialsRef is required unless provider is local"),
    validation = block_rule("harvester"),
    validation = block_rule("nutanix"),
    validation = block_rule("proxmox"),
    validation = block_rule("azure"),
    validation = block_rule("aws"),
    validation = block_rule("gcp"),
    validation = Rule::new(
        "!has(self.network) || self.network.mode != 'ipam' || !(self.provider in ['azure', 'aws', 'gcp'])"
    )
    .message("network.mode ipam is not possible with azure, aws and gcp: they give out addresses themselves; use cloud")
)]
#[serde(rename_all = "camelCase")]
pub struct ProviderConfigSpec {
    /// Which infrastructure it is. Its own settings are in the field of the same name.
    pub provider: Provider,
    /// Secret with the credentials; not needed for `local`. Keys by provider: harvester `kubeconfig`; nutanix and
    /// proxmox `username`, `password`; azure `clientID`, `clientSecret`, `tenantID`; aws `accessKeyID`,
    /// `secretAccessKey`; gcp `serviceAccountKey`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<SecretReference>,
    /// Settings of Harvester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harvester: Option<HarvesterProvider>,
    /// Settings of Nutanix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nutanix: Option<NutanixProvider>,
    /// Settings of Proxmox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxmox: Option<ProxmoxProvider>,
    /// Settings of Azure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure: Option<AzureProvider>,
    /// Settings of AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsProvider>,
    /// Settings of Google Cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcp: Option<GcpProvider>,
    /// Settings of the machine that Butler itself runs on. All have defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<LocalProvider>,
    /// Where addresses come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<ProviderNetwork>,
    /// Who may use it; every team if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ProviderScope>,
    /// How much of it a team may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ProviderLimits>,
}

/// Kinds of infrastructure.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Harvester.
    Harvester,
    /// Nutanix.
    Nutanix,
    /// Proxmox.
    Proxmox,
    /// Azure.
    Azure,
    /// AWS.
    Aws,
    /// Google Cloud.
    Gcp,
    /// The machine that Butler itself runs on.
    Local,
}

impl Provider {
    /// The name as manifests spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Harvester => "harvester",
            Self::Nutanix => "nutanix",
            Self::Proxmox => "proxmox",
            Self::Azure => "azure",
            Self::Aws => "aws",
            Self::Gcp => "gcp",
            Self::Local => "local",
        }
    }

    /// Keys that the credentials Secret must have; none for a provider that needs no credentials.
    pub const fn credential_keys(self) -> &'static [&'static str] {
        match self {
            Self::Harvester => &["kubeconfig"],
            Self::Nutanix | Self::Proxmox => &["username", "password"],
            Self::Azure => &["clientID", "clientSecret", "tenantID"],
            Self::Aws => &["accessKeyID", "secretAccessKey"],
            Self::Gcp => &["serviceAccountKey"],
            Self::Local => &[],
        }
    }
}

/// Settings of Harvester.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    #[serde(rename = "storageContainerUUID", default, skip_serializing_if = "Option::is_none")]
    pub storage_container_uuid: Option<String>,
}

fn nutanix_port() -> i32 {
    9440
}

/// Settings of Proxmox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    #[serde(rename = "templateID", default, skip_serializing_if = "Option::is_none")]
    pub template_id: Option<i32>,
    /// Identifiers that new machines may get; any free one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmid_range: Option<VmidRange>,
}

/// Identifiers from `start` to `end`, both included.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    #[serde(rename = "securityGroupIDs", default, skip_serializing_if = "Vec::is_empty")]
    pub security_group_ids: Vec<String>,
}

/// Settings of Google Cloud.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalProvider {
    /// Bridge that machines are attached to; it is made if it does not exist.
    #[serde(default = "local_bridge")]
    #[schemars(length(min = 1, max = 15), regex(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]*$"))]
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
        Self { bridge: local_bridge(), cidr: None, egress: LocalEgress::default() }
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
pub enum LocalEgress {
    /// They cannot.
    #[default]
    None,
    /// They can, behind this machine's address.
    Nat,
}

/// Where addresses come from.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("self.mode != 'ipam' || (has(self.poolRefs) && self.poolRefs.size() > 0)")
        .message("poolRefs must name at least one NetworkPool when mode is ipam")
)]
#[serde(rename_all = "camelCase")]
pub struct ProviderNetwork {
    /// `ipam`: Butler gives addresses out of pools. `cloud`: the infrastructure does.
    #[serde(default)]
    pub mode: NetworkMode,
    /// Network of the machines, in CIDR notation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// Gateway of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::address")]
    pub gateway: Option<String>,
    /// DNS servers of the machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::addresses")]
    pub dns_servers: Vec<String>,
    /// Time servers of the machines; the platform's if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub time_servers: Vec<String>,
    /// Pools that addresses come from, for `ipam`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub pool_refs: Vec<PoolReference>,
    /// How load balancers get their addresses, for `ipam`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerNetwork>,
    /// How many addresses a cluster may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_per_tenant: Option<AddressQuota>,
}

/// Who gives out addresses.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// Butler, out of pools.
    Ipam,
    /// The infrastructure.
    #[default]
    Cloud,
}

/// Names a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolReference {
    /// Name of the `NetworkPool`, in the namespace of the provider configuration.
    pub name: String,
    /// Pools with a higher priority are asked first; those of equal priority in the order written.
    #[serde(default)]
    pub priority: i32,
}

/// How load balancers get their addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerNetwork {
    /// `static`: a cluster gets `defaultPoolSize` addresses once. `elastic`: it gets a few, and more by need.
    #[serde(default)]
    pub allocation_mode: AllocationMode,
    /// Addresses of a cluster under `static`.
    #[serde(default = "default_pool_size")]
    #[schemars(range(min = 1))]
    pub default_pool_size: i32,
    /// Addresses a cluster starts with under `elastic`.
    #[serde(default = "small_pool_size")]
    #[schemars(range(min = 1))]
    pub initial_pool_size: i32,
    /// Addresses added at least each time under `elastic`.
    #[serde(default = "small_pool_size")]
    #[schemars(range(min = 1))]
    pub growth_increment: i32,
}

fn default_pool_size() -> i32 {
    8
}

fn small_pool_size() -> i32 {
    2
}

/// When a cluster's load balancers get their addresses.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum AllocationMode {
    /// Once, a fixed number.
    #[default]
    Static,
    /// By need; what is unused is given back.
    Elastic,
}

/// How many addresses a cluster may have. What is absent is not limited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddressQuota {
    /// Addresses for machines.
    #[serde(rename = "maxNodeIPs", default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_node_ips: Option<i32>,
    /// Addresses for load balancers.
    #[serde(rename = "maxLoadBalancerIPs", default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_load_balancer_ips: Option<i32>,
}

/// Who may use the infrastructure.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("self.type != 'team' || has(self.teamRef)")
        .message("teamRef is required when type is team")
)]
#[serde(rename_all = "camelCase")]
pub struct ProviderScope {
    /// `platform`: every team. `team`: the team in `teamRef` alone.
    #[serde(rename = "type", default)]
    pub kind: ScopeType,
    /// The team, for `team`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_ref: Option<LocalReference>,
}

/// Who may use the infrastructure.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ScopeType {
    /// Every team.
    #[default]
    Platform,
    /// One team.
    Team,
}

/// How much of the infrastructure a team may take. What is absent is not limited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderLimits {
    /// Clusters a team may have here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_clusters_per_team: Option<i32>,
    /// Workers a team may have here, over all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_nodes_per_team: Option<i32>,
}

/// What Butler reports about the infrastructure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderConfigStatus {
    /// `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether clusters can be made here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Whether the credentials are complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validated: Option<bool>,
    /// When the credentials were last checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_validation_time: Option<Time>,
    /// When the infrastructure last answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// Version the infrastructure reports of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_version: Option<String>,
    /// How much room there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ProviderCapacity>,
    /// CredentialsValid, PoolAvailable, Ready and what the engine reports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// How much room there is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderCapacity {
    /// Free addresses of all pools together.
    #[serde(rename = "availableIPs", default, skip_serializing_if = "Option::is_none")]
    pub available_ips: Option<i32>,
    /// How many more clusters of the usual size these addresses are enough for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_tenants: Option<i32>,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;
    use crate::butler::testing::{columns, round_trips};

    #[test]
    fn infrastructure_is_read_and_written_unchanged() {
        for manifest in [
            include_str!("../../../../examples/provider-config.yaml"),
            include_str!("../../../../examples/provider-config-nutanix.yaml"),
            include_str!("../../../../examples/provider-config-proxmox.yaml"),
        ] {
            round_trips::<ProviderConfig>(manifest);
        }
    }

    #[test]
    fn this_machine_needs_no_settings_and_no_credentials() {
        let spec: ProviderConfigSpec =
            serde_json::from_value(serde_json::json!({ "provider": "local", "local": {} })).expect("spec");
        assert_eq!(spec.local, Some(LocalProvider::default()));
        assert!(Provider::Local.credential_keys().is_empty());
    }

    #[test]
    fn providers_are_spelled_as_manifests_spell_them() {
        for provider in [
            Provider::Harvester,
            Provider::Nutanix,
            Provider::Proxmox,
            Provider::Azure,
            Provider::Aws,
            Provider::Gcp,
            Provider::Local,
        ] {
            assert_eq!(serde_json::to_value(provider).expect("text"), provider.as_str());
        }
    }

    #[test]
    fn the_crd_has_the_names_people_type() {
        let crd = ProviderConfig::crd();
        assert_eq!(crd.spec.names.short_names, Some(vec!["pc".to_owned()]));
        assert_eq!(columns(&crd), ["Provider", "Scope", "Ready", "Validated", "Age"]);
    }
}
