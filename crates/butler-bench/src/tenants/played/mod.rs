//! Plays everybody but Butler's controller: Cluster API, Steward, and a provider of machines. Each writes what the real one would
//! write, in the order in which it would, and none of them takes any time of its own.
//!
//! Must not: write what the controller writes.

mod cluster_api;
mod provider;
mod steward;

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use anyhow::Context;
use butler_runtime::object::Kind;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    runtime::{
        WatchStreamExt,
        watcher::{self, watcher},
    },
};
use serde_json::{Value, json};

/// How many objects of a kind are attended to at once.
const TOGETHER: usize = 8;
/// The answer of an API server that has an object already.
const CONFLICT: u16 = 409;

/// Plays on until it is dropped, or something goes wrong.
pub(super) async fn play(client: Client) -> anyhow::Error {
    let stage = Stage {
        client,
        done: Mutex::default(),
    };
    let played: anyhow::Result<((), (), ())> = tokio::try_join!(
        Box::pin(cluster_api::play(&stage)),
        Box::pin(steward::play(&stage)),
        Box::pin(provider::play(&stage)),
    );
    match played {
        Err(error) => error.context("what is played has failed"),
        Ok(_) => anyhow::anyhow!("a watch of what is played has ended"),
    }
}

/// What all players share.
struct Stage {
    client: Client,
    /// Who has been served, and with what.
    done: Mutex<BTreeSet<(String, &'static str)>>,
}

impl Stage {
    /// Attends to every object of a kind whenever it changes, to several at the same time.
    async fn attend<F>(&self, kind: Kind, deed: impl Fn(Value) -> F) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        self.attend_to(TOGETHER, kind, deed).await
    }

    /// The same, so many at a time.
    async fn attend_to<F>(
        &self,
        at_once: usize,
        kind: Kind,
        deed: impl Fn(Value) -> F,
    ) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &kind.api_resource());
        let seen = watcher(api, watcher::Config::default()).default_backoff();
        // A watch that fails is begun anew by itself.
        let seen = seen
            .applied_objects()
            .filter_map(|object| std::future::ready(object.ok()));
        let seen = seen.map(|object| Ok(serde_json::to_value(object)?));
        seen.try_for_each_concurrent(at_once, deed).await
    }

    /// Whether this is the first time that this is done for an object.
    fn first(&self, object: &Value, deed: &'static str) -> bool {
        let uid = text(object, "/metadata/uid").to_owned();
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.insert((uid, deed))
    }

    fn api(&self, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &kind.api_resource())
    }

    /// Creates an object; one that is there already is well.
    async fn create(&self, kind: &Kind, namespace: &str, mut body: Value) -> anyhow::Result<()> {
        body["apiVersion"] = kind.api_version().into();
        body["kind"] = kind.kind.as_str().into();
        let body: DynamicObject = serde_json::from_value(body)?;
        let api = self.api(kind, namespace);
        match api.create(&PostParams::default(), &body).await {
            Err(kube::Error::Api(status)) if status.code == CONFLICT => Ok(()),
            created => created
                .map(drop)
                .with_context(|| format!("could not create a {kind}")),
        }
    }

    async fn patch(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        body: Value,
    ) -> anyhow::Result<()> {
        let patched = self.api(kind, namespace);
        let patched = patched
            .patch(name, &PatchParams::default(), &Patch::Merge(body))
            .await;
        patched
            .map(drop)
            .with_context(|| format!("could not change the {kind} {namespace}/{name}"))
    }

    async fn tell(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        status: Value,
    ) -> anyhow::Result<()> {
        let body = json!({ "status": status });
        let told = self.api(kind, namespace);
        let told = told
            .patch_status(name, &PatchParams::default(), &Patch::Merge(body))
            .await;
        told.map(drop)
            .with_context(|| format!("could not write the status of the {kind} {namespace}/{name}"))
    }

    async fn get(&self, kind: &Kind, namespace: &str, name: &str) -> anyhow::Result<Value> {
        let found = self.api(kind, namespace).get(name).await;
        let found = found.with_context(|| format!("could not read the {kind} {namespace}/{name}"));
        Ok(serde_json::to_value(found?)?)
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let found = object.pointer(pointer);
    found.and_then(Value::as_str).unwrap_or_default()
}

fn is_true(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer) == Some(&json!(true))
}

fn namespace_of(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

fn name_of(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// Whether an object says that a condition holds.
fn says(object: &Value, type_: &str) -> bool {
    let conditions = object.pointer("/status/conditions");
    let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    conditions.any(|condition| condition["type"] == type_ && condition["status"] == "True")
}

/// A condition, since now.
fn condition(type_: &str, holds: bool, reason: &str, message: &str) -> Value {
    json!({
        "type": type_,
        "status": if holds { "True" } else { "False" },
        "reason": reason,
        "message": message,
        "lastTransitionTime": Timestamp::now().to_string(),
    })
}

/// A reference by which an object belongs to another.
fn owner(kind: &Kind, owner: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "name": name_of(owner),
        "uid": text(owner, "/metadata/uid"),
        "controller": true,
    })
}
