//! `ManagementAddon`: an addon of the catalogue on the management cluster itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{addon_definition::HelmValues, tenant_addon::HelmReleaseStatus};

/// An addon to install on the management cluster.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "ManagementAddon",
    plural = "managementaddons",
    shortname = "ma",
    shortname = "maddon",
    status = "ManagementAddonStatus",
    derive = "PartialEq",
    doc = "An addon of the catalogue on the management cluster.",
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
pub struct ManagementAddonSpec {
    /// Name of an `AddonDefinition`. It cannot be changed.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("addon cannot be changed: delete this object and create another"))]
    pub addon: String,
    /// Chart version. If absent, the default version of the `AddonDefinition`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
    /// Helm values, merged over those of the `AddonDefinition`: objects key by key, everything else replaced.
    #[serde(default, skip_serializing_if = "HelmValues::is_empty")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub values: HelmValues,
    /// Whether Butler leaves the release as it is for now. If absent, it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// What Butler reports about an addon of the management cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagementAddonStatus {
    /// Generation of the spec that this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One word for people, derived from the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ManagementAddonPhase>,
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
    /// Chart version of the last installation or upgrade that was begun, also if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempted_version: Option<String>,
    /// The Helm release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm_release: Option<HelmReleaseStatus>,
}

/// Where an addon of the management cluster is in its life. Derived from conditions; code reads those.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum ManagementAddonPhase {
    /// Waiting for another addon or for its definition.
    Pending,
    /// Being installed for the first time.
    Installing,
    /// Installed as declared.
    Installed,
    /// Being brought to another version or other values.
    Upgrading,
    /// The installation or upgrade failed.
    Failed,
    /// Being removed.
    Uninstalling,
}

#[cfg(test)]
mod tests {
    use kube::{CustomResourceExt, core::cel};
    use pretty_assertions::assert_eq;
    use serde_json::Value;

    use super::*;

    fn example() -> Value {
        serde_saphyr::from_str(include_str!("../../../../examples/management-addon.yaml")).unwrap()
    }

    #[test]
    fn addon_with_values_reads_back_equal() {
        let addon: ManagementAddon = serde_json::from_value(example()).unwrap();
        assert_eq!(serde_json::to_value(&addon).unwrap(), example());
        cel::validate_cel(&addon).unwrap();
    }

    #[test]
    fn release_does_not_become_another_addon() {
        let before: ManagementAddon = serde_json::from_value(example()).unwrap();
        let mut after = before.clone();
        after.spec.addon = "velero".to_owned();
        let refused = cel::validate_cel_update(&after, &before)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("addon cannot be changed"), "{refused}");
    }

    #[test]
    fn addons_of_the_management_cluster_are_cluster_wide() {
        let crd = ManagementAddon::crd();
        assert_eq!(crd.spec.scope, "Cluster");
        assert_eq!(
            crd.spec.names.short_names,
            Some(vec!["ma".to_owned(), "maddon".to_owned()])
        );
        assert!(
            crd.spec.versions[0]
                .subresources
                .as_ref()
                .unwrap()
                .status
                .is_some()
        );
    }
}
