//! A pool: who holds what, and what to give next.
//!
//! Owns: the invariants. No address is held twice; an address is free exactly if the layout gives it, nobody holds it and
//! nothing blocks it; what is released is what was held.
//!
//! Must not: remember anything between passes. A pool is rebuilt from a spec and a ledger whenever it is needed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use butler_api::net::AddressRange;
use thiserror::Error;

use crate::bitmap::Bitmap;
use crate::layout::Layout;
use crate::number::{Family, Span, family_of, intersection};
use crate::refusal::{Outside, Refusal, TakenBy};
use crate::request::{Holder, LARGEST_ALLOCATION, Owner, Request, Wish};
use crate::runs::FreeRuns;
use crate::spans::SpanSet;

/// How many holders a refusal names.
const NAMED_HOLDERS: usize = 3;

/// Addresses cannot be held because somebody has some of them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{range} is held by {} already (allocation {})", by.owner, by.allocation)]
pub struct Taken {
    /// The addresses that are held already.
    pub range: AddressRange,
    /// Who holds them.
    pub by: Box<Holder>,
}

/// Addresses cannot be released because nobody holds exactly these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no allocation holds exactly {range}; release a range as it was granted")]
pub struct NotHeld {
    /// The addresses.
    pub range: AddressRange,
}

/// A pool in numbers of addresses, unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// What the pool gives out, free or not.
    pub total: u128,
    /// All that is held, also outside of what the pool gives out now.
    pub allocated: u128,
    /// What is free now.
    pub available: u128,
    /// Number of ranges held.
    pub allocations: usize,
    /// How scattered the free addresses are, in percent: 0 when they are in one run.
    pub fragmentation_percent: u8,
    /// The longest free run, and so the most that one allocation could get.
    pub largest_free: u128,
    /// The whole network.
    pub size: u128,
    /// What is in reserved blocks.
    pub reserved: u128,
    /// What the pool leaves alone.
    pub unmanaged: u128,
    /// Number of ranges held that are not wholly within what the pool gives out now.
    pub outside: usize,
}

/// A pool of addresses.
#[derive(Clone, Debug)]
pub struct Pool {
    layout: Layout,
    /// Ranges by their first address; no two overlap. Those of the other family are here and nowhere else.
    held: BTreeMap<IpAddr, (AddressRange, Holder)>,
    /// What is held of the pool's family, the word on whether an address is.
    booked: Bitmap,
    free: FreeRuns,
    blocked: SpanSet,
    /// What blocks the addresses of `blocked`: last number and words, by first number. No two overlap.
    blocks: BTreeMap<u128, (u128, String)>,
    addresses_by_owner: BTreeMap<Owner, u128>,
    /// Addresses held of what the layout gives.
    held_of_given: u128,
    /// Ranges held that are not wholly of what the layout gives.
    outside: usize,
}

impl Pool {
    /// A pool of which nothing is held.
    pub fn new(layout: Layout) -> Self {
        Self {
            free: layout.given_spans().iter().collect(),
            layout,
            held: BTreeMap::new(),
            booked: Bitmap::default(),
            blocked: SpanSet::default(),
            blocks: BTreeMap::new(),
            addresses_by_owner: BTreeMap::new(),
            held_of_given: 0,
            outside: 0,
        }
    }

    /// What the spec of the pool says.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Keeps addresses from being given out though nobody holds them through the pool: gateways, nodes, another pool's
    /// share. They may lie anywhere and may be held; where two blocks overlap, the words of the first remain.
    pub fn block(&mut self, range: &AddressRange, what: &str) {
        let Some(span) = self.span(range) else {
            return;
        };
        for gap in self.blocked.gaps(span) {
            self.blocks.insert(gap.first, (gap.last, what.to_owned()));
        }
        self.blocked.insert(span);
        self.free.take(span);
    }

    /// Records what a ledger says is granted. A range that the pool does not give out now is kept too: a pool may have
    /// been narrowed since. To record the same range for the same allocation again changes nothing.
    pub fn hold(&mut self, range: &AddressRange, holder: Holder) -> Result<(), Taken> {
        if let Some((held, by)) = self.first_held(range) {
            if held == range && by.allocation == holder.allocation {
                return Ok(());
            }
            return Err(Taken {
                range: intersection(held, range).unwrap_or(*held),
                by: Box::new(by.clone()),
            });
        }
        if let Some(span) = self.span(range) {
            self.booked.set(span);
            self.free.take(span);
            self.held_of_given += self.layout.given_spans().count_within(span);
        }
        self.outside += usize::from(!self.is_given(range));
        if let Some(addresses) = self.addresses_by_owner.get_mut(&holder.owner) {
            *addresses = addresses.saturating_add(range.count());
        } else {
            let owner = holder.owner.clone();
            self.addresses_by_owner.insert(owner, range.count());
        }
        self.held.insert(range.start(), (*range, holder));
        Ok(())
    }

    /// Gives a range back that is held, exactly as it was granted. What the pool gives out of it is free from then on.
    pub fn release(&mut self, range: &AddressRange) -> Result<Holder, NotHeld> {
        let not_held = NotHeld { range: *range };
        let (held, holder) = self.held.remove(&range.start()).ok_or(not_held)?;
        if held != *range {
            self.held.insert(held.start(), (held, holder));
            return Err(not_held);
        }
        if let Some(span) = self.span(range) {
            debug_assert!(self.booked.all(span), "{range} is held but not booked");
            self.booked.clear(span);
            for given in self.layout.given_spans().within(span) {
                self.held_of_given = self.held_of_given.saturating_sub(given.length());
                for free in self.blocked.gaps(given) {
                    self.free.give_back(free);
                }
            }
        }
        self.outside -= usize::from(!self.is_given(range));
        if let Some(addresses) = self.addresses_by_owner.get_mut(&holder.owner) {
            *addresses = addresses.saturating_sub(range.count());
            if *addresses == 0 {
                self.addresses_by_owner.remove(&holder.owner);
            }
        }
        Ok(holder)
    }

    /// Decides which addresses a request would get, and changes nothing: the beginning of the smallest free run that is
    /// long enough, of equally long ones the lowest.
    pub fn find(&self, request: &Request) -> Result<AddressRange, Refusal> {
        match &request.wish {
            Wish::Count(count) => {
                let count = (*count).max(1);
                let most = self.layout.largest_window().min(LARGEST_ALLOCATION.into());
                if u128::from(count) > most {
                    return Err(Refusal::CountTooLarge { count, most });
                }
                Refusal::within_quota(request)?;
                self.fit(count)
                    .map(|span| self.layout.family().range(span))
                    .ok_or_else(|| self.exhausted(count))
            }
            Wish::Exactly(range) => {
                if let Some(how) = self.outside_of_given(range) {
                    return Err(Refusal::PinnedOutside {
                        range: *range,
                        cidr: self.layout.cidr(),
                        how,
                    });
                }
                Refusal::within_quota(request)?;
                match self.first_taken(range) {
                    Some((taken, by)) => Err(Refusal::PinnedTaken {
                        range: *range,
                        taken,
                        by,
                    }),
                    None => Ok(*range),
                }
            }
        }
    }

    /// Finds addresses for a request and holds them.
    pub fn allocate(&mut self, request: &Request, holder: Holder) -> Result<AddressRange, Refusal> {
        let range = self.find(request)?;
        self.hold(&range, holder)
            .map_err(|taken| Refusal::PinnedTaken {
                range,
                taken: taken.range,
                by: TakenBy::Owner(Box::new(taken.by.owner)),
            })?;
        Ok(range)
    }

    /// What is held, ascending; IPv4 before IPv6, if a ledger has both.
    pub fn held(&self) -> impl Iterator<Item = (&AddressRange, &Holder)> {
        self.held.values().map(|(range, holder)| (range, holder))
    }

    /// Who holds an address, and in which range.
    pub fn holder_of(&self, address: IpAddr) -> Option<(&AddressRange, &Holder)> {
        let (_, (range, holder)) = self.held.range(..=address).next_back()?;
        range.contains(address).then_some((range, holder))
    }

    /// Who holds addresses and how many; the biggest first, equally big ones by name.
    pub fn owners(&self) -> Vec<(&Owner, u128)> {
        let mut owners: Vec<_> = self
            .addresses_by_owner
            .iter()
            .map(|(owner, &addresses)| (owner, addresses))
            .collect();
        owners.sort_by_key(|&(owner, addresses)| (std::cmp::Reverse(addresses), owner));
        owners
    }

    /// The pool in numbers. Costs as much as the spec has windows and blocks, however much is held.
    pub fn numbers(&self) -> Numbers {
        let available = self.free.total();
        let largest_free = self.free.largest().map_or(0, Span::length);
        Numbers {
            total: self.layout.given_spans().count(),
            allocated: self.allocated(),
            available,
            allocations: self.held.len(),
            fragmentation_percent: fragmentation(
                largest_free,
                available,
                self.free.number_of_runs(),
            ),
            largest_free,
            size: self.layout.cidr().range().count(),
            reserved: self.layout.reserved().iter().map(AddressRange::count).sum(),
            unmanaged: self.layout.unmanaged_spans().count(),
            outside: self.outside,
        }
    }

    pub(crate) const fn free_runs(&self) -> &FreeRuns {
        &self.free
    }

    pub(crate) const fn blocked(&self) -> &SpanSet {
        &self.blocked
    }

    /// What is held of a range, ascending.
    pub(crate) fn held_within(
        &self,
        range: AddressRange,
    ) -> impl Iterator<Item = (&AddressRange, &Holder)> {
        let before = self.held.range(..range.start()).next_back();
        before
            .into_iter()
            .chain(self.held.range(range.start()..=range.end()))
            .map(|(_, (held, holder))| (held, holder))
            .filter(move |(held, _)| held.overlaps(&range))
    }

    /// The numbers of a range, if it is of the pool's family.
    fn span(&self, range: &AddressRange) -> Option<Span> {
        (family_of(range) == self.layout.family()).then(|| Span::of(range))
    }

    fn is_given(&self, range: &AddressRange) -> bool {
        self.span(range)
            .is_some_and(|span| self.layout.given_spans().contains(span))
    }

    fn first_held(&self, range: &AddressRange) -> Option<(&AddressRange, &Holder)> {
        self.held_within(*range).next()
    }

    /// All that is held. What is of the other family is not in the book, and there is none of it in a sane ledger.
    fn allocated(&self) -> u128 {
        let foreign = match self.layout.family() {
            Family::V4 => self.held.range(Family::V6.address(0)..),
            Family::V6 => self.held.range(..Family::V6.address(0)),
        };
        foreign.fold(self.booked.count(), |sum, (_, (range, _))| {
            sum.saturating_add(range.count())
        })
    }

    /// The best fit, checked in the book. Should the index of free runs be wrong, the answer is found without it.
    fn fit(&self, count: u32) -> Option<Span> {
        let proposed = self.free.best_fit(count)?;
        if self.layout.given_spans().contains(proposed)
            && !self.booked.any(proposed)
            && !self.blocked.overlaps(proposed)
        {
            return Some(proposed);
        }
        let held = self.held.values().filter_map(|(range, _)| self.span(range));
        let used = held.chain(self.blocked.iter()).collect();
        let free: FreeRuns = self.layout.given_spans().without(&used).iter().collect();
        free.best_fit(count)
    }

    fn exhausted(&self, count: u32) -> Refusal {
        let family = self.layout.family();
        let total = self.layout.given_spans().count();
        let free = self.free.total();
        let holders = self.owners().into_iter().take(NAMED_HOLDERS);
        Refusal::Exhausted {
            count,
            free,
            total,
            blocked: total
                .saturating_sub(free)
                .saturating_sub(self.held_of_given),
            largest: self.free.largest().map(|span| family.range(span)),
            holders: holders.map(|(owner, held)| (owner.clone(), held)).collect(),
        }
    }

    /// In which way a range is not what the pool gives out; nothing if it is.
    fn outside_of_given(&self, range: &AddressRange) -> Option<Outside> {
        if self.is_given(range) {
            return None;
        }
        let cidr = self.layout.cidr();
        if !(cidr.contains(range.start()) && cidr.contains(range.end())) {
            return Some(Outside::Network);
        }
        let touched =
            |ranges: &[AddressRange]| ranges.iter().copied().find(|one| one.overlaps(range));
        if let Some(block) = touched(self.layout.reserved()) {
            return Some(Outside::Reserved(block));
        }
        if self.layout.is_never_given(range.start()) || self.layout.is_never_given(range.end()) {
            return Some(Outside::NeverGiven);
        }
        Some(touched(self.layout.windows()).map_or(Outside::Windows, Outside::Straddles))
    }

    /// The first addresses of a range that are in use, and by whom.
    fn first_taken(&self, range: &AddressRange) -> Option<(AddressRange, TakenBy)> {
        let held = self.first_held(range).and_then(|(held, holder)| {
            let by = TakenBy::Owner(Box::new(holder.owner.clone()));
            Some((intersection(held, range)?, by))
        });
        let blocked = self.first_blocked(range);
        match (held, blocked) {
            (Some(held), Some(blocked)) if blocked.0.start() < held.0.start() => Some(blocked),
            (held, blocked) => held.or(blocked),
        }
    }

    fn first_blocked(&self, range: &AddressRange) -> Option<(AddressRange, TakenBy)> {
        let span = self.span(range)?;
        let before = self.blocks.range(..span.first).next_back();
        before
            .into_iter()
            .chain(self.blocks.range(span.first..=span.last))
            .find_map(|(&first, (last, what))| {
                let block = Span { first, last: *last }.intersection(span)?;
                let by = TakenBy::Other(what.clone());
                Some((self.layout.family().range(block), by))
            })
    }
}

/// How scattered free addresses are: the share of them, in percent, that is not in the largest run.
fn fragmentation(largest: u128, total: u128, runs: usize) -> u8 {
    if runs <= 1 || total == 0 {
        return 0;
    }
    // Numbers near the end of what fits are made smaller first; a percentage does not see it.
    let shift = 8_u32.saturating_sub(total.leading_zeros());
    let (largest, total) = (largest >> shift, total >> shift);
    u8::try_from((total - largest) * 100 / total).unwrap_or(100)
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
