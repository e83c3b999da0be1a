//! What a process remembers of its calls to a provider: how often they failed in a row, and how.
//!
//! Losing it costs an early call, never a mistake: what is there is always looked up at the provider.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::error::{ErrorClass, ProviderError};

/// After the first attempt.
const SHORTEST: Duration = Duration::from_secs(1);
/// At most, for what may go well by itself.
const LONGEST: Duration = Duration::from_mins(5);
/// For what somebody has to act on. Their act is mostly seen and tried at once.
const SELDOM: Duration = Duration::from_mins(15);

/// What an attempt was made from: if it is another, the next attempt need not wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Basis {
    /// What was attempted.
    pub deed: &'static str,
    /// Generation of the request.
    pub generation: Option<i64>,
    /// Generation of the provider configuration.
    pub configuration: Option<i64>,
    /// Versions of the Secrets that were read.
    pub secrets: Vec<String>,
}

/// The last attempt at something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// How it failed; `None` if it went well.
    pub error: Option<ProviderError>,
    /// How many there were in a row, this one included.
    pub count: u32,
    /// When it was decided.
    pub at: Timestamp,
    /// What it was made from.
    pub basis: Basis,
}

impl Attempt {
    /// How long to wait before the next one; nothing if it is due.
    pub(crate) fn wait(&self, basis: &Basis, now: Timestamp) -> Option<Duration> {
        if self.basis != *basis {
            return None;
        }
        let pause = match &self.error {
            Some(error) if error.class.is_failure() => SELDOM,
            _ => doubled(SHORTEST, self.count, LONGEST),
        };
        let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
        let left = pause - now.duration_since(self.at);
        left.is_positive().then(|| left.unsigned_abs())
    }
}

/// Doubles for each of so many in a row.
pub(crate) fn doubled(shortest: Duration, count: u32, longest: Duration) -> Duration {
    let doublings = count.saturating_sub(1).min(20);
    shortest.saturating_mul(1 << doublings).min(longest)
}

/// A provider that did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// What it said.
    pub error: ProviderError,
    /// How often in a row.
    pub count: u32,
}

impl Unreachable {
    /// When to look again.
    pub(crate) fn wait(&self) -> Duration {
        match self.error.class {
            ErrorClass::Credentials => SELDOM,
            _ => doubled(SHORTEST, self.count, LONGEST),
        }
    }
}

#[derive(Debug, Default)]
struct Memory {
    attempts: BTreeMap<String, Attempt>,
    failed_looks: BTreeMap<String, u32>,
}

/// All that is remembered, by the UID of the request.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<Memory>);

impl Attempts {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn last(&self, uid: &str) -> Option<Attempt> {
        self.memory().attempts.get(uid).cloned()
    }

    /// Notes how an attempt ended.
    pub(crate) fn note(
        &self,
        uid: &str,
        basis: &Basis,
        at: Timestamp,
        error: Option<ProviderError>,
    ) {
        let mut memory = self.memory();
        let before = memory.attempts.get(uid);
        let count = before
            .filter(|before| before.basis == *basis)
            .map_or(0, |before| before.count);
        let attempt = Attempt {
            error,
            count: count.saturating_add(1),
            at,
            basis: basis.clone(),
        };
        memory.attempts.insert(uid.to_owned(), attempt);
    }

    /// What came of a look at the provider, with the failures in a row.
    pub(crate) fn look<T>(
        &self,
        uid: &str,
        looked: Result<T, ProviderError>,
    ) -> Result<T, Unreachable> {
        let mut memory = self.memory();
        match looked {
            Ok(seen) => {
                memory.failed_looks.remove(uid);
                Ok(seen)
            }
            Err(error) => {
                let count = memory.failed_looks.entry(uid.to_owned()).or_default();
                *count = count.saturating_add(1);
                Err(Unreachable {
                    error,
                    count: *count,
                })
            }
        }
    }

    /// What is as it should be needs no attempts.
    pub(crate) fn settle(&self, uid: &str) {
        self.memory().attempts.remove(uid);
    }

    pub(crate) fn forget(&self, uid: &str) {
        let mut memory = self.memory();
        memory.attempts.remove(uid);
        memory.failed_looks.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basis(generation: i64) -> Basis {
        Basis {
            deed: "create",
            generation: Some(generation),
            configuration: Some(1),
            secrets: Vec::new(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn attempts_come_more_rarely_and_a_change_is_tried_at_once() {
        let attempts = Attempts::default();
        let mut waits = Vec::new();
        for second in 0..12 {
            let busy = ProviderError::retry("busy");
            attempts.note("uid", &basis(1), at(second), Some(busy));
            let last = attempts.last("uid").unwrap();
            waits.push(last.wait(&basis(1), at(second)).unwrap().as_secs());
        }
        assert_eq!(waits[..4], [1, 2, 4, 8]);
        assert_eq!(waits[11], 300);
        let last = attempts.last("uid").unwrap();
        assert_eq!(last.wait(&basis(2), at(12)), None);
        attempts.note("uid", &basis(2), at(12), None);
        assert_eq!(attempts.last("uid").unwrap().count, 1);
    }

    #[test]
    fn what_needs_somebody_to_act_is_tried_seldom() {
        let attempts = Attempts::default();
        let refused = ProviderError::credentials("refused");
        attempts.note("uid", &basis(1), at(0), Some(refused));
        let last = attempts.last("uid").unwrap();
        assert_eq!(last.wait(&basis(1), at(60)), Some(Duration::from_mins(14)));
        assert_eq!(last.wait(&basis(1), at(900)), None);
    }
}
