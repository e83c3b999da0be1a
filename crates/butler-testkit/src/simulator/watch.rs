//! Feeds one cache from the store's changes, in order but as late as the scheduler likes.

use std::{cell::Cell, sync::Arc};

use butler_runtime::{
    cache::{AnyStore, Delta, Fetch},
    object::{Kind, ObjectKey},
};
use serde_json::{Value, json};

use super::store::{Change, ObjectStore, matches};

/// A watch of one cache.
pub(super) struct Watch {
    cache: Arc<dyn AnyStore>,
    kind: Kind,
    /// How many changes of the kind it has gone through; `None` before the first list. What does not concern the cache is
    /// gone through in looking for news, since that is asked at every step.
    cursor: Cell<Option<usize>>,
}

impl Watch {
    pub(super) fn new(cache: Arc<dyn AnyStore>) -> Self {
        Self {
            kind: cache.kind(),
            cache,
            cursor: Cell::new(None),
        }
    }

    /// Caches come in an order that differs between builds; this one does not.
    pub(super) fn rank(&self) -> impl Ord + use<> {
        (
            self.kind.clone(),
            self.cache.labels(),
            self.cache.name(),
            self.cache.fetch() == Fetch::Metadata,
        )
    }

    pub(super) fn is_synced(&self) -> bool {
        self.cursor.get().is_some()
    }

    /// The watch is lost: next comes a full list.
    pub(super) fn lose(&mut self) -> String {
        self.cursor.set(None);
        format!("loses the watch of {}", self.kind)
    }

    /// Whether there is news.
    pub(super) fn has_news(&self, store: &ObjectStore) -> bool {
        match self.cursor.get() {
            None => true,
            Some(cursor) => self.next_change(store, cursor).is_some(),
        }
    }

    fn next_change<'a>(
        &self,
        store: &'a ObjectStore,
        cursor: usize,
    ) -> Option<(usize, &'a Change)> {
        let changes = store.changes(&self.kind);
        let covered =
            |side: &Option<Arc<Value>>| side.as_ref().is_some_and(|object| self.covers(object));
        let mut rest = changes.iter().enumerate().skip(cursor);
        let found = rest.find(|(_, change)| covered(&change.before) || covered(&change.after));
        let gone_through = found.map_or(changes.len(), |(index, _)| index);
        self.cursor.set(Some(gone_through));
        found
    }

    /// Brings the next news to the cache and says which.
    pub(super) fn deliver(&mut self, store: &ObjectStore) -> Option<String> {
        let kind = &self.kind;
        let Some(cursor) = self.cursor.get() else {
            self.cursor.set(Some(store.changes(kind).len()));
            let objects = store.objects(kind).into_iter();
            let objects = objects.filter(|object| self.covers(object));
            let bodies: Vec<_> = objects.map(|object| self.fetched(&object)).collect();
            let words = format!("lists {kind} ({} found)", bodies.len());
            self.cache.ingest(Delta::Reset(bodies));
            return Some(words);
        };
        let (index, change) = self.next_change(store, cursor)?;
        self.cursor.set(Some(index + 1));
        let after = change.after.as_ref().filter(|object| self.covers(object));
        let revision = change.revision;
        if let Some(object) = after {
            let words = format!("sees {kind} {} (rv {revision})", ObjectKey::in_body(object));
            self.cache.ingest(Delta::Upsert(self.fetched(object)));
            return Some(words);
        }
        let mut gone = self.fetched(change.before.as_ref()?);
        gone["metadata"]["resourceVersion"] = revision.to_string().into();
        let words = format!(
            "sees {kind} {} gone (rv {revision})",
            ObjectKey::in_body(&gone)
        );
        self.cache.ingest(Delta::Delete(gone));
        Some(words)
    }

    /// Whether the cache is about an object.
    fn covers(&self, object: &Value) -> bool {
        let name = self.cache.name();
        matches(self.cache.labels(), object)
            && name.is_none_or(|name| object["metadata"]["name"] == name)
    }

    /// What a watch of this cache would fetch of an object.
    fn fetched(&self, object: &Value) -> Value {
        match self.cache.fetch() {
            Fetch::Objects => object.clone(),
            Fetch::Metadata => json!({
                "apiVersion": "meta.k8s.io/v1",
                "kind": "PartialObjectMetadata",
                "metadata": object["metadata"],
            }),
        }
    }
}
