//! What Kubernetes' own controllers do to objects: owner-reference garbage collection and the end of namespaces.

use std::collections::BTreeMap;

use butler_runtime::{
    api_server::{Cause, Preconditions},
    object::{Kind, ObjectKey},
};
use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use super::{
    ObjectStore, Refusal,
    record::{text, texts},
};

/// The finalizer in a namespace's spec, which its controller removes when the namespace is empty.
const NAMESPACE_FINALIZER: &str = "kubernetes";
/// The finalizer of an object that goes after all that it owns. The garbage collector removes it.
pub(super) const FOREGROUND_FINALIZER: &str = "foregroundDeletion";

/// Something to clear away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::simulator) enum Garbage {
    /// All owners of the object are gone.
    Orphan(Kind, ObjectKey),
    /// Some owners of the object are gone, others are not.
    Dangling(Kind, ObjectKey),
    /// The object is in a namespace that goes away.
    Content(Kind, ObjectKey),
    /// The namespace goes away and is empty.
    Namespace(ObjectKey),
    /// The object waits for all that it owns, and nothing of that is left.
    Last(Kind, ObjectKey),
}

impl ObjectStore {
    /// What the garbage collector would do next, in any order.
    pub(in crate::simulator) fn orphans(&self) -> Vec<Garbage> {
        // Asked after every change, of every object: owners are found by their UID, not by going through all.
        let owners: BTreeMap<&str, &ObjectKey> = self
            .everything()
            .filter_map(|(_, key, body)| Some((text(body, "/metadata/uid")?, key)))
            .collect();
        let lives = |uid: &str, dependent: &ObjectKey| {
            owners.get(uid).is_some_and(|key| {
                key.namespace.is_none()
                    || dependent.namespace.is_none()
                    || key.namespace == dependent.namespace
            })
        };
        let waiting: Vec<_> = self
            .everything()
            .filter(|(_, _, body)| waits_for_dependents(body))
            .filter_map(|(_, _, body)| text(body, "/metadata/uid"))
            .collect();
        let judge = |(kind, key, body): (&Kind, &ObjectKey, &Value)| {
            let references = owner_uids(body);
            let alive = references.iter().filter(|uid| lives(uid, key)).count();
            let deleting = text(body, "/metadata/deletionTimestamp").is_some();
            let is_waited_for = references.iter().any(|uid| waiting.contains(&uid.as_str()));
            if waits_for_dependents(body) && !self.owns_anything(body) {
                Some(Garbage::Last(kind.clone(), key.clone()))
            } else if references.is_empty()
                || deleting
                || (alive == references.len() && !is_waited_for)
            {
                None
            } else if alive == 0 || is_waited_for {
                Some(Garbage::Orphan(kind.clone(), key.clone()))
            } else {
                Some(Garbage::Dangling(kind.clone(), key.clone()))
            }
        };
        self.everything().filter_map(judge).collect()
    }

    fn owns_anything(&self, owner: &Value) -> bool {
        let uid = text(owner, "/metadata/uid").unwrap_or_default();
        self.everything()
            .any(|(_, _, body)| owner_uids(body).iter().any(|owner| owner == uid))
    }

    /// What the namespace controller would do next, in any order.
    pub(in crate::simulator) fn leftovers(&self) -> Vec<Garbage> {
        let namespaces = self.objects(&Kind::of::<Namespace>());
        let ending = namespaces
            .iter()
            .filter(|body| text(body, "/metadata/deletionTimestamp").is_some());
        ending
            .filter_map(|body| text(body, "/metadata/name"))
            .flat_map(|name| {
                let content = self
                    .everything()
                    .filter(|(_, key, _)| key.namespace.as_deref() == Some(name));
                let (waiting, content): (Vec<_>, Vec<_>) = content
                    .partition(|(_, _, body)| text(body, "/metadata/deletionTimestamp").is_some());
                if waiting.is_empty() && content.is_empty() {
                    let held = self.record(&Kind::of::<Namespace>(), &ObjectKey::cluster(name));
                    let held = held
                        .is_some_and(|record| !texts(&record.body, "/spec/finalizers").is_empty());
                    return held
                        .then(|| Garbage::Namespace(ObjectKey::cluster(name)))
                        .into_iter()
                        .collect();
                }
                let content = content.into_iter();
                content
                    .map(|(kind, key, _)| Garbage::Content(kind.clone(), key.clone()))
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    /// Lets the garbage collector and the namespace controller do all that they have to do.
    pub fn housekeep(&mut self) {
        loop {
            let mut garbage = self.orphans();
            garbage.extend(self.leftovers());
            if garbage.is_empty() {
                return;
            }
            for garbage in &garbage {
                self.clear(garbage);
            }
        }
    }

    /// Clears one thing away and says so.
    pub(in crate::simulator) fn clear(&mut self, garbage: &Garbage) -> String {
        match garbage {
            Garbage::Orphan(kind, key) | Garbage::Content(kind, key) => {
                // Without preconditions a deletion cannot be refused.
                let _ = self.delete(kind, key, &Preconditions::default(), false);
                format!("delete {kind} {key} (rv {})", self.revision)
            }
            Garbage::Last(kind, key) => {
                if let Some(before) = self.record(kind, key).cloned() {
                    let mut body = before.body.clone();
                    let mut finalizers = texts(&before.body, "/metadata/finalizers");
                    finalizers.retain(|finalizer| *finalizer != FOREGROUND_FINALIZER);
                    body["metadata"]["finalizers"] = json!(finalizers);
                    self.store(kind, key, body, before.managers.clone(), Some(&before));
                }
                format!("finish {kind} {key} (rv {})", self.revision)
            }
            Garbage::Dangling(kind, key) => {
                self.drop_dangling_owners(kind, key);
                format!("drop lost owners of {kind} {key} (rv {})", self.revision)
            }
            Garbage::Namespace(key) => {
                let kind = Kind::of::<Namespace>();
                if let Some(before) = self.record(&kind, key).cloned() {
                    let mut body = before.body.clone();
                    body["spec"]["finalizers"] = json!([]);
                    self.store(&kind, key, body, before.managers.clone(), Some(&before));
                }
                format!("finish Namespace {key} (rv {})", self.revision)
            }
        }
    }

    fn drop_dangling_owners(&mut self, kind: &Kind, key: &ObjectKey) {
        let Some(before) = self.record(kind, key).cloned() else {
            return;
        };
        let living: Vec<String> = self
            .everything()
            .filter(|(_, owner, _)| owner.namespace.is_none() || owner.namespace == key.namespace)
            .filter_map(|(_, _, body)| text(body, "/metadata/uid").map(str::to_owned))
            .collect();
        let mut body = before.body.clone();
        if let Some(references) = body["metadata"]["ownerReferences"].as_array_mut() {
            references
                .retain(|reference| living.iter().any(|uid| reference["uid"] == uid.as_str()));
        }
        self.store(kind, key, body, before.managers.clone(), Some(&before));
    }

    /// Whether an object may come to be in a namespace.
    pub(super) fn admit_creation(&self, kind: &Kind, key: &ObjectKey) -> Result<(), Refusal> {
        let name = match (kind.namespaced, &key.namespace) {
            (false, None) => return Ok(()),
            (true, Some(name)) => name,
            _ => {
                return Err(Refusal::new(
                    Cause::NotFound,
                    format!("{} are not served at this scope", kind.plural),
                ));
            }
        };
        let Some(namespace) =
            self.record(&Kind::of::<Namespace>(), &ObjectKey::cluster(name.as_str()))
        else {
            return Err(Refusal::new(
                Cause::NotFound,
                format!("namespaces \"{name}\" not found"),
            ));
        };
        if text(&namespace.body, "/metadata/deletionTimestamp").is_none() {
            return Ok(());
        }
        let message = format!(
            "{} \"{}\" is forbidden: unable to create new content in namespace {name} because it is being terminated",
            kind.plural, key.name
        );
        Err(Refusal::new(Cause::NamespaceTerminating, message))
    }
}

/// What a namespace always has: its finalizer, its phase and the label with its name.
pub(super) fn complete_namespace(body: &mut Value, before: Option<&Value>) {
    match before {
        None => {
            body["spec"] = json!({ "finalizers": [NAMESPACE_FINALIZER] });
            body["status"] = json!({ "phase": "Active" });
        }
        Some(before) => body["spec"] = before["spec"].clone(),
    }
    let name = body["metadata"]["name"].clone();
    body["metadata"]["labels"][butler_api::keys::labels::NAMESPACE_NAME] = name;
}

/// Whether an object is deleted and waits for all that it owns.
fn waits_for_dependents(body: &Value) -> bool {
    text(body, "/metadata/deletionTimestamp").is_some()
        && texts(body, "/metadata/finalizers").contains(&FOREGROUND_FINALIZER)
}

fn owner_uids(body: &Value) -> Vec<String> {
    let references = body
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let uids = references
        .into_iter()
        .flatten()
        .filter_map(|reference| reference["uid"].as_str());
    uids.map(str::to_owned).collect()
}
