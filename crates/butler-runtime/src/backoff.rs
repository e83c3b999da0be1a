//! How long to wait before the next try.

use std::time::Duration;

use crate::failure::Class;

/// Grows from `shortest` by doubling to `longest`; a jitter spreads objects that failed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub shortest: Duration,
    /// At most; at once for failures that need somebody to act.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            shortest: Duration::from_millis(500),
            longest: Duration::from_mins(5),
        }
    }
}

impl Backoff {
    /// The wait after so many failures in a row. `jitter` is between 0 and 1: the wait is between half of and the full time.
    pub fn after(&self, failures: u32, class: Class, jitter: f64) -> Duration {
        let full = match class {
            Class::Terminal => self.longest,
            Class::Retry | Class::Stale => {
                let doublings = failures.saturating_sub(1).min(20);
                self.shortest
                    .saturating_mul(1 << doublings)
                    .min(self.longest)
            }
        };
        full.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_never_vanish() {
        let backoff = Backoff::default();
        let waits: Vec<_> = (1..40)
            .map(|failures| backoff.after(failures, Class::Retry, 1.0))
            .collect();
        assert!(waits.is_sorted());
        assert_eq!(waits.first(), Some(&backoff.shortest));
        assert_eq!(waits.last(), Some(&backoff.longest));
        assert_eq!(backoff.after(1, Class::Retry, 0.0), backoff.shortest / 2);
    }

    #[test]
    fn what_only_a_change_can_mend_is_tried_at_the_slowest_pace() {
        let backoff = Backoff::default();
        assert_eq!(backoff.after(1, Class::Terminal, 1.0), backoff.longest);
    }
}
