//! What the plan for an allocation depends on.

use butler_api::{
    butler::{
        ip_allocation::{AllocationPhase, IPAllocation},
        network_pool::NetworkPool,
    },
    net::AddressRange,
};
use butler_ipam::{Layout, Request, Wish, slice_of};
use butler_runtime::{
    cache::{Caches, Whole},
    failure::Failure,
    object::Kind,
    reconciler::Context,
};

use crate::ipam::{
    book::{self, Refused},
    claimant::Claimant,
    ledger::Ledger,
    observe::{layout, ledger, pool_of, quota, surroundings},
    owners::{self, Presence},
    pages::{self, CachedPage},
};

/// The world around an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// Whether its owner exists.
    pub(super) owner: Presence,
    /// What the ledger grants it. The lowest, if several controllers were at work at once.
    pub(super) grant: Option<AddressRange>,
    /// How its pool stands to it.
    pub(super) pool: PoolSight,
}

/// How a pool stands to an allocation that has no grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PoolSight {
    /// There is no such pool.
    Missing,
    /// The pool's own spec makes no sense.
    Invalid,
    /// The pool is going away.
    Deleting,
    /// It has what is asked for, or will say soon.
    MayGrant,
    /// It does not have what is asked for.
    Refuses(Refused),
    /// Addresses that the allocation has from before there was a ledger are somebody else's now.
    Lost(String),
}

pub(super) async fn observe(
    allocation: &IPAllocation,
    context: &Context,
) -> Result<World, Failure> {
    let claimant = Claimant::of(allocation);
    let caches = context.caches();
    let owner = if claimant.deleting && claimant.users.is_empty() {
        // It goes in any case.
        Presence::Unwatched
    } else {
        owners::look_for(allocation, context).await?
    };
    let grant = grant(allocation, &claimant, caches);
    let pool = match grant {
        Some(_) if claimant.deleting && is_gone(allocation, context).await? => PoolSight::Missing,
        Some(_) => PoolSight::MayGrant,
        None => sight(allocation, &claimant, caches),
    };
    Ok(World { owner, grant, pool })
}

/// Whether the pool is gone, though its ledger is not. That a cache does not show it is no proof.
async fn is_gone(allocation: &IPAllocation, context: &Context) -> Result<bool, Failure> {
    let key = pool_of(allocation);
    if context.cache::<Whole<NetworkPool>>().get(&key).is_some() {
        return Ok(false);
    }
    let pool = context.api().get(&Kind::of::<NetworkPool>(), &key).await?;
    Ok(pool.is_none())
}

/// What the ledger grants. Most allocations know where to look; the others look through all pages.
fn grant(allocation: &IPAllocation, claimant: &Claimant, caches: &Caches) -> Option<AddressRange> {
    let pool = pool_of(allocation);
    if let Some(committed) = claimant.committed {
        let slice = slice_of(committed.start());
        let pages = caches.store::<CachedPage>().list();
        let page = pages
            .iter()
            .filter(|page| page.value.pool == pool && page.value.is_of(&slice))
            .find_map(|page| pages::page(page).ok());
        let ledger = Ledger::new(page);
        let mut grants = ledger.grants_of(&claimant.uid).map(|entry| entry.range);
        return grants.find(|range| *range == committed);
    }
    let (ledger, _) = ledger(&pool, caches);
    let grants = ledger.grants_of(&claimant.uid);
    grants.map(|entry| entry.range).min()
}

/// How the pool stands to an allocation without a grant.
fn sight(allocation: &IPAllocation, claimant: &Claimant, caches: &Caches) -> PoolSight {
    let pools = caches.store::<Whole<NetworkPool>>();
    let Some(pool) = pools.get(&pool_of(allocation)) else {
        return PoolSight::Missing;
    };
    let pool = &pool.value.0;
    if pool.metadata.deletion_timestamp.is_some() {
        return PoolSight::Deleting;
    }
    let Ok(layout) = layout(pool) else {
        return PoolSight::Invalid;
    };
    let unlimited = quota(claimant, caches).is_none();
    if claimant.committed.is_none() && unlimited && has_room(pool, &layout, claimant) {
        return PoolSight::MayGrant;
    }
    let around = surroundings(pool, &layout, caches);
    if around.unreadable.is_some() {
        return PoolSight::MayGrant;
    }
    if around.ledger.grants_of(&claimant.uid).next().is_some() {
        // Granted since we looked for the grant. Its own addresses are no reason to refuse it; the page wakes us again.
        return PoolSight::MayGrant;
    }
    let book = book::open(layout, &around);
    if let Some(range) = claimant.committed {
        let mut held = book.held();
        let taken =
            held.find(|(held, holder)| held.overlaps(&range) && holder.allocation != claimant.uid);
        return taken.map_or(PoolSight::MayGrant, |(_, holder)| {
            PoolSight::Lost(holder.owner.to_string())
        });
    }
    match book::find(&book, claimant, &around) {
        Ok(_) => PoolSight::MayGrant,
        Err(refused) => PoolSight::Refuses(refused),
    }
}

/// Whether the pool's own numbers say that as many addresses can be had. Spares the book where it can be spared; a refusal is
/// always looked at anew.
fn has_room(pool: &NetworkPool, layout: &Layout, claimant: &Claimant) -> bool {
    let refused = claimant.phase == Some(AllocationPhase::Failed);
    let wish = Request::of(&claimant.spec, layout, None).map(|request| request.wish);
    let Ok(Wish::Count(count)) = wish else {
        return false;
    };
    let status = pool.status.as_ref();
    // A pool that has not counted yet will.
    let largest = status.and_then(|status| status.largest_free_block);
    let largest = largest.map_or(u32::MAX, |largest| {
        u32::try_from(largest).unwrap_or_default()
    });
    !refused && count <= largest
}

#[cfg(test)]
#[path = "observe_tests.rs"]
mod tests;
