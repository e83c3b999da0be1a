//! Every revision of the objects of a kind, from a moment on.
//!
//! Owns: the watch. It never begins anew with a list, which would hide what happened in between: one that ends is taken up
//! where it ended. The history says what the server did; its audit log says what it was asked, and of a request whose client
//! died it says 504 whether or not the write had reached the store.

use std::{collections::BTreeMap, fmt::Debug, pin::pin, sync::Arc};

use futures::StreamExt;
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, WatchParams},
    core::WatchEvent,
};
use serde::de::DeserializeOwned;
use tokio::{sync::watch, task::JoinSet, time::timeout};

use crate::fleet::PATIENCE;

/// A kind that can be followed.
pub(crate) trait Followed:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Followed for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// The version from which on everything is to be heard, while there is nothing yet.
pub(crate) async fn beginning<K: Followed>(api: &Api<K>) -> String {
    let found = api.list(&ListParams::default()).await.unwrap();
    assert_eq!(found.items.len(), 0, "a history begins with nothing");
    found.metadata.resource_version.unwrap()
}

/// Hears every revision after a version, and whether it is the object's last, until something fails.
pub(crate) async fn listen<K: Followed>(
    api: &Api<K>,
    mut version: String,
    mut hear: impl FnMut(&K, bool),
) -> kube::Error {
    loop {
        let events = match api.watch(&WatchParams::default(), &version).await {
            Ok(events) => events,
            Err(error) => return error,
        };
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            let (object, gone) = match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => (object, false),
                Ok(WatchEvent::Deleted(object)) => (object, true),
                Ok(WatchEvent::Bookmark(bookmark)) => {
                    version = bookmark.metadata.resource_version;
                    continue;
                }
                Ok(WatchEvent::Error(status)) => return kube::Error::Api(status),
                Err(error) => return error,
            };
            version = object.resource_version().unwrap();
            hear(&object, gone);
        }
    }
}

/// The revisions of each object, by its name.
#[derive(Default)]
struct Heard {
    revisions: BTreeMap<String, Vec<String>>,
    failure: Option<String>,
}

/// Counts the revisions of the objects of a kind while it lives.
pub(crate) struct History {
    heard: Arc<watch::Sender<Heard>>,
    _watch: JoinSet<()>,
}

impl History {
    /// Begins, while there is nothing yet.
    pub(crate) async fn start<K: Followed>(api: &Api<K>) -> Self {
        let from = beginning(api).await;
        let heard = Arc::new(watch::Sender::new(Heard::default()));
        let (api, tell) = (api.clone(), Arc::clone(&heard));
        let mut watches = JoinSet::new();
        watches.spawn(async move {
            let failure = listen(&api, from, |object: &K, _| {
                tell.send_modify(|heard| {
                    let revisions = heard.revisions.entry(object.name_any()).or_default();
                    revisions.push(object.resource_version().unwrap());
                });
            })
            .await;
            tell.send_modify(|heard| heard.failure = Some(failure.to_string()));
        });
        Self {
            heard,
            _watch: watches,
        }
    }

    /// How many revisions each object has had up to the one that is shown now.
    pub(crate) async fn counts<K: Followed>(&self, api: &Api<K>) -> BTreeMap<String, usize> {
        let shown = api.list(&ListParams::default()).await.unwrap().items;
        let mut heard = self.heard.subscribe();
        let complete = |heard: &Heard| {
            shown.iter().all(|object| {
                let revisions = heard.revisions.get(&object.name_any());
                let version = object.resource_version();
                revisions.is_some_and(|revisions| revisions.last() == version.as_ref())
            })
        };
        let waiting = heard.wait_for(|heard| heard.failure.is_some() || complete(heard));
        let outcome = timeout(PATIENCE, waiting).await;
        let heard = outcome
            .expect("the watch tells what the list shows")
            .unwrap();
        assert_eq!(heard.failure, None);
        let counted = heard.revisions.iter();
        counted
            .map(|(name, seen)| (name.clone(), seen.len()))
            .collect()
    }
}
