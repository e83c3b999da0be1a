//! Objects for programs: JSON, YAML, names.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// For people who want to know more
    Wide,
    /// The objects as they are in the cluster
    Json,
    /// The same as YAML
    Yaml,
    /// Names alone, one on each line
    Name,
}

/// Whether a document is written as JSON or YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// An object as a document. What only the API server is interested in is left out.
pub fn document(object: &impl Serialize, notation: Notation) -> anyhow::Result<String> {
    let mut value = serde_json::to_value(object)?;
    shorten(&mut value);
    written(&value, notation)
}

/// Several objects as one document, a list as kubectl has it.
pub fn list(objects: &[impl Serialize], notation: Notation) -> anyhow::Result<String> {
    let mut items = Vec::new();
    for object in objects {
        let mut value = serde_json::to_value(object)?;
        shorten(&mut value);
        items.push(value);
    }
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    written(&list, notation)
}

fn shorten(value: &mut Value) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

fn written(value: &Value, notation: Notation) -> anyhow::Result<String> {
    Ok(match notation {
        Notation::Json => serde_json::to_string_pretty(value)? + "\n",
        Notation::Yaml => serde_saphyr::to_string(value)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_leave_out_who_wrote_which_field() {
        let object = json!({ "metadata": { "name": "shop", "managedFields": [{}] } });
        let text = document(&object, Notation::Yaml).unwrap();
        insta::assert_snapshot!(text, @r"
        metadata:
          name: shop
        ");
        let text = list(&[object], Notation::Json).unwrap();
        assert!(!text.contains("managedFields"), "{text}");
    }
}
