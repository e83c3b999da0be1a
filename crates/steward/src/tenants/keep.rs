//! The task of one tenant: waits until its API server is ready, brings it in step, and looks again when what it watches changes,
//! and now and then. While the tenant's state moves to another store, being in step means that its API servers refuse writes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use butler_api::conditions::reasons;
use butler_runtime::{
    backoff::Backoff,
    conditions::Answer,
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
            let hindrance = match &outcome {
                Ok(found) => found.class,
                Err(failure) => Some(failure.class),
            };
            let wait = match hindrance {
                None => {
                    failures = 0;
                    // Not all tenants at once.
                    REPAIR_PERIOD.mul_f64(0.75 + rand::rng().random::<f64>() / 2.0)
                }
                Some(class) => {
                    // What needs somebody to act may be there for ever: it is no reason to tell at once of what may pass.
                    failures = if class == Class::Terminal {
                        0
                    } else {
                        failures + 1
                    };
                    BACKOFF.after(failures, class, rand::rng().random())
                }
            };
            let Some(shared) = self.shared.upgrade() else {
                return;
            };
            if let Some(state) = state(&self.fingerprint, outcome, failures) {
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

    async fn pass(
        &self,
        api: &KubeApiServer,
        side: &mut TenantSide,
        vigil: &mut Vigil,
    ) -> Result<Found, Failure> {
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
    ) -> Result<Found, Failure> {
        let report = side.reconcile(api, &self.facts).await?;
        if !self.facts.frozen {
            return Ok(Found::of(&report));
        }
        refused_by_policy(&report)?;
        self.frozen().await?;
        Ok(Found::default())
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

/// What a pass that has reached all parts found.
#[derive(Debug, Default, PartialEq)]
struct Found {
    /// What is in the way of single parts.
    obstacles: BTreeMap<TenantPart, String>,
    /// What to do about that; nothing if all is as it shall be.
    class: Option<Class>,
}

impl Found {
    fn of(report: &Report) -> Self {
        let parts = report.parts.iter();
        let hindered = parts.filter(|(_, finding)| finding.answer != Answer::True);
        let obstacles: BTreeMap<_, _> = hindered
            .map(|(part, finding)| (*part, finding.message.clone()))
            .collect();
        let class = class_of(report);
        Self {
            class: (!obstacles.is_empty()).then_some(class),
            obstacles,
        }
    }
}

/// What is known after a pass; nothing new while what has failed may pass.
fn state(fingerprint: &str, outcome: Result<Found, Failure>, failures: u32) -> Option<TenantState> {
    let is_worth_a_word = failures == 0 || failures >= WORTH_A_WORD;
    is_worth_a_word.then(|| match outcome {
        Ok(found) => TenantState {
            configured: Some(fingerprint.to_owned()),
            obstacles: found.obstacles,
            problem: None,
        },
        Err(failure) => TenantState {
            problem: Some(failure.message),
            ..TenantState::default()
        },
    })
}

/// What is not a failure needs somebody to act.
fn class_of(report: &Report) -> Class {
    report.failure_class().unwrap_or(Class::Terminal)
}

/// Whether the policy is in place that refuses writes, of which alone a frozen tenant is told.
fn refused_by_policy(report: &Report) -> Result<(), Failure> {
    let obstacle = report.obstacle_of(TenantPart::Freeze);
    obstacle.map_or(Ok(()), |(part, finding)| {
        Err(Failure {
            class: class_of(report),
            reason: reasons::FAILED,
            message: format!("{part}: {}", finding.message),
        })
    })
}

#[cfg(test)]
mod tests {
    use butler_runtime::conditions::Finding;
    use pretty_assertions::assert_eq;

    use super::*;

    fn report(hindered: &[(TenantPart, &str)], failures: &[(TenantPart, Class)]) -> Report {
        let good = TenantPart::ALL.map(|part| (part, Finding::new(true, reasons::READY, "")));
        let mut parts = BTreeMap::from(good);
        for (part, why) in hindered {
            parts.insert(*part, Finding::new(false, reasons::NAME_TAKEN, *why));
        }
        let failures = failures.iter().map(|(part, class)| {
            let failure = Failure {
                class: *class,
                reason: reasons::FAILED,
                message: "refused".to_owned(),
            };
            (*part, failure)
        });
        Report {
            applied: Vec::new(),
            deleted: Vec::new(),
            unchanged: 0,
            parts,
            checksums: BTreeMap::new(),
            failures: failures.collect(),
        }
    }

    #[test]
    fn what_is_in_the_way_of_one_part_hides_nothing_of_the_others() {
        let found = Found::of(&report(&[(TenantPart::KubeProxy, "somebody's own")], &[]));
        assert_eq!(found.class, Some(Class::Terminal));
        let state = state("abc", Ok(found), 0).unwrap();
        assert_eq!(state.configured.as_deref(), Some("abc"));
        assert_eq!(state.told().as_deref(), Some("kube-proxy: somebody's own"));
        let none = Found::of(&report(&[], &[]));
        assert_eq!((none.class, none.obstacles.len()), (None, 0));
    }

    #[test]
    fn what_may_pass_is_told_when_it_has_not_passed_for_a_while() {
        let part = TenantPart::CoreDns;
        let found = || Found::of(&report(&[(part, "refused")], &[(part, Class::Retry)]));
        assert_eq!(found().class, Some(Class::Retry));
        assert_eq!(state("abc", Ok(found()), 1), None);
        assert!(state("abc", Ok(found()), WORTH_A_WORD).is_some());
        let lost = || Err(Failure::retry(reasons::FAILED, "no answer"));
        assert_eq!(state("abc", lost(), 2), None);
        let told = state("abc", lost(), WORTH_A_WORD).unwrap();
        assert_eq!(
            (told.configured, told.problem.as_deref()),
            (None, Some("no answer"))
        );
    }
}
