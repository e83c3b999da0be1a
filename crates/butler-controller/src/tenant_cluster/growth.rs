//! Further ranges of a tenant cluster: asked for when more addresses are wished or needed, given back when nobody uses them.
//!
//! Owns: when, how many, and from which pool. Pure; a range is an `IPAllocation` of its own, so that the pools stay the only
//! judges of who gets what. The first range of a cluster is never touched here.
//!
//! Must not: count Services. Whoever serves them says on the `ButlerCluster` how many wait ([`Demand`]), and on an allocation
//! whether it is in use.

use butler_api::{
    butler::ip_allocation::IPAllocation,
    cluster_api::butler_cluster::ButlerCluster,
    keys::{annotations, finalizers, labels, values},
};
use butler_ipam::{Candidate, Standing, choose, standing};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

/// So long a Service waits before the range grows for it, and so long after the last growth: what it brought must be seen to be
/// too little.
const BEFORE_GROWTH: SignedDuration = SignedDuration::from_secs(30);
/// So long a range that was added is unused before it is given back.
const BEFORE_RETURN: SignedDuration = SignedDuration::from_mins(10);

/// Services of the cluster that wait because no address is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// How many.
    pub services: u32,
    /// Since when the one waits that has waited longest.
    pub since: Timestamp,
}

impl Demand {
    /// What the infrastructure of a cluster says. What cannot be read is nobody's need.
    pub(super) fn of(cluster: &ButlerCluster) -> Option<Self> {
        let said = |key: &str| cluster.annotations().get(key);
        let services = said(annotations::WAITING_LOAD_BALANCERS)?.parse().ok()?;
        let since = said(annotations::WAITING_LOAD_BALANCERS_SINCE)?
            .parse()
            .ok()?;
        (services > 0).then_some(Self { services, since })
    }
}

/// Whether an allocation was added by need or wish.
pub(super) fn is_growth(allocation: &IPAllocation) -> bool {
    let role = allocation.labels().get(labels::ALLOCATION_ROLE);
    role.is_some_and(|role| role == values::ALLOCATION_ROLE_GROWTH)
}

/// How many addresses an allocation has, or asks for.
pub(super) fn size(allocation: &IPAllocation) -> i32 {
    let status = allocation.status.as_ref();
    let granted = status.and_then(|status| status.allocated_count);
    granted.or(allocation.spec.count).unwrap_or(1).max(1)
}

/// What is decided by.
#[derive(Clone, Debug)]
pub(super) struct Case<'a> {
    /// The range that the cluster began with; it is granted.
    pub(super) first: &'a IPAllocation,
    /// The ranges that were added, also those that are going.
    pub(super) added: &'a [IPAllocation],
    /// How many addresses the cluster asks for in all, if it says.
    pub(super) asked: Option<i32>,
    /// How many it may have.
    pub(super) most: Option<i32>,
    /// How many are added at least, where ranges grow by need.
    pub(super) increment: Option<i32>,
    /// Whether it is Butler itself that serves Services, and so is known what is in use.
    pub(super) is_served: bool,
    /// Who waits.
    pub(super) demand: Option<Demand>,
    /// The pools of the provider.
    pub(super) pools: &'a [Candidate<'a>],
}

/// Addresses to be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    /// Which of the added ranges it is: their names end with it.
    pub(super) index: u32,
    /// Name of the pool.
    pub(super) pool: String,
    /// How many.
    pub(super) count: i32,
}

/// Why a pool gives no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) reason: String,
    pub(super) message: String,
}

/// What is to be done about the ranges of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Course<'a> {
    /// These stay.
    pub(super) keep: Vec<&'a IPAllocation>,
    /// These are given back: nobody uses them.
    pub(super) give_back: Vec<&'a IPAllocation>,
    /// This one is asked for.
    pub(super) ask: Option<Ask>,
    /// Why what is needed cannot be had.
    pub(super) refused: Option<Refused>,
    /// When to look again although nothing has changed.
    pub(super) next: Option<Timestamp>,
}

/// Whether some component uses addresses of a range, or is about to.
fn is_in_use(allocation: &IPAllocation) -> bool {
    let mut held = allocation.finalizers().iter();
    held.any(|held| held == finalizers::ADDRESSES_IN_USE)
}

/// Since when nobody uses a range: since it was let go, else since it is there.
fn unused_since(allocation: &IPAllocation) -> Option<Timestamp> {
    let let_go = allocation
        .annotations()
        .get(annotations::ADDRESSES_UNUSED_SINCE);
    let let_go = let_go.and_then(|text| text.parse().ok());
    let_go.or_else(|| granted_at(allocation))
}

fn granted_at(allocation: &IPAllocation) -> Option<Timestamp> {
    let granted = allocation.status.as_ref()?.allocated_at.as_ref()?;
    Some(granted.0)
}

fn later(time: Timestamp, wait: SignedDuration) -> Timestamp {
    time.checked_add(wait).unwrap_or(Timestamp::MAX)
}

impl<'a> Case<'a> {
    /// Decides.
    pub(super) fn course(&self, now: Timestamp) -> Course<'a> {
        let mut course = Course::default();
        let mut refused = Vec::new();
        let mut is_pending = false;
        let mut granted = vec![self.first];
        for range in self.added {
            match standing(Some(range)) {
                Standing::Missing | Standing::Releasing => {}
                Standing::Waiting { .. } => {
                    is_pending = true;
                    course.keep.push(range);
                }
                Standing::Granted { .. } => granted.push(range),
                Standing::Refused { reason, message } => {
                    refused.push((range, Refused { reason, message }));
                }
            }
        }
        let (need, ripe) = self.need(&granted, now);
        let wanted = need.map(|need| self.offered(need));
        if let Some((range, words)) = refused.pop() {
            // Better than to be refused is to ask for what can be had.
            let better = wanted.as_ref().is_some_and(|(pool, count)| {
                *pool != range.spec.pool_ref.name || *count < size(range)
            });
            if self.is_needed(&granted) && !better {
                course.keep.push(range);
                course.refused = Some(words);
            } else {
                course.give_back.push(range);
            }
            course
                .give_back
                .extend(refused.iter().map(|(range, _)| *range));
        } else if let Some((pool, count)) = wanted.filter(|_| !is_pending) {
            let index = butler_ipam::next_growth_index(self.added.iter());
            course.ask = Some(Ask { index, pool, count });
        } else {
            course.next = ripe.filter(|_| !is_pending);
        }
        self.shrink(&granted, now, &mut course);
        course
    }

    /// How many addresses the cluster asks for in all, as far as it may have them.
    fn wish(&self) -> i32 {
        let asked = self.asked.unwrap_or_default();
        self.most.map_or(asked, |most| asked.min(most))
    }

    /// Who waits, where that makes ranges grow.
    fn growing_demand(&self) -> Option<(Demand, i32)> {
        self.demand.zip(self.increment).filter(|_| self.is_served)
    }

    /// Whether there is a reason for more than what is granted.
    fn is_needed(&self, granted: &[&IPAllocation]) -> bool {
        self.growing_demand().is_some() || self.wish() > sum(granted)
    }

    /// How many more addresses are needed now, or when that will be.
    fn need(&self, granted: &[&IPAllocation], now: Timestamp) -> (Option<i32>, Option<Timestamp>) {
        let missing = self.wish().saturating_sub(sum(granted));
        let missing = (missing > 0).then_some(missing);
        let Some((demand, increment)) = self.growing_demand() else {
            return (self.within_quota(missing), None);
        };
        // What is there and not used yet is for those that wait.
        if !granted.iter().all(|range| is_in_use(range)) {
            return (self.within_quota(missing), None);
        }
        let last = granted.iter().filter_map(|range| granted_at(range)).max();
        let since = last.map_or(demand.since, |last| last.max(demand.since));
        let ripe = later(since, BEFORE_GROWTH);
        if now < ripe {
            return (self.within_quota(missing), Some(ripe));
        }
        let waiting = i32::try_from(demand.services).unwrap_or(i32::MAX);
        let more = waiting.max(increment).max(missing.unwrap_or_default());
        (self.within_quota(Some(more)), None)
    }

    /// No more than the cluster may have. If it may have none, one is asked for: the pool says why not, and gives it when it may.
    fn within_quota(&self, need: Option<i32>) -> Option<i32> {
        let held = self.added.iter().filter(|range| {
            let state = standing(Some(*range));
            matches!(state, Standing::Granted { .. } | Standing::Releasing)
        });
        let held = held.fold(size(self.first), |sum, range| {
            sum.saturating_add(size(range))
        });
        let room = self.most.map(|most| most.saturating_sub(held).max(1));
        need.map(|need| room.map_or(need, |room| need.min(room)))
    }

    /// The pool to ask, and for how many: less than is needed if no pool has that in one piece.
    fn offered(&self, need: i32) -> (String, i32) {
        let count = u32::try_from(need).unwrap_or(1);
        let room = |pool: &Candidate<'_>| pool.largest_free.or(pool.available);
        let chosen = choose(self.pools, count);
        let Some(chosen) = chosen else {
            // The provider names none that exists: the one that it began with says so.
            return (self.first.spec.pool_ref.name.clone(), need);
        };
        if room(chosen).is_none_or(|room| room >= u128::from(count)) {
            return (chosen.name.to_owned(), need);
        }
        // Of equals the first is taken.
        let pools = self.pools.iter().rev();
        let widest = pools.max_by_key(|pool| room(pool)).unwrap_or(chosen);
        match room(widest).and_then(|room| i32::try_from(room).ok()) {
            Some(fewer) if fewer > 0 => (widest.name.to_owned(), fewer.min(need)),
            _ => (chosen.name.to_owned(), need),
        }
    }

    /// Gives back what was added and is unused for long, as far as the cluster does not ask for it. While somebody waits, what is
    /// unused is for them.
    fn shrink(&self, granted: &[&'a IPAllocation], now: Timestamp, course: &mut Course<'a>) {
        let mut left = sum(granted);
        let floor = self.wish();
        // The youngest goes first.
        for range in granted.iter().copied().skip(1).rev() {
            let unused = unused_since(range).filter(|_| !is_in_use(range));
            let goes = unused.filter(|_| {
                self.is_served && self.demand.is_none() && left.saturating_sub(size(range)) >= floor
            });
            match goes.map(|since| later(since, BEFORE_RETURN)) {
                Some(ripe) if ripe <= now => {
                    left = left.saturating_sub(size(range));
                    course.give_back.push(range);
                }
                Some(ripe) => {
                    let next = course.next.map_or(ripe, |next| next.min(ripe));
                    course.next = Some(next);
                    course.keep.push(range);
                }
                None => course.keep.push(range),
            }
        }
    }
}

fn sum(ranges: &[&IPAllocation]) -> i32 {
    let sizes = ranges.iter().map(|range| size(range));
    sizes.fold(0, i32::saturating_add)
}

#[cfg(test)]
#[path = "growth_properties.rs"]
mod properties;
#[cfg(test)]
#[path = "growth_tests.rs"]
mod tests;
