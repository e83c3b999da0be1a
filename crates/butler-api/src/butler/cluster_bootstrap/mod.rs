//! `ClusterBootstrap`: how a management cluster comes to be.
//!
//! Owns the wire form of the request, in both of its accepted spellings, and of its progress. What the spellings mean,
//! and which defaults a provider brings, is decided by [`crate::normalize::cluster_bootstrap`]; no reader should look
//! at the spellings itself.
//!
//! | module | holds |
//! |---|---|
//! | `cluster` | the machines: control plane and workers |
//! | `network` | addresses, and the rules for writing them |
//! | `addons` | what is installed on the new cluster |
//! | `inline_provider` | provider settings written into the request itself |
//! | `status` | progress |

mod addons;
mod cluster;
mod inline_provider;
mod network;
mod status;
#[cfg(test)]
mod tests;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::butler::control_plane_exposure::ControlPlaneExposure;
use crate::reference::NamespacedReference;

pub use addons::{
    BootstrapAddons, ButlerControllerAddon, CapiAddon, CertManagerAddon, CniAddon, CniType,
    ConsoleAddon, ConsoleIngress, ControlPlaneHaAddon, ControlPlaneHaType,
    ControlPlaneProviderAddon, ControlPlaneProviderType, GitOpsAddon, GitOpsSettings, GitOpsType,
    InfrastructureProvider, IngressAddon, IngressType, LoadBalancerAddon, LoadBalancerType,
    PlatformSettings, StorageAddon, StorageType,
};
pub use cluster::{BootstrapCluster, MachineTemplate, NodePool, Topology};
pub use inline_provider::{Inline, InlineProviderConfig};
pub use network::{BootstrapNetwork, LoadBalancerPool};
pub use status::{BootstrapMachine, ClusterBootstrapPhase, ClusterBootstrapStatus};

/// Versions of Kubernetes and Talos are written `v1.31.0`.
pub(crate) const VERSION_PATTERN: &str = r"^v[0-9]+\.[0-9]+\.[0-9]+$";

/// Asks for a management cluster.
///
/// Two spellings are accepted. `network` may be written `networking`; the provider's settings may be a `ProviderConfig`
/// named by `providerRef` or be written into `providerConfig`; addons may be chosen in detail under `addons` or in
/// short under `platform` and `gitops`.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "ClusterBootstrap",
    plural = "clusterbootstraps",
    shortname = "cb",
    namespaced,
    status = "ClusterBootstrapStatus",
    derive = "PartialEq",
    doc = "Asks for a management cluster and shows how far it has come.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.cluster.name"),
    printcolumn(
        name = "Topology",
        type_ = "string",
        json_path = ".spec.cluster.topology"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
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
#[x_kube(
    validation = Rule::new("has(self.network) != has(self.networking)")
        .message("give the networks either as network or as networking, not both and not neither"),
    validation = Rule::new("!has(self.providerRef) || !has(self.providerConfig)")
        .message("give the provider's settings either as providerRef or as providerConfig, not both"),
    validation = Rule::new("has(self.providerRef) || has(self.providerConfig) || self.provider == 'local'")
        .message("providerRef or providerConfig is required for every provider but local"),
    validation = Rule::new("!has(self.providerConfig) || (self.provider == 'harvester' && has(self.providerConfig.harvester)) || (self.provider == 'nutanix' && has(self.providerConfig.nutanix)) || (self.provider == 'proxmox' && has(self.providerConfig.proxmox)) || (self.provider == 'aws' && has(self.providerConfig.aws)) || (self.provider == 'azure' && has(self.providerConfig.azure)) || (self.provider == 'gcp' && has(self.providerConfig.gcp))")
        .message("providerConfig must hold the section that provider names; provider local has none"),
    validation = Rule::new("!has(self.cluster.controlPlaneEndpoint) || self.cluster.controlPlaneEndpoint == '' || ((!has(self.network) || !has(self.network.vip) || self.network.vip in ['', self.cluster.controlPlaneEndpoint]) && (!has(self.networking) || !has(self.networking.vip) || self.networking.vip in ['', self.cluster.controlPlaneEndpoint]))")
        .message("network.vip and cluster.controlPlaneEndpoint are two spellings of one address: give one of them, or the same in both"),
    validation = Rule::new("!has(self.platform) || !has(self.addons) || !has(self.platform.cni) || !has(self.addons.cni) || !has(self.addons.cni.type) || self.platform.cni == self.addons.cni.type")
        .message("platform.cni and addons.cni.type must not differ"),
    validation = Rule::new("!has(self.platform) || !has(self.addons) || !has(self.platform.storage) || !has(self.addons.storage) || !has(self.addons.storage.type) || self.platform.storage == self.addons.storage.type")
        .message("platform.storage and addons.storage.type must not differ"),
    validation = Rule::new("!has(self.platform) || !has(self.addons) || !has(self.platform.loadBalancer) || !has(self.addons.loadBalancer) || !has(self.addons.loadBalancer.type) || self.platform.loadBalancer == self.addons.loadBalancer.type")
        .message("platform.loadBalancer and addons.loadBalancer.type must not differ"),
    validation = Rule::new("!has(self.platform) || !has(self.platform.metalLBPool) || !has(self.addons) || !has(self.addons.loadBalancer) || !has(self.addons.loadBalancer.addressPool) || self.platform.metalLBPool == self.addons.loadBalancer.addressPool")
        .message("platform.metalLBPool and addons.loadBalancer.addressPool must not differ"),
    validation = Rule::new("!has(self.platform) || !has(self.platform.metalLBPool) || self.platform.metalLBPool == '' || self.platform.metalLBPool.contains('/') || ((!has(self.network) || !has(self.network.loadBalancerPool) || self.network.loadBalancerPool.start + '-' + self.network.loadBalancerPool.end == self.platform.metalLBPool) && (!has(self.networking) || !has(self.networking.loadBalancerPool) || self.networking.loadBalancerPool.start + '-' + self.networking.loadBalancerPool.end == self.platform.metalLBPool))")
        .message("network.loadBalancerPool and platform.metalLBPool must not differ"),
    validation = Rule::new("!has(self.addons) || !has(self.addons.loadBalancer) || !has(self.addons.loadBalancer.addressPool) || self.addons.loadBalancer.addressPool == '' || self.addons.loadBalancer.addressPool.contains('/') || ((!has(self.network) || !has(self.network.loadBalancerPool) || self.network.loadBalancerPool.start + '-' + self.network.loadBalancerPool.end == self.addons.loadBalancer.addressPool) && (!has(self.networking) || !has(self.networking.loadBalancerPool) || self.networking.loadBalancerPool.start + '-' + self.networking.loadBalancerPool.end == self.addons.loadBalancer.addressPool))")
        .message("network.loadBalancerPool and addons.loadBalancer.addressPool must not differ"),
    validation = Rule::new("!has(self.gitops) || !has(self.addons) || !has(self.addons.gitOps) || (self.gitops.enabled && self.gitops.provider == 'flux') == (self.addons.gitOps.enabled && self.addons.gitOps.type == 'flux')")
        .message("gitops and addons.gitOps must not differ in whether Flux is installed"),
    validation = Rule::new("self.provider == oldSelf.provider")
        .message("provider is immutable: make another ClusterBootstrap for another provider"),
    validation = Rule::new("self.cluster.name == oldSelf.cluster.name")
        .message("cluster.name is immutable: machines and certificates carry it")
)]
pub struct ClusterBootstrapSpec {
    /// The infrastructure the machines run on. `local` is this very machine. Immutable.
    pub provider: BootstrapProvider,
    /// The `ProviderConfig` with the provider's settings and credentials; in this object's namespace if none is given.
    /// One of `providerRef` and `providerConfig` is required, except for `local`, which needs no credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<NamespacedReference>,
    /// The provider's settings, written here instead of in a `ProviderConfig` of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<InlineProviderConfig>,
    /// The machines of the cluster.
    pub cluster: BootstrapCluster,
    /// The cluster's networks. Exactly one of `network` and `networking` is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<BootstrapNetwork>,
    /// Another spelling of `network`, with the same meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networking: Option<BootstrapNetwork>,
    /// The operating system of the machines. If absent, the Talos version that belongs to this release of Butler; the
    /// provider `local` runs no Talos and needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub talos: Option<TalosSettings>,
    /// What is installed on the cluster, in detail. What is not mentioned here, under `platform` or under `gitops` gets
    /// the default of the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addons: Option<BootstrapAddons>,
    /// What is installed on the cluster, in short. Must not contradict `addons`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<PlatformSettings>,
    /// Whether and from where the cluster is managed by Git. Must not contradict `addons.gitOps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gitops: Option<GitOpsSettings>,
    /// How the control planes of tenant clusters are reached from outside. By a load balancer each if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.mode == 'LoadBalancer' || has(self.hostname)")
        .message("hostname is required for mode Ingress and mode Gateway"))]
    pub control_plane_exposure: Option<ControlPlaneExposure>,
    /// Stops all work on the cluster while true, except its deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// The infrastructure a management cluster runs on.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum BootstrapProvider {
    /// Harvester, through its Kubernetes API.
    Harvester,
    /// Nutanix, through Prism Central.
    Nutanix,
    /// Proxmox VE.
    Proxmox,
    /// Google Cloud.
    Gcp,
    /// Amazon Web Services.
    Aws,
    /// Microsoft Azure.
    Azure,
    /// This Linux machine: no cloud, no hypervisor, no credentials.
    Local,
}

impl BootstrapProvider {
    /// Whether the provider brings load balancers of its own, so that no virtual address is announced by the nodes.
    pub const fn is_cloud(self) -> bool {
        matches!(self, Self::Gcp | Self::Aws | Self::Azure)
    }
}

/// The operating system of the machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TalosSettings {
    /// Version of Talos Linux, such as `v1.12.1`.
    #[schemars(length(max = 32), regex(pattern = VERSION_PATTERN))]
    pub version: String,
    /// Identity of the image factory's schematic, which says which extensions the image contains.
    pub schematic: String,
    /// Disk that Talos is installed on, such as `/dev/sda`. The first disk as the provider names it if absent:
    /// `/dev/vda` on Harvester and Proxmox, `/dev/sda` on Nutanix, `/dev/nvme0n1` on AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_disk: Option<String>,
    /// Changes to the generated machine configuration of every node, applied in this order after Butler's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub config_patches: Vec<TalosConfigPatch>,
}

/// One change to a Talos machine configuration.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.op == 'remove' || has(self.value)").message("value is required for op add and op replace"))]
pub struct TalosConfigPatch {
    /// What is done at the path.
    pub op: PatchOperation,
    /// JSON pointer into the configuration, such as `/machine/time`.
    pub path: String,
    /// The new value as JSON text, such as `{"servers":["192.0.2.1"]}`. Not used by `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// What a patch does at its path.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum PatchOperation {
    /// Sets the value, whether there was one or not.
    Add,
    /// Removes the value.
    Remove,
    /// Sets the value where there was one.
    Replace,
}
