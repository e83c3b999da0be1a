//! A set of numbers, kept as the runs it consists of.
//!
//! Owns: union, difference and look-up of runs, each in the logarithm of their number and never by the number of
//! addresses: a set may hold half of IPv6.
//!
//! Must not: know what the numbers mean.

use std::collections::BTreeMap;

use crate::number::Span;

/// Runs by their first number. No two overlap or touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpanSet {
    last_by_first: BTreeMap<u128, u128>,
}

impl SpanSet {
    /// Adds all numbers of the span.
    pub(crate) fn insert(&mut self, span: Span) {
        let mut merged = span;
        for run in self.touching(span).collect::<Vec<_>>() {
            merged.first = merged.first.min(run.first);
            merged.last = merged.last.max(run.last);
            self.last_by_first.remove(&run.first);
        }
        self.last_by_first.insert(merged.first, merged.last);
    }

    /// Takes all numbers of the span out.
    pub(crate) fn remove(&mut self, span: Span) {
        for run in self.overlapping(span).collect::<Vec<_>>() {
            self.last_by_first.remove(&run.first);
            if run.first < span.first {
                self.last_by_first.insert(run.first, span.first - 1);
            }
            if run.last > span.last {
                self.last_by_first.insert(span.last + 1, run.last);
            }
        }
    }

    /// The runs, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Span> + '_ {
        self.last_by_first
            .iter()
            .map(|(&first, &last)| Span { first, last })
    }

    /// The runs that share a number with the span, whole, ascending.
    pub(crate) fn overlapping(&self, span: Span) -> impl Iterator<Item = Span> + '_ {
        let before = self.last_by_first.range(..span.first).next_back();
        before
            .into_iter()
            .chain(self.last_by_first.range(span.first..=span.last))
            .map(|(&first, &last)| Span { first, last })
            .filter(move |run| run.overlaps(span))
    }

    /// The runs that share a number with the span or lie right beside it, whole, ascending.
    pub(crate) fn touching(&self, span: Span) -> impl Iterator<Item = Span> + '_ {
        self.overlapping(span.widened())
    }

    /// What the set has of the span, ascending.
    pub(crate) fn within(&self, span: Span) -> impl Iterator<Item = Span> + '_ {
        self.overlapping(span)
            .filter_map(move |run| run.intersection(span))
    }

    /// What the set lacks of the span, ascending.
    pub(crate) fn gaps(&self, span: Span) -> Vec<Span> {
        let mut gaps = Vec::new();
        let mut next = Some(span.first);
        for run in self.within(span) {
            if let Some(first) = next.filter(|&first| first < run.first) {
                gaps.push(Span {
                    first,
                    last: run.first - 1,
                });
            }
            next = run.last.checked_add(1);
        }
        if let Some(first) = next.filter(|&first| first <= span.last) {
            gaps.push(Span {
                first,
                last: span.last,
            });
        }
        gaps
    }

    /// Whether the set has any number of the span.
    pub(crate) fn overlaps(&self, span: Span) -> bool {
        self.overlapping(span).next().is_some()
    }

    /// Whether the set has every number of the span.
    pub(crate) fn contains(&self, span: Span) -> bool {
        self.overlapping(span)
            .next()
            .is_some_and(|run| run.first <= span.first && span.last <= run.last)
    }

    /// How many numbers of the span the set has.
    pub(crate) fn count_within(&self, span: Span) -> u128 {
        self.within(span)
            .fold(0, |sum: u128, run| sum.saturating_add(run.length()))
    }

    /// How many numbers the set has.
    pub(crate) fn count(&self) -> u128 {
        self.iter()
            .fold(0, |sum: u128, run| sum.saturating_add(run.length()))
    }

    /// The numbers of this set that the other lacks.
    pub(crate) fn without(&self, other: &Self) -> Self {
        // Pieces of one run keep apart: what was taken out lies between them.
        let pieces = self.iter().flat_map(|run| other.gaps(run));
        Self {
            last_by_first: pieces.map(|piece| (piece.first, piece.last)).collect(),
        }
    }
}

impl FromIterator<Span> for SpanSet {
    fn from_iter<I: IntoIterator<Item = Span>>(spans: I) -> Self {
        let mut set = Self::default();
        for span in spans {
            set.insert(span);
        }
        set
    }
}

#[cfg(test)]
#[path = "spans_tests.rs"]
mod tests;
