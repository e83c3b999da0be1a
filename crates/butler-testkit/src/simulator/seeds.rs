//! Runs a story over many seeds.

use std::{
    fmt,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

/// How many seeds run at the same time.
const THREADS: usize = 2;

/// The first seed of many that failed.
#[derive(Clone)]
pub struct FailedSeed {
    /// The seed.
    pub seed: u64,
    /// How it failed.
    pub message: String,
}

impl fmt::Display for FailedSeed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "seed {} failed: {}", self.seed, self.message)
    }
}

// Tests end with `?` or `unwrap`, which print by Debug; the message is what the reader needs.
impl fmt::Debug for FailedSeed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl std::error::Error for FailedSeed {}

/// The worlds that stories are told in: as many from the first on as is usual, or what an environment variable asks for, as
/// `1000` or `17..18`.
///
/// # Panics
///
/// If the variable asks for something else, or for no world at all: stories that nobody told would pass.
pub fn seeds_asked_for(variable: &str, usual: u64) -> Range<u64> {
    let Ok(asked) = std::env::var(variable) else {
        return 0..usual;
    };
    let range = range_of(&asked);
    let is_told = range.as_ref().is_some_and(|range| !range.is_empty());
    assert!(
        is_told,
        "{variable} is {asked:?}; write how many worlds, as in {variable}=1000, or which, as in {variable}=17..18"
    );
    range.unwrap_or_default()
}

fn range_of(asked: &str) -> Option<Range<u64>> {
    let (from, to) = asked.split_once("..").unwrap_or(("0", asked));
    Some(from.parse().ok()?..to.parse().ok()?)
}

/// Runs a story for each seed. Of those that fail, by an error or a panic, the lowest is reported.
pub fn for_seeds<E: fmt::Display>(
    seeds: Range<u64>,
    story: impl Fn(u64) -> Result<(), E> + Sync,
) -> Result<(), FailedSeed> {
    let next = AtomicU64::new(seeds.start);
    let failed: Mutex<Option<FailedSeed>> = Mutex::new(None);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let Some(message) = failure_of(seed, &story) else {
                continue;
            };
            // Higher seeds are of no interest any more; lower ones are all taken.
            next.store(seeds.end, Ordering::Relaxed);
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            if failed.as_ref().is_none_or(|failed| seed < failed.seed) {
                *failed = Some(FailedSeed { seed, message });
            }
            return;
        }
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(work);
        }
    });
    failed
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .map_or(Ok(()), Err)
}

fn failure_of<E: fmt::Display>(seed: u64, story: &impl Fn(u64) -> Result<(), E>) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| story(seed))) {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(text.unwrap_or_else(|| "it panicked".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::range_of;

    #[test]
    fn worlds_are_asked_for_by_their_number_or_by_a_whole_range() {
        assert_eq!(range_of("1000"), Some(0..1000));
        assert_eq!(range_of("17..18"), Some(17..18));
        for unclear in ["", "1_000", "17..", "..18", "17..=18", "many", "-1"] {
            assert_eq!(range_of(unclear), None, "{unclear}");
        }
    }
}
