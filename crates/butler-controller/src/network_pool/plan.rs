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
use crate::ipam::{book, claimant::Claimant, ledger::Entry, observe::Surroundings};

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
    let layout = match &world.layout {
        Ok(layout) => layout.clone(),
        Err(violations) => {
            // What is given back is taken back, and the pool can go, whatever its spec says.
            let mut plan = Plan::status(status::invalid(pool, violations, now));
            let writes = around.ledger.rewrite(&ObjectKey::of(pool), &spent, &[]);
            plan.effects = writes.into_iter().map(Effect::Write).collect();
            conclude(&mut plan, around, deleting);
            return plan;
        }
    };
    let mut book = book::open(layout, around);
    let before = book.numbers().allocated;
    for entry in &spent {
        // Every grant of the ledger is in the book that was opened from it.
        let _holder = book.release(&entry.range);
    }
    let loose_ends = around.ledger.has_loose_ends(&spent);
    let grants = granted(&mut book, around, deleting, loose_ends);
    let writes = around.ledger.rewrite(&ObjectKey::of(pool), &spent, &grants);
    let recorded = writes.iter().filter(|write| write.recorded).count();
    let revision = around.ledger.revision();
    let revision_after = revision + i64::try_from(recorded).unwrap_or(i64::MAX);
    let (status, notes) = status::of(pool, &book, around, revision_after, deleting, now);
    let mut plan = Plan {
        notes,
        ..Plan::status(status)
    };
    if recorded > 0 {
        let announced = pool.status.as_ref();
        let announced = announced.and_then(|status| status.ledger_revision);
        let on_the_way = before + grants.iter().map(|entry| entry.range.count()).sum::<u128>();
        plan.effects.push(Effect::Announce {
            allocated: i32::try_from(on_the_way).unwrap_or(i32::MAX),
            // Never what it was: an older status that is still on its way must find another version.
            revision: announced.unwrap_or_default().max(revision_after - 1) + 1,
        });
    }
    plan.effects.extend(writes.into_iter().map(Effect::Write));
    conclude(&mut plan, around, deleting);
    plan
}

/// Removes pages that go, once nothing is to be written, and lets a deleted pool go after its last page.
fn conclude(plan: &mut Plan<NetworkPoolStatus, Effect>, around: &Surroundings, deleting: bool) {
    let in_use = around.claimants.values().any(Claimant::has_addresses);
    let granted = around.ledger.grants().next().is_some();
    if !deleting || in_use || granted || !plan.effects.is_empty() {
        return;
    }
    plan.effects = superfluous_pages(around);
    if plan.effects.is_empty() {
        plan.next = Next::Done;
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

/// Empty pages, which go with their pool. Before that none goes: a page that is gone cannot refuse a write on its way.
fn superfluous_pages(around: &Surroundings) -> Vec<Effect> {
    let pages = around.ledger.pages();
    let go = pages.filter(|page| page.content.entries.is_empty());
    go.map(|page| Effect::Remove {
        key: page.key.clone(),
        uid: page.uid.clone(),
        resource_version: page.resource_version.clone(),
    })
    .collect()
}

/// Grants what is asked for, first come first served. A pool that goes only takes down what allocations have already.
fn granted(book: &mut Pool, around: &Surroundings, deleting: bool, loose_ends: bool) -> Vec<Entry> {
    let mut grants = Vec::new();
    let mut pages = BTreeSet::new();
    for claimant in waiting(around) {
        if deleting && claimant.committed.is_none() {
            continue;
        }
        let Some(range) = fitting(book, claimant, around) else {
            continue;
        };
        let entry = claimant.entry(range);
        if loose_ends && entry.reaches_over() {
            // Its turn comes when these are cleared.
            continue;
        }
        let touched: Vec<_> = slices(&range).map(|slice| slice.start()).collect();
        if pages.len() + touched.len() > PAGES_AT_ONCE && !grants.is_empty() {
            break;
        }
        if book.hold(&range, claimant.holder()).is_ok() {
            pages.extend(touched);
            grants.push(entry);
        }
    }
    grants
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
#[path = "plan_node_tests.rs"]
mod node_tests;
#[cfg(test)]
#[path = "plan_standing_tests.rs"]
mod standing_tests;
#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
