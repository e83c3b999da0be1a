//! Feeds caches from watches on a real API server.

use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Duration};

use futures::{Stream, StreamExt};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, PartialObjectMeta},
    runtime::{
        WatchStreamExt,
        watcher::{self, Config, Event, watcher},
    },
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    cache::{AnyStore, Delta, Fetch},
    object::ObjectKey,
};

/// A definition is there a moment before its kind is served.
const ABSENT_KINDS: Duration = Duration::from_secs(2);

/// How caches are fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchSettings {
    /// How long to wait, once the definition of an optional kind is there, before the kind is looked for again.
    pub absent_kinds: Duration,
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            absent_kinds: ABSENT_KINDS,
        }
    }
}

/// Keeps one cache up to date until it is dropped. Errors are logged and retried with backoff: a cache that once was in sync
/// goes on showing what it knows. Only an optional kind that is not served is known to have no objects.
pub async fn feed(client: Client, store: Arc<dyn AnyStore>, settings: WatchSettings) {
    let resource = store.kind().api_resource();
    let mut config = Config::default();
    if let Some(labels) = store.labels() {
        config = config.labels(labels);
    }
    if let Some(name) = store.name() {
        config = config.fields(&format!("metadata.name={name}"));
    }
    let mut absent = false;
    loop {
        let config = config.clone();
        let client_of_watch = client.clone();
        let served = match store.fetch() {
            Fetch::Objects => {
                let api = Api::<DynamicObject>::all_with(client_of_watch, &resource);
                follow(watcher(api, config).default_backoff(), store.as_ref()).await
            }
            Fetch::Metadata => {
                let api =
                    Api::<PartialObjectMeta<DynamicObject>>::all_with(client_of_watch, &resource);
                follow(watcher(api, config).default_backoff(), store.as_ref()).await
            }
        };
        if served || !absent {
            tracing::info!(kind = %store.kind(), "the cluster does not serve this optional kind; its definition is waited for");
        }
        absent = true;
        until_defined(client.clone(), &resource).await;
        tokio::time::sleep(settings.absent_kinds).await;
    }
}

/// Waits until the definition of a kind is there and has the version served: it may well be there with other versions alone. A
/// watch, not a poll: at rest it asks for nothing.
async fn until_defined(client: Client, resource: &ApiResource) {
    let kind = ApiResource::erase::<CustomResourceDefinition>(&());
    let definitions = Api::<DynamicObject>::all_with(client, &kind);
    let name = format!("metadata.name={}.{}", resource.plural, resource.group);
    let events = watcher(definitions, Config::default().fields(&name)).default_backoff();
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        if let Ok(Event::InitApply(definition) | Event::Apply(definition)) = event
            && served_versions(&definition.data).any(|version| version == resource.version)
        {
            return;
        }
    }
}

/// The versions that a definition has served.
pub fn served_versions(definition: &Value) -> impl Iterator<Item = &str> {
    let versions = definition
        .pointer("/spec/versions")
        .and_then(Value::as_array);
    let versions = versions.into_iter().flatten();
    let served = versions.filter(|version| version["served"] == true);
    served.filter_map(|version| version["name"].as_str())
}

/// Brings events to a cache until the cluster does not serve its kind, if it need not; the cache is empty then. Says whether
/// it was served before.
async fn follow<K: Serialize>(
    events: impl Stream<Item = Result<Event<K>, watcher::Error>>,
    store: &dyn AnyStore,
) -> bool {
    let mut events = pin!(events);
    let mut listed = BTreeSet::new();
    let mut served = false;
    while let Some(event) = events.next().await {
        let delta = match event {
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => body_of(&object).map(|body| {
                listed.insert(ObjectKey::in_body(&body));
                Delta::Upsert(body)
            }),
            Ok(Event::InitDone) => {
                served = true;
                Some(Delta::Complete(std::mem::take(&mut listed)))
            }
            Ok(Event::Apply(object)) => body_of(&object).map(Delta::Upsert),
            Ok(Event::Delete(object)) => body_of(&object).map(Delta::Delete),
            Err(error) if store.is_optional() && is_not_served(&error) => {
                store.ingest(Delta::Complete(BTreeSet::new()));
                return served;
            }
            Err(error) => {
                tracing::warn!(kind = %store.kind(), %error, "the watch failed and is started again");
                continue;
            }
        };
        if let Some(delta) = delta {
            store.ingest(delta);
        }
    }
    served
}

/// Whether the API server does not know the kind. Of a kind it knows, a list may be empty, but it is never not found.
fn is_not_served(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}

fn body_of<K: Serialize>(object: &K) -> Option<Value> {
    serde_json::to_value(object)
        .inspect_err(|error| tracing::error!(%error, "an object has no JSON form"))
        .ok()
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::Status;
    use serde_json::json;

    use super::*;
    use crate::{
        cache::{Projection, Store},
        object::Kind,
    };

    /// A kind that some clusters have; this one serves it until it does not.
    struct Spare;
    /// A kind that every cluster must have.
    struct Needed;

    impl Projection for Spare {
        const OPTIONAL: bool = true;
        fn kind() -> Kind {
            Kind::of::<ConfigMap>()
        }
        fn project(_: Value) -> Result<Self, serde_json::Error> {
            Ok(Self)
        }
    }

    impl Projection for Needed {
        fn kind() -> Kind {
            Kind::of::<ConfigMap>()
        }
        fn project(_: Value) -> Result<Self, serde_json::Error> {
            Ok(Self)
        }
    }

    type Events = Vec<Result<Event<Value>, watcher::Error>>;

    fn refused(code: u16) -> kube::Error {
        kube::Error::Api(Status::failure("no", "No").with_code(code).boxed())
    }

    fn unlisted(code: u16) -> Events {
        vec![Err(watcher::Error::InitialListFailed(refused(code)))]
    }

    /// One object is listed; then the watch cannot go on.
    fn listed_and_then(code: u16) -> Events {
        let metadata = json!({ "name": "one", "namespace": "n", "resourceVersion": "7" });
        vec![
            Ok(Event::Init),
            Ok(Event::InitApply(json!({ "metadata": metadata }))),
            Ok(Event::InitDone),
            Err(watcher::Error::WatchStartFailed(refused(code))),
        ]
    }

    /// Whether it was served, whether the cache is in sync then, and how many objects it shows.
    async fn followed<P: Projection>(events: Events) -> (bool, bool, usize) {
        let store = Store::<P>::default();
        let served = follow(stream::iter(events), &store).await;
        let synced = *store.synced().borrow();
        (served, synced, store.len())
    }

    #[tokio::test]
    async fn an_optional_kind_that_is_not_served_has_no_objects() {
        assert_eq!(followed::<Spare>(unlisted(404)).await, (false, true, 0));
    }

    #[tokio::test]
    async fn an_optional_kind_that_is_not_served_any_more_has_no_objects_left() {
        let events = listed_and_then(404);
        assert_eq!(followed::<Spare>(events).await, (true, true, 0));
    }

    #[tokio::test]
    async fn an_optional_kind_we_may_not_list_is_not_taken_for_absent() {
        assert_eq!(followed::<Spare>(unlisted(403)).await, (false, false, 0));
        let events = listed_and_then(403);
        assert_eq!(followed::<Spare>(events).await, (true, true, 1));
    }

    #[test]
    fn a_definition_names_the_versions_that_are_served() {
        let definition = json!({ "spec": { "versions": [
            { "name": "v1", "served": true }, { "name": "v1alpha2", "served": false },
        ] } });
        assert_eq!(served_versions(&definition).collect::<Vec<_>>(), ["v1"]);
        assert_eq!(served_versions(&json!({})).count(), 0);
    }

    #[tokio::test]
    async fn a_kind_that_must_be_there_is_waited_for() {
        assert_eq!(followed::<Needed>(unlisted(404)).await, (false, false, 0));
        let events = listed_and_then(404);
        assert_eq!(followed::<Needed>(events).await, (true, true, 1));
    }
}
