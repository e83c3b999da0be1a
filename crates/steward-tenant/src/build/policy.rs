//! Policies that refuse writes, evaluated by the tenant's API server itself.
//!
//! A `ValidatingAdmissionPolicy` refuses what a webhook of ours would refuse, with no call back into the management cluster: no
//! certificate to renew, nothing to reach, no request that waits for us, and it goes on while Steward is away. The API server
//! never asks policies about policies, so that one can always be taken away again.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use serde_json::{Value, json};

use super::Workbench;
use crate::desired::DesiredObject;

/// Reviews are asked, not stored.
const REVIEWS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

/// What a policy refuses.
pub(super) struct Refusal<'a> {
    /// Name of the policy and of its binding.
    pub(super) name: &'a str,
    /// Requests it is about.
    pub(super) rules: Vec<Value>,
    /// Namespaces it is not about.
    pub(super) spared_namespaces: &'a [&'a str],
    /// What must hold for a request to be refused: a name and an expression each.
    pub(super) conditions: &'a [(&'a str, String)],
    /// What whoever is refused is told.
    pub(super) message: &'a str,
}

/// Requests by their operations, to resources of all groups.
pub(super) fn rule(operations: &[&str], resources: &[&str]) -> Value {
    group_rule("*", operations, resources)
}

/// Requests by their operations, to resources of one group.
pub(super) fn group_rule(group: &str, operations: &[&str], resources: &[&str]) -> Value {
    json!({
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": operations,
        "resources": resources,
        "scope": "*",
    })
}

/// The policy and its binding.
pub(super) fn objects(workbench: Workbench<'_>, refusal: &Refusal<'_>) -> Vec<DesiredObject> {
    let name = refusal.name;
    let mut exempt: Vec<Value> = REVIEWS
        .iter()
        .map(|group| group_rule(group, &["CREATE"], &["*"]))
        .collect();
    exempt.push(group_rule("", &["CREATE"], &["serviceaccounts/token"]));
    // Leases are renewed all the time and tell nothing but that somebody is alive: refusing it would stop controllers.
    exempt.push(group_rule("coordination.k8s.io", &["UPDATE"], &["leases"]));
    let mut constraints = json!({
        "matchPolicy": "Equivalent",
        "resourceRules": refusal.rules,
        "excludeResourceRules": exempt,
    });
    if !refusal.spared_namespaces.is_empty() {
        constraints["namespaceSelector"] = json!({ "matchExpressions": [{
            "key": butler_api::keys::labels::NAMESPACE_NAME,
            "operator": "NotIn",
            "values": refusal.spared_namespaces,
        }] });
    }
    let conditions: Vec<Value> = refusal
        .conditions
        .iter()
        .map(|(name, expression)| json!({ "name": name, "expression": expression }))
        .collect();
    let policy = workbench.object::<ValidatingAdmissionPolicy>(json!({
        "metadata": { "name": name },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": constraints,
            "matchConditions": conditions,
            "validations": [{ "expression": "false", "message": refusal.message, "reason": "Forbidden" }],
        },
    }));
    let binding = workbench.object::<ValidatingAdmissionPolicyBinding>(json!({
        "metadata": { "name": name },
        "spec": { "policyName": name, "validationActions": ["Deny"] },
    }));
    vec![policy, binding]
}
