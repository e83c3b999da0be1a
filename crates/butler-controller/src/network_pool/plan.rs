//! Decides what a pool grants, what it takes back, and what it says about itself.

use std::collections::BTreeSet;

use butler_api::{
    butler::network_pool::{NetworkPool, NetworkPoolStatus},
    net::AddressRange,
};
use butler_ipam::{Pool, slices};
use butler_runtime::{
    object::ObjectKey,
    plan::{Next, Plan},
};
use jiff::Timestamp;

use super::{Effect, World, status};
use crate::ipam::{
    book,
    claimant::Claimant,
    ledger::{Entry, PageWrite},
    observe::Surroundings,
};

/// As many pages as a pass writes: more would not be done before its deadline.
const PAGES_AT_ONCE: usize = 64;

pub(super) fn plan(
    pool: &NetworkPool,
    world: &World,
    now: Timestamp,
) -> Plan<NetworkPoolStatus, Effect> {
    let around = &world.around;
    if let Some(why) = &around.unreadable {
        return Plan::status(status::unreadable(pool, why, now));
    }
    let deleting = pool.metadata.deletion_timestamp.is_some();
    let spent = spent(world);
    let withdrawals = around.ledger.withdraw(&ObjectKey::of(pool), &spent);
    let layout = match &world.layout {
        Ok(layout) => layout.clone(),
        Err(violations) => {
            // What is given back is taken back, and the pool can go, whatever its spec says.
            let mut plan = Plan::status(status::invalid(pool, violations, now));
            plan.effects = withdrawals.into_iter().map(Effect::Write).collect();
            conclude(&mut plan, around, deleting);
            return plan;
        }
    };
    let mut told = Picture {
        pool,
        around,
        now,
        deleting,
        book: book::open(layout, around),
        revision: around.ledger.revision(),
    };
    if !withdrawals.is_empty() {
        for entry in &spent {
            // Every grant of the ledger is in the book that was opened from it.
            let _holder = told.book.release(&entry.range);
        }
        return told.after(withdrawals);
    }
    let mut plan = told.plan();
    conclude(&mut plan, around, deleting);
    if deleting || !plan.effects.is_empty() {
        return plan;
    }
    grant(told, promised(world))
}

/// Removes pages that go, once nothing is to be written, and lets a deleted pool go after its last page.
fn conclude(plan: &mut Plan<NetworkPoolStatus, Effect>, around: &Surroundings, deleting: bool) {
    if !plan.effects.is_empty() {
        return;
    }
    plan.effects = superfluous_pages(around, deleting);
    if deleting && around.ledger.pages().next().is_none() {
        plan.next = Next::Done;
    }
}

/// What a plan is told from.
struct Picture<'a> {
    pool: &'a NetworkPool,
    around: &'a Surroundings,
    now: Timestamp,
    deleting: bool,
    /// The pool as it will be.
    book: Pool,
    /// The revision of the ledger as it will be.
    revision: i64,
}

impl Picture<'_> {
    fn plan(&self) -> Plan<NetworkPoolStatus, Effect> {
        let (status, notes) = status::of(
            self.pool,
            &self.book,
            self.around,
            self.revision,
            self.deleting,
            self.now,
        );
        Plan {
            notes,
            ..Plan::status(status)
        }
    }

    /// The plan that makes these writes, and tells of the pool as it will be then.
    fn after(self, writes: Vec<PageWrite>) -> Plan<NetworkPoolStatus, Effect> {
        let mut plan = self.plan();
        plan.effects = writes.into_iter().map(Effect::Write).collect();
        plan
    }
}

/// Grants that nobody holds any more: their allocation is gone, has given them back, or uses another one.
fn spent(world: &World) -> BTreeSet<Entry> {
    let is_spent = |entry: &&Entry| match world.around.claimants.get(&entry.uid) {
        None => world.gone.contains(&entry.uid),
        Some(claimant) => {
            let uses_another = claimant.committed.is_some_and(|range| range != entry.range);
            claimant.has_released() || uses_another
        }
    };
    let grants = world.around.ledger.grants();
    grants.filter(is_spent).cloned().collect()
}

/// Empty pages that go: all of them with the pool, else those that somebody deleted.
fn superfluous_pages(around: &Surroundings, deleting: bool) -> Vec<Effect> {
    let pages = around.ledger.pages();
    let granted = deleting && around.ledger.grants().next().is_some();
    let go = pages.filter(|page| {
        let empty = page.content.entries.is_empty();
        empty && !granted && (deleting || page.deleting)
    });
    go.map(|page| Effect::Remove {
        key: page.key.clone(),
        uid: page.uid.clone(),
        resource_version: page.resource_version.clone(),
    })
    .collect()
}

/// Grants what is asked for, first come first served: the numbers first, the ledger once the numbers are public.
fn grant(mut told: Picture<'_>, promised: Option<u128>) -> Plan<NetworkPoolStatus, Effect> {
    let mut allocated = told.book.numbers().allocated;
    let mut grants = Vec::new();
    let mut pages = BTreeSet::new();
    for claimant in waiting(told.around) {
        let Some(range) = fitting(&told.book, claimant, told.around) else {
            continue;
        };
        let touched: Vec<_> = slices(&range).map(|slice| slice.start()).collect();
        let beyond_promise = promised.is_some_and(|most| allocated + range.count() > most);
        let too_much = pages.len() + touched.len() > PAGES_AT_ONCE;
        if (beyond_promise || too_much) && !grants.is_empty() {
            // What is promised comes first; the rest has its own promise after that.
            break;
        }
        if told.book.hold(&range, claimant.holder()).is_ok() {
            allocated += range.count();
            pages.extend(touched);
            grants.push(claimant.entry(range));
        }
    }
    let key = ObjectKey::of(told.pool);
    let writes = told.around.ledger.record(&key, &grants);
    told.revision += i64::try_from(writes.len()).unwrap_or(i64::MAX);
    if promised.is_some_and(|most| allocated <= most) {
        return told.after(writes);
    }
    told.plan()
}

/// How many addresses the status lets be allocated, if it speaks of a ledger that is yet to be written.
///
/// A status that speaks of the ledger as it is, or as it was, promises nothing: it may be lowered by a write on its way.
fn promised(world: &World) -> Option<u128> {
    let promise = world.promised.as_ref();
    let promise = promise.filter(|promise| promise.revision > world.around.ledger.revision());
    promise.map(|promise| promise.allocated)
}

/// The allocations that wait for addresses, in their turn; first those that have theirs from before there was a ledger.
fn waiting(around: &Surroundings) -> Vec<&Claimant> {
    let granted: BTreeSet<_> = around
        .ledger
        .grants()
        .map(|entry| entry.uid.as_str())
        .collect();
    let mut waiting: Vec<_> = around
        .claimants
        .values()
        .filter(|claimant| claimant.may_receive() || claimant.has_addresses())
        .filter(|claimant| !granted.contains(claimant.uid.as_str()))
        .collect();
    waiting.sort_by_key(|claimant| (claimant.committed.is_none(), claimant.turn()));
    waiting
}

/// What an allocation gets. One that has addresses already, from before there was a ledger, keeps them.
fn fitting(book: &Pool, claimant: &Claimant, around: &Surroundings) -> Option<AddressRange> {
    let found = || book::find(book, claimant, around).ok();
    let unsettled = |range: &AddressRange| {
        let mut networks = around.unsettled.iter();
        networks.any(|network| network.overlaps(range))
    };
    claimant
        .committed
        .or_else(|| found().filter(|range| !unsettled(range)))
}

#[cfg(test)]
#[path = "plan_standing_tests.rs"]
mod standing_tests;
#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
