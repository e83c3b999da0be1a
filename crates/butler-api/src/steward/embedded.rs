//! Schemas of Kubernetes' own types where they are embedded in our kinds.
//!
//! The types themselves come from `k8s_openapi`, so that controllers can copy them into a pod. Their prose does not:
//! it would make up nine tenths of the CRD, and `kubectl explain pod.spec` has it anyway.

use k8s_openapi::api::apps::v1::DeploymentCondition;
use k8s_openapi::api::core::v1::ResourceClaim;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::Quantity;

/// The schema of a Kubernetes type, without descriptions.
pub(crate) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<T>().to_value();
    drop_descriptions(&mut schema);
    schema.try_into().unwrap_or_default()
}

/// Requests and limits of a container, with quantities checked and claims merged by name.
pub(crate) fn resources(generator: &mut SchemaGenerator) -> Schema {
    let claim = schema_of::<ResourceClaim>(generator);
    let quantity = generator.subschema_for::<Quantity>();
    json_schema!({
        "type": "object",
        "properties": {
            "claims": {
                "description": "Resource claims of the pod that this container uses.",
                "type": "array",
                "items": claim,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "limits": {
                "description": "The most the container may use, by resource: `cpu`, `memory` and so on.",
                "type": "object",
                "additionalProperties": quantity,
            },
            "requests": {
                "description": "What is set aside for the container, by resource; the limits if absent.",
                "type": "object",
                "additionalProperties": quantity,
            },
        },
    })
}

/// Conditions of a Deployment, which carry other times than the standard ones, merged by type.
pub(crate) fn deployment_conditions(generator: &mut SchemaGenerator) -> Schema {
    let item = schema_of::<DeploymentCondition>(generator);
    json_schema!({
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

fn drop_descriptions(schema: &mut Value) {
    let Value::Object(schema) = schema else {
        return;
    };
    schema.remove("description");
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(drop_descriptions);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(keyword) {
            drop_descriptions(inner);
        }
    }
}
