//! Provider settings written into a `ClusterBootstrap` itself.
//!
//! The fields of each section are those of the same section of a `ProviderConfig`, with the credentials beside them.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::butler::provider_config::{
    AwsProvider, AzureProvider, GcpProvider, HarvesterProvider, NutanixProvider, ProxmoxProvider,
};
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
    pub harvester: Option<Inline<HarvesterProvider>>,
    /// Settings for Nutanix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nutanix: Option<Inline<NutanixProvider>>,
    /// Settings for Proxmox VE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxmox: Option<Inline<ProxmoxProvider>>,
    /// Settings for Amazon Web Services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws: Option<Inline<AwsProvider>>,
    /// Settings for Microsoft Azure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure: Option<Inline<AzureProvider>>,
    /// Settings for Google Cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcp: Option<Inline<GcpProvider>>,
}

/// Settings of a provider, as its section of a `ProviderConfig` has them, with the credentials beside them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Inline<Section> {
    /// Secret with the credentials, in the keys that a `ProviderConfig` of this provider reads.
    pub credentials_ref: SecretReference,
    /// The settings.
    #[serde(flatten)]
    pub settings: Section,
}
