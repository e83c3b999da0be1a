//! The acting half of leader election: watches the Lease, writes it, and runs the work of the
//! leader only while the lease is ours.

use std::time::Duration;

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::watcher;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::decide::{self, Decision, LeaderSettings, Standing};
use super::store::{Knowledge, LeaseName, LeaseStore, WriteFailure};
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

/// The name of a candidate: the pod or host for people, and a random part because a restarted
/// process must not take itself for the one before it.
pub fn identity(host: &str) -> String {
    format!("{host}_{:016x}", rand::rng().random::<u64>())
}

/// A candidate for the leadership of one Lease.
#[derive(Debug)]
pub struct Elector {
    store: LeaseStore,
    lease: LeaseName,
    me: String,
    settings: LeaderSettings,
    metrics: Metrics,
    leading: watch::Sender<bool>,
    random: StdRng,
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
        let store = LeaseStore::new(client, &lease);
        metrics.leader(&lease.name, false);
        let random = StdRng::from_rng(&mut rand::rng());
        Self {
            store,
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
        let changes = self.store.changes();
        let Some((knowledge, standing)) = self.acquire(changes, &shutdown).await else {
            return Ok(None);
        };
        tracing::info!(lease = %self.lease, me = %self.me, "leading");
        self.publish(true);
        let token = shutdown.child_token();
        // Whoever drops this future renews no longer, so the work must end with it.
        let _ends_with_us = token.clone().drop_guard();
        let handle = AbortOnDropHandle::new(task::spawn("leader-work", work(token.clone())));
        let outcome = self.hold(knowledge, standing, &token, handle).await;
        self.publish(false);
        outcome.map(Some)
    }

    fn publish(&self, leading: bool) {
        self.metrics.leader(&self.lease.name, leading);
        self.leading.send_replace(leading);
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
            let mut until = None;
            if let Some(known) = &mut knowledge {
                let standing = Standing::Standby { not_before };
                if let Decision::Wait { until: moment } = self.decide(known, standing) {
                    until = Some(moment);
                } else if let Some(standing) = self.renew(known, None).await {
                    return knowledge.map(|known| (known, standing));
                } else {
                    not_before = Some(now() + self.retry_after());
                    until = not_before;
                }
            }
            let change = tokio::select! {
                change = changes.next() => change,
                () = sleep_until(until) => continue,
                () = shutdown.cancelled() => return None,
            };
            let seen = match change {
                Some(Ok(lease)) => Ok(lease),
                Some(Err(error)) => {
                    tracing::warn!(lease = %self.lease, %error, "cannot watch the lease (are get, list and watch on leases allowed?); reading it instead");
                    self.read().await
                }
                None => continue,
            };
            match (seen, &mut knowledge) {
                (Ok(lease), Some(known)) => known.again(lease, now()),
                (Ok(lease), None) => knowledge = Some(Knowledge::first(lease, now())),
                (Err(error), _) => {
                    tracing::warn!(lease = %self.lease, error, "cannot read the lease");
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
        mut work: AbortOnDropHandle<T>,
    ) -> Result<T, LeaderError> {
        loop {
            let Standing::Leading { renewed_at, .. } = standing else {
                return self.stop_deposed(now(), token, work).await;
            };
            match self.decide(&knowledge, standing) {
                Decision::Wait { until } => {
                    tokio::select! {
                        ended = &mut work => {
                            self.release(knowledge).await;
                            let lease = self.lease.clone();
                            return ended.map_err(|source| LeaderError::Work { lease, source });
                        }
                        () = tokio::time::sleep_until(until.into()) => {}
                    }
                }
                Decision::Lost => return self.stop_deposed(renewed_at, token, work).await,
                Decision::Acquire | Decision::Renew => {
                    let renewed = self.renew(&mut knowledge, Some(renewed_at)).await;
                    standing = renewed.unwrap_or_else(|| Standing::Leading {
                        renewed_at,
                        next_renewal: now() + self.retry_after(),
                    });
                }
            }
        }
    }

    fn decide(&self, knowledge: &Knowledge, standing: Standing) -> Decision {
        let observed = &knowledge.observed;
        decide::decide(observed, &self.me, standing, now(), &self.settings)
    }

    fn retry_after(&mut self) -> Duration {
        let chance = self.random.random_range(0.0..1.0);
        self.settings.retry_after(chance)
    }

    /// Tries to take or renew the lease; after a conflict, what is known is up to date again. It
    /// ends before the renew deadline of a leader, whatever the API server does.
    async fn renew(
        &mut self,
        knowledge: &mut Knowledge,
        renewed_at: Option<std::time::Instant>,
    ) -> Option<Standing> {
        let started = now();
        let limit = self.settings.request_timeout();
        let limit = renewed_at.map_or(limit, |renewed_at| {
            self.settings.left(renewed_at, started).min(limit)
        });
        let (previous, wall_clock) = (knowledge.record(), Timestamp::now());
        let record = decide::taken(previous, &self.me, wall_clock, &self.settings);
        let attempt = async {
            match self.store.write(knowledge, record).await {
                Ok(lease) => {
                    knowledge.again(Some(lease), now());
                    Ok(())
                }
                Err(WriteFailure::Conflict) => {
                    knowledge.again(self.read().await?, now());
                    Err("somebody else wrote it".to_owned())
                }
                Err(WriteFailure::Failed(error)) => Err(error),
            }
        };
        let attempted = tokio::time::timeout(limit, attempt).await;
        match attempted.unwrap_or_else(|_| Err(format!("no answer within {limit:?}"))) {
            Ok(()) => Some(Standing::Leading {
                renewed_at: started,
                next_renewal: started + self.retry_after(),
            }),
            Err(error) => {
                tracing::warn!(lease = %self.lease, error, "did not get the lease; trying again");
                None
            }
        }
    }

    async fn read(&self) -> Result<Option<Lease>, String> {
        let limit = self.settings.request_timeout();
        match tokio::time::timeout(limit, self.store.read()).await {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {limit:?}")),
        }
    }

    /// Another may lead soon: the work ends before that, or is ended.
    async fn stop_deposed<T>(
        &self,
        renewed_at: std::time::Instant,
        token: &CancellationToken,
        mut work: AbortOnDropHandle<T>,
    ) -> Result<T, LeaderError> {
        tracing::error!(lease = %self.lease, "the leadership is lost; stopping the work");
        self.publish(false);
        token.cancel();
        let limit = self.settings.stop_within(renewed_at, now());
        if tokio::time::timeout(limit, &mut work).await.is_err() {
            work.abort();
        }
        let lease = self.lease.clone();
        Err(LeaderError::Lost { lease })
    }

    /// Gives the lease back, so that the next candidate need not wait for its end.
    async fn release(&self, mut knowledge: Knowledge) {
        let attempt = async {
            // Twice, because somebody may have touched the Lease's labels since we wrote it.
            for _ in 0..2 {
                let held = knowledge.observed.holder() == Some(self.me.as_str());
                let Some(record) = knowledge.record().filter(|_| held) else {
                    return Ok(());
                };
                let record = decide::released(record, Timestamp::now());
                match self.store.write(&knowledge, record).await {
                    Ok(_) => return Ok(()),
                    Err(WriteFailure::Conflict) => knowledge.again(self.read().await?, now()),
                    Err(WriteFailure::Failed(error)) => return Err(error),
                }
            }
            Err("somebody else keeps writing it".to_owned())
        };
        let limit = self.settings.request_timeout();
        let attempted = tokio::time::timeout(limit, attempt).await;
        match attempted.unwrap_or_else(|_| Err(format!("no answer within {limit:?}"))) {
            Ok(()) => tracing::info!(lease = %self.lease, "gave the lease back"),
            Err(error) => {
                tracing::warn!(lease = %self.lease, error, "cannot give the lease back; it expires");
            }
        }
    }
}

/// The time by tokio's clock, which tests can hold.
fn now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}

async fn sleep_until(moment: Option<std::time::Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
