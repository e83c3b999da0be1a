//! `ClusterCreationPolicy`: what teams may choose when they create a cluster.
//!
//! Owns the wire form of a policy. Which policy wins for a cluster, and whether a team or environment exists, is
//! decided elsewhere; the schema only refuses policies that make no sense by themselves.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Restricts or guides the choice of image, network, cluster and storage container of new tenant clusters.
///
/// For each option the most specific policy with a rule for it wins: team and environment, then team, then the whole
/// platform. Only `pin` and `allowList` refuse anything; `default` and `recommended` guide. An option that a cluster
/// leaves unset is always allowed.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "ClusterCreationPolicy",
    plural = "clustercreationpolicies",
    shortname = "ccp",
    status = "ClusterCreationPolicyStatus",
    derive = "PartialEq",
    doc = "Restricts or guides what teams may choose when they create a cluster.",
    printcolumn(
        name = "Platform",
        type_ = "boolean",
        json_path = ".spec.scope.platformWide"
    ),
    printcolumn(name = "Team", type_ = "string", json_path = ".spec.scope.team"),
    printcolumn(
        name = "Environment",
        type_ = "string",
        json_path = ".spec.scope.teamAndEnvironment.environment"
    ),
    printcolumn(
        name = "Providers",
        type_ = "string",
        json_path = ".spec.targetProviders",
        priority = 1
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCreationPolicySpec {
    /// Whose clusters the policy is about.
    pub scope: PolicyScope,
    /// Names of the `ProviderConfig` objects the policy applies to. All of them if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub target_providers: Vec<String>,
    /// One rule for each option the policy speaks about: `image`, `network`, `cluster` or `storageContainer`. Options
    /// without a rule are left to the next wider policy.
    #[schemars(with = "BTreeMap<String, OptionRule>", extend("minProperties" = 1, "maxProperties" = 4))]
    #[x_kube(validation = Rule::new("self.all(key, key in ['image', 'network', 'cluster', 'storageContainer'])").message("options may only have the keys image, network, cluster and storageContainer"))]
    pub options: BTreeMap<PolicyOption, OptionRule>,
}

/// Whose clusters a policy is about: exactly one of the fields is given.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.platformWide), has(self.clusterWide), has(self.team), has(self.teamAndEnvironment)].filter(given, given).size() == 1")
        .message("scope needs exactly one of platformWide, clusterWide (the older spelling of platformWide), team and teamAndEnvironment")
)]
pub struct PolicyScope {
    /// `true`: the clusters of every team. A team cannot be excluded here; leave the field out instead of `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self").message("platformWide must be true, or absent"))]
    pub platform_wide: Option<bool>,
    /// The older spelling of `platformWide`, with the same meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self").message("clusterWide must be true, or absent"))]
    pub cluster_wide: Option<bool>,
    /// The clusters of the team with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub team: Option<String>,
    /// The clusters of one environment of one team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_and_environment: Option<TeamAndEnvironment>,
}

/// One environment of one team.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamAndEnvironment {
    /// Name of the team.
    #[schemars(length(min = 1, max = 63))]
    pub team: String,
    /// Name of the environment within the team.
    #[schemars(length(min = 1, max = 63))]
    pub environment: String,
}

/// Something a person chooses for a new cluster and a policy can speak about.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[schemars(description = "")]
pub enum PolicyOption {
    /// The operating system image of the machines.
    Image,
    /// The network the machines are attached to.
    Network,
    /// The hypervisor cluster the machines run on.
    Cluster,
    /// Where the provider keeps the machines' disks.
    StorageContainer,
}

/// What a policy says about one option.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.mode != 'pin' || (has(self.values) && self.values.size() == 1)")
        .message("mode pin needs exactly 1 entry in values"),
    validation = Rule::new("!(self.mode in ['allowList', 'recommended']) || (has(self.values) && self.values.size() >= 1)")
        .message("mode allowList and mode recommended need at least 1 entry in values"),
    validation = Rule::new("self.mode != 'default' || has(self.default)")
        .message("mode default needs the field default"),
    validation = Rule::new("!has(self.default) || self.mode == 'default' || (has(self.values) && self.default in self.values)")
        .message("default must be one of values, unless mode is default"),
    validation = Rule::new("!has(self.recommendedReason) || self.mode == 'recommended'")
        .message("recommendedReason may only be given with mode recommended")
)]
pub struct OptionRule {
    /// `pin` fixes the one value, `allowList` refuses every other than those listed, `default` fills the choice in,
    /// `recommended` puts the listed values first.
    pub mode: PolicyMode,
    /// The values the rule is about, as the provider names them: UUIDs on Nutanix, names on Harvester. Exactly one for
    /// `pin`, at least one for `allowList` and `recommended`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 253)))]
    pub values: Vec<String>,
    /// The value that is chosen when a person does not choose. Required for `default`; with the other modes it must be
    /// one of `values`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub default: Option<String>,
    /// Why the values are recommended, shown beside them. Only with `recommended`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub recommended_reason: Option<String>,
}

/// How strictly a rule is meant.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[schemars(description = "")]
pub enum PolicyMode {
    /// The one value and no other.
    Pin,
    /// One of the values and no other.
    AllowList,
    /// Any value; the default if none is chosen.
    Default,
    /// Any value; the listed ones are shown first.
    Recommended,
}

/// What the controller found about the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCreationPolicyStatus {
    /// What is known about the policy, one entry for each aspect, such as whether its team exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The `metadata.generation` of the policy that this status answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use kube::core::cel::Validator;
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn manifest(scope: &Value, options: &Value) -> Value {
        json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1",
            "kind": "ClusterCreationPolicy",
            "metadata": { "name": "images" },
            "spec": { "scope": scope, "options": options },
        })
    }

    /// Judges the JSON itself, because some of what the rules refuse has no Rust form.
    fn judge(scope: &Value, options: &Value) -> Result<(), String> {
        let definition = ClusterCreationPolicy::crd();
        let schema = serde_json::to_value(&definition.spec.versions[0].schema).unwrap();
        Validator::new()
            .validate(&schema["openAPIV3Schema"], &manifest(scope, options), None)
            .map_err(|errors| errors.to_string())
    }

    fn platform() -> Value {
        json!({ "platformWide": true })
    }

    fn image(rule: &Value) -> Value {
        json!({ "image": rule })
    }

    #[test]
    fn policy_for_one_environment_reads_back_as_written() {
        let mut written = manifest(
            &json!({ "teamAndEnvironment": { "team": "payments", "environment": "prod" } }),
            &json!({
                "image": { "mode": "allowList", "values": ["a", "b"], "default": "a" },
                "network": { "mode": "recommended", "values": ["vlan40"], "recommendedReason": "quiet" },
                "storageContainer": { "mode": "pin", "values": ["fast"] },
            }),
        );
        written["spec"]["targetProviders"] = json!(["nutanix"]);
        let policy: ClusterCreationPolicy = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&policy).unwrap(), written);
        assert_eq!(
            judge(&written["spec"]["scope"], &written["spec"]["options"]),
            Ok(())
        );
    }

    #[test]
    fn definition_is_cluster_scoped_with_its_short_name() {
        let definition = ClusterCreationPolicy::crd();
        assert_eq!(definition.spec.scope, "Cluster");
        assert_eq!(
            definition.spec.names.short_names,
            Some(vec!["ccp".to_owned()])
        );
        let schema = serde_json::to_value(&definition.spec.versions[0].schema).unwrap();
        let options = &schema["openAPIV3Schema"]["properties"]["spec"]["properties"]["options"];
        assert_eq!(options["maxProperties"], json!(4));
        assert_eq!(
            options["additionalProperties"]["properties"]["mode"]["enum"],
            json!(["pin", "allowList", "default", "recommended"])
        );
    }

    #[test]
    fn scope_is_given_exactly_once() {
        let pin = image(&json!({ "mode": "pin", "values": ["a"] }));
        assert_eq!(judge(&json!({ "clusterWide": true }), &pin), Ok(()));
        assert_eq!(judge(&json!({ "team": "payments" }), &pin), Ok(()));
        for scope in [
            json!({}),
            json!({ "platformWide": true, "team": "payments" }),
        ] {
            let refusal = judge(&scope, &pin).unwrap_err();
            assert!(refusal.contains("exactly one of platformWide"), "{refusal}");
        }
        let refusal = judge(&json!({ "platformWide": false }), &pin).unwrap_err();
        assert!(refusal.contains("platformWide must be true"), "{refusal}");
    }

    #[test]
    fn rules_that_make_no_sense_are_refused_with_the_reason() {
        for (rule, reason) in [
            (
                json!({ "mode": "pin", "values": ["a", "b"] }),
                "pin needs exactly 1",
            ),
            (json!({ "mode": "pin" }), "pin needs exactly 1"),
            (json!({ "mode": "allowList" }), "need at least 1"),
            (
                json!({ "mode": "recommended", "values": [] }),
                "need at least 1",
            ),
            (
                json!({ "mode": "default", "values": ["a"] }),
                "needs the field default",
            ),
            (
                json!({ "mode": "allowList", "values": ["a"], "default": "b" }),
                "default must be one of values",
            ),
            (
                json!({ "mode": "pin", "values": ["a"], "recommendedReason": "x" }),
                "only be given with mode recommended",
            ),
        ] {
            let refusal = judge(&platform(), &image(&rule)).unwrap_err();
            assert!(refusal.contains(reason), "{rule}: {refusal}");
        }
    }

    #[test]
    fn unknown_option_is_refused_by_the_list_of_known_ones() {
        let options = json!({ "colour": { "mode": "pin", "values": ["red"] } });
        let refusal = judge(&platform(), &options).unwrap_err();
        assert!(refusal.contains("keys image, network, cluster and storageContainer"));
    }
}
