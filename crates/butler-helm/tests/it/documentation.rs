//! What is written down about the charts is what is in them.

use std::collections::BTreeMap;
use std::fs;

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::support::repository;

fn yaml(path: &str) -> Value {
    let text = fs::read_to_string(repository().join(path)).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

/// Every value with its default, as the table has them; what is empty or a list is one value.
fn flatten(prefix: &str, value: &Value, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                let path = if prefix.is_empty() {
                    key.clone()
                } else {
                    format!("{prefix}.{key}")
                };
                flatten(&path, value, into);
            }
        }
        Value::String(text) if text.is_empty() => {
            into.insert(prefix.to_owned(), String::new());
        }
        Value::String(text) => {
            into.insert(prefix.to_owned(), format!("`{text}`"));
        }
        Value::Array(items) if !items.is_empty() => {
            into.insert(prefix.to_owned(), "see `values.yaml`".to_owned());
        }
        other => {
            into.insert(prefix.to_owned(), format!("`{other}`"));
        }
    }
}

/// The charts whose values people choose, and where these are explained.
const GUIDES: [(&str, &str); 2] = [
    ("butler", "docs/install.md"),
    ("steward-etcd", "docs/architecture/data-stores.md"),
];

#[test]
fn the_guides_list_every_value_and_its_default() {
    for (chart, guide) in GUIDES {
        let mut expected = BTreeMap::new();
        let values = yaml(&format!("charts/{chart}/values.yaml"));
        flatten("", &values, &mut expected);
        let guide = fs::read_to_string(repository().join(guide)).unwrap();
        let rows = guide.lines().filter(|line| line.starts_with("| `"));
        let listed: BTreeMap<_, _> = rows
            .map(|row| {
                let cells: Vec<_> = row.split('|').map(str::trim).collect();
                (cells[1].trim_matches('`').to_owned(), cells[2].to_owned())
            })
            .collect();
        assert_eq!(listed, expected, "{chart}");
    }
}

#[test]
fn charts_have_the_version_of_the_code() {
    for chart in ["butler", "butler-crds", "steward-etcd"] {
        let chart = yaml(&format!("charts/{chart}/Chart.yaml"));
        assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    }
}
