//! What is installed on a management cluster.
//!
//! A default stands in the schema only where it is the same for every provider; the others are filled in when the
//! object is read.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BootstrapProvider;
use super::network::{ADDRESS_POOL_MESSAGE, ADDRESS_POOL_RULE, address_pool_order};
use crate::reference::SecretReference;

/// What is installed on the cluster, in detail. A section that is absent gets the provider's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapAddons {
    /// The pod network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<CniAddon>,
    /// Persistent volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageAddon>,
    /// Addresses for Services of type LoadBalancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerAddon>,
    /// The virtual address of the API server.
    #[serde(
        default,
        rename = "controlPlaneHA",
        skip_serializing_if = "Option::is_none"
    )]
    pub control_plane_ha: Option<ControlPlaneHaAddon>,
    /// Certificates for workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_manager: Option<CertManagerAddon>,
    /// HTTP from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<IngressAddon>,
    /// What hosts the control planes of tenant clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_provider: Option<ControlPlaneProviderAddon>,
    /// Cluster API, which makes the workers of tenant clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capi: Option<CapiAddon>,
    /// Butler itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub butler_controller: Option<ButlerControllerAddon>,
    /// Butler's web console.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console: Option<ConsoleAddon>,
    /// Management of the cluster by Git. `gitops` says the same and can also name a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_ops: Option<GitOpsAddon>,
}

/// The pod network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CniAddon {
    /// Which pod network is installed. `cilium` if absent, but `none` for `local`, whose machines bring their own.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<CniType>,
    /// Version of the chart. The one this release of Butler was tested with if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether Cilium's network observability is installed too.
    #[serde(default = "yes")]
    pub hubble_enabled: bool,
}

/// A pod network.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum CniType {
    /// Cilium, which also replaces kube-proxy.
    Cilium,
    /// Nothing is installed.
    None,
}

/// Persistent volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageAddon {
    /// Which storage is installed. `longhorn` if absent, but `none` for `local`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<StorageType>,
    /// Version of the chart. The one this release of Butler was tested with if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How many copies of a volume are kept. 3 if absent, but 1 for topology `single-node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub replica_count: Option<i32>,
}

/// A provider of persistent volumes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum StorageType {
    /// Longhorn, which keeps copies of volumes on the nodes' disks.
    Longhorn,
    /// Nothing is installed.
    None,
}

/// Addresses for Services of type LoadBalancer.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerAddon {
    /// What hands out the addresses. `metallb` if absent and there is a pool of addresses, but `none` for `local`,
    /// which hands them out by itself.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<LoadBalancerType>,
    /// The addresses, as `first-last` or as a CIDR block. The same as `network.loadBalancerPool`, which is preferred;
    /// empty means absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 91))]
    #[x_kube(
        validation = Rule::new(ADDRESS_POOL_RULE).message(ADDRESS_POOL_MESSAGE),
        validation = address_pool_order()
    )]
    pub address_pool: Option<String>,
}

/// What hands out addresses to Services of type LoadBalancer.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum LoadBalancerType {
    /// MetalLB, in its layer 2 mode.
    Metallb,
    /// Nothing is installed.
    None,
}

/// The virtual address of the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneHaAddon {
    /// What announces the address. `kube-vip` if absent and an address is given, but `none` for clouds and `local`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<ControlPlaneHaType>,
    /// Version of the image. The one this release of Butler was tested with if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// What announces the virtual address of the API server.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[schemars(description = "")]
pub enum ControlPlaneHaType {
    /// kube-vip, by ARP.
    KubeVip,
    /// Nothing is installed.
    None,
}

/// Certificates for workloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertManagerAddon {
    /// Whether cert-manager is installed.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Version of the chart. The one this release of Butler was tested with if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// HTTP from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngressAddon {
    /// Whether an ingress controller is installed.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Which ingress controller is installed.
    #[serde(default, rename = "type")]
    pub kind: IngressType,
    /// Version of the chart. The one this release of Butler was tested with if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// An ingress controller.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum IngressType {
    /// Traefik.
    #[default]
    Traefik,
    /// ingress-nginx.
    Nginx,
    /// Nothing is installed.
    None,
}

/// What hosts the control planes of tenant clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneProviderAddon {
    /// Whether it is installed.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Which one is installed.
    #[serde(default, rename = "type")]
    pub kind: ControlPlaneProviderType,
    /// Version of it. The one this release of Butler was tested with if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A host of control planes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum ControlPlaneProviderType {
    /// Steward, which is part of Butler.
    #[default]
    Steward,
    /// Kamaji.
    Kamaji,
    /// Nothing is installed: tenant clusters cannot have hosted control planes.
    None,
}

/// Cluster API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapiAddon {
    /// Whether Cluster API is installed.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Version of its core and kubeadm providers, such as `v1.14.2`. The one this release of Butler was tested with if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Infrastructure providers to install beside the one that belongs to `spec.provider`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub infrastructure_providers: Vec<InfrastructureProvider>,
}

/// An infrastructure provider of Cluster API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureProvider {
    /// The infrastructure it drives.
    pub name: BootstrapProvider,
    /// Version of it. The one this release of Butler was tested with if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Secret with the credentials it is installed with. Those of the cluster's own provider if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretReference>,
}

/// Butler itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ButlerControllerAddon {
    /// Whether Butler's definitions and controllers are installed. Without them the cluster is a plain one.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Tag of the image. The version of the Butler that makes the cluster if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Image without its tag. The one of this release if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// Butler's web console.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleAddon {
    /// Whether the console is installed.
    #[serde(default)]
    pub enabled: bool,
    /// Version of it. The version of the Butler that makes the cluster if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How the console is reached by HTTP. Only from within the cluster if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<ConsoleIngress>,
}

/// How the console is reached by HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleIngress {
    /// Whether an Ingress is made for the console.
    #[serde(default)]
    pub enabled: bool,
    /// Host name of the console. `butler.<cluster>.local` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Class of the Ingress. The cluster's default class if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_name: Option<String>,
    /// Whether the console is served by HTTPS.
    #[serde(default)]
    pub tls: bool,
    /// Secret with the certificate. `butler-console-tls` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_secret_name: Option<String>,
}

/// Management of the cluster by Git.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitOpsAddon {
    /// Whether it is installed.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// What is installed.
    #[serde(default, rename = "type")]
    pub kind: GitOpsType,
}

/// What brings the state of a Git repository into the cluster.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum GitOpsType {
    /// Flux.
    #[default]
    Flux,
    /// Nothing is installed.
    None,
}

/// What is installed on the cluster, in short.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlatformSettings {
    /// The pod network: short for `addons.cni.type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<CniType>,
    /// Persistent volumes: short for `addons.storage.type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageType>,
    /// What hands out addresses to Services: short for `addons.loadBalancer.type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerType>,
    /// The addresses for Services, as `first-last` or as a CIDR block: the same as `network.loadBalancerPool`.
    #[serde(
        default,
        rename = "metalLBPool",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 91))]
    #[x_kube(
        validation = Rule::new(ADDRESS_POOL_RULE).message(ADDRESS_POOL_MESSAGE),
        validation = address_pool_order()
    )]
    pub metal_lb_pool: Option<String>,
}

/// Whether and from where the cluster is managed by Git.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.repository) || !(has(self.path) || has(self.credentialsRef))")
        .message("repository is required when path or credentialsRef is given")
)]
pub struct GitOpsSettings {
    /// Whether it is installed.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// What is installed.
    #[serde(default)]
    pub provider: GitOpsType,
    /// The repository that holds the cluster's state, such as `https://github.com/myorg/butler-mgmt-live`. If absent,
    /// Flux is installed and follows nothing yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048), regex(pattern = "^(https?|ssh)://[^ ]+$"))]
    pub repository: Option<String>,
    /// The branch to follow.
    #[serde(default = "main_branch")]
    #[schemars(length(min = 1, max = 255))]
    pub branch: String,
    /// Directory within the repository. Its root if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub path: Option<String>,
    /// Secret with the credentials for the repository, in Flux' form: `username` and `password`, or `identity` and
    /// `known_hosts`. None for a public repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<SecretReference>,
}

const fn yes() -> bool {
    true
}

fn main_branch() -> String {
    "main".to_owned()
}
