//! Addons that a tenant cluster is created with.
//!
//! A provider that is not named, and a block that is absent, are decided by the platform: Cilium and `MetalLB` on
//! hypervisors, the bridge plugin and addresses on the machines themselves with the local provider.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{butler::addon_definition::HelmValues, reference::LocalReference};

/// Addons of a tenant cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(has(self.gitops) && has(self.gitOps))")
    .message("gitops and gitOps are two spellings of one setting: give one of them"))]
pub struct TenantClusterAddons {
    /// Pod network. If absent, the provider's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<CniAddon>,
    /// Gives Services of type `LoadBalancer` their addresses. If absent, the provider's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerAddon>,
    /// Persistent volumes. If absent, the provider's usual one, which may be none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageAddon>,
    /// Certificates for workloads by cert-manager. If absent, the platform decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_manager: Option<CertManagerAddon>,
    /// Ingress controller. If absent, the platform decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<IngressAddon>,
    /// Delivery from Git. If absent, none is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gitops: Option<GitOpsAddon>,
    /// The same as `gitops`, in the spelling that some clients write.
    #[serde(default, rename = "gitOps", skip_serializing_if = "Option::is_none")]
    pub gitops_alias: Option<GitOpsAddon>,
}

/// Pod network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CniAddon {
    /// Which pod network. If absent, the provider's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<CniProvider>,
    /// Chart version. If absent, that of `ButlerConfig` `defaultAddonVersions`, else of the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Helm values, merged over Butler's own.
    #[serde(default, skip_serializing_if = "HelmValues::is_empty")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub values: HelmValues,
}

/// Which pod network.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum CniProvider {
    /// Cilium, in place of kube-proxy.
    Cilium,
    /// The bridge plugin on each machine and routes between them; for machines that share one network.
    Bridge,
    /// None: you install your own, and the nodes stay not ready until then.
    None,
}

/// Addresses for Services of type `LoadBalancer`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerAddon {
    /// Which load balancer. If absent, the provider's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<LoadBalancerProvider>,
    /// Chart version. If absent, that of `ButlerConfig` `defaultAddonVersions`, else of the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Helm values, merged over Butler's own.
    #[serde(default, skip_serializing_if = "HelmValues::is_empty")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub values: HelmValues,
}

/// Which load balancer.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum LoadBalancerProvider {
    /// `MetalLB` in layer 2 mode.
    Metallb,
    /// Addresses put on the machines by the local provider.
    Local,
    /// None: Services of type `LoadBalancer` stay without an address.
    None,
}

/// Persistent volumes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageAddon {
    /// Which storage. If absent, the provider's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<StorageProvider>,
    /// Chart version. If absent, that of `ButlerConfig` `defaultAddonVersions`, else of the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Helm values, merged over Butler's own.
    #[serde(default, skip_serializing_if = "HelmValues::is_empty")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub values: HelmValues,
}

/// Which storage.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum StorageProvider {
    /// Longhorn: replicated block storage on the workers' disks.
    Longhorn,
    /// LINSTOR.
    Linstor,
    /// None: claims wait until you install a storage class.
    None,
}

/// Certificates by cert-manager.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertManagerAddon {
    /// Whether cert-manager is installed. Default true.
    #[serde(default = "enabled")]
    pub enabled: bool,
    /// Chart version. If absent, that of `ButlerConfig` `defaultAddonVersions`, else of the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Helm values, merged over Butler's own.
    #[serde(default, skip_serializing_if = "HelmValues::is_empty")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub values: HelmValues,
}

/// Ingress controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngressAddon {
    /// Whether an ingress controller is installed. Default true.
    #[serde(default = "enabled")]
    pub enabled: bool,
    /// Which ingress controller. If absent, Traefik.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<IngressProvider>,
    /// Chart version. If absent, that of `ButlerConfig` `defaultAddonVersions`, else of the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Helm values, merged over Butler's own.
    #[serde(default, skip_serializing_if = "HelmValues::is_empty")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub values: HelmValues,
}

fn enabled() -> bool {
    true
}

/// Which ingress controller.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum IngressProvider {
    /// Traefik.
    Traefik,
    /// ingress-nginx.
    Nginx,
}

/// Delivery from Git.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitOpsAddon {
    /// Which tool applies what the repository says. If absent, Flux.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<GitOpsProvider>,
    /// Version of the tool. If absent, that of `ButlerConfig` `defaultAddonVersions`, else of the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Repository the cluster follows. If absent, the tool is installed and follows nothing yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<GitOpsRepository>,
}

/// Which tool applies what a Git repository says.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum GitOpsProvider {
    /// Flux.
    Fluxcd,
    /// Flux, in its short spelling.
    Flux,
    /// Argo CD.
    Argocd,
}

/// A place in a Git repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitOpsRepository {
    /// Address of the repository, as `git clone` takes it.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// Branch to follow. Default `main`.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// Directory within the repository. If absent, `clusters/` and the cluster's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Secret in the cluster object's namespace with the credentials for the repository: `token`, or `username` and
    /// `password`, or an SSH `identity`. If absent, the repository is read without credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
}

fn main_branch() -> String {
    "main".to_owned()
}
