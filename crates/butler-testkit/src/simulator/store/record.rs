//! One stored object: its body, and who owns which of its fields.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fields::FieldSet;

/// How a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ownership {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Ownership {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Who owns fields, and through which door.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) ownership: Ownership,
    pub(super) status: bool,
}

/// Who owns what.
pub(super) type Managers = BTreeMap<Manager, FieldSet>;

/// A stored object.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// Without `managedFields`.
    pub(super) body: Value,
    pub(super) managers: Managers,
    times: BTreeMap<Manager, Timestamp>,
    /// As clients see it.
    pub(super) shown: Arc<Value>,
}

impl Record {
    pub(super) fn new(
        body: Value,
        managers: Managers,
        before: Option<&Self>,
        now: Timestamp,
    ) -> Self {
        let since = |manager: &Manager, fields: &FieldSet| {
            let before = before.filter(|before| before.managers.get(manager) == Some(fields))?;
            before.times.get(manager).copied()
        };
        let times: BTreeMap<_, _> = managers
            .iter()
            .map(|(manager, fields)| (manager.clone(), since(manager, fields).unwrap_or(now)))
            .collect();
        let api_version = &body["apiVersion"];
        let entries: Vec<_> = managers
            .iter()
            .map(|(manager, fields)| {
                let mut entry = json!({
                    "manager": manager.name,
                    "operation": manager.ownership.as_str(),
                    "apiVersion": api_version,
                    "time": times.get(manager),
                    "fieldsType": "FieldsV1",
                    "fieldsV1": fields.to_json(),
                });
                if manager.status {
                    entry["subresource"] = "status".into();
                }
                entry
            })
            .collect();
        let mut shown = body.clone();
        shown["metadata"]["managedFields"] = entries.into();
        Self {
            body,
            managers,
            times,
            shown: Arc::new(shown),
        }
    }
}

/// The text at a JSON pointer.
pub(super) fn text<'a>(body: &'a Value, pointer: &str) -> Option<&'a str> {
    body.pointer(pointer).and_then(Value::as_str)
}

/// The texts of a list at a JSON pointer.
pub(super) fn texts<'a>(body: &'a Value, pointer: &str) -> Vec<&'a str> {
    let items = body.pointer(pointer).and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Members of `metadata` that only the API server writes.
const SERVER_OWNED: [&str; 6] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
];

/// What of an object can be owned: all but what identifies it and what the server alone writes.
pub(super) fn ownable(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(object) = body.as_object_mut() {
        object.remove("apiVersion");
        object.remove("kind");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for name in ["name", "namespace", "managedFields", "selfLink"]
                .iter()
                .chain(&SERVER_OWNED)
            {
                metadata.remove(*name);
            }
            if metadata.is_empty() {
                object.remove("metadata");
            }
        }
    }
    body
}

/// Gives a new body the server's members of `metadata` as they stood.
pub(super) fn keep_server_owned(body: &mut Value, before: Option<&Value>) {
    let metadata = &mut body["metadata"];
    for name in SERVER_OWNED {
        let kept = before
            .and_then(|before| before["metadata"].get(name))
            .cloned();
        if let Some(kept) = kept {
            metadata[name] = kept;
        } else if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove(name);
        }
    }
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("managedFields");
    }
}

/// Drops null members: they say nothing.
pub(super) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let said = object.iter().filter(|(_, member)| !member.is_null());
            said.map(|(name, member)| (name.clone(), without_nulls(member)))
                .collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}
