//! The port to an API server, spoken by kube's client.

use futures::FutureExt;
use kube::{
    Api, Client, Error,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::Status,
};
use serde_json::Value;

use crate::{
    api_server::{Answer, ApiError, ApiServer, Cause, Part, Preconditions},
    metrics::{Metrics, RequestOutcome, Verb},
    object::{Kind, ObjectKey},
};

/// How many objects are read at a time.
const PAGE: u32 = 500;

/// A real API server.
#[derive(Clone)]
pub struct KubeApiServer {
    client: Client,
    meter: Option<Meter>,
}

/// Counts requests for a controller.
#[derive(Clone)]
struct Meter {
    controller: &'static str,
    metrics: Metrics,
}

impl KubeApiServer {
    /// Speaks through this client, whose user agent names the component.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            meter: None,
        }
    }

    /// The same, with its requests counted for a controller.
    pub fn counted(client: Client, controller: &'static str, metrics: Metrics) -> Self {
        Self {
            client,
            meter: Some(Meter {
                controller,
                metrics,
            }),
        }
    }

    /// Counts an answer on its way out.
    fn count<T>(
        &self,
        verb: Verb,
        kind: &Kind,
        answer: Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        if let Some(Meter {
            controller,
            metrics,
        }) = &self.meter
        {
            let outcome = answer
                .as_ref()
                .map_or_else(|error| outcome_of(error.cause), |_| RequestOutcome::Success);
            metrics.api_request(controller, verb, &kind.kind, outcome);
        }
        answer
    }

    fn api(&self, kind: &Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = kind.api_resource();
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    fn api_of(&self, kind: &Kind, key: &ObjectKey) -> Api<DynamicObject> {
        self.api(kind, key.namespace.as_deref())
    }

    async fn delete_with(
        &self,
        parameters: DeleteParams,
        kind: &Kind,
        key: &ObjectKey,
        preconditions: Preconditions,
    ) -> Result<(), ApiError> {
        let parameters = parameters.preconditions(kube::api::Preconditions {
            uid: preconditions.uid,
            resource_version: preconditions.resource_version,
        });
        let answer = match self.api_of(kind, key).delete(&key.name, &parameters).await {
            Ok(_) => Ok(()),
            Err(Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(failed("delete", kind, key)(error)),
        };
        self.count(Verb::Delete, kind, answer)
    }
}

impl ApiServer for KubeApiServer {
    fn get<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey) -> Answer<'a, Option<Value>> {
        async move {
            let object = self.api_of(kind, key).get_opt(&key.name).await;
            let body = object.and_then(|object| object.map(body_of).transpose());
            self.count(Verb::Get, kind, body.map_err(failed("read", kind, key)))
        }
        .boxed()
    }

    fn list<'a>(
        &'a self,
        kind: &'a Kind,
        namespace: Option<&'a str>,
        labels: Option<&'a str>,
    ) -> Answer<'a, Vec<Value>> {
        async move {
            let api = self.api(kind, namespace);
            let mut parameters = ListParams {
                limit: Some(PAGE),
                ..ListParams::default()
            };
            parameters.label_selector = labels.map(str::to_owned);
            let key = ObjectKey {
                namespace: namespace.map(str::to_owned),
                name: "*".to_owned(),
            };
            let mut bodies = Vec::new();
            loop {
                let page = api
                    .list(&parameters)
                    .await
                    .map_err(failed("list", kind, &key));
                let page = self.count(Verb::List, kind, page)?;
                for object in page.items {
                    bodies.push(body_of(object).map_err(failed("list", kind, &key))?);
                }
                parameters.continue_token =
                    page.metadata.continue_.filter(|token| !token.is_empty());
                if parameters.continue_token.is_none() {
                    return Ok(bodies);
                }
            }
        }
        .boxed()
    }

    fn create<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, body: Value) -> Answer<'a, Value> {
        async move {
            let object = object_of(body).map_err(failed("create", kind, key))?;
            let created = self
                .api_of(kind, key)
                .create(&PostParams::default(), &object)
                .await;
            self.count(
                Verb::Create,
                kind,
                created
                    .and_then(body_of)
                    .map_err(failed("create", kind, key)),
            )
        }
        .boxed()
    }

    fn replace<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, body: Value) -> Answer<'a, Value> {
        async move {
            let object = object_of(body).map_err(failed("replace", kind, key))?;
            let replaced = self
                .api_of(kind, key)
                .replace(&key.name, &PostParams::default(), &object)
                .await;
            self.count(
                Verb::Replace,
                kind,
                replaced
                    .and_then(body_of)
                    .map_err(failed("replace", kind, key)),
            )
        }
        .boxed()
    }

    fn apply<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        part: Part,
        manager: &'a str,
        body: Value,
    ) -> Answer<'a, Value> {
        async move {
            let api = self.api_of(kind, key);
            let parameters = PatchParams::apply(manager).force();
            let patch = Patch::Apply(&body);
            let (verb, words, applied) = match part {
                Part::Object => (
                    Verb::Apply,
                    "apply",
                    api.patch(&key.name, &parameters, &patch).await,
                ),
                Part::Status => (
                    Verb::Status,
                    "write the status of",
                    api.patch_status(&key.name, &parameters, &patch).await,
                ),
            };
            self.count(
                verb,
                kind,
                applied.and_then(body_of).map_err(failed(words, kind, key)),
            )
        }
        .boxed()
    }

    fn merge<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, patch: Value) -> Answer<'a, Value> {
        async move {
            let merged = self
                .api_of(kind, key)
                .patch(&key.name, &PatchParams::default(), &Patch::Merge(&patch))
                .await;
            self.count(
                Verb::Merge,
                kind,
                merged
                    .and_then(body_of)
                    .map_err(failed("change", kind, key)),
            )
        }
        .boxed()
    }

    fn delete<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        preconditions: Preconditions,
    ) -> Answer<'a, ()> {
        self.delete_with(DeleteParams::background(), kind, key, preconditions)
            .boxed()
    }

    fn delete_after_dependents<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        preconditions: Preconditions,
    ) -> Answer<'a, ()> {
        self.delete_with(DeleteParams::foreground(), kind, key, preconditions)
            .boxed()
    }
}

fn body_of(object: DynamicObject) -> Result<Value, Error> {
    serde_json::to_value(object).map_err(Error::SerdeError)
}

fn object_of(body: Value) -> Result<DynamicObject, Error> {
    serde_json::from_value(body).map_err(Error::SerdeError)
}

fn failed(verb: &'static str, kind: &Kind, key: &ObjectKey) -> impl FnOnce(Error) -> ApiError {
    let (kind, key) = (kind.to_string(), key.clone());
    move |error| {
        let (cause, message) = match error {
            Error::Api(status) => (cause_of(&status), status.message),
            other => (Cause::Unavailable, other.to_string()),
        };
        ApiError {
            verb,
            kind,
            key,
            cause,
            message,
        }
    }
}

fn outcome_of(cause: Cause) -> RequestOutcome {
    match cause {
        Cause::NotFound => RequestOutcome::NotFound,
        Cause::AlreadyExists | Cause::Conflict => RequestOutcome::Conflict,
        Cause::Invalid | Cause::Forbidden | Cause::NamespaceTerminating => RequestOutcome::Refused,
        Cause::Unavailable => RequestOutcome::Failure,
    }
}

fn cause_of(status: &Status) -> Cause {
    let because = |reason: &str| {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.clone().any(|cause| cause.reason == reason)
    };
    let about = |field: &str| {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.clone().any(|cause| cause.field == field)
    };
    match (status.code, status.reason.as_str()) {
        (404, _) => Cause::NotFound,
        (409, "AlreadyExists") => Cause::AlreadyExists,
        (409, _) => Cause::Conflict,
        (403, _) if because("NamespaceTerminating") => Cause::NamespaceTerminating,
        (403, _) => Cause::Forbidden,
        // The body names a UID and the object of that name has another: ours is gone.
        (422, _) if about("metadata.uid") => Cause::Conflict,
        (400 | 422, _) => Cause::Invalid,
        _ => Cause::Unavailable,
    }
}
