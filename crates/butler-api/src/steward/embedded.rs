//! Schemas of Kubernetes' own types where they are embedded in our kinds.
//!
//! The types themselves come from `k8s_openapi`, so that controllers can copy them into a pod. Their prose does not:
//! it would make up nine tenths of the CRD. The field that embeds one says which `kubectl explain` has it.

use k8s_openapi::api::apps::v1::DeploymentCondition;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

/// The schema of a Kubernetes type, without descriptions.
pub(crate) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<T>().to_value();
    drop_descriptions(&mut schema);
    schema.try_into().unwrap_or_default()
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
