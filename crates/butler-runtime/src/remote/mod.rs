//! Owns the clients for remote (tenant) clusters: one for each cluster, made again when its
//! kubeconfig changes, with a health that others can watch, gone when nobody uses it any more.
//!
//! It does not know where kubeconfigs come from; the caller brings a fingerprint, and the bytes
//! only when they are needed.

mod access;
mod health;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rand::RngExt as _;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use access::{AccessError, RemoteKubeconfig};
pub use health::{Health, HealthSettings};

use self::health::{Probe, ProbeState};
use crate::client::{self, ClientError, Component, Timeouts};
use crate::metrics::Metrics;
use crate::task;

/// Bookmarks come about every minute, so a watch that is silent for longer is dead.
const READ_TIMEOUT: Duration = Duration::from_secs(90);
/// A fleet is at rest most of the time, and a connection with TLS holds some 60 KiB for each cluster of it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
const TIMEOUTS: Timeouts = Timeouts {
    read: READ_TIMEOUT,
    idle: IDLE_TIMEOUT,
};

/// A remote cluster cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError<E: std::error::Error + 'static> {
    /// The kubeconfig cannot be read.
    #[error("cannot read the kubeconfig of cluster {key}")]
    Load {
        /// The cluster.
        key: RemoteKey,
        /// Why.
        #[source]
        source: E,
    },
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig of cluster {key}")]
    Access {
        /// The cluster.
        key: RemoteKey,
        /// Why.
        #[source]
        source: AccessError,
    },
    /// The kubeconfig does not make a client.
    #[error("cannot make a client for cluster {key}")]
    Client {
        /// The cluster.
        key: RemoteKey,
        /// Why.
        #[source]
        source: ClientError,
    },
}

/// A kubeconfig does not lead to a client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig")]
    Access(#[from] AccessError),
    /// The kubeconfig does not make a client.
    #[error("cannot make a client")]
    Client(#[from] ClientError),
}

/// A client for a remote cluster that is not kept here: for whoever watches the cluster all the time, and so sees its health.
pub async fn connect(
    kubeconfig: RemoteKubeconfig,
    component: &Component,
) -> Result<kube::Client, ConnectError> {
    let mut config = kubeconfig.into_config().await?;
    // Watches have their own backoff.
    config.default_retry = false;
    let client = client::client_with(config, component, TIMEOUTS)?;
    Ok(client)
}

/// Names a remote cluster by the object that stands for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemoteKey {
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

impl std::fmt::Display for RemoteKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// How remote clusters are kept.
#[derive(Clone, Debug)]
pub struct RemoteSettings {
    /// How the health is found out.
    pub health: HealthSettings,
    /// How many clusters may be connected to or probed at the same time.
    pub concurrent_connects: usize,
    /// After how long without use a client is dropped.
    pub idle_after: Duration,
}

impl Default for RemoteSettings {
    fn default() -> Self {
        Self {
            health: HealthSettings::default(),
            concurrent_connects: 16,
            idle_after: Duration::from_mins(10),
        }
    }
}

/// The remote clusters of a process. A clone is the same set.
#[derive(Clone, Debug)]
pub struct RemoteClusters {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    component: Component,
    settings: RemoteSettings,
    metrics: Metrics,
    connects: Semaphore,
    slots: Mutex<BTreeMap<RemoteKey, Arc<Slot>>>,
}

/// The place of one cluster. Its lock makes sure that only one client is made.
#[derive(Debug)]
struct Slot {
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    /// Outlives a connection, so that whoever watches the health sees it through a new kubeconfig.
    health: watch::Sender<Health>,
}

struct Connection {
    client: kube::Client,
    fingerprint: String,
    health: watch::Receiver<Health>,
    last_used: Mutex<Instant>,
    _probe: DropGuard,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Connection")
            .field("health", &self.health)
            .finish_non_exhaustive()
    }
}

/// A connected remote cluster. As long as one is held, its client stays and its health is probed.
#[derive(Clone, Debug)]
pub struct RemoteCluster {
    connection: Arc<Connection>,
}

impl RemoteCluster {
    /// The client.
    pub fn client(&self) -> kube::Client {
        self.connection.client.clone()
    }

    /// The health, now and from now on.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.connection.health.clone()
    }
}

impl RemoteClusters {
    /// No cluster yet.
    pub fn new(component: Component, settings: RemoteSettings, metrics: Metrics) -> Self {
        let connects = Semaphore::new(settings.concurrent_connects.max(1));
        let slots = Mutex::default();
        Self {
            shared: Arc::new(Shared {
                component,
                settings,
                metrics,
                connects,
                slots,
            }),
        }
    }

    /// The cluster behind `key`.
    ///
    /// `fingerprint` stands for the kubeconfig, such as the resource version of its Secret. `load`
    /// is called only if no client was made for that fingerprint; else there is no request at all.
    pub async fn get<F, E>(
        &self,
        key: &RemoteKey,
        fingerprint: &str,
        load: impl FnOnce() -> F,
    ) -> Result<RemoteCluster, RemoteError<E>>
    where
        F: Future<Output = Result<RemoteKubeconfig, E>>,
        E: std::error::Error + 'static,
    {
        let slot = self.shared.slot(key);
        let mut place = slot.connection.lock().await;
        if let Some(connection) = place.as_ref()
            && connection.fingerprint == fingerprint
        {
            *guard(&connection.last_used) = Instant::now();
            return Ok(RemoteCluster {
                connection: Arc::clone(connection),
            });
        }
        let kubeconfig = {
            // Closed only with the set itself; then the limit no longer matters.
            let _permit = self.shared.connects.acquire().await.ok();
            load().await.map_err(|source| RemoteError::Load {
                key: key.clone(),
                source,
            })?
        };
        let mut config = kubeconfig
            .into_config()
            .await
            .map_err(|source| RemoteError::Access {
                key: key.clone(),
                source,
            })?;
        // The engine has its own backoff, and a probe must see a 503 as it is.
        config.default_retry = false;
        let client =
            client::client_with(config, &self.shared.component, TIMEOUTS).map_err(|source| {
                RemoteError::Client {
                    key: key.clone(),
                    source,
                }
            })?;
        let stop = CancellationToken::new();
        let connection = Arc::new(Connection {
            client,
            fingerprint: fingerprint.to_owned(),
            health: slot.health.subscribe(),
            last_used: Mutex::new(Instant::now()),
            _probe: stop.clone().drop_guard(),
        });
        // The old connection, if any, stops probing when its last user lets go of it; the probe of
        // the new one decides the health from now on.
        *place = Some(Arc::clone(&connection));
        let prober = Prober {
            key: key.clone(),
            shared: Arc::downgrade(&self.shared),
            slot: Arc::downgrade(&slot),
            connection: Arc::downgrade(&connection),
        };
        task::spawn("remote-health", async move {
            stop.run_until_cancelled(prober.run()).await;
        });
        Ok(RemoteCluster { connection })
    }

    /// The health of a cluster that is connected.
    pub fn health(&self, key: &RemoteKey) -> Option<watch::Receiver<Health>> {
        guard(&self.shared.slots)
            .get(key)
            .map(|slot| slot.health.subscribe())
    }

    /// Forgets a cluster. Clients that are still held keep working.
    pub fn remove(&self, key: &RemoteKey) {
        guard(&self.shared.slots).remove(key);
        self.shared
            .metrics
            .remote_health(&key.namespace, &key.name, None);
    }

    /// The clusters that have a client now.
    pub fn keys(&self) -> Vec<RemoteKey> {
        guard(&self.shared.slots).keys().cloned().collect()
    }
}

impl Shared {
    fn slot(&self, key: &RemoteKey) -> Arc<Slot> {
        let mut slots = guard(&self.slots);
        let slot = slots.entry(key.clone()).or_insert_with(|| {
            Arc::new(Slot {
                connection: tokio::sync::Mutex::default(),
                health: watch::Sender::new(Health::Unknown),
            })
        });
        Arc::clone(slot)
    }

    /// Tells the health, unless the cluster was removed meanwhile.
    fn publish(&self, key: &RemoteKey, slot: &Slot, health: Health) {
        let slots = guard(&self.slots);
        if slots
            .get(key)
            .is_some_and(|current| std::ptr::eq(Arc::as_ptr(current), slot))
        {
            let healthy = Some(health.is_healthy());
            self.metrics
                .remote_health(&key.namespace, &key.name, healthy);
        }
        slot.health.send_if_modified(|published| {
            let changed = *published != health;
            *published = health;
            changed
        });
    }

    /// Drops a client that only the set and the prober still hold, and that nobody asked for since
    /// long. Whoever is about to ask holds the slot, taken under the same lock.
    fn drop_if_idle(&self, key: &RemoteKey, slot: &Arc<Slot>, connection: &Arc<Connection>) {
        let mut slots = guard(&self.slots);
        let idle = guard(&connection.last_used).elapsed() >= self.settings.idle_after;
        let same = slots
            .get(key)
            .is_some_and(|current| Arc::ptr_eq(current, slot));
        let unused = Arc::strong_count(slot) <= 2 && Arc::strong_count(connection) <= 2;
        if idle && same && unused {
            slots.remove(key);
            self.metrics.remote_health(&key.namespace, &key.name, None);
            tracing::debug!(cluster = %key, "dropped an unused client");
        }
    }
}

/// Finds out the health of one connection. It holds nothing alive while it waits.
struct Prober {
    key: RemoteKey,
    shared: Weak<Shared>,
    slot: Weak<Slot>,
    connection: Weak<Connection>,
}

impl Prober {
    async fn run(self) {
        let mut state = ProbeState::default();
        loop {
            let delay = {
                let (Some(shared), Some(slot), Some(connection)) = (
                    self.shared.upgrade(),
                    self.slot.upgrade(),
                    self.connection.upgrade(),
                ) else {
                    return;
                };
                state = self.probe(&shared, &slot, &connection, state).await;
                shared.drop_if_idle(&self.key, &slot, &connection);
                state.delay(&shared.settings.health, rand::rng().random_range(0.0..1.0))
            };
            tokio::time::sleep(delay).await;
        }
    }

    async fn probe(
        &self,
        shared: &Shared,
        slot: &Slot,
        connection: &Arc<Connection>,
        state: ProbeState,
    ) -> ProbeState {
        let settings = &shared.settings.health;
        let probe = {
            let _permit = shared.connects.acquire().await.ok();
            health::probe(&connection.client, settings.timeout).await
        };
        // Replaced while we asked: the answer is about a kubeconfig of the past.
        let current = slot.connection.lock().await;
        if !current
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, connection))
        {
            return state;
        }
        if let Probe::Failed(reason) = &probe {
            tracing::debug!(cluster = %self.key, reason, "the remote cluster is not ready");
        }
        let previous = slot.health.borrow().clone();
        let (state, health) = state.after(&previous, probe, jiff::Timestamp::now(), settings);
        shared.publish(&self.key, slot, health);
        state
    }
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
