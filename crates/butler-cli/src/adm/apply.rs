//! Brings objects to the API server by server-side apply, and waits for what they become.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
    discovery::{self, Scope},
    runtime::{conditions, wait::await_condition},
};
use serde_json::Value;

use super::error::Error;

/// What the API server knows us by.
pub(crate) const FIELD_MANAGER: &str = "butleradm";
/// Requests at a time: definitions are large, and the API server has two processors.
const AT_ONCE: usize = 8;

/// Applies objects, all of one stage at a time: a stage may need what the one before it made.
pub(crate) async fn apply(client: &Client, objects: &[Value]) -> Result<(), Error> {
    let mut kinds = Kinds::default();
    let mut resolved = Vec::new();
    for stage in stages(objects) {
        resolved.clear();
        for object in stage {
            resolved.push((kinds.resolve(client, object).await?, object));
        }
        stream::iter(&resolved)
            .map(|(kind, object)| apply_one(client, kind, object))
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        established(client, stage).await?;
    }
    Ok(())
}

/// Neighbours of one rank: namespaces, definitions, everything else.
fn stages(objects: &[Value]) -> impl Iterator<Item = &[Value]> {
    let rank = |object: &Value| match object["kind"].as_str() {
        Some("Namespace") => 0,
        Some("CustomResourceDefinition") => 1,
        _ => 2,
    };
    objects.chunk_by(move |left, right| rank(left) == rank(right))
}

/// Those of the objects that are not there.
pub(crate) async fn missing(client: &Client, objects: &[Value]) -> Result<Vec<Value>, Error> {
    let mut kinds = Kinds::default();
    let mut missing = Vec::new();
    for object in objects {
        let kind = kinds.resolve(client, object).await?;
        let (api, name) = api_of(client, &kind, object);
        let found = api
            .get_metadata_opt(name)
            .await
            .map_err(Error::api(format!("look for {} {name}", kind.0.kind)))?;
        if found.is_none() {
            missing.push(object.clone());
        }
    }
    Ok(missing)
}

/// Whether the API server could take an object now. It is not taken: what is tried is whether webhooks answer.
pub(crate) async fn could_take(client: &Client, object: &Value) -> Result<bool, Error> {
    let kind = Kinds::default().resolve(client, object).await?;
    let (api, name) = api_of(client, &kind, object);
    let mut parameters = PatchParams::apply(FIELD_MANAGER).force();
    parameters.dry_run = true;
    match api.patch(name, &parameters, &Patch::Apply(object)).await {
        // What a webhook refuses, it has answered; what the API server could not ask about is its own failure.
        Err(kube::Error::Api(status)) => Ok(status.code < 500),
        Err(error) => Err(Error::api(format!("try {} {name}", kind.0.kind))(error)),
        Ok(_) => Ok(true),
    }
}

#[derive(Default)]
struct Kinds(BTreeMap<(String, String), (ApiResource, Scope)>);

impl Kinds {
    async fn resolve(
        &mut self,
        client: &Client,
        object: &Value,
    ) -> Result<(ApiResource, Scope), Error> {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let key = (api_version.clone(), kind.clone());
        if let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let wanted = GroupVersionKind::gvk(group, version, &kind);
        let (resource, capabilities) = discovery::pinned_kind(client, &wanted)
            .await
            .map_err(|_| Error::UnknownKind { api_version, kind })?;
        let found = (resource, capabilities.scope);
        self.0.insert(key, found.clone());
        Ok(found)
    }
}

/// Where an object belongs, and its name.
fn api_of<'object>(
    client: &Client,
    (resource, scope): &(ApiResource, Scope),
    object: &'object Value,
) -> (Api<DynamicObject>, &'object str) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let api = match scope {
        Scope::Cluster => Api::all_with(client.clone(), resource),
        Scope::Namespaced => {
            let namespace = text("/metadata/namespace").unwrap_or("default");
            Api::namespaced_with(client.clone(), namespace, resource)
        }
    };
    (api, text("/metadata/name").unwrap_or_default())
}

async fn apply_one(
    client: &Client,
    kind: &(ApiResource, Scope),
    object: &Value,
) -> Result<(), Error> {
    let (api, name) = api_of(client, kind, object);
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    api.patch(name, &parameters, &Patch::Apply(object))
        .await
        .map_err(Error::api(format!("apply {} {name}", kind.0.kind)))?;
    Ok(())
}

/// Waits until definitions are served: objects of their kinds come next.
async fn established(client: &Client, stage: &[Value]) -> Result<(), Error> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    for object in stage
        .iter()
        .filter(|object| object["kind"] == "CustomResourceDefinition")
    {
        let name = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let served = await_condition(definitions.clone(), name, conditions::is_crd_established());
        within(
            Duration::from_mins(1),
            name,
            "look at the API server's log",
            served,
        )
        .await?;
    }
    Ok(())
}

/// Waits until a Deployment has all its pods.
pub(crate) async fn available(
    client: &Client,
    namespace: &str,
    name: &str,
    patience: Duration,
) -> Result<(), Error> {
    let deployments = Api::<Deployment>::namespaced(client.clone(), namespace);
    let is_available = |deployment: Option<&Deployment>| deployment.is_some_and(is_available);
    let waiting = await_condition(deployments, name, is_available);
    let advice = format!("kubectl --namespace {namespace} describe pods tells why");
    Box::pin(within(
        patience,
        &format!("Deployment {namespace}/{name}"),
        &advice,
        waiting,
    ))
    .await
}

/// Whether all wished pods of a Deployment's present spec are available.
pub(crate) fn is_available(deployment: &Deployment) -> bool {
    let wished = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    deployment.status.as_ref().is_some_and(|status| {
        status.observed_generation >= deployment.metadata.generation
            && status.updated_replicas.unwrap_or(0) >= wished
            && status.available_replicas.unwrap_or(0) >= wished
    })
}

/// Waits, but not forever.
pub(crate) async fn within<T, E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    patience: Duration,
    waited_for: &str,
    advice: &str,
    waiting: impl Future<Output = Result<T, E>>,
) -> Result<(), Error> {
    match tokio::time::timeout(patience, waiting).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(Error::Document {
            what: format!("the watch of {waited_for}"),
            problem: error.into().to_string(),
        }),
        Err(_) => Err(Error::Patience {
            waited_for: waited_for.to_owned(),
            patience,
            advice: advice.to_owned(),
        }),
    }
}
