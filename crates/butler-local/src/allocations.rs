//! The allocations in the management cluster: one watch for the networks of all clusters of a host.

use std::sync::Arc;

use butler_runtime::{
    cache::{AnyStore, Cached, Store},
    watch::{self, WatchSettings},
};
use kube::Client;
use tokio::sync::watch as news;

use crate::facts::AllocationFacts;

/// What is remembered of allocations. A clone is the same.
#[derive(Clone)]
pub struct Allocations {
    store: Arc<Store<AllocationFacts>>,
    news: news::Sender<()>,
}

impl Default for Allocations {
    fn default() -> Self {
        let store = Arc::new(Store::<AllocationFacts>::default());
        let news = news::Sender::new(());
        let bell = news.clone();
        store.listen(move |change| {
            // Those of machines are many, and no Service's.
            if change.sides().any(|side| side.value.balances) {
                bell.send_replace(());
            }
        });
        Self { store, news }
    }
}

impl Allocations {
    /// Keeps them up to date until it is dropped.
    pub async fn keep(&self, management: Client) {
        watch::feed(management, self.any(), WatchSettings::default()).await;
    }

    /// Tells of changes from now on. What exactly changed, whoever is concerned finds out.
    pub fn news(&self) -> news::Receiver<()> {
        self.news.subscribe()
    }

    /// Waits until all were seen once.
    pub async fn synced(&self) {
        // The sender lives as long as the store.
        let _ = self.store.synced().wait_for(|synced| *synced).await;
    }

    pub(crate) fn any(&self) -> Arc<dyn AnyStore> {
        let store: Arc<Store<AllocationFacts>> = Arc::clone(&self.store);
        store
    }

    pub(crate) fn list(&self) -> Vec<Arc<Cached<AllocationFacts>>> {
        self.store.list()
    }

    pub(crate) fn newest(&self) -> u64 {
        self.store.newest()
    }
}
