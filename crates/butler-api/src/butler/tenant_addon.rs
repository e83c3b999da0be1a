//! `TenantAddon`: an addon that a tenant cluster gets after its creation.
//!
//! Names either an entry of the catalogue or a chart of its own. Addons that a cluster is created with are part of
//! `TenantCluster`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::addon_definition::{CHART_REPOSITORY_PATTERN, HelmValues};
use crate::reference::LocalReference;

/// An addon to install on a tenant cluster.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "TenantAddon",
    plural = "tenantaddons",
    shortname = "ta",
    namespaced,
    status = "TenantAddonStatus",
    derive = "PartialEq",
    doc = "An addon on a tenant cluster: from the catalogue, or a Helm chart of your own.",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterRef.name"
    ),
    printcolumn(name = "Addon", type_ = "string", json_path = ".spec.addon"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Installed",
        type_ = "string",
        json_path = ".status.installedVersion"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(has(self.addon) && self.addon != '') != has(self.helm)")
    .message("give either addon (an entry of the catalogue) or helm (a chart of your own)"))]
#[x_kube(validation = Rule::new("!has(self.helm) || (has(self.version) && self.version != '')")
    .message("version is required with helm: a chart of your own has no default version"))]
#[x_kube(validation = Rule::new(
    "(has(self.addon) ? self.addon : '') == (has(oldSelf.addon) ? oldSelf.addon : '')"
).message("addon cannot be changed: delete this object and create another"))]
pub struct TenantAddonSpec {
    /// `TenantCluster` in the same namespace that gets the addon. It cannot be changed.
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("clusterRef cannot be changed: delete this object and create another"))]
    pub cluster_ref: LocalReference,
    /// Name of an `AddonDefinition`. Exactly one of `addon` and `helm` is given; it cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub addon: Option<String>,
    /// A Helm chart of your own. Exactly one of `addon` and `helm` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmChart>,
    /// Chart version. If absent or empty, the default version of the `AddonDefinition`; required with `helm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
    /// Helm values, merged over those of the `AddonDefinition`: objects key by key, everything else replaced.
    #[serde(default, skip_serializing_if = "HelmValues::is_empty")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub values: HelmValues,
    /// `TenantAddon` objects in the same namespace that must be installed before this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub depends_on: Vec<LocalReference>,
}

/// A Helm chart that is not in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmChart {
    /// Repository of the chart: `https://…` for a repository with an index, `oci://…` for a registry path.
    #[schemars(regex(pattern = CHART_REPOSITORY_PATTERN), length(max = 2048))]
    pub repository: String,
    /// Name of the chart within the repository.
    #[schemars(length(min = 1, max = 253))]
    pub chart: String,
    /// Name of the Helm release. If absent, the name of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 53))]
    pub release_name: Option<String>,
    /// Namespace of the release in the tenant cluster. If absent, the name of the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Whether the namespace is made if it is missing. Default true.
    #[serde(default = "yes")]
    pub create_namespace: bool,
}

fn yes() -> bool {
    true
}

/// What Butler reports about an addon of a tenant cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantAddonStatus {
    /// Generation of the spec that this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One word for people, derived from the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<TenantAddonPhase>,
    /// The facts, with `Ready` as their summary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// What is going on, or what went wrong and what to do, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Chart version that is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed_version: Option<String>,
    /// The Helm release in the tenant cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm_release: Option<HelmReleaseStatus>,
    /// When `phase` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// Where an addon is in its life. Derived from conditions; code reads those.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum TenantAddonPhase {
    /// Waiting for the cluster or for another addon.
    Pending,
    /// Being installed for the first time.
    Installing,
    /// Installed as declared.
    Installed,
    /// Being brought to another version or other values.
    Upgrading,
    /// Installed, and some of its workloads are not available.
    Degraded,
    /// The installation or upgrade failed.
    Failed,
    /// Being removed.
    Deleting,
}

/// A Helm release as Helm reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmReleaseStatus {
    /// Name of the release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Revision, counted by Helm from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Helm's own word, such as `deployed` or `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Chart version of the release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

#[cfg(test)]
mod tests {
    use kube::{CustomResourceExt, core::cel};
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn addon(spec: &Value) -> TenantAddon {
        serde_json::from_value(json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1",
            "kind": "TenantAddon",
            "metadata": {"name": "production-argocd", "namespace": "platform-engineering"},
            "spec": spec,
        }))
        .unwrap()
    }

    fn from_the_catalogue() -> TenantAddon {
        addon(
            &json!({"clusterRef": {"name": "production"}, "addon": "argocd", "version": "2.10.0"}),
        )
    }

    #[test]
    fn addon_of_the_catalogue_reads_back_equal() {
        let manifest: Value =
            serde_saphyr::from_str(include_str!("../../../../examples/tenant-addon.yaml")).unwrap();
        let addon: TenantAddon = serde_json::from_value(manifest.clone()).unwrap();
        assert_eq!(serde_json::to_value(&addon).unwrap(), manifest);
        cel::validate_cel(&addon).unwrap();
    }

    #[test]
    fn catalogue_addon_needs_no_version() {
        let addon = addon(&json!({"clusterRef": {"name": "production"}, "addon": "argocd"}));
        cel::validate_cel(&addon).unwrap();
    }

    #[test]
    fn chart_of_ones_own_needs_a_version() {
        let helm = json!({"repository": "oci://registry.example.com/charts", "chart": "shop"});
        let without = addon(&json!({"clusterRef": {"name": "production"}, "helm": helm}));
        let refused = cel::validate_cel(&without).unwrap_err().to_string();
        assert!(
            refused.contains("version is required with helm"),
            "{refused}"
        );
        let with =
            addon(&json!({"clusterRef": {"name": "production"}, "helm": helm, "version": "1.0.0"}));
        cel::validate_cel(&with).unwrap();
        assert!(with.spec.helm.unwrap().create_namespace);
    }

    #[test]
    fn neither_or_both_of_addon_and_chart_are_refused() {
        let neither = addon(&json!({"clusterRef": {"name": "production"}, "version": "1.0.0"}));
        let both = addon(&json!({
            "clusterRef": {"name": "production"},
            "addon": "argocd",
            "helm": {"repository": "https://charts.example.com", "chart": "shop"},
            "version": "1.0.0",
        }));
        for refused in [neither, both] {
            let message = cel::validate_cel(&refused).unwrap_err().to_string();
            assert!(message.contains("give either addon"), "{message}");
        }
    }

    #[test]
    fn addon_stays_on_its_cluster_and_may_change_its_version() {
        let before = from_the_catalogue();
        let mut moved = before.clone();
        moved.spec.cluster_ref.name = "staging".to_owned();
        let refused = cel::validate_cel_update(&moved, &before)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("clusterRef cannot be changed"),
            "{refused}"
        );
        let mut renamed = before.clone();
        renamed.spec.addon = Some("flux".to_owned());
        let refused = cel::validate_cel_update(&renamed, &before)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("addon cannot be changed"), "{refused}");
        let mut upgraded = before.clone();
        upgraded.spec.version = Some("2.11.0".to_owned());
        cel::validate_cel_update(&upgraded, &before).unwrap();
    }

    #[test]
    fn list_shows_cluster_addon_versions_and_phase() {
        let crd = TenantAddon::crd();
        assert_eq!(crd.spec.names.short_names, Some(vec!["ta".to_owned()]));
        let columns: Vec<_> = crd.spec.versions[0]
            .additional_printer_columns
            .iter()
            .flatten()
            .map(|column| column.name.as_str())
            .collect();
        assert_eq!(
            columns,
            ["Cluster", "Addon", "Version", "Phase", "Installed", "Age"]
        );
    }
}
