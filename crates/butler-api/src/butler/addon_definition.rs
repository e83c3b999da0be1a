//! `AddonDefinition`: an entry of the addon catalogue.
//!
//! Says which chart an addon is and how it is installed unless told otherwise. Installing one is a `TenantAddon` or a
//! `ManagementAddon`.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::DURATION_PATTERN;

/// Values of a Helm release: a tree whose leaves Helm alone understands.
pub type HelmValues = serde_json::Map<String, serde_json::Value>;

/// Where charts are fetched from: an HTTP repository or an OCI registry.
pub(crate) const CHART_REPOSITORY_PATTERN: &str = "^(https?|oci)://";

/// An entry of the addon catalogue.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "AddonDefinition",
    plural = "addondefinitions",
    shortname = "ad",
    shortname = "adddef",
    derive = "PartialEq",
    doc = "An entry of the addon catalogue: a chart that clusters can ask for by name.",
    printcolumn(
        name = "Display Name",
        type_ = "string",
        json_path = ".spec.displayName"
    ),
    printcolumn(name = "Category", type_ = "string", json_path = ".spec.category"),
    printcolumn(name = "Chart", type_ = "string", json_path = ".spec.chart.name"),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".spec.chart.defaultVersion"
    ),
    printcolumn(name = "Platform", type_ = "boolean", json_path = ".spec.platform"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct AddonDefinitionSpec {
    /// Name that people see in the catalogue.
    #[schemars(length(min = 1, max = 64))]
    pub display_name: String,
    /// What the addon is for, in a sentence or two.
    #[schemars(length(min = 1, max = 512))]
    pub description: String,
    /// Shelf of the catalogue it stands on.
    pub category: AddonCategory,
    /// The Helm chart.
    pub chart: AddonChart,
    /// How the chart is installed unless the one who installs it says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<AddonDefaults>,
    /// Names of the catalogue entries that must be installed and healthy before this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub depends_on: Vec<String>,
    /// Whether Butler itself installs it as a part of clusters; such an addon is not installed or removed by hand.
    /// Default false.
    #[serde(default)]
    pub platform: bool,
    /// Which directory of a `GitOps` repository its release goes to: `infrastructure` is applied before `apps`. If absent,
    /// it follows from the category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<AddonTier>,
    /// A short text, such as an emoji, that stands for the addon where there is no picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8))]
    pub icon: Option<String>,
    /// Picture of the addon as a data URL, at most 128 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 131_072))]
    pub icon_data: Option<String>,
    /// Where to read more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<AddonLinks>,
    /// Who keeps this entry of the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintainer: Option<AddonMaintainer>,
}

/// Shelf of the catalogue.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[schemars(description = "")]
pub enum AddonCategory {
    /// Pod networks.
    Cni,
    /// Addresses for Services of type `LoadBalancer`.
    #[serde(rename = "loadbalancer")]
    LoadBalancer,
    /// Persistent volumes.
    Storage,
    /// Certificates.
    #[serde(rename = "certmanager")]
    CertManager,
    /// Ingress and gateways.
    Ingress,
    /// Metrics, logs and traces.
    Observability,
    /// Backup and restore.
    Backup,
    /// Delivery from Git.
    #[serde(rename = "gitops")]
    GitOps,
    /// Policies, scanning, secrets.
    Security,
    /// Names of workloads outside the cluster.
    Dns,
    /// Databases and their operators.
    Database,
    /// Queues and streams.
    Messaging,
    /// Service meshes.
    ServiceMesh,
    /// Everything else.
    Other,
}

/// Order in which a `GitOps` repository applies an addon.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum AddonTier {
    /// Applied first; what others build on.
    Infrastructure,
    /// Applied when the infrastructure is there.
    Apps,
}

/// A Helm chart and its versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonChart {
    /// Repository of the chart: `https://…` for a repository with an index, `oci://…` for a registry path.
    #[schemars(regex(pattern = CHART_REPOSITORY_PATTERN), length(max = 2048))]
    pub repository: String,
    /// Name of the chart within the repository.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Version that is installed when none is asked for.
    #[schemars(length(max = 128))]
    pub default_version: String,
    /// Versions that the catalogue offers. If empty, the default version is offered; any other can still be asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 128)))]
    pub available_versions: Vec<String>,
}

/// How a chart is installed unless told otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonDefaults {
    /// Namespace of the release. If absent, the name of this entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Whether the namespace is made if it is missing. Default true.
    #[serde(default = "yes")]
    pub create_namespace: bool,
    /// Name of the Helm release. If absent, the name of this entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 53))]
    pub release_name: Option<String>,
    /// How long an installation may take before it counts as failed, such as `10m`. Default `10m`.
    #[serde(default = "ten_minutes")]
    #[schemars(regex(pattern = DURATION_PATTERN))]
    pub timeout: String,
    /// Helm values. Those of the one who installs the addon are merged over them: objects key by key, everything else
    /// replaced.
    #[serde(default, skip_serializing_if = "HelmValues::is_empty")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub values: HelmValues,
}

impl Default for AddonDefaults {
    fn default() -> Self {
        Self {
            namespace: None,
            create_namespace: yes(),
            release_name: None,
            timeout: ten_minutes(),
            values: HelmValues::new(),
        }
    }
}

fn yes() -> bool {
    true
}

fn ten_minutes() -> String {
    "10m".to_owned()
}

/// Where to read more about an addon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonLinks {
    /// Documentation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// The project's own page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub homepage: Option<String>,
    /// Source code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Who keeps an entry of the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonMaintainer {
    /// Name of the person or group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Mail address for questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn catalogue_entry_with_an_oci_chart_reads_back_equal() {
        let manifest: Value =
            serde_saphyr::from_str(include_str!("../../../../examples/addon-definition.yaml"))
                .unwrap();
        let definition: AddonDefinition = serde_json::from_value(manifest.clone()).unwrap();
        assert!(definition.spec.chart.repository.starts_with("oci://"));
        assert_eq!(serde_json::to_value(&definition).unwrap(), manifest);
    }

    #[test]
    fn installation_defaults_are_filled_in() {
        let defaults: AddonDefaults = serde_json::from_value(json!({})).unwrap();
        assert_eq!(defaults, AddonDefaults::default());
        assert!(defaults.create_namespace);
        assert_eq!(defaults.timeout, "10m");
    }

    #[test]
    fn the_catalogue_is_cluster_wide_and_has_its_short_names() {
        let crd = AddonDefinition::crd();
        assert_eq!(crd.spec.scope, "Cluster");
        assert_eq!(
            crd.spec.names.short_names,
            Some(vec!["ad".to_owned(), "adddef".to_owned()])
        );
        let version = &crd.spec.versions[0];
        assert!(
            version
                .subresources
                .as_ref()
                .is_none_or(|all| all.status.is_none())
        );
        let schema = serde_json::to_value(version).unwrap();
        let category =
            &schema["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["category"];
        assert_eq!(category["type"], "string");
        assert_eq!(
            category["enum"],
            json!([
                "cni",
                "loadbalancer",
                "storage",
                "certmanager",
                "ingress",
                "observability",
                "backup",
                "gitops",
                "security",
                "dns",
                "database",
                "messaging",
                "service-mesh",
                "other"
            ])
        );
    }
}
