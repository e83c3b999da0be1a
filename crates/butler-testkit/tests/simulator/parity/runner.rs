//! Runs a script against any API server and notes what can be compared.

use std::collections::BTreeMap;

use butler_runtime::{
    api_server::{ApiError, ApiServer, Preconditions},
    fields::{hash_of_intent, managed_hashes},
    object::{Kind, ObjectKey},
};
use butler_testkit::simulator::Operation;
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::{Value, json};

/// Where a script runs.
pub(super) trait Ground: Sync {
    /// The API server.
    fn api(&self) -> &dyn ApiServer;

    /// Waits for Kubernetes' own controllers to clear an object away.
    fn until_gone<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey) -> BoxFuture<'a, ()>;
}

/// One line of a script. In bodies and preconditions, `$uid:NAME` and `$version:NAME` stand for those of the answer that
/// was remembered under the name.
pub(super) struct Line {
    pub(super) story: &'static str,
    pub(super) remember: Option<&'static str>,
    pub(super) act: Act,
}

pub(super) enum Act {
    Ask(Operation),
    UntilGone(Kind, ObjectKey),
}

/// What can be compared of an answer.
#[derive(Debug, Serialize)]
pub(super) struct Observed {
    story: &'static str,
    /// The cause of the refusal, or `Ok`.
    answer: String,
    /// Whether the object has another version than the last time it was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<bool>,
    /// Whether what the manager owns is what it applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    as_intended: Option<bool>,
    #[serde(skip_serializing_if = "Value::is_null")]
    object: Value,
}

pub(super) async fn run(ground: &dyn Ground, script: Vec<Line>) -> Vec<Observed> {
    let mut remembered = BTreeMap::new();
    let mut versions = BTreeMap::new();
    let mut observed = Vec::new();
    for line in script {
        let operation = match line.act {
            Act::Ask(operation) => operation,
            Act::UntilGone(kind, key) => {
                ground.until_gone(&kind, &key).await;
                continue;
            }
        };
        let operation = filled_in(operation, &remembered);
        let place = (operation.kind().clone(), operation.key());
        let intent = match &operation {
            Operation::Apply(_, _, part, manager, body) => {
                Some((manager.clone(), *part, hash_of_intent(body)))
            }
            _ => None,
        };
        let answer = ask(ground.api(), operation).await;
        if let (Some(name), Ok(Some(object))) = (line.remember, &answer) {
            remembered.insert(name, object.clone());
        }
        let object = answer.as_ref().ok().and_then(Clone::clone);
        let version = object
            .as_ref()
            .and_then(|object| object.pointer("/metadata/resourceVersion").cloned());
        observed.push(Observed {
            story: line.story,
            answer: answer.map_or_else(|error| format!("{:?}", error.cause), |_| "Ok".to_owned()),
            changed: version
                .map(|version| versions.insert(place, version.clone()) != Some(version)),
            as_intended: intent
                .zip(object.as_ref())
                .map(|((manager, part, hash), object)| {
                    let entries = managed_hashes(object).into_iter();
                    entries
                        .filter(|entry| entry.manager == manager && entry.part == part)
                        .any(|entry| entry.hash == hash)
                }),
            object: object.map(comparable).unwrap_or_default(),
        });
    }
    observed
}

async fn ask(api: &dyn ApiServer, operation: Operation) -> Result<Option<Value>, ApiError> {
    match operation {
        Operation::Get(kind, key) => api.get(&kind, &key).await,
        Operation::List(kind, namespace, labels) => {
            let found = api
                .list(&kind, namespace.as_deref(), labels.as_deref())
                .await?;
            let names = found
                .iter()
                .map(|object| object["metadata"]["name"].clone());
            Ok(Some(json!({ "names": names.collect::<Vec<_>>() })))
        }
        Operation::Create(kind, key, body) => api.create(&kind, &key, body).await.map(Some),
        Operation::Replace(kind, key, body) => api.replace(&kind, &key, body).await.map(Some),
        Operation::Apply(kind, key, part, manager, body) => {
            api.apply(&kind, &key, part, &manager, body).await.map(Some)
        }
        Operation::Merge(kind, key, patch) => api.merge(&kind, &key, patch).await.map(Some),
        Operation::Delete(kind, key, preconditions) => {
            api.delete(&kind, &key, preconditions).await?;
            Ok(None)
        }
        Operation::DeleteLast(kind, key, preconditions) => {
            api.delete_after_dependents(&kind, &key, preconditions)
                .await?;
            Ok(None)
        }
    }
}

/// Leaves out what differs between any two servers.
fn comparable(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
        ] {
            metadata.remove(name);
        }
        if let Some(time) = metadata.get_mut("deletionTimestamp") {
            *time = "set".into();
        }
        let references = metadata
            .get_mut("ownerReferences")
            .and_then(Value::as_array_mut);
        references
            .into_iter()
            .flatten()
            .for_each(|reference| reference["uid"] = "known".into());
    }
    object
}

type Remembered = BTreeMap<&'static str, Value>;

fn filled_in(operation: Operation, remembered: &Remembered) -> Operation {
    let body = |mut body: Value| {
        fill(&mut body, remembered);
        body
    };
    let known = |preconditions: Preconditions| {
        let text = |text: Option<String>| Some(body(text?.into()).as_str()?.to_owned());
        Preconditions {
            uid: text(preconditions.uid),
            resource_version: text(preconditions.resource_version),
        }
    };
    match operation {
        Operation::Create(kind, key, value) => Operation::Create(kind, key, body(value)),
        Operation::Replace(kind, key, value) => Operation::Replace(kind, key, body(value)),
        Operation::Apply(kind, key, part, manager, value) => {
            Operation::Apply(kind, key, part, manager, body(value))
        }
        Operation::Merge(kind, key, value) => Operation::Merge(kind, key, body(value)),
        Operation::Delete(kind, key, preconditions) => {
            Operation::Delete(kind, key, known(preconditions))
        }
        Operation::DeleteLast(kind, key, preconditions) => {
            Operation::DeleteLast(kind, key, known(preconditions))
        }
        read @ (Operation::Get(..) | Operation::List(..)) => read,
    }
}

fn fill(value: &mut Value, remembered: &Remembered) {
    match value {
        Value::String(text) => {
            let of = |prefix: &str, member: &str| {
                let name = text.strip_prefix(prefix)?;
                Some(remembered[name]["metadata"][member].clone())
            };
            let known = of("$uid:", "uid").or_else(|| of("$version:", "resourceVersion"));
            if let Some(known) = known {
                *value = known;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, remembered)),
        Value::Object(object) => object
            .values_mut()
            .for_each(|member| fill(member, remembered)),
        _ => {}
    }
}

/// Both worlds must match the one record.
pub(super) fn assert_as_recorded(observed: &[Observed]) {
    insta::assert_yaml_snapshot!("observed", observed);
}
