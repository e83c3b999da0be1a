//! An in-memory object store with the semantics of an API server that plans rely on.
//!
//! Owns resource versions, UIDs, generations, timestamps, optimistic concurrency, finalizers, namespaces and field
//! ownership. It must not know actors or schedules: time is what [`ObjectStore::advance`] last said.

mod apply;
mod fields;
mod lifecycle;
mod record;
mod schema;
mod selector;
mod write;

use std::{collections::BTreeMap, sync::Arc};

use butler_runtime::{
    api_server::{ApiError, Cause},
    conditions::whole_seconds,
    object::{Kind, ObjectKey},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::operation::{Operation, Response, WriteRequest};
pub(super) use lifecycle::Garbage;
use record::{Managers, Record, keep_server_owned, text, texts};
pub(super) use selector::matches;

/// When every simulation begins.
pub const EPOCH: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// One change of one object, from which watches are fed.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) revision: u64,
    pub(super) before: Option<Arc<Value>>,
    pub(super) after: Option<Arc<Value>>,
}

/// The objects of a simulated API server.
#[derive(Clone, Debug)]
pub struct ObjectStore {
    now: Timestamp,
    revision: u64,
    created: u64,
    records: BTreeMap<Kind, BTreeMap<ObjectKey, Record>>,
    changes: BTreeMap<Kind, Vec<Change>>,
    requests: Vec<WriteRequest>,
}

impl Default for ObjectStore {
    fn default() -> Self {
        let mut store = Self {
            now: EPOCH,
            revision: 0,
            created: 0,
            records: BTreeMap::new(),
            changes: BTreeMap::new(),
            requests: Vec::new(),
        };
        let body = json!({ "metadata": { "name": "default" } });
        store.put(
            &Kind::of::<Namespace>(),
            &ObjectKey::cluster("default"),
            body,
            Managers::new(),
        );
        store
    }
}

impl ObjectStore {
    /// A store that holds nothing but the namespace `default`.
    pub fn new() -> Self {
        Self::default()
    }

    /// The time on the store's clock.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Sets the clock; it does not run backwards.
    pub fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    /// The newest revision: every change has its own.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// One object.
    pub fn get(&self, kind: &Kind, key: &ObjectKey) -> Option<Arc<Value>> {
        self.record(kind, key)
            .map(|record| Arc::clone(&record.shown))
    }

    /// All objects of a kind, in the order of their keys.
    pub fn objects(&self, kind: &Kind) -> Vec<Arc<Value>> {
        let records = self
            .records
            .get(kind)
            .into_iter()
            .flat_map(BTreeMap::values);
        records.map(|record| Arc::clone(&record.shown)).collect()
    }

    /// All objects of a type. One that does not fit it is an error.
    pub fn all<K>(&self) -> Result<Vec<K>, serde_json::Error>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
        K::Scope: 'static,
    {
        let objects = self.objects(&Kind::of::<K>()).into_iter();
        objects
            .map(|object| K::deserialize(object.as_ref()))
            .collect()
    }

    /// Every object, of whatever kind.
    pub fn everything(&self) -> impl Iterator<Item = (&Kind, &ObjectKey, &Value)> {
        self.records.iter().flat_map(|(kind, records)| {
            records
                .iter()
                .map(move |(key, record)| (kind, key, record.shown.as_ref()))
        })
    }

    /// Every write request so far.
    pub fn requests(&self) -> &[WriteRequest] {
        &self.requests
    }

    /// Answers a client's request. Plain writes make the client the owner of what they change.
    pub fn perform(&mut self, client: &str, operation: Operation) -> Result<Response, ApiError> {
        let revision = self.revision;
        let request = operation.is_write().then(|| WriteRequest {
            client: client.to_owned(),
            manager: operation.manager().map(str::to_owned),
            words: operation.to_string(),
            changed: false,
            refused: None,
        });
        let refuse = refusal(&operation);
        let answer = self.answer(client, operation).map_err(refuse);
        if let Some(mut request) = request {
            request.changed = self.revision != revision;
            request.refused = answer.as_ref().err().map(|error: &ApiError| error.cause);
            self.requests.push(request);
        }
        answer
    }

    fn answer(&mut self, client: &str, operation: Operation) -> Result<Response, Refusal> {
        let shown = |body: Arc<Value>| Response::Object(Some(body.as_ref().clone()));
        match operation {
            Operation::Get(kind, key) => {
                let object = self.get(&kind, &key);
                Ok(Response::Object(
                    object.map(|object| object.as_ref().clone()),
                ))
            }
            Operation::List(kind, namespace, labels) => {
                let wanted = |object: &Arc<Value>| {
                    matches(labels.as_deref(), object)
                        && namespace.as_deref().is_none_or(|wanted| {
                            text(object, "/metadata/namespace") == Some(wanted)
                        })
                };
                let objects = self.objects(&kind).into_iter().filter(wanted);
                Ok(Response::Objects(
                    objects.map(|object| object.as_ref().clone()).collect(),
                ))
            }
            Operation::Create(kind, key, body) => {
                self.create(client, &kind, &key, &body).map(shown)
            }
            Operation::Replace(kind, key, body) => {
                self.replace(client, &kind, &key, &body).map(shown)
            }
            Operation::Apply(kind, key, part, manager, body) => {
                self.apply(&kind, &key, part, &manager, &body).map(shown)
            }
            Operation::Merge(kind, key, patch) => {
                self.merge(client, &kind, &key, &patch).map(shown)
            }
            Operation::Delete(kind, key, preconditions) => {
                self.delete(&kind, &key, &preconditions, false)?;
                Ok(Response::Done)
            }
            Operation::DeleteLast(kind, key, preconditions) => {
                self.delete(&kind, &key, &preconditions, true)?;
                Ok(Response::Done)
            }
        }
    }

    /// The changes of a kind since the beginning.
    pub(super) fn changes(&self, kind: &Kind) -> &[Change] {
        self.changes.get(kind).map_or(&[], Vec::as_slice)
    }

    fn record(&self, kind: &Kind, key: &ObjectKey) -> Option<&Record> {
        self.records.get(kind)?.get(key)
    }

    fn existing(&self, kind: &Kind, key: &ObjectKey) -> Result<Record, Refusal> {
        let absent = || {
            Refusal::new(
                Cause::NotFound,
                format!("{} \"{}\" not found", kind.plural, key.name),
            )
        };
        self.record(kind, key).cloned().ok_or_else(absent)
    }

    /// Stores a body, unless nothing changes. A deleted object whose last finalizer is gone goes.
    fn put(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        mut body: Value,
        managers: Managers,
    ) -> Arc<Value> {
        let before = self.record(kind, key).cloned();
        identify(&mut body, kind, key);
        self.complete(&mut body, kind, before.as_ref());
        let managers: Managers = managers
            .into_iter()
            .filter(|(_, fields)| !fields.is_empty())
            .collect();
        if let Some(before) = &before {
            if before.body == body && before.managers == managers {
                return Arc::clone(&before.shown);
            }
            if schema::has_generation(kind) && described(&before.body) != described(&body) {
                raise_generation(&mut body);
            }
        }
        self.store(kind, key, body, managers, before.as_ref())
    }

    /// Stores a body as a new revision.
    fn store(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        mut body: Value,
        managers: Managers,
        before: Option<&Record>,
    ) -> Arc<Value> {
        self.revision += 1;
        body["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let finished = is_finished(&body);
        let record = Record::new(body, managers, before, whole_seconds(self.now));
        let shown = Arc::clone(&record.shown);
        let records = self.records.entry(kind.clone()).or_default();
        let after = if finished {
            records.remove(key);
            None
        } else {
            records.insert(key.clone(), record);
            Some(Arc::clone(&shown))
        };
        let before = before.map(|record| Arc::clone(&record.shown));
        // The answer to the write that lets an object go carries its last version, not that of its end.
        let last_version = before
            .as_ref()
            .filter(|_| finished)
            .map(|before| before["metadata"]["resourceVersion"].clone());
        let change = Change {
            revision: self.revision,
            before,
            after,
        };
        self.changes.entry(kind.clone()).or_default().push(change);
        let Some(last_version) = last_version else {
            return shown;
        };
        let mut gone = shown.as_ref().clone();
        gone["metadata"]["resourceVersion"] = last_version;
        Arc::new(gone)
    }

    /// Fills in what the server decides.
    fn complete(&mut self, body: &mut Value, kind: &Kind, before: Option<&Record>) {
        keep_server_owned(body, before.map(|before| &before.body));
        if before.is_none() {
            self.created += 1;
            // Names are made of the first few characters of a UID, so those are no two alike either.
            let number = self.created;
            body["metadata"]["uid"] = format!("{number:08x}-0000-4000-8000-{number:012x}").into();
            body["metadata"]["creationTimestamp"] = json!(whole_seconds(self.now));
            if schema::has_generation(kind) {
                body["metadata"]["generation"] = 1.into();
            }
        }
        if schema::is_namespace(kind) {
            lifecycle::complete_namespace(body, before.map(|before| &before.body));
        }
    }
}

fn identify(body: &mut Value, kind: &Kind, key: &ObjectKey) {
    body["apiVersion"] = kind.api_version().into();
    body["kind"] = kind.kind.clone().into();
    body["metadata"]["name"] = key.name.clone().into();
    if let Some(namespace) = &key.namespace {
        body["metadata"]["namespace"] = namespace.clone().into();
    }
}

fn raise_generation(body: &mut Value) {
    let generation = body
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    body["metadata"]["generation"] = (generation + 1).into();
}

/// What generations count: everything but metadata and status.
fn described(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(object) = body.as_object_mut() {
        object.remove("metadata");
        object.remove("status");
    }
    body
}

/// Whether a deleted object has nobody left to wait for.
fn is_finished(body: &Value) -> bool {
    let held = texts(body, "/metadata/finalizers");
    let namespace_held = if body["kind"] == "Namespace" {
        texts(body, "/spec/finalizers")
    } else {
        Vec::new()
    };
    text(body, "/metadata/deletionTimestamp").is_some()
        && held.is_empty()
        && namespace_held.is_empty()
}

/// Why the store says no.
#[derive(Debug)]
struct Refusal {
    cause: Cause,
    message: String,
}

impl Refusal {
    fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self {
            cause,
            message: message.into(),
        }
    }
}

/// Turns a refusal into the error a client sees.
fn refusal(operation: &Operation) -> impl FnOnce(Refusal) -> ApiError + use<> {
    let (verb, kind, key) = (
        operation.verb(),
        operation.kind().to_string(),
        operation.key(),
    );
    move |refusal| ApiError {
        verb,
        kind,
        key,
        cause: refusal.cause,
        message: refusal.message,
    }
}
