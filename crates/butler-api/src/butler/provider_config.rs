//! `ProviderConfig`: a place where machines can be made, and the way to get them there.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::infrastructure::*;
pub use self::network::*;
use crate::reference::{LocalReference, SecretReference};

mod infrastructure;
mod network;

/// The rule that a provider's own block is there when that provider is chosen.
fn block_rule(provider: &str) -> Rule {
    Rule::new(format!(
        "self.provider != '{provider}' || has(self.{provider})"
    ))
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
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
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
    .message("network.mode ipam is not possible with azure, aws and gcp: they give out addresses themselves; use cloud"),
    validation = Rule::new("self.clusterAPIProvider != 'CAPX' || self.provider == 'nutanix'")
        .message("clusterAPIProvider CAPX is for provider nutanix alone"),
    validation = Rule::new("self.clusterAPIProvider != 'CAPK' || self.provider == 'harvester'")
        .message("clusterAPIProvider CAPK is for provider harvester alone")
)]
#[serde(rename_all = "camelCase")]
pub struct ProviderConfigSpec {
    /// Which infrastructure it is. Its own settings are in the field of the same name. It cannot be changed while clusters run
    /// on it.
    pub provider: Provider,
    /// Secret with the credentials; not needed for `local`. Keys by provider: harvester `kubeconfig`; nutanix and
    /// proxmox `username`, `password`; azure `clientID`, `clientSecret`, `tenantID`; aws `accessKeyID`,
    /// `secretAccessKey`; gcp `serviceAccountKey`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<SecretReference>,
    /// Who makes the machines of tenant clusters: `Butler` itself, or a provider of Cluster API that is installed beside it:
    /// `CAPX` on nutanix, `CAPK` (`KubeVirt`) on harvester. It cannot be changed while clusters run on it. Default `Butler`.
    #[serde(rename = "clusterAPIProvider", default)]
    pub cluster_api_provider: ClusterApiProvider,
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
#[schemars(description = "")]
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

    /// The finalizer by which a provider of this kind holds a `MachineRequest` while the machine may exist.
    pub const fn machine_request_finalizer(self) -> &'static str {
        match self {
            Self::Harvester => "machinerequest.butler.butlerlabs.dev/harvester-finalizer",
            Self::Nutanix => "machinerequest.butler.butlerlabs.dev/nutanix-finalizer",
            Self::Proxmox => "machinerequest.butler.butlerlabs.dev/proxmox-finalizer",
            Self::Azure => "machinerequest.butler.butlerlabs.dev/azure-finalizer",
            Self::Aws => "machinerequest.butler.butlerlabs.dev/aws-finalizer",
            Self::Gcp => "machinerequest.butler.butlerlabs.dev/gcp-finalizer",
            Self::Local => "machinerequest.butler.butlerlabs.dev/local-finalizer",
        }
    }

    /// The finalizer by which a provider of this kind holds a `LoadBalancerRequest` while the load balancer may exist.
    pub const fn load_balancer_request_finalizer(self) -> &'static str {
        match self {
            Self::Harvester => "loadbalancerrequest.butler.butlerlabs.dev/harvester-finalizer",
            Self::Nutanix => "loadbalancerrequest.butler.butlerlabs.dev/nutanix-finalizer",
            Self::Proxmox => "loadbalancerrequest.butler.butlerlabs.dev/proxmox-finalizer",
            Self::Azure => "loadbalancerrequest.butler.butlerlabs.dev/azure-finalizer",
            Self::Aws => "loadbalancerrequest.butler.butlerlabs.dev/aws-finalizer",
            Self::Gcp => "loadbalancerrequest.butler.butlerlabs.dev/gcp-finalizer",
            Self::Local => "loadbalancerrequest.butler.butlerlabs.dev/local-finalizer",
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

/// Who makes the machines of tenant clusters.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum ClusterApiProvider {
    /// Butler, through its own providers.
    #[default]
    Butler,
    /// Cluster API Provider Nutanix.
    #[serde(rename = "CAPX")]
    Capx,
    /// Cluster API Provider `KubeVirt`.
    #[serde(rename = "CAPK")]
    Capk,
}

impl ClusterApiProvider {
    /// The name as manifests spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Butler => "Butler",
            Self::Capx => "CAPX",
            Self::Capk => "CAPK",
        }
    }
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
#[schemars(description = "")]
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
    /// `CredentialsValid`, `PoolAvailable`, Ready and what the engine reports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// How much room there is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderCapacity {
    /// Free addresses of all pools together.
    #[serde(
        rename = "availableIPs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub available_ips: Option<i32>,
    /// How many more clusters of the usual size these addresses are enough for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_tenants: Option<i32>,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;
    use crate::testing::{columns, read};

    #[test]
    fn infrastructure_is_read_and_written_unchanged() {
        for manifest in [
            include_str!("../../../../examples/provider-config.yaml"),
            include_str!("../../../../examples/provider-config-nutanix.yaml"),
            include_str!("../../../../examples/provider-config-proxmox.yaml"),
        ] {
            read::<ProviderConfig>(manifest);
        }
    }

    #[test]
    fn this_machine_needs_no_settings_and_no_credentials() {
        let spec: ProviderConfigSpec =
            serde_json::from_value(serde_json::json!({ "provider": "local", "local": {} }))
                .expect("spec");
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
            assert_eq!(
                serde_json::to_value(provider).expect("text"),
                provider.as_str()
            );
        }
    }

    #[test]
    fn finalizers_name_their_provider() {
        for provider in [
            Provider::Harvester,
            Provider::Nutanix,
            Provider::Proxmox,
            Provider::Azure,
            Provider::Aws,
            Provider::Gcp,
            Provider::Local,
        ] {
            let suffix = format!("butler.butlerlabs.dev/{}-finalizer", provider.as_str());
            assert_eq!(
                provider.machine_request_finalizer(),
                format!("machinerequest.{suffix}")
            );
            assert_eq!(
                provider.load_balancer_request_finalizer(),
                format!("loadbalancerrequest.{suffix}")
            );
        }
    }

    #[test]
    fn machines_are_made_by_butler_unless_somebody_else_is_named() {
        let spec: ProviderConfigSpec =
            serde_json::from_value(serde_json::json!({ "provider": "local" })).expect("spec");
        assert_eq!(spec.cluster_api_provider, ClusterApiProvider::Butler);
        for (text, provider) in [
            ("Butler", ClusterApiProvider::Butler),
            ("CAPX", ClusterApiProvider::Capx),
            ("CAPK", ClusterApiProvider::Capk),
        ] {
            assert_eq!(serde_json::to_value(provider).expect("text"), text);
            assert_eq!(provider.as_str(), text);
        }
    }

    #[test]
    fn the_crd_has_the_names_people_type() {
        let crd = ProviderConfig::crd();
        assert_eq!(crd.spec.names.short_names, Some(vec!["pc".to_owned()]));
        assert_eq!(
            columns::<ProviderConfig>(),
            ["Provider", "Scope", "Ready", "Validated", "Age"]
        );
    }
}
