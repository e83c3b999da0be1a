//! The acting half of leader election: watches the Lease, writes it, and runs the work of the
//! leader only while the lease is ours.

use std::time::Duration;

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Api, ObjectMeta, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::decide::{self, Decision, LeaderSettings, Observed, Standing};
use crate::metrics::Metrics;
use crate::task;

/// The election ended other than by shutdown.
#[derive(Debug, thiserror::Error)]
pub enum LeaderError {
    /// The lease could not be renewed in time, or another holds it.
    #[error(
        "the leadership of {lease} is lost: it could not be renewed in time or another holds it; \
         this process must start again"
    )]
    Lost {
        /// The lease.
        lease: LeaseName,
    },
    /// The work of the leader panicked.
    #[error("the work of the leader of {lease} panicked; this is a defect")]
    Work {
        /// The lease.
        lease: LeaseName,
        /// The panic.
        #[source]
        source: tokio::task::JoinError,
    },
}

/// Where a Lease is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    /// Its namespace.
    pub namespace: String,
    /// Its name, by custom that of the component.
    pub name: String,
}

impl std::fmt::Display for LeaseName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "lease {}/{}", self.namespace, self.name)
    }
}

/// The name of a candidate: the pod or host for people, and a random part because a restarted
/// process must not take itself for the one before it.
pub fn identity(host: &str) -> String {
    format!("{host}_{:016x}", rand::rng().random::<u64>())
}

/// A candidate for the leadership of one Lease.
#[derive(Debug)]
pub struct Elector {
    api: Api<Lease>,
    lease: LeaseName,
    me: String,
    settings: LeaderSettings,
    metrics: Metrics,
    leading: watch::Sender<bool>,
    random: StdRng,
}

/// A write of the Lease did not succeed.
enum WriteFailure {
    /// Somebody else wrote first; the Lease was read again.
    Conflict,
    /// It did not succeed, for this reason.
    Failed(String),
}

/// What a candidate knows.
struct Knowledge {
    /// The object as last read or written, for its resource version.
    lease: Option<Lease>,
    observed: Observed,
}

impl Knowledge {
    fn first(lease: Option<Lease>) -> Self {
        let observed = Observed::first(record(lease.as_ref()).cloned(), now());
        Self { lease, observed }
    }

    fn again(&mut self, lease: Option<Lease>) {
        self.observed.again(record(lease.as_ref()).cloned(), now());
        self.lease = lease;
    }
}

impl Elector {
    /// A candidate called `me`, see [`identity`].
    pub fn new(
        client: kube::Client,
        lease: LeaseName,
        me: String,
        settings: LeaderSettings,
        metrics: Metrics,
    ) -> Self {
        let api = Api::namespaced(client, &lease.namespace);
        metrics.leader(&lease.name, false);
        let random = StdRng::from_rng(&mut rand::rng());
        Self {
            api,
            lease,
            me,
            settings,
            metrics,
            leading: watch::Sender::new(false),
            random,
        }
    }

    /// Tells whether this candidate leads.
    pub fn leading(&self) -> watch::Receiver<bool> {
        self.leading.subscribe()
    }

    /// Waits for the leadership, then runs `work` until it ends, the leadership is lost, or
    /// `shutdown`; in the last two cases the token given to `work` is cancelled.
    ///
    /// The lease is renewed until the work has ended, and only then given back. `None` means that
    /// the shutdown came before the leadership.
    pub async fn run<F>(
        mut self,
        shutdown: CancellationToken,
        work: impl FnOnce(CancellationToken) -> F,
    ) -> Result<Option<F::Output>, LeaderError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let changes = self.changes();
        let Some((knowledge, standing)) = self.acquire(changes, &shutdown).await else {
            return Ok(None);
        };
        tracing::info!(lease = %self.lease, me = %self.me, "leading");
        self.publish(true);
        let token = shutdown.child_token();
        let handle = task::spawn("leader-work", work(token.clone()));
        let outcome = self.hold(knowledge, standing, &token, handle).await;
        self.publish(false);
        outcome.map(Some)
    }

    fn publish(&self, leading: bool) {
        self.metrics.leader(&self.lease.name, leading);
        self.leading.send_replace(leading);
    }

    fn changes(&self) -> impl Stream<Item = watcher::Result<Option<Lease>>> + Send + use<> {
        let changes = kube::runtime::watcher::watch_object(self.api.clone(), &self.lease.name);
        changes.default_backoff()
    }

    /// Waits as a standby until the lease is ours, or for the shutdown. A write under way is not
    /// given up by a shutdown: it may succeed, and then the lease must be given back.
    async fn acquire(
        &mut self,
        changes: impl Stream<Item = watcher::Result<Option<Lease>>> + Send,
        shutdown: &CancellationToken,
    ) -> Option<(Knowledge, Standing)> {
        let mut changes = std::pin::pin!(changes);
        let mut knowledge: Option<Knowledge> = None;
        let mut not_before = None;
        loop {
            let until = match &mut knowledge {
                None => None,
                Some(known) => {
                    let standing = Standing::Standby { not_before };
                    match self.decide(known, standing) {
                        Decision::Wait { until } => Some(until.into()),
                        Decision::Acquire | Decision::Renew | Decision::Lost => {
                            let started = now();
                            match self.write(known, self.settings.request_timeout()).await {
                                Ok(()) => {
                                    let next_renewal = started + self.retry_after();
                                    let standing = Standing::Leading {
                                        renewed_at: started,
                                        next_renewal,
                                    };
                                    return Some((Knowledge::first(known.lease.take()), standing));
                                }
                                Err(WriteFailure::Conflict) => {}
                                Err(WriteFailure::Failed(error)) => {
                                    tracing::warn!(lease = %self.lease, error, "cannot take the lease; trying again");
                                }
                            }
                            let retry = now() + self.retry_after();
                            not_before = Some(retry);
                            Some(retry.into())
                        }
                    }
                }
            };
            let seen = tokio::select! {
                change = changes.next() => change,
                () = sleep_until(until) => continue,
                () = shutdown.cancelled() => return None,
            };
            let seen = match seen {
                Some(Ok(lease)) => Some(lease),
                Some(Err(error)) => {
                    tracing::warn!(lease = %self.lease, error = %error, "cannot watch the lease (are get, list and watch on leases allowed?); reading it instead");
                    self.read().await
                }
                None => None,
            };
            if let Some(lease) = seen {
                match &mut knowledge {
                    Some(known) => known.again(lease),
                    None => knowledge = Some(Knowledge::first(lease)),
                }
            }
        }
    }

    /// Renews the lease while the work runs.
    async fn hold<T>(
        &mut self,
        mut knowledge: Knowledge,
        mut standing: Standing,
        token: &CancellationToken,
        mut work: JoinHandle<T>,
    ) -> Result<T, LeaderError> {
        loop {
            match self.decide(&knowledge, standing) {
                Decision::Wait { until } => {
                    tokio::select! {
                        ended = &mut work => {
                            self.release(knowledge).await;
                            return ended.map_err(|source| self.panicked(source));
                        }
                        () = tokio::time::sleep_until(until.into()) => {}
                    }
                }
                Decision::Lost => return self.stop_deposed(token, work).await,
                Decision::Acquire | Decision::Renew => {
                    let Standing::Leading { renewed_at, .. } = standing else {
                        return self.stop_deposed(token, work).await;
                    };
                    let started = now();
                    let left = self.settings.left(renewed_at, started);
                    let written = self
                        .write(&mut knowledge, left.min(self.settings.request_timeout()))
                        .await;
                    let next_renewal = started + self.retry_after();
                    let renewed_at = match written {
                        Ok(()) => started,
                        Err(WriteFailure::Conflict) => renewed_at,
                        Err(WriteFailure::Failed(error)) => {
                            tracing::warn!(lease = %self.lease, error, "cannot renew the lease; trying again");
                            renewed_at
                        }
                    };
                    standing = Standing::Leading {
                        renewed_at,
                        next_renewal,
                    };
                }
            }
        }
    }

    fn decide(&self, knowledge: &Knowledge, standing: Standing) -> Decision {
        decide::decide(
            &knowledge.observed,
            &self.me,
            standing,
            now(),
            &self.settings,
        )
    }

    fn retry_after(&mut self) -> Duration {
        self.settings
            .retry_after(self.random.random_range(0.0..1.0))
    }

    fn panicked(&self, source: tokio::task::JoinError) -> LeaderError {
        LeaderError::Work {
            lease: self.lease.clone(),
            source,
        }
    }

    /// Another may lead soon: the work ends before that, or is ended.
    async fn stop_deposed<T>(
        &self,
        token: &CancellationToken,
        mut work: JoinHandle<T>,
    ) -> Result<T, LeaderError> {
        tracing::error!(lease = %self.lease, "the leadership is lost; stopping the work");
        self.publish(false);
        token.cancel();
        if tokio::time::timeout(self.settings.stop_within(), &mut work)
            .await
            .is_err()
        {
            work.abort();
        }
        Err(LeaderError::Lost {
            lease: self.lease.clone(),
        })
    }

    /// Writes that the lease is ours, over exactly the record that we know.
    async fn write(
        &self,
        knowledge: &mut Knowledge,
        timeout: Duration,
    ) -> Result<(), WriteFailure> {
        let previous = record(knowledge.lease.as_ref());
        let spec = decide::taken(previous, &self.me, Timestamp::now(), &self.settings);
        let written = self.put(knowledge.lease.as_ref(), spec);
        match tokio::time::timeout(timeout, written).await {
            Ok(Ok(lease)) => {
                knowledge.again(Some(lease));
                Ok(())
            }
            Ok(Err(kube::Error::Api(status)))
                if status.is_conflict() || status.is_already_exists() || status.is_not_found() =>
            {
                if let Some(lease) = self.read().await {
                    knowledge.again(lease);
                }
                Err(WriteFailure::Conflict)
            }
            Ok(Err(error)) => Err(WriteFailure::Failed(error.to_string())),
            Err(_) => Err(WriteFailure::Failed(format!(
                "no answer within {timeout:?}"
            ))),
        }
    }

    async fn put(&self, previous: Option<&Lease>, spec: LeaseSpec) -> kube::Result<Lease> {
        let parameters = PostParams::default();
        match previous {
            Some(previous) => {
                let lease = Lease {
                    spec: Some(spec),
                    ..previous.clone()
                };
                self.api
                    .replace(&self.lease.name, &parameters, &lease)
                    .await
            }
            None => {
                let metadata = ObjectMeta {
                    name: Some(self.lease.name.clone()),
                    ..ObjectMeta::default()
                };
                self.api
                    .create(
                        &parameters,
                        &Lease {
                            metadata,
                            spec: Some(spec),
                        },
                    )
                    .await
            }
        }
    }

    async fn read(&self) -> Option<Option<Lease>> {
        let read = self.api.get_opt(&self.lease.name);
        match tokio::time::timeout(self.settings.request_timeout(), read).await {
            Ok(Ok(lease)) => Some(lease),
            Ok(Err(error)) => {
                tracing::warn!(lease = %self.lease, %error, "cannot read the lease");
                None
            }
            Err(_) => None,
        }
    }

    /// Gives the lease back, so that the next candidate need not wait for its end.
    async fn release(&self, mut knowledge: Knowledge) {
        // Twice, because somebody may have touched the labels of the Lease since we wrote it.
        for _ in 0..2 {
            let held = knowledge.observed.holder() == Some(self.me.as_str());
            let Some((lease, spec)) = knowledge
                .lease
                .as_ref()
                .zip(record(knowledge.lease.as_ref()))
                .filter(|_| held)
            else {
                return;
            };
            let spec = decide::released(spec, Timestamp::now());
            let written = self.put(Some(lease), spec);
            match tokio::time::timeout(self.settings.request_timeout(), written).await {
                Ok(Ok(_)) => {
                    tracing::info!(lease = %self.lease, "gave the lease back");
                    return;
                }
                Ok(Err(kube::Error::Api(status))) if status.is_conflict() => {
                    knowledge.again(self.read().await.flatten());
                }
                Ok(Err(error)) => {
                    tracing::warn!(lease = %self.lease, %error, "cannot give the lease back; it expires");
                    return;
                }
                Err(_) => {
                    tracing::warn!(lease = %self.lease, "cannot give the lease back in time; it expires");
                    return;
                }
            }
        }
    }
}

fn record(lease: Option<&Lease>) -> Option<&LeaseSpec> {
    lease.and_then(|lease| lease.spec.as_ref())
}

/// The time by tokio's clock, which tests can hold.
fn now() -> std::time::Instant {
    Instant::now().into_std()
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
