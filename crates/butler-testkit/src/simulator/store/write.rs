//! Plain writes: create, replace, merge, delete, and the status of foreign controllers. They take ownership by what they
//! change.

use std::sync::Arc;

use butler_runtime::{
    api_server::{Cause, Preconditions},
    conditions::whole_seconds,
    object::{Kind, ObjectKey},
};
use serde_json::{Value, json};

use super::{
    ObjectStore, Refusal,
    fields::{FieldSet, Place, changed, fields_of},
    lifecycle::FOREGROUND_FINALIZER,
    raise_generation,
    record::{Manager, Managers, Ownership, Record, ownable, text, texts, without_nulls},
    schema,
};

impl ObjectStore {
    pub(super) fn create(
        &mut self,
        client: &str,
        kind: &Kind,
        key: &ObjectKey,
        body: &Value,
    ) -> Result<Arc<Value>, Refusal> {
        if text(body, "/metadata/resourceVersion").is_some() {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Refusal::new(Cause::Invalid, message));
        }
        self.admit_creation(kind, key)?;
        if self.record(kind, key).is_some() {
            let message = format!("{} \"{}\" already exists", kind.plural, key.name);
            return Err(Refusal::new(Cause::AlreadyExists, message));
        }
        let mut body = without_nulls(body);
        if let Some(object) = body.as_object_mut() {
            object.remove("status");
        }
        let managers = taken_over(kind, client, false, None, &body);
        Ok(self.put(kind, key, body, managers))
    }

    pub(super) fn replace(
        &mut self,
        client: &str,
        kind: &Kind,
        key: &ObjectKey,
        body: &Value,
    ) -> Result<Arc<Value>, Refusal> {
        let before = self.existing(kind, key)?;
        let version = text(body, "/metadata/resourceVersion");
        if version.is_none() && !schema::is_builtin(kind) {
            let message = "metadata.resourceVersion: must be specified for an update";
            return Err(Refusal::new(Cause::Invalid, message));
        }
        same_object(&before, text(body, "/metadata/uid"), version)?;
        self.update(client, kind, key, &before, body)
    }

    pub(super) fn merge(
        &mut self,
        client: &str,
        kind: &Kind,
        key: &ObjectKey,
        patch: &Value,
    ) -> Result<Arc<Value>, Refusal> {
        let before = self.existing(kind, key)?;
        same_object(&before, None, text(patch, "/metadata/resourceVersion"))?;
        same_identity(&before, patch)?;
        let mut body = before.body.clone();
        lay_over(&mut body, patch);
        self.update(client, kind, key, &before, &body)
    }

    /// Writes the status as a controller that does not apply would.
    pub fn update_status(&mut self, client: &str, kind: &Kind, key: &ObjectKey, status: Value) {
        let Some(before) = self.record(kind, key).cloned() else {
            return;
        };
        let mut body = before.body.clone();
        body["status"] = status;
        let managers = taken_over(kind, client, true, Some(&before), &body);
        self.put(kind, key, body, managers);
    }

    fn update(
        &mut self,
        client: &str,
        kind: &Kind,
        key: &ObjectKey,
        before: &Record,
        body: &Value,
    ) -> Result<Arc<Value>, Refusal> {
        let mut body = without_nulls(body);
        match (before.body.get("status"), body.as_object_mut()) {
            (Some(status), Some(object)) => {
                drop(object.insert("status".to_owned(), status.clone()));
            }
            (None, Some(object)) => drop(object.remove("status")),
            (_, None) => return Err(Refusal::new(Cause::Invalid, "the body is not an object")),
        }
        refuse_new_finalizers(before, &body)?;
        let managers = taken_over(kind, client, false, Some(before), &body);
        Ok(self.put(kind, key, body, managers))
    }

    /// Deletes an object; if it goes `last`, when nothing is left that it owns.
    pub(super) fn delete(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        preconditions: &Preconditions,
        last: bool,
    ) -> Result<(), Refusal> {
        let Some(before) = self.record(kind, key).cloned() else {
            return Ok(());
        };
        same_object(
            &before,
            preconditions.uid.as_deref(),
            preconditions.resource_version.as_deref(),
        )?;
        if text(&before.body, "/metadata/deletionTimestamp").is_some() {
            return Ok(());
        }
        let mut body = before.body.clone();
        body["metadata"]["deletionTimestamp"] = json!(whole_seconds(self.now));
        body["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        if last {
            let mut finalizers = texts(&before.body, "/metadata/finalizers");
            finalizers.push(FOREGROUND_FINALIZER);
            body["metadata"]["finalizers"] = json!(finalizers);
        }
        if schema::has_generation(kind) {
            raise_generation(&mut body);
        }
        if schema::is_namespace(kind) {
            body["status"]["phase"] = "Terminating".into();
        }
        self.store(kind, key, body, before.managers.clone(), Some(&before));
        Ok(())
    }
}

/// Refuses a write that means another object, or another version of it.
pub(super) fn same_object(
    record: &Record,
    uid: Option<&str>,
    version: Option<&str>,
) -> Result<(), Refusal> {
    let differs = |wanted: Option<&str>, pointer| {
        wanted.is_some_and(|wanted| text(&record.body, pointer) != Some(wanted))
    };
    if differs(uid, "/metadata/uid") {
        return Err(Refusal::new(
            Cause::Conflict,
            "precondition failed: the object has another UID",
        ));
    }
    if differs(version, "/metadata/resourceVersion") {
        let message = "the object has been modified; please apply your changes to the latest version and try again";
        return Err(Refusal::new(Cause::Conflict, message));
    }
    Ok(())
}

/// What a patch or an apply that names another UID is refused with. A replacement or a deletion is refused as a conflict.
const OTHER_UID: Cause = Cause::Conflict;

/// Refuses a patch or an apply that means a namesake.
pub(super) fn same_identity(record: &Record, patch: &Value) -> Result<(), Refusal> {
    match text(patch, "/metadata/uid") {
        Some(uid) if Some(uid) != text(&record.body, "/metadata/uid") => {
            Err(Refusal::new(OTHER_UID, "metadata.uid: field is immutable"))
        }
        _ => Ok(()),
    }
}

/// An object on its way out takes no new finalizers.
pub(super) fn refuse_new_finalizers(before: &Record, body: &Value) -> Result<(), Refusal> {
    if text(&before.body, "/metadata/deletionTimestamp").is_none() {
        return Ok(());
    }
    let held = texts(&before.body, "/metadata/finalizers");
    let added: Vec<_> = texts(body, "/metadata/finalizers")
        .into_iter()
        .filter(|name| !held.contains(name))
        .collect();
    if added.is_empty() {
        return Ok(());
    }
    let message = format!(
        "metadata.finalizers: no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
    );
    Err(Refusal::new(Cause::Invalid, message))
}

/// Who owns what after a plain write: what it changed is the client's, what it removed nobody's.
fn taken_over(
    kind: &Kind,
    client: &str,
    status: bool,
    before: Option<&Record>,
    body: &Value,
) -> Managers {
    let place = Place::root(kind);
    let was = before.map(|before| ownable(&before.body));
    let now = ownable(body);
    let changed = changed(was.as_ref(), &now, &place);
    let fields_before = was.map(|was| fields_of(&was, &place)).unwrap_or_default();
    let removed = fields_before.difference(&fields_of(&now, &place));
    let mut managers = before
        .map(|before| before.managers.clone())
        .unwrap_or_default();
    for fields in managers.values_mut() {
        *fields = fields.difference(&changed).difference(&removed);
    }
    let manager = Manager {
        name: client.to_owned(),
        ownership: Ownership::Update,
        status,
    };
    let owned: FieldSet = managers.remove(&manager).unwrap_or_default();
    managers.insert(manager, owned.union(&changed));
    managers
}

/// JSON merge patch: null removes, objects merge, all else replaces.
fn lay_over(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(object) = target.as_object_mut() else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            object.remove(name);
        } else {
            lay_over(object.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
