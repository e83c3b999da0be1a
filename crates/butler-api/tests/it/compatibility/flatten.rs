//! Turns our definitions into the notation of the tables.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use super::table::Field;

/// Every field below `spec` and `status`, by path: `spec.access.users[].role`, `spec.labels{}`.
pub(super) fn flatten(definition: &CustomResourceDefinition) -> BTreeMap<String, Field> {
    let mut found = BTreeMap::new();
    let schema = definition.spec.versions[0].schema.as_ref().expect("schema");
    let schema = schema.open_api_v3_schema.as_ref().expect("schema");
    for part in ["spec", "status"] {
        if let Some(field) = schema
            .properties
            .as_ref()
            .and_then(|fields| fields.get(part))
        {
            let required = is_required(schema, part);
            walk(part.to_owned(), field, required, &mut found);
        }
    }
    found
}

fn is_required(schema: &JSONSchemaProps, name: &str) -> bool {
    schema
        .required
        .iter()
        .flatten()
        .any(|required| required == name)
}

fn walk(
    path: String,
    schema: &JSONSchemaProps,
    required: bool,
    found: &mut BTreeMap<String, Field>,
) {
    for (name, field) in schema.properties.iter().flatten() {
        walk(
            format!("{path}.{name}"),
            field,
            is_required(schema, name),
            found,
        );
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        walk(format!("{path}[]"), items, false, found);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        walk(format!("{path}{{}}"), values, false, found);
    }
    found.insert(path, field(schema, required));
}

fn field(schema: &JSONSchemaProps, required: bool) -> Field {
    let preserves = schema.x_kubernetes_preserve_unknown_fields == Some(true);
    let kind = match schema.type_.as_deref() {
        _ if schema.x_kubernetes_int_or_string == Some(true) => "int-or-string",
        Some("object") | None if preserves => "object+unknown",
        Some(kind) => kind,
        None => "",
    };
    let number = |value: f64| value.to_string();
    let mut bounds = BTreeMap::new();
    let mut bound = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            bounds.insert(name.to_owned(), value);
        }
    };
    bound("minimum", schema.minimum.map(number));
    bound("maximum", schema.maximum.map(number));
    bound(
        "minLength",
        schema.min_length.map(|length| length.to_string()),
    );
    bound(
        "maxLength",
        schema.max_length.map(|length| length.to_string()),
    );
    bound(
        "minItems",
        schema.min_items.map(|length| length.to_string()),
    );
    bound(
        "maxItems",
        schema.max_items.map(|length| length.to_string()),
    );
    bound(
        "maxProperties",
        schema.max_properties.map(|length| length.to_string()),
    );
    bound("pattern", schema.pattern.clone());
    bound("format", schema.format.clone());
    Field {
        kind: kind.to_owned(),
        required,
        values: schema
            .enum_
            .iter()
            .flatten()
            .map(|value| {
                value
                    .0
                    .as_str()
                    .map_or_else(|| value.0.to_string(), str::to_owned)
            })
            .collect(),
        default: schema.default.as_ref().map(|default| default.0.to_string()),
        list: schema.x_kubernetes_list_type.as_ref().map(|list| {
            let keys = schema.x_kubernetes_list_map_keys.iter().flatten();
            let keys = keys.map(String::as_str).collect::<Vec<_>>().join(",");
            if keys.is_empty() {
                list.clone()
            } else {
                format!("{list}:{keys}")
            }
        }),
        bounds,
    }
}
