//! Server-side apply, always forced: what the body says is the manager's, what it no longer says and nobody else owns goes.

use std::sync::Arc;

use butler_runtime::{
    api_server::{Cause, Part},
    object::{Kind, ObjectKey},
};
use serde_json::{Value, json};

use super::{
    ObjectStore, Refusal,
    fields::{FieldSet, Place, changed, fields_of, merged, without},
    record::{Manager, Managers, Ownership, ownable, text, without_nulls},
    schema,
    write::{refuse_new_finalizers, same_identity, same_object},
};

impl ObjectStore {
    pub(super) fn apply(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        part: Part,
        manager: &str,
        body: &Value,
    ) -> Result<Arc<Value>, Refusal> {
        let config = config_of(body, part);
        if !schema::is_builtin(kind) && has_null(&config) {
            let message = "a custom resource has no null; leave the field out";
            return Err(Refusal::new(Cause::Invalid, message));
        }
        let config = without_nulls(&config);
        let manager = Manager {
            name: manager.to_owned(),
            ownership: Ownership::Apply,
            status: part == Part::Status,
        };
        let (uid, version) = (
            text(body, "/metadata/uid"),
            text(body, "/metadata/resourceVersion"),
        );
        let place = Place::root(kind);
        let fields = fields_of(&config, &place);
        let Some(before) = self.record(kind, key).cloned() else {
            if part == Part::Status {
                self.existing(kind, key)?;
            }
            if uid.is_some() || version.is_some() {
                let message =
                    "the body means an object that exists, and no existing object was found";
                return Err(Refusal::new(Cause::Conflict, message));
            }
            self.admit_creation(kind, key)?;
            return Ok(self.put(kind, key, config, Managers::from([(manager, fields)])));
        };
        same_object(&before, None, version)?;
        // A status goes to whatever object has the name: the server does not look at the UID there.
        if part == Part::Object {
            same_identity(&before, body)?;
        }
        let mut managers = before.managers.clone();
        let last = managers.remove(&manager).unwrap_or_default();
        let kept = managers
            .values()
            .fold(fields.clone(), FieldSet::union)
            .with_parents();
        let dropped = last.with_parents().difference(&kept);
        let live = ownable(&before.body);
        let new = without(&merged(Some(&live), &config, &place), &dropped, &place);
        refuse_new_finalizers(&before, &new)?;
        let changed = changed(Some(&live), &new, &place);
        for theirs in managers.values_mut() {
            *theirs = theirs.difference(&changed);
        }
        managers.insert(manager, fields);
        Ok(self.put(kind, key, new, managers))
    }
}

/// What an apply is about: the status alone, or all but the status.
fn config_of(body: &Value, part: Part) -> Value {
    let mut config = ownable(body);
    match (part, config.as_object_mut()) {
        (Part::Object, Some(object)) => drop(object.remove("status")),
        (Part::Object, None) => config = json!({}),
        (Part::Status, _) => {
            let status = config.get("status").cloned();
            config = status.map_or_else(|| json!({}), |status| json!({ "status": status }));
        }
    }
    config
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(object) => object.values().any(has_null),
        Value::Array(items) => items.iter().any(has_null),
        _ => false,
    }
}
