//! Decides what an allocation shows, when it is given back, and when it is collected.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use butler_api::{
    butler::ip_allocation::{AllocationPhase, IPAllocation, IPAllocationStatus},
    conditions::{reasons, types},
    keys::finalizers,
    net::AddressRange,
};
use butler_ipam::range_text;
use butler_runtime::{
    conditions::{Answer, Conditions, Finding, whole_seconds},
    plan::{Next, Note, Plan},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Effect, World, observe::PoolSight};
use crate::ipam::{book::Refused, claimant::Claimant, owners::Presence};

/// Which controller grants, as the status names it.
const GRANTED_BY: &str = "networkpool-controller";
/// As many addresses as the status lists one by one.
const ADDRESSES_LISTED: u128 = 256;

pub(super) fn plan(
    allocation: &IPAllocation,
    world: &World,
    grace: Duration,
    now: Timestamp,
) -> Plan<IPAllocationStatus, Effect> {
    let claimant = Claimant::of(allocation);
    let before = allocation.status.clone().unwrap_or_default();
    let conditions = Conditions::since(&before.conditions, allocation.metadata.generation, now);
    if claimant.deleting && claimant.users.is_empty() {
        return release(&before, conditions, world, now);
    }
    let (status, ready) = standing(&claimant, before.clone(), world, now);
    let mut plan = Plan::status(status);
    announce(&mut plan, &before, &ready);
    let mut conditions = conditions
        .tell(types::READY, ready)
        .tell(types::OWNER_PRESENT, owner_present(&claimant, world));
    if claimant.deleting {
        conditions = conditions.tell(types::DELETING, held_by_users(&claimant));
    }
    plan.status.conditions = conditions.finish();
    if world.owner == Presence::Gone {
        collect(&mut plan, &claimant, grace, now);
    }
    plan
}

/// Given back in public first. The pool then takes the addresses out of its ledger, and only then does the allocation go.
fn release(
    before: &IPAllocationStatus,
    conditions: Conditions<'_>,
    world: &World,
    now: Timestamp,
) -> Plan<IPAllocationStatus, Effect> {
    let is_public = before.phase == Some(AllocationPhase::Released);
    let message = "the addresses are given back";
    let ready = Finding::new(false, reasons::RELEASED, message);
    let released_at = || Some(Time(whole_seconds(now)));
    let mut plan = Plan::status(IPAllocationStatus {
        observed_generation: None,
        phase: Some(AllocationPhase::Released),
        released_at: before.released_at.clone().or_else(released_at),
        conditions: conditions.tell(types::READY, ready).finish(),
        ..before.clone()
    });
    let had_nothing = before.start_address.is_none();
    // A pool that is gone takes nothing back any more.
    let taken_back = world.grant.is_none() || world.pool == PoolSight::Missing;
    if taken_back && (is_public || had_nothing) {
        plan.next = Next::Done;
    }
    plan
}

/// What the allocation has, or why it has nothing.
fn standing(
    claimant: &Claimant,
    before: IPAllocationStatus,
    world: &World,
    now: Timestamp,
) -> (IPAllocationStatus, Finding) {
    let before = IPAllocationStatus {
        observed_generation: None,
        ..before
    };
    let allocated = Finding::new(true, reasons::ALLOCATED, "");
    match (&world.grant, claimant.committed, &world.pool) {
        (Some(range), _, _) => (granted(before, range, now), allocated),
        (None, Some(_), PoolSight::Lost(holder)) => {
            let message = format!(
                "the addresses are held by {holder} too; take them out of use here, delete this allocation and create another"
            );
            let status = IPAllocationStatus {
                phase: Some(AllocationPhase::Failed),
                ..before
            };
            let lost = Finding::new(false, reasons::PINNED_RANGE_TAKEN, message);
            (status, lost)
        }
        // The ledger may be behind, or does not know yet what was granted before there was one.
        (None, Some(range), _) => (granted(before, &range, now), allocated),
        (None, None, pool) => {
            let (phase, ready) = ungranted(&claimant.spec.pool_ref.name, pool);
            let status = IPAllocationStatus {
                phase: Some(phase),
                ..IPAllocationStatus::default()
            };
            (status, ready)
        }
    }
}

/// Why an allocation has nothing.
fn ungranted(pool: &str, sight: &PoolSight) -> (AllocationPhase, Finding) {
    let (reason, message) = match sight {
        PoolSight::MayGrant | PoolSight::Lost(_) => {
            let message = format!("waiting for the NetworkPool {pool} to grant the addresses");
            let finding = Finding::new(false, reasons::AWAITING_GRANT, message);
            return (AllocationPhase::Pending, finding);
        }
        PoolSight::Missing => {
            let what = "does not exist in this namespace; create it";
            (reasons::POOL_NOT_FOUND, refers(pool, what))
        }
        PoolSight::Invalid => {
            let what = "is not valid; its Ready condition says why";
            (reasons::POOL_INVALID, refers(pool, what))
        }
        PoolSight::Deleting => {
            let what = "is being deleted; use another";
            (reasons::DELETING, refers(pool, what))
        }
        PoolSight::Refuses(Refused {
            reason,
            field,
            message,
        }) => (*reason, format!("{field}: {message}")),
    };
    let finding = Finding::new(false, reason, message);
    (AllocationPhase::Failed, finding)
}

fn refers(pool: &str, what: &str) -> String {
    format!("spec.poolRef: the NetworkPool {pool} {what}")
}

fn granted(before: IPAllocationStatus, range: &AddressRange, now: Timestamp) -> IPAllocationStatus {
    let allocated_at = || Some(Time(whole_seconds(now)));
    let granted_by = || Some(GRANTED_BY.to_owned());
    IPAllocationStatus {
        observed_generation: None,
        phase: Some(AllocationPhase::Allocated),
        cidr: Some(range_text(range)),
        start_address: Some(range.start().to_string()),
        end_address: Some(range.end().to_string()),
        addresses: addresses(range),
        allocated_count: Some(i32::try_from(range.count()).unwrap_or(i32::MAX)),
        allocated_at: before.allocated_at.or_else(allocated_at),
        allocated_by: before.allocated_by.or_else(granted_by),
        released_at: None,
        conditions: Vec::new(),
    }
}

/// Each address of a range; none where they are too many to list.
fn addresses(range: &AddressRange) -> Vec<String> {
    if range.count() > ADDRESSES_LISTED {
        return Vec::new();
    }
    match (range.start(), range.end()) {
        (IpAddr::V4(start), IpAddr::V4(end)) => (u32::from(start)..=u32::from(end))
            .map(|number| Ipv4Addr::from(number).to_string())
            .collect(),
        (IpAddr::V6(start), IpAddr::V6(end)) => (u128::from(start)..=u128::from(end))
            .map(|number| Ipv6Addr::from(number).to_string())
            .collect(),
        // A range is of one family.
        _ => Vec::new(),
    }
}

/// Tells of a grant and of a refusal when they come.
fn announce(
    plan: &mut Plan<IPAllocationStatus, Effect>,
    before: &IPAllocationStatus,
    ready: &Finding,
) {
    match plan.status.phase {
        Some(AllocationPhase::Allocated) if before.phase != Some(AllocationPhase::Allocated) => {
            let range = plan.status.cidr.as_deref().unwrap_or_default();
            let note = Note::normal(reasons::IPS_ALLOCATED, format!("{range} is granted"));
            plan.notes.push(note);
        }
        Some(AllocationPhase::Failed) if before.phase != Some(AllocationPhase::Failed) => {
            let note = Note::warning(reasons::ALLOCATION_FAILED, &ready.message);
            plan.notes.push(note);
            plan.effects.push(Effect::CountRefusal);
        }
        _ => {}
    }
}

fn owner_present(claimant: &Claimant, world: &World) -> Finding {
    let owner = claimant.owner();
    match world.owner {
        Presence::Present => Finding::new(true, reasons::OWNER_FOUND, ""),
        Presence::Gone => {
            let message =
                format!("{owner} does not exist; create it, or the addresses are collected");
            Finding::new(false, reasons::OWNER_GONE, message)
        }
        Presence::Unwatched => {
            let message = format!(
                "{owner} is of a kind that Butler does not watch; delete this allocation when the addresses are not needed"
            );
            Finding::new(Answer::Unknown, reasons::NOT_REQUIRED, message)
        }
    }
}

fn held_by_users(claimant: &Claimant) -> Finding {
    let message = format!(
        "the addresses are given back when nobody uses them: finalizers {}",
        claimant.users.join(", ")
    );
    Finding::new(true, reasons::IN_USE, message)
}

/// Collects an allocation whose owner has been gone for a while, and the mark of its user that is gone with it.
fn collect(
    plan: &mut Plan<IPAllocationStatus, Effect>,
    claimant: &Claimant,
    grace: Duration,
    now: Timestamp,
) {
    let mut conditions = plan.status.conditions.iter();
    let gone_since = conditions
        .find(|condition| condition.type_ == types::OWNER_PRESENT)
        .map_or(now, |condition| condition.last_transition_time.0);
    let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
    let left = grace - now.duration_since(gone_since);
    if left.is_positive() {
        plan.next = Next::After(left.unsigned_abs());
        return;
    }
    let in_use = finalizers::ADDRESSES_IN_USE;
    if !claimant.deleting {
        let message = format!("{} is gone; its addresses are collected", claimant.owner());
        plan.notes
            .push(Note::normal(reasons::ORPHANED_ALLOCATION, message));
        plan.effects.push(Effect::Collect);
    } else if claimant.users.iter().any(|user| user == in_use) {
        plan.effects.push(Effect::LetGo);
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
