//! `ButlerConfig`: settings of the whole platform. There is one, and it is named `butler`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::observability::*;
use crate::Quantity;
pub use crate::butler::control_plane_exposure::{ControlPlaneExposure, ExposureMode};
use crate::butler::control_plane_resources::ControlPlaneResources;
use crate::reference::{LocalReference, SecretReference};

mod observability;

/// Settings of the whole platform.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "ButlerConfig",
    plural = "butlerconfigs",
    shortname = "bc",
    status = "ButlerConfigStatus",
    derive = "PartialEq",
    doc = "Settings of the whole platform. There is one, and it is named butler.",
    validation = kube::core::Rule::new("self.metadata.name == 'butler'")
        .message("metadata.name must be butler: there is one ButlerConfig for the whole platform"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.multiTenancy.mode"),
    printcolumn(name = "Git", type_ = "string", json_path = ".spec.gitProvider.type"),
    printcolumn(name = "Teams", type_ = "integer", json_path = ".status.teamCount"),
    printcolumn(name = "Clusters", type_ = "integer", json_path = ".status.clusterCount"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ButlerConfigSpec {
    /// Whether clusters must belong to teams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multi_tenancy: Option<MultiTenancy>,
    /// Namespace of the clusters that belong to no team. Butler makes it unless teams are enforced.
    #[serde(default = "default_namespace")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = crate::name::LABEL_PATTERN)
    )]
    pub default_namespace: String,
    /// Which implementation hosts the control planes of new tenant clusters. Those that exist stay with the one that made them.
    #[serde(default)]
    pub control_plane_provider: ControlPlaneProvider,
    /// `ProviderConfig`, in butler-system, of clusters that name none. Without it the one named `default` is used,
    /// else the first by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_provider_config_ref: Option<LocalReference>,
    /// How the API servers of new tenant clusters are reached from outside the management cluster. Those whose nodes know
    /// an address stay reachable at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_exposure: Option<ControlPlaneExposure>,
    /// CPU and memory of hosted control planes that ask for none themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_control_plane_resources: Option<ControlPlaneResources>,
    /// Limits of teams that set none themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_team_limits: Option<DefaultTeamLimits>,
    /// Versions of platform addons that a cluster gets when it names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_addon_versions: Option<DefaultAddonVersions>,
    /// Time servers of new machines; the operating system's own if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default_time_servers: Vec<String>,
    /// SSH public key that may log in to every new machine, as one line of an `authorized_keys` file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_authorized_key: Option<String>,
    /// Git service that cluster configuration is exported to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_provider: Option<GitProvider>,
    /// Where machine images come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_factory: Option<ImageFactory>,
    /// Record of what people changed through the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    /// Who is told when something happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notifications: Option<Notifications>,
    /// Collection of logs, metrics and traces from tenant clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observability: Option<Observability>,
}

fn default_namespace() -> String {
    crate::keys::names::DEFAULT_TENANT_NAMESPACE.to_owned()
}

/// Whether clusters must belong to teams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MultiTenancy {
    /// `Enforced`: every cluster belongs to a team. `Optional`: it may. `Disabled`: teams are not looked at.
    #[serde(default)]
    pub mode: MultiTenancyMode,
}

/// Whether clusters must belong to teams.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum MultiTenancyMode {
    /// Every cluster belongs to a team and lives in its namespace.
    Enforced,
    /// A cluster may belong to a team; others live in the default namespace.
    Optional,
    /// All clusters live in the default namespace.
    #[default]
    Disabled,
}

/// Which implementation hosts control planes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum ControlPlaneProvider {
    /// Butler's own.
    #[default]
    Steward,
    /// Kamaji, installed beside Butler.
    Kamaji,
}

/// Limits of teams that set none themselves. What is absent is not limited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefaultTeamLimits {
    /// Clusters a team may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_clusters: Option<i32>,
    /// Workers one cluster may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_workers_per_cluster: Option<i32>,
    /// CPU of all workers of a team together, in cores.
    #[serde(
        rename = "maxTotalCPU",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub max_total_cpu: Option<Quantity>,
    /// Memory of all workers of a team together, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_total_memory: Option<Quantity>,
    /// Disks of all workers of a team together, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_total_storage: Option<Quantity>,
}

/// Versions of platform addons. What is absent follows the release of Butler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefaultAddonVersions {
    /// Cilium, the pod network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cilium: Option<String>,
    /// MetalLB, addresses for Services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metallb: Option<String>,
    /// cert-manager, certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_manager: Option<String>,
    /// Longhorn, volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longhorn: Option<String>,
    /// Traefik, ingress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traefik: Option<String>,
    /// Flux, delivery from Git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fluxcd: Option<String>,
}

/// Git service that cluster configuration is exported to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitProvider {
    /// Which service it is.
    #[serde(rename = "type")]
    pub kind: GitProviderType,
    /// Address of the service's API; the public service of that type if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Organisation, group or workspace that repositories are made in; the token's own user if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// Secret in butler-system whose key `token` holds the access token.
    pub secret_ref: LocalReference,
}

/// Git services.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum GitProviderType {
    /// GitHub or GitHub Enterprise.
    Github,
    /// GitLab.
    Gitlab,
    /// Bitbucket.
    Bitbucket,
}

/// Where machine images come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageFactory {
    /// Address of the image factory.
    #[schemars(regex(pattern = "^https?://"))]
    pub url: String,
    /// Schematic of clusters that name none.
    #[serde(
        rename = "defaultSchematicID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub default_schematic_id: Option<String>,
    /// Whether images are put on the provider when a cluster first needs them.
    #[serde(default = "yes")]
    pub auto_sync: bool,
    /// Secret with the factory's API key, in the key `apiKey` unless `key` names another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<SecretReference>,
}

/// Record of what people changed through the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Whether the record is kept.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// How many entries are kept in memory.
    #[serde(default = "audit_buffer_size")]
    #[schemars(range(min = 100, max = 100_000))]
    pub buffer_size: i32,
    /// Address each entry is also posted to, as JSON.
    #[serde(
        rename = "webhookURL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub webhook_url: Option<String>,
}

fn yes() -> bool {
    true
}

fn audit_buffer_size() -> i32 {
    10_000
}

/// Who is told when something happens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notifications {
    /// Address each notification is posted to, as JSON.
    #[serde(
        rename = "webhookURL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub webhook_url: Option<String>,
}

/// What Butler reports about the platform.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ButlerConfigStatus {
    /// `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Configured, `NamespaceReady` and what the engine reports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Number of teams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_count: Option<i32>,
    /// Number of tenant clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_count: Option<i32>,
    /// The way of exposure in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_exposure_mode: Option<ExposureMode>,
    /// Whether tenant clusters need a proxy inside to reach their own API server, as under `Ingress` and `Gateway`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_proxy_required: Option<bool>,
    /// Whether the Git service can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_provider: Option<GitProviderStatus>,
    /// How far observability has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observability: Option<ObservabilityStatus>,
}

/// Whether the Git service can be used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitProviderStatus {
    /// Whether the last try with the token succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
    /// Whose token it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// What went wrong, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the token was last tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_validated: Option<Time>,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;
    use crate::testing::{columns, read};

    #[test]
    fn a_users_settings_are_read_and_written_unchanged() {
        let config = read::<ButlerConfig>(include_str!("../../../../examples/butler-config.yaml"));
        let tenancy = config.spec.multi_tenancy.expect("multiTenancy");
        assert_eq!(tenancy.mode, MultiTenancyMode::Enforced);
    }

    #[test]
    fn the_crd_has_the_names_people_type() {
        let crd = ButlerConfig::crd();
        assert_eq!(crd.spec.scope, "Cluster");
        assert_eq!(crd.spec.names.short_names, Some(vec!["bc".to_owned()]));
        assert_eq!(
            columns::<ButlerConfig>(),
            ["Mode", "Git", "Teams", "Clusters", "Age"]
        );
    }

    #[test]
    fn settings_that_say_nothing_get_the_defaults() {
        let spec: ButlerConfigSpec = serde_json::from_str("{}").expect("empty spec");
        assert_eq!(spec.default_namespace, "butler-tenants");
        assert_eq!(spec.control_plane_provider, ControlPlaneProvider::Steward);
    }
}
