//! The control planes that tests speak of.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use butler_api::{keys::labels, steward::tenant_control_plane::TenantControlPlane};
use butler_pki::ServiceAccountKey;
use butler_runtime::{
    api_server::{Answer, ApiError, ApiServer, Cause, Part, Preconditions},
    cache::{Cached, Facts, Projection},
    object::{Kind, ObjectKey},
    plan::{Next, Plan},
};
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::LoadBalancerIngress;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    names::SecretRole,
    projections::ServiceFacts,
    secrets::{KeptSecret, Keys, Seen},
};

/// A time that is easy to recognise: the first day of 2026.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap()
}

/// A plain control plane behind a Service of this type.
pub(crate) fn control_plane(service_type: &str) -> TenantControlPlane {
    control_plane_with(json!({ "controlPlane": { "service": { "serviceType": service_type } } }))
}

/// A control plane with these parts of its spec; the rest is plain.
#[expect(
    clippy::needless_pass_by_value,
    reason = "callers write it down in place"
)]
pub(crate) fn control_plane_with(parts: Value) -> TenantControlPlane {
    let mut spec = json!({
        "controlPlane": { "service": { "serviceType": "LoadBalancer" } },
        "kubernetes": { "version": "v1.36.3", "kubelet": {} },
    });
    for (name, part) in parts.as_object().unwrap() {
        spec[name] = part.clone();
    }
    let body = json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1",
        "kind": "TenantControlPlane",
        "metadata": {
            "name": "shop", "namespace": "payments", "generation": 1,
            "uid": "6f9619ff-8b86-4011-b42d-00c04fc964ff",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": spec,
    });
    serde_json::from_value(body).unwrap()
}

/// Objects in memory, behind the verbs that effects use.
#[derive(Default)]
pub(crate) struct Memory {
    objects: Mutex<BTreeMap<ObjectKey, Value>>,
    writes: AtomicU64,
}

impl Memory {
    fn objects(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Value>> {
        self.objects.lock().unwrap()
    }

    /// The Secrets of a control plane as a cache shows them.
    pub(crate) fn seen(&self) -> BTreeMap<SecretRole, Seen> {
        let objects = self.objects();
        let labelled = objects.values().filter(|body| {
            body["metadata"]["labels"]
                .get(labels::STEWARD_PROJECT)
                .is_some()
        });
        labelled
            .map(|body| {
                let facts = Facts::of(body);
                let value = KeptSecret::project(body.clone()).unwrap();
                (value.role.unwrap(), Arc::new(Cached { facts, value }))
            })
            .collect()
    }

    /// Puts an object there, as somebody else would.
    pub(crate) fn put(&self, mut body: Value) {
        body["metadata"]["uid"] = format!("uid-{}", self.next()).into();
        body["metadata"]["resourceVersion"] = self.next().to_string().into();
        self.objects().insert(ObjectKey::in_body(&body), body);
    }

    /// Takes an object away, as somebody else would.
    pub(crate) fn remove(&self, key: &ObjectKey) -> Option<Value> {
        self.objects().remove(key)
    }

    /// The object of a key.
    pub(crate) fn body(&self, key: &ObjectKey) -> Option<Value> {
        self.objects().get(key).cloned()
    }

    fn next(&self) -> u64 {
        self.writes.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn refuse<T>(kind: &Kind, key: &ObjectKey, cause: Cause) -> Result<T, ApiError> {
        Err(ApiError {
            verb: "write",
            kind: kind.kind.clone(),
            key: key.clone(),
            cause,
            message: format!("{cause:?}"),
        })
    }
}

/// JSON merge patch.
fn merge_into(target: &mut Value, patch: &Value) {
    match patch {
        Value::Object(members) => {
            for (name, member) in members {
                match target.as_object_mut().filter(|_| member.is_null()) {
                    Some(target) => drop(target.remove(name)),
                    None => merge_into(&mut target[name], member),
                }
            }
        }
        other => *target = other.clone(),
    }
}

impl ApiServer for Memory {
    fn get<'a>(&'a self, _: &'a Kind, key: &'a ObjectKey) -> Answer<'a, Option<Value>> {
        Box::pin(async move { Ok(self.body(key)) })
    }

    fn list<'a>(
        &'a self,
        _: &'a Kind,
        _: Option<&'a str>,
        _: Option<&'a str>,
    ) -> Answer<'a, Vec<Value>> {
        Box::pin(async move { Ok(self.objects().values().cloned().collect()) })
    }

    fn create<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, body: Value) -> Answer<'a, Value> {
        Box::pin(async move {
            if self.objects().contains_key(key) {
                return Self::refuse(kind, key, Cause::AlreadyExists);
            }
            self.put(body);
            Ok(self.body(key).unwrap())
        })
    }

    fn replace<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, _: Value) -> Answer<'a, Value> {
        Box::pin(async move { Self::refuse(kind, key, Cause::Forbidden) })
    }

    fn apply<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        _: Part,
        _: &'a str,
        _: Value,
    ) -> Answer<'a, Value> {
        Box::pin(async move { Self::refuse(kind, key, Cause::Forbidden) })
    }

    fn merge<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, patch: Value) -> Answer<'a, Value> {
        Box::pin(async move {
            let Some(mut body) = self.body(key) else {
                return Self::refuse(kind, key, Cause::NotFound);
            };
            let guard = patch.pointer("/metadata/resourceVersion");
            if guard.is_some_and(|guard| *guard != body["metadata"]["resourceVersion"]) {
                return Self::refuse(kind, key, Cause::Conflict);
            }
            merge_into(&mut body, &patch);
            body["metadata"]["resourceVersion"] = self.next().to_string().into();
            self.objects().insert(key.clone(), body.clone());
            Ok(body)
        })
    }

    fn delete<'a>(&'a self, _: &'a Kind, key: &'a ObjectKey, _: Preconditions) -> Answer<'a, ()> {
        Box::pin(async move {
            self.remove(key);
            Ok(())
        })
    }

    fn delete_after_dependents<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        preconditions: Preconditions,
    ) -> Answer<'a, ()> {
        self.delete(kind, key, preconditions)
    }
}

/// The same key for everybody: making one takes long.
pub(crate) struct OneKey;

impl Keys for OneKey {
    fn service_account(&self) -> BoxFuture<'_, Result<ServiceAccountKey, butler_pki::Error>> {
        static KEY: OnceLock<ServiceAccountKey> = OnceLock::new();
        let key = KEY.get_or_init(|| ServiceAccountKey::generate().unwrap());
        Box::pin(async { Ok(key.clone()) })
    }
}

/// The Service of a control plane at an address.
pub(crate) fn service_at(address: &str) -> ServiceFacts {
    ServiceFacts {
        cluster_ip: Some("10.0.0.7".to_owned()),
        balancers: vec![LoadBalancerIngress {
            ip: Some(address.to_owned()),
            ..LoadBalancerIngress::default()
        }],
        conditions: Vec::new(),
    }
}

/// A plan as lines: its conditions, what it applies, what it tells, and what comes next.
pub(crate) fn told<S: Serialize, E>(plan: &Plan<S, E>) -> String {
    let status = json!(plan.status);
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let text =
        |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let mut lines: Vec<_> = conditions
        .iter()
        .map(|condition| {
            let words = ["type", "status", "reason"].map(|field| text(condition, field));
            format!(
                "{}={} {}: {}",
                words[0],
                words[1],
                words[2],
                text(condition, "message")
            )
        })
        .collect();
    let applied = plan.apply.iter();
    lines.extend(applied.map(|manifest| format!("apply {} {}", manifest.kind, manifest.key)));
    let notes = plan.notes.iter();
    lines
        .extend(notes.map(|note| format!("{:?} {}: {}", note.severity, note.reason, note.message)));
    match plan.next {
        Next::AwaitChange => {}
        next => lines.push(format!("next: {next:?}")),
    }
    lines.join("\n")
}
