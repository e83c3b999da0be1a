//! The task of one tenant: waits until its API server is ready, brings it in step, and looks again when what it watches changes,
//! and now and then. While the tenant's state moves to another store, being in step means that its API servers refuse writes.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use butler_api::conditions::reasons;
use butler_runtime::{
    backoff::Backoff,
    conditions::Finding,
    failure::{Class, Failure},
    kube_api_server::KubeApiServer,
    remote::{Health, RemoteCluster},
};
use rand::RngExt as _;
use steward_tenant::{Report, TenantFacts, TenantPart, TenantSide, desired, writes_are_frozen};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use super::{Shared, vigil::Vigil};
use crate::tenant_port::TenantState;

/// How often a tenant that is in step is looked at again, since people can change anything in it. A look costs a list for each
/// kind, and repairs that nobody waits for may take a while; where somebody does, there is a watch.
const REPAIR_PERIOD: Duration = Duration::from_mins(10);
/// How long a tenant may take to become ready before that is said.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long one pass over a tenant may take: its requests have no deadline of their own, and its place is wanted by others.
const PASS_WITHIN: Duration = Duration::from_mins(1);
/// API servers take up that writes are refused a moment after one of them was told, each by itself; we reach only one of them.
/// Ten times as long as it takes them on a busy machine. Nothing depends on it but a kind word: from when the state is copied
/// the store itself takes no writes, and whoever writes through one that is later still is refused with an internal error.
const ALL_FROZEN_AFTER: Duration = Duration::from_secs(3);
/// How often it is asked whether writes are refused yet.
const FREEZE_PERIOD: Duration = Duration::from_millis(200);
/// Failures that may pass are not worth a word before as many: a new API server makes its namespaces in its first seconds.
const WORTH_A_WORD: u32 = 3;
const BACKOFF: Backoff = Backoff {
    shortest: Duration::from_millis(500),
    longest: REPAIR_PERIOD,
};

/// Between looks that follow each other because somebody undoes what the last one did. The first is at once.
const QUARREL: Backoff = Backoff {
    shortest: Duration::from_millis(500),
    longest: Duration::from_secs(10),
};
/// Changes that are further apart are none of the same quarrel.
const QUARREL_ENDS_AFTER: Duration = Duration::from_mins(1);

/// What a task needs.
pub(super) struct Work {
    pub(super) shared: Weak<Shared>,
    pub(super) passes: Arc<Semaphore>,
    pub(super) uid: String,
    pub(super) fingerprint: String,
    pub(super) cluster: RemoteCluster,
    pub(super) facts: TenantFacts,
}

impl Work {
    /// Goes on until it is aborted, or nobody is interested any more.
    pub(super) async fn run(self) {
        let client = self.cluster.client();
        let mut vigil = Vigil::over(&client, &desired(&self.facts).watched());
        let api = KubeApiServer::new(client);
        let mut side = TenantSide::new();
        let mut failures = 0;
        let mut changes = 0;
        loop {
            let outcome = self.pass(&api, &mut side, &mut vigil).await;
            let wait = match &outcome {
                Ok(()) => {
                    failures = 0;
                    // Not all tenants at once.
                    REPAIR_PERIOD.mul_f64(0.75 + rand::rng().random::<f64>() / 2.0)
                }
                Err(failure) => {
                    failures += 1;
                    BACKOFF.after(failures, failure.class, rand::rng().random())
                }
            };
            let Some(shared) = self.shared.upgrade() else {
                return;
            };
            if let Some(state) = self.state(outcome, failures) {
                shared.tell(&self.uid, &self.fingerprint, state);
            }
            drop(shared);
            let since = Instant::now();
            let has_changed = timeout(wait, vigil.change()).await.is_ok();
            changes = if has_changed && since.elapsed() < QUARREL_ENDS_AFTER {
                changes + 1
            } else {
                u32::from(has_changed)
            };
            if changes > 1 {
                let jitter = rand::rng().random();
                tokio::time::sleep(QUARREL.after(changes - 1, Class::Retry, jitter)).await;
            }
        }
    }

    fn state(&self, outcome: Result<(), Failure>, failures: u32) -> Option<TenantState> {
        match outcome {
            Ok(()) => Some(TenantState {
                configured: Some(self.fingerprint.clone()),
                problem: None,
            }),
            Err(failure) if failure.class != Class::Terminal && failures < WORTH_A_WORD => None,
            Err(failure) => Some(TenantState {
                configured: None,
                problem: Some(failure.message),
            }),
        }
    }

    async fn pass(
        &self,
        api: &KubeApiServer,
        side: &mut TenantSide,
        vigil: &mut Vigil,
    ) -> Result<(), Failure> {
        self.ready().await?;
        // Before we look: what changes from then on is told. What cannot be watched is looked at all the same.
        if timeout(READY_WITHIN, vigil.begin()).await.is_err() {
            tracing::debug!(tenant = %self.uid, "the tenant cannot be watched yet");
        }
        // Closed never; then the limit no longer matters.
        let _place = self.passes.acquire().await.ok();
        let pass = timeout(PASS_WITHIN, self.bring_in_step(api, side));
        pass.await.unwrap_or_else(|_elapsed| {
            let message = format!(
                "the tenant's API server did not answer all that was asked of it within {} s",
                PASS_WITHIN.as_secs()
            );
            Err(Failure::retry(reasons::FAILED, message))
        })
    }

    async fn bring_in_step(
        &self,
        api: &KubeApiServer,
        side: &mut TenantSide,
    ) -> Result<(), Failure> {
        let report = side.reconcile(api, &self.facts).await?;
        if self.facts.frozen {
            in_place(&report, report.obstacle_of(TenantPart::Freeze))?;
            self.frozen().await
        } else {
            in_place(&report, report.obstacle())
        }
    }

    /// Waits until the tenant's API servers refuse writes.
    async fn frozen(&self) -> Result<(), Failure> {
        let client = self.cluster.client();
        let refused = async || {
            let asked = writes_are_frozen(&client).await;
            asked.map_err(|error| {
                let message = format!("cannot tell whether the tenant refuses writes: {error}");
                Failure::retry(reasons::FAILED, message)
            })
        };
        while !refused().await? {
            tokio::time::sleep(FREEZE_PERIOD).await;
        }
        tokio::time::sleep(ALL_FROZEN_AFTER).await;
        if refused().await? {
            return Ok(());
        }
        let message = "the tenant accepts writes again although it must refuse them";
        Err(Failure::retry(reasons::FAILED, message))
    }

    /// Waits until the tenant's API server is ready. Takes nobody's place.
    async fn ready(&self) -> Result<(), Failure> {
        let mut health = self.cluster.health();
        let is_ready = matches!(
            timeout(READY_WITHIN, health.wait_for(Health::is_healthy)).await,
            Ok(Ok(_))
        );
        if is_ready {
            return Ok(());
        }
        let last = match &*health.borrow() {
            Health::Unhealthy { reason, .. } => format!(": {reason}"),
            Health::Unknown | Health::Healthy { .. } => String::new(),
        };
        let message =
            format!("the tenant's API server cannot be reached from here, or is not ready{last}");
        Err(Failure::retry(reasons::PODS_NOT_READY, message))
    }
}

/// Whether a pass reached its end.
fn in_place(report: &Report, obstacle: Option<(TenantPart, &Finding)>) -> Result<(), Failure> {
    obstacle.map_or(Ok(()), |(part, finding)| {
        Err(Failure {
            // What is not a failure needs somebody to act.
            class: report.failure_class().unwrap_or(Class::Terminal),
            reason: reasons::FAILED,
            message: format!("{part}: {}", finding.message),
        })
    })
}
