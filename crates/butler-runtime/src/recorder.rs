//! Remembers what one pass wrote, so that the next one can wait until the caches show it, and guards what the pass writes to
//! its own object by the version the pass has seen.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::{
    api_server::{Answer, ApiServer, Part, Preconditions},
    cache::{AnyStore, Facts, revision},
    object::{Kind, ObjectKey, text},
};

/// A write whose result some cache will show.
pub(crate) struct Write {
    store: Arc<dyn AnyStore>,
    revision: u64,
}

impl Write {
    /// Whether the cache shows it.
    pub(crate) fn is_visible(&self) -> bool {
        self.store.newest() >= self.revision
    }
}

/// An API server that notes every write, and refuses to write to another version of the pass' own object than was seen.
pub(crate) struct Recorder {
    api: Arc<dyn ApiServer>,
    /// The caches that will show them. Those of other controllers in this process may lag as they like.
    watched: Vec<Arc<dyn AnyStore>>,
    /// The object the pass is about.
    kind: Kind,
    key: ObjectKey,
    uid: String,
    recorded: Mutex<Recorded>,
}

struct Recorded {
    writes: Vec<Write>,
    /// The version of the pass' own object: as the pass found it, until the pass itself writes it.
    version: String,
}

impl Recorder {
    /// A recorder for a pass over the object of which the cache shows `facts`.
    pub(crate) fn new(
        api: Arc<dyn ApiServer>,
        watched: Vec<Arc<dyn AnyStore>>,
        kind: Kind,
        facts: &Facts,
    ) -> Arc<Self> {
        let recorded = Recorded {
            writes: Vec::new(),
            version: facts.resource_version.clone(),
        };
        Arc::new(Self {
            api,
            watched,
            kind,
            key: facts.key.clone(),
            uid: facts.uid.clone(),
            recorded: Mutex::new(recorded),
        })
    }

    /// What was written since the last call.
    pub(crate) fn take(&self) -> Vec<Write> {
        std::mem::take(&mut self.recorded().writes)
    }

    /// The same body; if it is about the pass' own object and names no version, with the one the pass knows: the cached one,
    /// or that of its own last write. What was concluded from an older version must not stand over a newer one.
    fn guarded(&self, kind: &Kind, key: &ObjectKey, mut body: Value) -> Value {
        let itself = *kind == self.kind && *key == self.key;
        if itself && text(&body, "/metadata/resourceVersion").is_none() {
            body["metadata"]["resourceVersion"] = self.recorded().version.clone().into();
        }
        body
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wrote(&self, kind: &Kind, body: &Value) {
        let Some(version) = text(body, "/metadata/resourceVersion") else {
            return;
        };
        let stores = self.watched.iter();
        let stores = stores.filter(|store| store.kind() == *kind && covers(store.as_ref(), body));
        let written = stores.map(|store| Write {
            store: Arc::clone(store),
            revision: revision(version),
        });
        let mut recorded = self.recorded();
        recorded.writes.extend(written);
        let itself = *kind == self.kind && text(body, "/metadata/uid") == Some(&self.uid);
        // An effect may write several times at once; answers then come in any order.
        if itself && revision(version) > revision(&recorded.version) {
            version.clone_into(&mut recorded.version);
        }
    }
}

/// Whether a store's selector, which is a mere label name, matches an object.
fn covers(store: &dyn AnyStore, body: &Value) -> bool {
    let labels = body.pointer("/metadata/labels");
    store
        .labels()
        .is_none_or(|label| labels.is_some_and(|labels| labels.get(label).is_some()))
}

impl ApiServer for Recorder {
    fn get<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey) -> Answer<'a, Option<Value>> {
        self.api.get(kind, key)
    }

    fn list<'a>(
        &'a self,
        kind: &'a Kind,
        namespace: Option<&'a str>,
        labels: Option<&'a str>,
    ) -> Answer<'a, Vec<Value>> {
        self.api.list(kind, namespace, labels)
    }

    fn create<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, body: Value) -> Answer<'a, Value> {
        Box::pin(async move {
            let written = self.api.create(kind, key, body).await?;
            self.wrote(kind, &written);
            Ok(written)
        })
    }

    fn replace<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, body: Value) -> Answer<'a, Value> {
        Box::pin(async move {
            let written = self.api.replace(kind, key, body).await?;
            self.wrote(kind, &written);
            Ok(written)
        })
    }

    fn apply<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        part: Part,
        manager: &'a str,
        body: Value,
    ) -> Answer<'a, Value> {
        Box::pin(async move {
            let body = self.guarded(kind, key, body);
            let written = self.api.apply(kind, key, part, manager, body).await?;
            self.wrote(kind, &written);
            Ok(written)
        })
    }

    fn merge<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, patch: Value) -> Answer<'a, Value> {
        Box::pin(async move {
            let patch = self.guarded(kind, key, patch);
            let written = self.api.merge(kind, key, patch).await?;
            self.wrote(kind, &written);
            Ok(written)
        })
    }

    fn delete<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        preconditions: Preconditions,
    ) -> Answer<'a, ()> {
        self.api.delete(kind, key, preconditions)
    }

    fn delete_after_dependents<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        preconditions: Preconditions,
    ) -> Answer<'a, ()> {
        self.api.delete_after_dependents(kind, key, preconditions)
    }
}
