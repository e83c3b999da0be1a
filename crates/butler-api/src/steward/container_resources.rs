//! Requests and limits of a container, as a pod has them.
//!
//! A type of our own and not Kubernetes', so that quantities are checked and stay as the user wrote them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceClaim, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as KubernetesQuantity;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// Requests and limits of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerResources {
    /// Resource claims of the pod that this container uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    pub claims: Vec<ContainerResourceClaim>,
    /// The most the container may use, by resource: `cpu`, `memory` and so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Quantity>,
    /// What is set aside for the container, by resource; the limits if absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
}

/// A resource claim that a container uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerResourceClaim {
    /// Name of the claim, as the pod lists it.
    pub name: String,
    /// Which request of the claim is meant; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

impl From<ContainerResources> for ResourceRequirements {
    fn from(resources: ContainerResources) -> Self {
        let quantities = |amounts: BTreeMap<String, Quantity>| {
            let amounts: BTreeMap<_, _> = amounts
                .into_iter()
                .map(|(name, amount)| (name, KubernetesQuantity(amount.to_string())))
                .collect();
            (!amounts.is_empty()).then_some(amounts)
        };
        let claims: Vec<_> = resources
            .claims
            .into_iter()
            .map(|claim| ResourceClaim {
                name: claim.name,
                request: claim.request,
            })
            .collect();
        Self {
            claims: (!claims.is_empty()).then_some(claims),
            limits: quantities(resources.limits),
            requests: quantities(resources.requests),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_gets_what_the_user_wrote() {
        let written = json!({
            "claims": [{ "name": "gpu", "request": "one" }],
            "limits": { "memory": "2Gi" },
            "requests": { "cpu": 1 },
        });
        let resources: ContainerResources =
            serde_json::from_value(written.clone()).expect("resources");
        assert_eq!(serde_json::to_value(&resources).expect("JSON"), written);
        assert_eq!(
            serde_json::to_value(ResourceRequirements::from(resources)).expect("JSON"),
            json!({
                "claims": [{ "name": "gpu", "request": "one" }],
                "limits": { "memory": "2Gi" },
                "requests": { "cpu": "1" },
            })
        );
    }
}
