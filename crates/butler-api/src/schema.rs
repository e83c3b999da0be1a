//! Schema fragments that derives cannot say.
//!
//! Used with `#[schemars(schema_with = "crate::schema::…")]` where a field has no Rust type of its own.

use schemars::{Schema, SchemaGenerator, json_schema};

/// An object whose keys the API server keeps without knowing them: Helm values, provider extras.
pub fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// Any JSON value at all, kept as it is.
pub fn any_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// Standard Kubernetes conditions, merged by type so that several writers may each own theirs.
pub fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let item = generator
        .subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>();
    json_schema!({
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}
