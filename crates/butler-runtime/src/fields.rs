//! Which fields of an object are ours, and whether they still say what we mean.
//!
//! Server-side apply records, for each manager, the set of fields it owns (`metadata.managedFields`, form `FieldsV1`). Taking
//! just those fields out of an object gives back what that manager last applied. We hash that when an object enters a cache
//! and throw the rest away: an equal hash of an intent means that applying it would change nothing.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::api_server::Part;

/// A hash of JSON that means the same: independent of key order, blind to absent values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntentHash(u64);

/// The hash of what one manager owns in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedHash {
    /// The field manager.
    pub manager: String,
    /// Which part it applied.
    pub part: Part,
    /// What it owns there, as it stands.
    pub hash: IntentHash,
}

/// Hashes what a manifest's body says, leaving out what identifies the object rather than describes it.
pub fn hash_of_intent(body: &Value) -> IntentHash {
    let mut body = body.clone();
    if let Some(object) = body.as_object_mut() {
        object.remove("apiVersion");
        object.remove("kind");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for identity in ["name", "namespace", "uid", "resourceVersion"] {
                metadata.remove(identity);
            }
        }
    }
    hash(&body)
}

/// Hashes, for every manager that applied something, what it owns in an object as read from the API server.
pub fn managed_hashes(object: &Value) -> Vec<ManagedHash> {
    let entries = object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    entries
        .into_iter()
        .flatten()
        .filter(|entry| entry.get("operation").and_then(Value::as_str) == Some("Apply"))
        .filter_map(|entry| {
            let manager = entry.get("manager")?.as_str()?.to_owned();
            let part = match entry.get("subresource").and_then(Value::as_str) {
                None | Some("") => Part::Object,
                Some("status") => Part::Status,
                Some(_) => return None,
            };
            let hash = hash(&owned_part(object, entry.get("fieldsV1")?));
            Some(ManagedHash {
                manager,
                part,
                hash,
            })
        })
        .collect()
}

/// The part of `value` that the field set names.
fn owned_part(value: &Value, fields: &Value) -> Value {
    let Some(fields) = fields.as_object() else {
        return value.clone();
    };
    if fields.is_empty() {
        return value.clone();
    }
    match value {
        Value::Object(object) => Value::Object(owned_members(object, fields)),
        Value::Array(items) => Value::Array(owned_items(items, fields)),
        scalar => scalar.clone(),
    }
}

fn owned_members(object: &Map<String, Value>, fields: &Map<String, Value>) -> Map<String, Value> {
    fields
        .iter()
        .filter_map(|(selector, nested)| {
            let name = selector.strip_prefix("f:")?;
            Some((name.to_owned(), owned_part(object.get(name)?, nested)))
        })
        .collect()
}

/// Items in the order in which they stand in the object: order can be ours too.
fn owned_items(items: &[Value], fields: &Map<String, Value>) -> Vec<Value> {
    items
        .iter()
        .enumerate()
        .filter_map(|(index, item)| {
            fields.iter().find_map(|(selector, nested)| {
                selects(selector, index, item).then(|| owned_part(item, nested))
            })
        })
        .collect()
}

/// Whether a selector of a list (`k:{…}` by key, `v:…` by value, `i:…` by index) means this item.
fn selects(selector: &str, index: usize, item: &Value) -> bool {
    let parse = |text| serde_json::from_str::<Value>(text).ok();
    if let Some(keys) = selector.strip_prefix("k:") {
        let Some(Value::Object(keys)) = parse(keys) else {
            return false;
        };
        // A key that is absent in the item has its default there; the server put it into the selector.
        keys.iter()
            .all(|(name, expected)| item.get(name).is_none_or(|actual| actual == expected))
    } else if let Some(expected) = selector.strip_prefix("v:") {
        parse(expected).as_ref() == Some(item)
    } else {
        selector
            .strip_prefix("i:")
            .and_then(|text| text.parse().ok())
            == Some(index)
    }
}

fn hash(value: &Value) -> IntentHash {
    let mut hasher = Sha256::new();
    feed(&mut hasher, None, value);
    let digest = hasher.finalize();
    IntentHash(
        digest
            .iter()
            .take(8)
            .fold(0, |sum, byte| (sum << 8) | u64::from(*byte)),
    )
}

/// Objects whose members are quantities, which the API server rewrites into their canonical form.
const QUANTITY_MAPS: [&str; 5] = ["requests", "limits", "hard", "capacity", "allocatable"];

fn feed(hasher: &mut Sha256, parent: Option<&str>, value: &Value) {
    match value {
        Value::Null => {}
        Value::Object(object) => {
            let mut members: Vec<_> = object
                .iter()
                .filter(|(_, member)| !is_absent(member))
                .collect();
            members.sort_by_key(|(name, _)| name.as_str());
            hasher.update(b"{");
            for (name, member) in members {
                hasher.update(name.as_bytes());
                hasher.update(b":");
                if parent.is_some_and(|parent| QUANTITY_MAPS.contains(&parent)) {
                    hasher.update(canonical_quantity(member).as_bytes());
                } else {
                    feed(hasher, Some(name), member);
                }
                hasher.update(b",");
            }
            hasher.update(b"}");
        }
        Value::Array(items) => {
            hasher.update(b"[");
            for item in items {
                feed(hasher, None, item);
                hasher.update(b",");
            }
            hasher.update(b"]");
        }
        scalar => hasher.update(scalar.to_string().as_bytes()),
    }
}

/// Null and the empty object say nothing that the API server would record.
fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(object) => object.values().all(is_absent),
        _ => false,
    }
}

fn canonical_quantity(value: &Value) -> String {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    // What the API server keeps may itself have another canonical form; the second one stays.
    butler_api::Quantity::new(text.as_str())
        .canonical()
        .and_then(|quantity| quantity.canonical())
        .map_or(text, |quantity| quantity.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_owned_part_is_what_the_manager_applied() {
        let object = json!({
            "metadata": {
                "name": "web", "labels": { "ours": "1", "theirs": "2" }, "finalizers": ["a", "b"],
                "managedFields": [{
                    "manager": "butler", "operation": "Apply", "fieldsV1": {
                        "f:metadata": { "f:labels": { "f:ours": {} }, "f:finalizers": { "v:\"b\"": {} } },
                        "f:spec": { "f:ports": { "k:{\"port\":443,\"protocol\":\"TCP\"}": { ".": {}, "f:port": {} } } },
                    },
                }],
            },
            "spec": { "ports": [{ "port": 80, "protocol": "TCP" }, { "port": 443, "protocol": "TCP" }], "clusterIP": "x" },
        });
        let intent = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "web", "labels": { "ours": "1" }, "finalizers": ["b"] },
            "spec": { "ports": [{ "port": 443 }] },
        });
        let managed = managed_hashes(&object);
        assert_eq!(managed.len(), 1);
        assert_eq!(managed[0].hash, hash_of_intent(&intent));
    }

    #[test]
    fn a_field_changed_by_somebody_else_shows() {
        let object = |replicas| {
            json!({
                "metadata": { "managedFields": [{
                    "manager": "butler", "operation": "Apply", "fieldsV1": { "f:spec": { "f:replicas": {} } },
                }] },
                "spec": { "replicas": replicas },
            })
        };
        let intent = hash_of_intent(&json!({ "spec": { "replicas": 2 } }));
        assert_eq!(managed_hashes(&object(2))[0].hash, intent);
        assert_ne!(managed_hashes(&object(3))[0].hash, intent);
    }

    #[test]
    fn quantities_are_compared_in_canonical_form() {
        let of =
            |cpu: &str| hash_of_intent(&json!({ "resources": { "requests": { "cpu": cpu } } }));
        assert_eq!(of("0.5"), of("500m"));
        assert_ne!(of("0.5"), of("501m"));
    }

    #[test]
    fn key_order_and_nulls_do_not_matter() {
        assert_eq!(
            hash_of_intent(&json!({ "spec": { "a": 1, "b": null, "c": {} } })),
            hash_of_intent(&json!({ "spec": { "a": 1 } })),
        );
    }
}
