//! The health of a remote cluster: how one answer changes it, and when to ask again. Pure, but for
//! the one request of [`probe`].

use std::error::Error as _;
use std::time::Duration;

use jiff::Timestamp;

/// More is cut from the answer of a cluster that is not ready.
const LONGEST_REASON: usize = 300;

/// Whether a remote cluster answers that it is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It was not asked yet.
    Unknown,
    /// It is ready.
    Healthy {
        /// Since when.
        since: Timestamp,
    },
    /// It is not ready, or does not answer.
    Unhealthy {
        /// Since when.
        since: Timestamp,
        /// The latest answer, or why there was none.
        reason: String,
    },
}

impl Health {
    /// Whether the cluster is known to be ready.
    pub const fn is_healthy(&self) -> bool {
        matches!(self, Self::Healthy { .. })
    }
}

/// How the health is found out.
#[derive(Clone, Debug)]
pub struct HealthSettings {
    /// How long an answer may take.
    pub timeout: Duration,
    /// How often a healthy cluster is asked.
    pub interval: Duration,
    /// How soon a cluster is asked again after the first failure; doubled with each failure.
    pub first_retry: Duration,
    /// The longest time between two questions.
    pub longest_retry: Duration,
    /// How many failures in a row make a healthy cluster unhealthy.
    pub failures: u32,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            interval: Duration::from_secs(30),
            first_retry: Duration::from_secs(1),
            longest_retry: Duration::from_mins(1),
            failures: 2,
        }
    }
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// The cluster is ready.
    Ready,
    /// It is not, or did not answer.
    Failed(String),
}

/// What is remembered from question to question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProbeState {
    failures: u32,
}

impl ProbeState {
    /// The state and the health after an answer.
    pub(super) fn after(
        self,
        previous: &Health,
        probe: Probe,
        now: Timestamp,
        settings: &HealthSettings,
    ) -> (Self, Health) {
        match (probe, previous) {
            (Probe::Ready, Health::Healthy { .. }) => (Self::default(), previous.clone()),
            (Probe::Ready, _) => (Self::default(), Health::Healthy { since: now }),
            (Probe::Failed(reason), _) => {
                let failures = self.failures.saturating_add(1);
                let health = match previous {
                    Health::Healthy { .. } if failures < settings.failures => previous.clone(),
                    Health::Unhealthy { since, .. } => Health::Unhealthy {
                        since: *since,
                        reason,
                    },
                    _ => Health::Unhealthy { since: now, reason },
                };
                (Self { failures }, health)
            }
        }
    }

    /// When to ask again; `chance` is at least 0 and less than 1, and shortens by up to a fifth,
    /// so that many clusters are not asked at the same moment.
    pub(super) fn delay(self, settings: &HealthSettings, chance: f64) -> Duration {
        let delay = match self.failures {
            0 => settings.interval,
            failures => {
                let doubled = 2_u32.saturating_pow(failures - 1);
                settings
                    .first_retry
                    .saturating_mul(doubled)
                    .min(settings.longest_retry)
            }
        };
        delay.mul_f64(1.0 - 0.2 * chance.clamp(0.0, 1.0))
    }
}

/// Asks a cluster whether it is ready.
pub(super) async fn probe(client: &kube::Client, timeout: Duration) -> Probe {
    let request = match http::Request::get("/readyz").body(Vec::new()) {
        Ok(request) => request,
        Err(error) => return Probe::Failed(error.to_string()),
    };
    match tokio::time::timeout(timeout, client.request_text(request)).await {
        Ok(Ok(_)) => Probe::Ready,
        Ok(Err(error)) => Probe::Failed(reason(&error)),
        Err(_) => Probe::Failed(format!("no answer within {timeout:?}")),
    }
}

fn reason(error: &kube::Error) -> String {
    let text = match error {
        kube::Error::Api(status) => format!("{} {}", status.code, status.message.trim()),
        // The words of a failed connection are at the end of the chain.
        other => {
            let mut last = other.to_string();
            let mut source = other.source();
            while let Some(inner) = source {
                last = inner.to_string();
                source = inner.source();
            }
            last
        }
    };
    text.chars().take(LONGEST_REASON).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn failed() -> Probe {
        Probe::Failed("connection refused".to_owned())
    }

    fn unhealthy(since: i64) -> Health {
        Health::Unhealthy {
            since: at(since),
            reason: "connection refused".to_owned(),
        }
    }

    /// Feeds answers, one each second, and tells the health after each.
    fn story(answers: Vec<Probe>) -> Vec<Health> {
        let settings = HealthSettings::default();
        let mut state = ProbeState::default();
        let mut health = Health::Unknown;
        let mut told = Vec::new();
        for (second, answer) in (0..).zip(answers) {
            (state, health) = state.after(&health, answer, at(second), &settings);
            told.push(health.clone());
        }
        told
    }

    #[test]
    fn a_cluster_that_never_answered_is_unhealthy_at_the_first_failure() {
        assert_eq!(
            story(vec![failed(), failed()]),
            [unhealthy(0), unhealthy(0)]
        );
    }

    #[test]
    fn a_healthy_cluster_may_miss_one_answer() {
        let healthy = Health::Healthy { since: at(0) };
        let told = story(vec![
            Probe::Ready,
            failed(),
            Probe::Ready,
            failed(),
            failed(),
        ]);
        assert_eq!(told[..4], vec![healthy; 4]);
        assert_eq!(told[4], unhealthy(4));
    }

    #[test]
    fn a_recovered_cluster_is_healthy_since_then() {
        let told = story(vec![failed(), Probe::Ready, Probe::Ready]);
        assert_eq!(told[1..], vec![Health::Healthy { since: at(1) }; 2]);
    }

    #[test]
    fn failures_are_asked_about_less_and_less() {
        let settings = HealthSettings::default();
        let delay = |failures, chance| ProbeState { failures }.delay(&settings, chance);
        assert_eq!(delay(0, 0.0), Duration::from_secs(30));
        assert_eq!(delay(1, 0.0), Duration::from_secs(1));
        assert_eq!(delay(4, 0.0), Duration::from_secs(8));
        assert_eq!(delay(u32::MAX, 0.0), Duration::from_mins(1));
        assert_eq!(delay(0, 0.5), Duration::from_secs(27));
    }
}
