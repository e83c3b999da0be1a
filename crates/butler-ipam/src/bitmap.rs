//! The book of used addresses.
//!
//! Owns: one bit for each number that is used, in pages that exist only where something is. It is kept apart from the
//! index of free runs on purpose: a grant that the index proposes is checked here before it is made, so that a mistake in
//! the index cannot book an address twice.
//!
//! Must not: choose.

use std::collections::BTreeMap;

use crate::number::Span;
use crate::spans::SpanSet;

const PAGE_BITS: u128 = 4096;
const WORDS: usize = 64;
const WORD_BITS: u32 = u64::BITS;
const LAST_BIT: u32 = 4095;

type Page = [u64; WORDS];

const EMPTY: Page = [0; WORDS];
const FULL: Page = [u64::MAX; WORDS];

/// A sparse bitmap over all 128-bit numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bitmap {
    /// Pages some bits of which were set one by one. None is empty, and none is in `whole`.
    pages: BTreeMap<u128, Page>,
    /// Pages that were set as a whole: a span of half of IPv6 is one entry.
    whole: SpanSet,
    count: u128,
}

/// Some bits of one page.
#[derive(Clone, Copy)]
struct Part {
    page: u128,
    from: u32,
    to: u32,
}

impl Part {
    /// The words the part touches, each with the bits of it that are meant.
    fn masks(self) -> impl Iterator<Item = (usize, u64)> {
        let words = self.from / WORD_BITS..=self.to / WORD_BITS;
        words.filter_map(move |word| {
            let base = word * WORD_BITS;
            let low = self.from.saturating_sub(base);
            let high = (self.to - base).min(WORD_BITS - 1);
            let mask = (u64::MAX << low) & (u64::MAX >> (WORD_BITS - 1 - high));
            Some((usize::try_from(word).ok()?, mask))
        })
    }
}

/// A span as parts of pages at its ends and whole pages between.
struct Split {
    parts: Vec<Part>,
    whole: Option<Span>,
}

impl Split {
    fn of(span: Span) -> Self {
        let (first, last) = (span.first / PAGE_BITS, span.last / PAGE_BITS);
        let (from, to) = (bit(span.first), bit(span.last));
        if first == last && (from, to) != (0, LAST_BIT) {
            let page = first;
            return Self {
                parts: vec![Part { page, from, to }],
                whole: None,
            };
        }
        let head = (from != 0).then_some(Part {
            page: first,
            from,
            to: LAST_BIT,
        });
        let tail = (to != LAST_BIT).then_some(Part {
            page: last,
            from: 0,
            to,
        });
        // Exclusive of the end, so that nothing between is no special case.
        let between = first + u128::from(head.is_some())..last + u128::from(tail.is_none());
        Self {
            whole: (!between.is_empty()).then(|| Span {
                first: between.start,
                last: between.end - 1,
            }),
            parts: head.into_iter().chain(tail).collect(),
        }
    }
}

/// The place of a number in its page.
fn bit(number: u128) -> u32 {
    let [low, high, ..] = number.to_le_bytes();
    u32::from(u16::from_le_bytes([low, high])) & LAST_BIT
}

fn ones(page: &Page) -> u128 {
    page.iter().map(|word| u128::from(word.count_ones())).sum()
}

impl Bitmap {
    /// Sets every bit of the span.
    pub(crate) fn set(&mut self, span: Span) {
        let split = Split::of(span);
        for part in split.parts {
            if self.whole.contains(Span::one(part.page)) {
                continue;
            }
            let page = self.pages.entry(part.page).or_insert(EMPTY);
            for (word, mask) in part.masks() {
                let added = u128::from((mask & !page[word]).count_ones());
                self.count = self.count.saturating_add(added);
                page[word] |= mask;
            }
        }
        if let Some(pages) = split.whole {
            self.drop_pages(pages);
            self.whole.insert(pages);
            self.count = self
                .count
                .saturating_add(pages.length().saturating_mul(PAGE_BITS));
        }
    }

    /// Clears every bit of the span.
    pub(crate) fn clear(&mut self, span: Span) {
        let split = Split::of(span);
        for part in split.parts {
            let whole = Span::one(part.page);
            if self.whole.contains(whole) {
                self.whole.remove(whole);
                self.pages.insert(part.page, FULL);
            }
            let Some(page) = self.pages.get_mut(&part.page) else {
                continue;
            };
            for (word, mask) in part.masks() {
                let removed = u128::from((mask & page[word]).count_ones());
                self.count = self.count.saturating_sub(removed);
                page[word] &= !mask;
            }
            if *page == EMPTY {
                self.pages.remove(&part.page);
            }
        }
        if let Some(pages) = split.whole {
            self.drop_pages(pages);
        }
    }

    /// Clears whole pages.
    fn drop_pages(&mut self, span: Span) {
        let whole = self.whole.count_within(span).saturating_mul(PAGE_BITS);
        self.count = self.count.saturating_sub(whole);
        self.whole.remove(span);
        let single = self.pages.range(span.first..=span.last);
        for page in single.map(|(&page, _)| page).collect::<Vec<_>>() {
            let removed = self.pages.remove(&page).as_ref().map_or(0, ones);
            self.count = self.count.saturating_sub(removed);
        }
    }

    /// Whether any bit of the span is set.
    pub(crate) fn any(&self, span: Span) -> bool {
        let split = Split::of(span);
        split.parts.into_iter().any(|part| {
            self.whole.contains(Span::one(part.page))
                || self
                    .pages
                    .get(&part.page)
                    .is_some_and(|page| part.masks().any(|(word, mask)| page[word] & mask != 0))
        }) || split.whole.is_some_and(|pages| {
            self.whole.overlaps(pages)
                || self.pages.range(pages.first..=pages.last).next().is_some()
        })
    }

    /// Whether every bit of the span is set.
    pub(crate) fn all(&self, span: Span) -> bool {
        let split = Split::of(span);
        split.parts.into_iter().all(|part| {
            self.whole.contains(Span::one(part.page))
                || self
                    .pages
                    .get(&part.page)
                    .is_some_and(|page| part.masks().all(|(word, mask)| page[word] & mask == mask))
        }) && split.whole.is_none_or(|pages| {
            self.whole.gaps(pages).into_iter().all(|gap| {
                let single = self.pages.range(gap.first..=gap.last);
                let full = single.take_while(|(_, page)| **page == FULL).count();
                u128::try_from(full).is_ok_and(|full| full == gap.length())
            })
        })
    }

    /// How many bits are set; stops at the most a `u128` can say.
    pub(crate) const fn count(&self) -> u128 {
        self.count
    }
}

#[cfg(test)]
#[path = "bitmap_tests.rs"]
mod tests;
