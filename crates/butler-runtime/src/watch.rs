//! Feeds caches from watches on a real API server.

use std::{collections::BTreeSet, pin::pin, sync::Arc};

use futures::{Stream, StreamExt};
use kube::{
    Api, Client,
    api::{DynamicObject, PartialObjectMeta},
    runtime::{
        WatchStreamExt,
        watcher::{self, Config, Event, watcher},
    },
};
use serde::Serialize;

use crate::{
    cache::{AnyStore, Delta, Fetch},
    object::ObjectKey,
};

/// Keeps one cache up to date until it is dropped. Errors are logged and retried with backoff: a cache that once was in sync
/// goes on showing what it knows.
pub async fn feed(client: Client, store: Arc<dyn AnyStore>) {
    let resource = store.kind().api_resource();
    let config = match store.labels() {
        Some(labels) => Config::default().labels(labels),
        None => Config::default(),
    };
    match store.fetch() {
        Fetch::Objects => {
            let api = Api::<DynamicObject>::all_with(client, &resource);
            follow(watcher(api, config).default_backoff(), store).await;
        }
        Fetch::Metadata => {
            let api = Api::<PartialObjectMeta<DynamicObject>>::all_with(client, &resource);
            follow(watcher(api, config).default_backoff(), store).await;
        }
    }
}

async fn follow<K: Serialize>(
    events: impl Stream<Item = Result<Event<K>, watcher::Error>>,
    store: Arc<dyn AnyStore>,
) {
    let mut events = pin!(events);
    let mut listed = BTreeSet::new();
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
            Ok(Event::InitDone) => Some(Delta::Complete(std::mem::take(&mut listed))),
            Ok(Event::Apply(object)) => body_of(&object).map(Delta::Upsert),
            Ok(Event::Delete(object)) => body_of(&object).map(Delta::Delete),
            Err(error) => {
                tracing::warn!(kind = %store.kind(), %error, "the watch failed and is started again");
                continue;
            }
        };
        if let Some(delta) = delta {
            store.ingest(delta);
        }
    }
}

fn body_of<K: Serialize>(object: &K) -> Option<serde_json::Value> {
    serde_json::to_value(object)
        .inspect_err(|error| tracing::error!(%error, "an object has no JSON form"))
        .ok()
}
