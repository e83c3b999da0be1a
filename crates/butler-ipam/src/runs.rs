//! The index of free runs.
//!
//! Owns: which runs of addresses are free, found by place and by length, and the choice of the best one.
//!
//! Must not: be the only word on whether an address is free: see [`crate::bitmap`].

use std::collections::BTreeSet;

use crate::number::Span;
use crate::spans::SpanSet;

/// Free runs, by place and by length.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeRuns {
    by_place: SpanSet,
    /// Length and first number: the order in which the best fit is looked for.
    by_length: BTreeSet<(u128, u128)>,
    total: u128,
}

impl FreeRuns {
    /// Makes the numbers of the span free; they merge with what is free beside them.
    pub(crate) fn give_back(&mut self, span: Span) {
        self.change(span, SpanSet::insert);
    }

    /// Makes the numbers of the span no longer free.
    pub(crate) fn take(&mut self, span: Span) {
        self.change(span, SpanSet::remove);
    }

    /// Only runs that touch the span can change; they leave the order of lengths and come back as they are then.
    fn change(&mut self, span: Span, change: fn(&mut SpanSet, Span)) {
        for run in self.by_place.touching(span) {
            self.by_length.remove(&(run.length(), run.first));
            self.total = self.total.saturating_sub(run.length());
        }
        change(&mut self.by_place, span);
        for run in self.by_place.touching(span) {
            self.by_length.insert((run.length(), run.first));
            self.total = self.total.saturating_add(run.length());
        }
    }

    /// The beginning of the smallest run that has `count` numbers; the lowest one of those that are equally long.
    pub(crate) fn best_fit(&self, count: u32) -> Option<Span> {
        let count = u128::from(count);
        let &(_, first) = self.by_length.range((count, 0)..).next()?;
        Some(Span {
            first,
            last: first + count.saturating_sub(1),
        })
    }

    /// The longest run; the lowest one of those that are equally long.
    pub(crate) fn largest(&self) -> Option<Span> {
        let &(length, _) = self.by_length.last()?;
        let &(_, first) = self.by_length.range((length, 0)..).next()?;
        Some(Span {
            first,
            last: first + (length - 1),
        })
    }

    /// Whether any number of the span is free.
    pub(crate) fn overlaps(&self, span: Span) -> bool {
        self.by_place.overlaps(span)
    }

    /// How many numbers are free.
    pub(crate) const fn total(&self) -> u128 {
        self.total
    }

    /// How many runs there are.
    pub(crate) fn number_of_runs(&self) -> usize {
        self.by_length.len()
    }
}

impl FromIterator<Span> for FreeRuns {
    fn from_iter<I: IntoIterator<Item = Span>>(spans: I) -> Self {
        let mut runs = Self::default();
        for span in spans {
            runs.give_back(span);
        }
        runs
    }
}

#[cfg(test)]
#[path = "runs_tests.rs"]
mod tests;
