//! How long to wait before something that ended is started again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);
/// Whoever ran that long had come up.
const HEALTHY: Duration = Duration::from_mins(1);

/// Doubles with each short life, and begins anew after a long one.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// The pause after a life of that length.
    pub(super) fn after(&mut self, lived: Duration) -> Duration {
        if lived >= HEALTHY {
            self.next = FIRST;
        }
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lives_make_longer_pauses_and_a_long_one_forgives() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u128> = (0..8)
            .map(|_| backoff.after(Duration::from_secs(1)).as_millis())
            .collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
        assert_eq!(backoff.after(HEALTHY), FIRST);
        assert_eq!(backoff.after(Duration::ZERO), FIRST * 2);
    }
}
