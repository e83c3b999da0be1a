//! The pure half of leader election: what a candidate does next, and what it writes when it does.
//! No client, no clock, no randomness.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// How much longer than the retry period a candidate may wait, at most, as a factor.
const JITTER: f64 = 0.2;

/// The settings make no safe election.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaderSettingsError {
    /// A deposed leader would still work when the next one begins.
    #[error(
        "the lease duration ({lease_duration:?}) must be longer than the renew deadline \
         ({renew_deadline:?}), or two leaders could work at once"
    )]
    DurationTooShort {
        /// How long a lease is valid.
        lease_duration: Duration,
        /// How long renewing may fail.
        renew_deadline: Duration,
    },
    /// A single lost request would cost the leadership.
    #[error(
        "the renew deadline ({renew_deadline:?}) must be longer than twice the retry period \
         ({retry_period:?}), or one lost request costs the leadership"
    )]
    DeadlineTooShort {
        /// How long renewing may fail.
        renew_deadline: Duration,
        /// How often it is tried.
        retry_period: Duration,
    },
    /// Nothing would ever be waited for.
    #[error("the retry period must be longer than nothing, and the lease duration whole seconds")]
    NotAPeriod,
}

/// How long a lease lasts and how often it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderSettings {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

impl Default for LeaderSettings {
    /// 15, 10 and 2 seconds, as Kubernetes' own components use.
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl LeaderSettings {
    /// Settings that keep two leaders apart.
    pub fn new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, LeaderSettingsError> {
        let whole_seconds = lease_duration.subsec_nanos() == 0;
        if retry_period.is_zero() || !whole_seconds || seconds(lease_duration).is_none() {
            return Err(LeaderSettingsError::NotAPeriod);
        }
        if lease_duration <= renew_deadline {
            return Err(LeaderSettingsError::DurationTooShort {
                lease_duration,
                renew_deadline,
            });
        }
        if renew_deadline <= retry_period.saturating_mul(2) {
            return Err(LeaderSettingsError::DeadlineTooShort {
                renew_deadline,
                retry_period,
            });
        }
        Ok(Self {
            lease_duration,
            renew_deadline,
            retry_period,
        })
    }

    /// How long a request may take: half of the deadline, so that there is a second try.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.renew_deadline / 2
    }

    /// How long a deposed leader may take to stop: until the lease can be taken by another.
    pub(crate) fn stop_within(&self, renewed_at: Instant, now: Instant) -> Duration {
        (renewed_at + self.lease_duration).saturating_duration_since(now)
    }

    /// How much of the renew deadline is left.
    pub(crate) fn left(&self, renewed_at: Instant, now: Instant) -> Duration {
        (renewed_at + self.renew_deadline).saturating_duration_since(now)
    }

    /// The retry period with jitter; `chance` is at least 0 and less than 1.
    pub(crate) fn retry_after(&self, chance: f64) -> Duration {
        self.retry_period
            .mul_f64(1.0 + JITTER * chance.clamp(0.0, 1.0))
    }
}

/// What we saw of a Lease, and when it last changed by our own clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    record: Option<LeaseSpec>,
    changed_at: Instant,
}

impl Observed {
    /// The first look.
    pub fn first(record: Option<LeaseSpec>, now: Instant) -> Self {
        Self {
            record,
            changed_at: now,
        }
    }

    /// Another look: only a changed record shows that its holder lives.
    pub fn again(&mut self, record: Option<LeaseSpec>, now: Instant) {
        if self.record != record {
            *self = Self::first(record, now);
        }
    }

    /// Who holds the lease, if anybody.
    pub fn holder(&self) -> Option<&str> {
        let record = self.record.as_ref()?;
        record
            .holder_identity
            .as_deref()
            .filter(|holder| !holder.is_empty())
    }

    fn expires_at(&self, settings: &LeaderSettings) -> Instant {
        let promised = self
            .record
            .as_ref()
            .and_then(|record| record.lease_duration_seconds);
        let promised = promised.and_then(|seconds| u64::try_from(seconds).ok());
        let promised = promised
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs);
        // A duration beyond the range of the clock never ends, so the holder's word counts.
        let longest = settings.lease_duration;
        self.changed_at
            .checked_add(promised.unwrap_or(longest))
            .unwrap_or(self.changed_at + longest)
    }
}

/// Where a candidate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It waits for its turn.
    Standby {
        /// Not to be tried before, because a try has just failed.
        not_before: Option<Instant>,
    },
    /// It leads.
    Leading {
        /// When the last successful write began.
        renewed_at: Instant,
        /// When the next write is due.
        next_renewal: Instant,
    },
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Try to take the lease now.
    Acquire,
    /// Try to renew our lease now.
    Renew,
    /// Do nothing until this moment, or until the Lease changes.
    Wait {
        /// When to decide again.
        until: Instant,
    },
    /// We lead no longer.
    Lost,
}

/// Decides what a candidate does next.
pub fn decide(
    observed: &Observed,
    me: &str,
    standing: Standing,
    now: Instant,
    settings: &LeaderSettings,
) -> Decision {
    match standing {
        Standing::Standby { not_before } => {
            let free_at = match observed.holder() {
                Some(holder) if holder != me => observed.expires_at(settings),
                _ => now,
            };
            let at = not_before.map_or(free_at, |not_before| not_before.max(free_at));
            if now >= at {
                Decision::Acquire
            } else {
                Decision::Wait { until: at }
            }
        }
        Standing::Leading {
            renewed_at,
            next_renewal,
        } => {
            let taken = observed.holder().is_some_and(|holder| holder != me);
            let deadline = renewed_at + settings.renew_deadline;
            if taken || now >= deadline {
                Decision::Lost
            } else if now >= next_renewal {
                Decision::Renew
            } else {
                Decision::Wait {
                    until: next_renewal.min(deadline),
                }
            }
        }
    }
}

/// The record that takes or renews the lease. Taking it from another counts as a transition.
pub fn taken(
    previous: Option<&LeaseSpec>,
    me: &str,
    wall_clock: Timestamp,
    settings: &LeaderSettings,
) -> LeaseSpec {
    let mine = previous.filter(|record| record.holder_identity.as_deref() == Some(me));
    let transitions = match (previous, mine) {
        (_, Some(record)) => record.lease_transitions.unwrap_or(0),
        (Some(record), None) => record.lease_transitions.unwrap_or(0).saturating_add(1),
        (None, None) => 0,
    };
    let acquired = mine.and_then(|record| record.acquire_time.clone());
    LeaseSpec {
        holder_identity: Some(me.to_owned()),
        lease_duration_seconds: seconds(settings.lease_duration),
        acquire_time: Some(acquired.unwrap_or(MicroTime(wall_clock))),
        renew_time: Some(MicroTime(wall_clock)),
        lease_transitions: Some(transitions),
        ..previous.cloned().unwrap_or_default()
    }
}

/// The record that gives the lease back: nobody holds it, and it ends at once.
pub fn released(previous: &LeaseSpec, wall_clock: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        renew_time: Some(MicroTime(wall_clock)),
        ..previous.clone()
    }
}

fn seconds(duration: Duration) -> Option<i32> {
    i32::try_from(duration.as_secs())
        .ok()
        .filter(|seconds| *seconds > 0)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
