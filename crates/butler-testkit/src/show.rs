//! Objects as a person reads them in the report of a failed test.

use serde::Serialize;
use serde_json::Value;

/// The object as indented JSON, without managed fields, and without the values of Secrets.
pub(crate) fn object(object: &impl Serialize) -> String {
    let mut value = match serde_json::to_value(object) {
        Ok(value) => value,
        Err(error) => return format!("(cannot be shown: {error})"),
    };
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    if value.get("kind").and_then(Value::as_str) == Some("Secret") {
        for field in ["data", "stringData"] {
            if let Some(entries) = value.get_mut(field).and_then(Value::as_object_mut) {
                entries
                    .values_mut()
                    .for_each(|entry| *entry = Value::from("(hidden)"));
            }
        }
    }
    serde_json::to_string_pretty(&value).unwrap_or_default()
}
