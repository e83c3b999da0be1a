//! Says on the `ButlerCluster` of a tenant how many of its Services wait for an address.
//!
//! Owns: two annotations. They are written when they are not what they shall be, and never else. What a cache does not show yet is
//! remembered: it would else be taken for what stands there.

use std::{sync::Arc, time::Duration};

use butler_api::{cluster_api::butler_cluster::ButlerCluster, keys::annotations};
use butler_local::Waiting;
use butler_runtime::{
    api_server::{ApiError, ApiServer as _, Cause},
    backoff::Backoff,
    cache::Store,
    failure::Class,
    kube_api_server::KubeApiServer,
    object::{Kind, ObjectKey},
};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::facts::{ClusterFacts, Told};

const BACKOFF: Backoff = Backoff {
    shortest: Duration::from_millis(500),
    longest: Duration::from_secs(30),
};

/// The clusters of all tenants, and the news that one of them has changed.
#[derive(Clone)]
pub(super) struct Clusters {
    pub(super) store: Arc<Store<ClusterFacts>>,
    changed: watch::Receiver<()>,
}

impl Clusters {
    /// Listens to the store. Has to be called before it is fed.
    pub(super) fn new(store: Arc<Store<ClusterFacts>>) -> Self {
        let sender = watch::Sender::new(());
        let changed = sender.subscribe();
        store.listen(move |_| {
            sender.send_replace(());
        });
        Self { store, changed }
    }
}

/// What stands on a cluster, in a version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stand {
    told: Told,
    version: u64,
}

/// What has to be written, if anything: `shown` is what the cache shows, `written` what was written last.
fn due(wanted: Option<Waiting>, shown: Option<&Stand>, written: Option<&Stand>) -> Option<Told> {
    let wanted = told(wanted?);
    let shown = shown?;
    let unseen = written.filter(|written| written.version > shown.version);
    let stands = unseen.unwrap_or(shown);
    (wanted != stands.told).then_some(wanted)
}

/// What is written about Services that wait; nothing if none does.
fn told(waiting: Waiting) -> Told {
    if waiting.count == 0 {
        return Told::default();
    }
    Told {
        count: Some(waiting.count.to_string()),
        since: waiting.since.map(|since| since.to_string()),
    }
}

/// Resource versions of one API server grow; an unreadable one counts as the oldest.
fn revision(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

/// Keeps the annotations of a cluster in step with what its network says.
pub(super) async fn report(
    management: Client,
    clusters: Clusters,
    cluster: ObjectKey,
    mut waiting: watch::Receiver<Option<Waiting>>,
) {
    let api = KubeApiServer::new(management);
    let Clusters { store, mut changed } = clusters;
    let mut written = None;
    let mut failures = 0;
    loop {
        changed.mark_unchanged();
        let known = *waiting.borrow_and_update();
        let shown = store.get(&cluster).map(|found| Stand {
            told: found.value.waiting.clone(),
            version: revision(&found.facts.resource_version),
        });
        if let Some(told) = due(known, shown.as_ref(), written.as_ref()) {
            match write(&api, &cluster, &told).await {
                Ok(version) => {
                    failures = 0;
                    written = Some(Stand { told, version });
                }
                // The cache will show that it is gone.
                Err(error) if error.cause == Cause::NotFound => {}
                Err(error) => {
                    failures += 1;
                    tracing::warn!(%cluster, %error, "could not say how many Services wait for an address; it is tried again");
                    tokio::time::sleep(BACKOFF.after(failures, Class::Retry, 1.0)).await;
                    continue;
                }
            }
        }
        tokio::select! {
            () = news(&mut waiting) => {}
            () = news(&mut changed) => {}
        }
    }
}

/// Waits for the next value. When there will be none, whoever told us has ended, and we with it.
async fn news<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Writes the annotations, and says which version of the cluster has them.
async fn write(api: &KubeApiServer, cluster: &ObjectKey, told: &Told) -> Result<u64, ApiError> {
    let patch = json!({ "metadata": { "annotations": {
        annotations::WAITING_LOAD_BALANCERS: told.count,
        annotations::WAITING_LOAD_BALANCERS_SINCE: told.since,
    } } });
    let kind = Kind::of::<ButlerCluster>();
    let body = api.merge(&kind, cluster, patch).await?;
    let version = body
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str);
    Ok(revision(version.unwrap_or_default()))
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
