//! `KubeconfigGenerator`: kubeconfigs for people and programs, made for every control plane that a selector finds.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const ONE_SOURCE: &str = "has(self.stringValue) != has(self.fromDefinition)";

/// The shortest life of a kubeconfig, ten minutes: there must be time to renew it, and to notice.
pub const SHORTEST_EXPIRATION_SECONDS: i64 = 600;
/// The longest life of a kubeconfig, a year: an authority that was replaced is trusted for as long, and no longer.
pub const LONGEST_EXPIRATION_SECONDS: i64 = 365 * 24 * 60 * 60;
// A rule and no bounds of the schema: those are told as 3.1536e+07.
const EXPIRATION_RULE: &str = "self >= 600 && self <= 31536000";
const EXPIRATION_MESSAGE: &str =
    "expirationSeconds must be from 600 (ten minutes) to 31536000 (a year), such as 3600";

/// For whom kubeconfigs are made, and for which control planes.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "steward.butlerlabs.dev",
    version = "v1alpha1",
    kind = "KubeconfigGenerator",
    plural = "kubeconfiggenerators",
    shortname = "kc",
    category = "steward",
    status = "KubeconfigGeneratorStatus",
    derive = "PartialEq",
    doc = "Makes a kubeconfig Secret named <control plane>-<generator> beside every selected TenantControlPlane, and renews it.",
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct KubeconfigGeneratorSpec {
    /// Namespaces to look in, by their labels; all if absent or empty. See `kubectl explain deployment.spec.selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::embedded::schema_of::<LabelSelector>")]
    pub namespace_selector: Option<LabelSelector>,
    /// Control planes to make a kubeconfig for, by their labels; all in the selected namespaces if absent or empty. See
    /// `kubectl explain deployment.spec.selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::embedded::schema_of::<LabelSelector>")]
    pub tenant_control_plane_selector: Option<LabelSelector>,
    /// User the kubeconfig logs in as: the common name of its client certificate.
    pub user: CompoundValue,
    /// Groups of that user: the organisations of its client certificate. None if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<CompoundValue>,
    /// Key of the control plane's admin kubeconfig Secret whose server address is taken over. The default
    /// `admin.svc` is the address inside the management cluster, `admin.conf` the one outside.
    #[serde(default = "in_cluster_endpoint")]
    pub control_plane_endpoint_from: String,
    /// How long each kubeconfig can be used, in seconds: from ten minutes (600) to a year (31536000, the default). It is
    /// renewed when about two thirds of that are over. A shorter time takes effect at once, a longer one at the next
    /// renewal. A kubeconfig that was copied before stays usable until its own end.
    #[serde(default = "a_year")]
    #[x_kube(validation = Rule::new(EXPIRATION_RULE).message(EXPIRATION_MESSAGE))]
    pub expiration_seconds: i64,
}

fn in_cluster_endpoint() -> String {
    "admin.svc".to_owned()
}

fn a_year() -> i64 {
    LONGEST_EXPIRATION_SECONDS
}

/// A text that is given, or read from each selected control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(ONE_SOURCE).message("set exactly one of stringValue and fromDefinition"))]
pub struct CompoundValue {
    /// The text itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string_value: Option<String>,
    /// Dotted path into the `TenantControlPlane` to a text, such as `metadata.name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_definition: Option<String>,
}

/// How far a generator has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeconfigGeneratorStatus {
    /// How many control planes are selected.
    #[serde(default)]
    pub resources: i64,
    /// How many of them have an up-to-date kubeconfig.
    #[serde(default)]
    pub available_resources: i64,
    /// When the first of these kubeconfigs ends, unless it is renewed before. The annotation
    /// `steward.butlerlabs.dev/expiration` of each Secret says it of that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earliest_expiration: Option<Time>,
    /// What went wrong, one entry for each control plane without a kubeconfig.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<GenerationError>,
    /// Generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready` says whether every selected control plane has its kubeconfig.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// A control plane that could not be served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenerationError {
    /// The control plane, as `namespace/name`.
    pub resource: String,
    /// What went wrong and what to do.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::testing;

    const EXAMPLE: &str = include_str!("../../../../examples/kubeconfig-generator.yaml");

    #[test]
    fn a_users_manifest_is_kept_as_written() {
        let generator: KubeconfigGenerator = testing::read(EXAMPLE);
        assert_eq!(
            generator.spec.user.from_definition.as_deref(),
            Some("metadata.name")
        );
    }

    #[test]
    fn the_kubeconfig_is_for_use_inside_the_management_cluster_unless_told_otherwise() {
        let spec: KubeconfigGeneratorSpec =
            serde_json::from_value(json!({ "user": { "stringValue": "monitoring" } })).unwrap();
        assert_eq!(spec.control_plane_endpoint_from, "admin.svc");
        assert_eq!(
            testing::field::<KubeconfigGenerator>("spec.controlPlaneEndpointFrom")["default"],
            "admin.svc"
        );
    }

    #[test]
    fn a_kubeconfig_ends_after_a_year_unless_told_otherwise() {
        let spec: KubeconfigGeneratorSpec =
            serde_json::from_value(json!({ "user": { "stringValue": "monitoring" } })).unwrap();
        assert_eq!(spec.expiration_seconds, 31_536_000);
        let spec: KubeconfigGeneratorSpec = serde_json::from_value(
            json!({ "user": { "stringValue": "on-call" }, "expirationSeconds": 3600 }),
        )
        .unwrap();
        assert_eq!(spec.expiration_seconds, 3600);
        let field = testing::field::<KubeconfigGenerator>("spec.expirationSeconds");
        assert_eq!(field["default"], 31_536_000);
        let (shortest, longest) = (SHORTEST_EXPIRATION_SECONDS, LONGEST_EXPIRATION_SECONDS);
        assert_eq!(
            field["x-kubernetes-validations"][0]["rule"],
            format!("self >= {shortest} && self <= {longest}")
        );
    }

    #[test]
    fn the_crd_says_what_kubectl_needs() {
        assert_eq!(
            testing::crd_part::<KubeconfigGenerator>("spec/scope"),
            "Cluster"
        );
        assert_eq!(
            testing::crd_part::<KubeconfigGenerator>("spec/names/shortNames"),
            json!(["kc"])
        );
        assert_eq!(
            testing::crd_part::<KubeconfigGenerator>("spec/names/categories"),
            json!(["steward"])
        );
    }
}
