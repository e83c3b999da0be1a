//! What a pool says about itself.

use butler_api::{
    butler::network_pool::{AddressSpan, NetworkPool, NetworkPoolStatus},
    conditions::{reasons, types},
    net::AddressRange,
};
use butler_ipam::{Numbers, Pool, Violation, range_text};
use butler_runtime::{
    conditions::{Conditions, Finding, holds},
    plan::Note,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::ipam::{observe::Surroundings, some};

/// From these utilizations on, in percent, a pool complains.
const TIERS: [Tier; 3] = [
    Tier {
        percent: 70,
        condition: types::CAPACITY_WARNING,
        event: reasons::POOL_CAPACITY_WARNING,
    },
    Tier {
        percent: 85,
        condition: types::CAPACITY_CRITICAL,
        event: reasons::POOL_CAPACITY_CRITICAL,
    },
    Tier {
        percent: 95,
        condition: types::CAPACITY_EXHAUSTED,
        event: reasons::POOL_CAPACITY_EXHAUSTED,
    },
];
/// As many addresses of the management cluster as are listed; all are counted.
const INFRASTRUCTURE_LISTED: usize = 1000;

struct Tier {
    percent: u128,
    condition: &'static str,
    event: &'static str,
}

/// The status of a pool whose spec makes no sense. The numbers stay away: there are none.
pub(super) fn invalid(
    pool: &NetworkPool,
    violations: &[Violation],
    now: Timestamp,
) -> NetworkPoolStatus {
    let violations: Vec<_> = violations.iter().map(ToString::to_string).collect();
    let message = format!("{}; correct it", violations.join("; "));
    unusable(
        pool,
        Finding::new(false, reasons::VALIDATION_FAILED, message),
        now,
    )
}

/// The status of a pool whose ledger cannot be read. Nothing is granted until it can.
pub(super) fn unreadable(pool: &NetworkPool, why: &str, now: Timestamp) -> NetworkPoolStatus {
    let message = format!("{why}; nothing is granted until it is corrected");
    unusable(pool, Finding::new(false, reasons::FAILED, message), now)
}

/// Keeps what was said before, numbers included, but that the pool is ready.
fn unusable(pool: &NetworkPool, ready: Finding, now: Timestamp) -> NetworkPoolStatus {
    let mut status = pool.status.clone().unwrap_or_default();
    let generation = pool.metadata.generation;
    let said = Conditions::since(&status.conditions, generation, now).tell(types::READY, ready);
    let said = said.finish();
    status
        .conditions
        .retain(|condition| ours(&condition.type_) && condition.type_ != types::READY);
    status.conditions.extend(said);
    status
}

/// Whether this controller, and not the engine, says a condition.
fn ours(type_: &str) -> bool {
    type_ == types::READY
        || type_ == types::DISJOINT
        || TIERS.iter().any(|tier| tier.condition == type_)
}

/// The status of a pool, and what is worth telling about it.
pub(super) fn of(
    pool: &NetworkPool,
    book: &Pool,
    around: &Surroundings,
    revision: i64,
    deleting: bool,
    now: Timestamp,
) -> (NetworkPoolStatus, Vec<Note>) {
    let numbers = book.numbers();
    let previous = pool.status.as_ref();
    let previous = previous.map_or(&[][..], |status| &status.conditions);
    let mut conditions = Conditions::since(previous, pool.metadata.generation, now)
        .tell(types::READY, ready(&numbers, around, deleting))
        .tell(types::DISJOINT, disjoint(around));
    let used = utilization(&numbers);
    for tier in &TIERS {
        let reached = used >= tier.percent;
        let reason = if reached {
            reasons::UTILIZATION_ABOVE_THRESHOLD
        } else {
            reasons::UTILIZATION_BELOW_THRESHOLD
        };
        let words = if reached { "at least" } else { "less than" };
        let message = format!(
            "{words} {} percent of the addresses are in use",
            tier.percent
        );
        conditions = conditions.say(tier.condition, reached, reason, message);
    }
    let conditions = conditions.finish();
    let notes = capacity_note(previous, &conditions).into_iter().collect();
    let layout = book.layout();
    let status = NetworkPoolStatus {
        observed_generation: None,
        ledger_revision: Some(revision),
        total_ips: Some(small(numbers.total)),
        allocated_ips: Some(small(numbers.allocated)),
        available_ips: Some(small(numbers.available)),
        allocation_count: Some(i32::try_from(numbers.allocations).unwrap_or(i32::MAX)),
        fragmentation_percent: Some(i32::from(numbers.fragmentation_percent)),
        largest_free_block: Some(small(numbers.largest_free)),
        pool_size_ips: Some(large(numbers.size)),
        reserved_ips: Some(large(numbers.reserved)),
        unmanaged_scope_ips: Some(large(numbers.unmanaged)),
        unmanaged_ranges: layout.unmanaged().iter().map(span).collect(),
        infrastructure_consumed_ips: i64::try_from(around.infrastructure.len()).ok(),
        infrastructure_allocations: around
            .infrastructure
            .values()
            .take(INFRASTRUCTURE_LISTED)
            .cloned()
            .collect(),
        conditions,
    };
    (status, notes)
}

fn ready(numbers: &Numbers, around: &Surroundings, deleting: bool) -> Finding {
    if deleting {
        let mut holders: Vec<_> = around
            .ledger
            .grants()
            .map(|entry| entry.name.as_str())
            .collect();
        holders.dedup();
        let message = if holders.is_empty() {
            "going away".to_owned()
        } else {
            format!(
                "goes away when these IPAllocations have given their addresses back: {}; delete them or their owners",
                some(&holders)
            )
        };
        return Finding::new(false, reasons::DELETING, message);
    }
    if numbers.outside > 0 {
        let message = format!(
            "{} allocations have addresses that the pool does not give out any more; they keep them until they are deleted",
            numbers.outside
        );
        return Finding::new(true, reasons::OUTSIDE_POOL, message);
    }
    Finding::new(true, reasons::READY, "")
}

fn disjoint(around: &Surroundings) -> Finding {
    if around.shared.is_empty() {
        return Finding::new(true, reasons::NO_OVERLAP, "");
    }
    let shared: Vec<_> = around
        .shared
        .iter()
        .map(|(range, pool)| format!("{} with {pool}", range_text(range)))
        .collect();
    let message = format!(
        "shares {}; neither gives these addresses out until the pools are apart, or named as different networks by an annotation",
        some(&shared)
    );
    Finding::new(false, reasons::OVERLAPS, message)
}

/// How much of what can be given out is in use, by whomever, in percent.
fn utilization(numbers: &Numbers) -> u128 {
    let in_use = numbers.total.saturating_sub(numbers.available);
    let percent = in_use.saturating_mul(100).checked_div(numbers.total);
    percent.unwrap_or(100)
}

/// Tells of the highest tier when it is reached, and of the return when all are left.
fn capacity_note(before: &[Condition], after: &[Condition]) -> Option<Note> {
    let highest = TIERS.iter().rev().find(|tier| holds(after, tier.condition));
    match highest {
        Some(tier) if !holds(before, tier.condition) => {
            let message = format!(
                "{} percent or more of the addresses are in use; widen the pool or add another",
                tier.percent
            );
            Some(Note::warning(tier.event, message))
        }
        None if TIERS.iter().any(|tier| holds(before, tier.condition)) => {
            let message = format!(
                "less than {} percent of the addresses are in use again",
                TIERS[0].percent
            );
            Some(Note::normal(reasons::POOL_CAPACITY_RECOVERED, message))
        }
        _ => None,
    }
}

fn span(range: &AddressRange) -> AddressSpan {
    AddressSpan {
        start: range.start().to_string(),
        end: range.end().to_string(),
    }
}

/// Counts in 32 bits; IPv6 has more.
fn small(count: u128) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Counts in 64 bits; IPv6 has more.
fn large(count: u128) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
