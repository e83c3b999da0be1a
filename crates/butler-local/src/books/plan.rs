//! Decides what is written to the API server about one Service that has its address from a pool, and about allocations that
//! have lost theirs.
//!
//! On the way in: the allocation, the mark on the Service, what the Service shows. On the way out: the machine (which is the
//! fabric's), what the Service shows, the allocation, the mark. Each step is planned when the caches show the one before it, so
//! that it does not matter where a process ends. What we say of a Service stays until our mark is gone: it tells that
//! the mark is ours.

use std::net::Ipv4Addr;

use butler_api::{
    butler::ip_allocation::IPAllocation,
    conditions::{reasons, types},
    keys::finalizers,
};
use butler_runtime::{
    conditions::{Conditions, Finding},
    object::ObjectKey,
    plan::Note,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    board::{Board, Seat},
    claims::{self, Standing},
    cluster::Counter,
    facts::{AllocationFacts, Refusal, ServiceFacts, Wish},
    ranges::MarkChange,
};

/// Something to be written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Asks the pool for an address.
    Ask(Box<IPAllocation>),
    /// Sets the finalizers of the Service.
    Hold(Vec<String>),
    /// Says what the Service shows.
    Show(Showing),
    /// Gives an allocation back.
    Release(Release),
    /// Writes down the address that the Service was given, or that it has none, together with its finalizers.
    Record(Record),
    /// Puts our mark on a range, or takes it off.
    Mark(Marking),
}

/// What is written on a Service about its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) finalizers: Vec<String>,
    pub(crate) address: Option<Ipv4Addr>,
}

/// What is written on a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marking {
    pub(crate) key: ObjectKey,
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) finalizers: Vec<String>,
    pub(crate) change: MarkChange,
}

impl Marking {
    pub(crate) fn of(allocation: &AllocationFacts, change: MarkChange) -> Self {
        let mark = finalizers::ADDRESSES_IN_USE;
        let mut finalizers = allocation.finalizers.clone();
        finalizers.retain(|held| held != mark);
        if change == MarkChange::Put {
            finalizers.push(mark.to_owned());
        }
        Self {
            key: allocation.key.clone(),
            uid: allocation.uid.clone(),
            version: allocation.version.clone(),
            finalizers,
            change,
        }
    }
}

/// What a Service shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Showing {
    /// Its address, once somebody serves it.
    pub(crate) ingress: Vec<String>,
    /// How it is.
    pub(crate) conditions: Vec<Condition>,
    /// What people should hear.
    pub(crate) note: Option<Note>,
}

/// An allocation to be given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) key: ObjectKey,
    pub(crate) uid: String,
}

impl Release {
    /// Gives back what is not given back yet.
    fn of(allocation: &AllocationFacts) -> Option<Self> {
        let open = allocation.in_use || !allocation.deleting;
        open.then(|| Self {
            key: allocation.key.clone(),
            uid: allocation.uid.clone(),
        })
    }
}

/// What has to be done about a Service and the allocations made for it.
pub(crate) fn plan(
    service: &ServiceFacts,
    allocations: &[AllocationFacts],
    counter: &Counter,
    board: &Board,
    now: Timestamp,
) -> Vec<Step> {
    let had_one = !allocations.is_empty() || service.told.is_some();
    if service.is_wanting() {
        serve(service, allocations, counter, board, now)
    } else if service.balanced || had_one {
        withdraw(service, allocations, board, now)
    } else {
        Vec::new()
    }
}

/// What has to be done about allocations of a Service that is gone.
pub(crate) fn plan_orphans(allocations: &[AllocationFacts], board: &Board) -> Vec<Step> {
    let clear = allocations
        .iter()
        .filter(|allocation| board.is_clear(allocation.address));
    clear.filter_map(Release::of).map(Step::Release).collect()
}

fn serve(
    service: &ServiceFacts,
    allocations: &[AllocationFacts],
    counter: &Counter,
    board: &Board,
    now: Timestamp,
) -> Vec<Step> {
    let standing = claims::standing(service, allocations, counter);
    let mut steps = Vec::new();
    if !standing.satisfied && standing.asking.is_none() && service.wish.is_possible() {
        let allocation = counter.allocation(service, service.wish.pinned());
        steps.push(Step::Ask(Box::new(allocation)));
    }
    // The address must not be shown any more either: whoever reads it there takes it for the Service's.
    let given_up = standing.surplus.iter().filter(|allocation| {
        board.is_clear(allocation.address) && !shows(service, allocation.address)
    });
    steps.extend(given_up.filter_map(|allocation| Release::of(allocation).map(Step::Release)));
    // One write to the Service at a time: the next one is about the version that comes of it.
    if service.is_held() {
        let address = standing.serving.and_then(|serving| serving.address);
        let refusal = refusal(service, &standing);
        steps.extend(showing(service, address, refusal, board, now).map(Step::Show));
    } else if !allocations.is_empty() {
        steps.push(Step::Hold(with_mark(service)));
    }
    steps
}

fn shows(service: &ServiceFacts, address: Option<Ipv4Addr>) -> bool {
    let text = address.map(|address| address.to_string());
    text.is_some_and(|text| service.ingress.contains(&text))
}

/// What the Service should show about the address it has, and about the one it cannot have, if that is not what it shows.
pub(crate) fn showing(
    service: &ServiceFacts,
    address: Option<Ipv4Addr>,
    refusal: Option<Refusal>,
    board: &Board,
    now: Timestamp,
) -> Option<Showing> {
    let seat = address.map(|address| board.seats.get(&address));
    let (served, finding, note) = match seat {
        // It is granted, and the fabric has yet to look at it.
        Some(None) => return None,
        Some(Some(Seat::On(machine))) => {
            let address = address.map(|address| address.to_string());
            let message = format!(
                "machine {machine} serves {}",
                address.as_deref().unwrap_or_default()
            );
            let note = Note::normal(reasons::ENSURED_LOAD_BALANCER, &message);
            let finding = Finding::new(true, reasons::ADDRESS_SERVED, message);
            (true, finding, Some(note))
        }
        Some(Some(Seat::Nowhere(reason))) => {
            let finding = Finding::new(false, reasons::NO_HEALTHY_MACHINE, *reason);
            (false, finding, Some(failed(reason)))
        }
        None => (false, awaiting(), None),
    };
    let text = address.map(|address| address.to_string());
    // An address that was served is still the Service's while no machine can serve it.
    let shown = text.filter(|_| served || shows(service, address));
    let conditions = Conditions::since(service.told.as_slice(), None, now);
    let (conditions, note) = match refusal {
        // That what is asked for cannot be had matters more than that something else is served meanwhile.
        Some(Refusal { reason, message }) => {
            let note = (reason != reasons::AWAITING_GRANT).then(|| failed(&message));
            let refused = conditions.say(types::LOAD_BALANCER_READY, false, &reason, message);
            (refused, note)
        }
        None => (conditions.tell(types::LOAD_BALANCER_READY, finding), note),
    };
    let showing = Showing {
        ingress: shown.into_iter().collect(),
        conditions: conditions.finish(),
        note,
    };
    let is_shown =
        service.ingress == showing.ingress && service.told.as_slice() == showing.conditions;
    (!is_shown).then_some(showing)
}

fn failed(message: &str) -> Note {
    Note::warning(reasons::SYNC_LOAD_BALANCER_FAILED, message)
}

fn awaiting() -> Finding {
    let message = "waiting for the NetworkPool to grant an address";
    Finding::new(false, reasons::AWAITING_GRANT, message)
}

/// Why the Service cannot have what it asks for.
fn refusal(service: &ServiceFacts, standing: &Standing<'_>) -> Option<Refusal> {
    if let Wish::Impossible(message) = &service.wish {
        return Some(Refusal {
            reason: reasons::INVALID_ADDRESS.to_owned(),
            message: message.clone(),
        });
    }
    standing.asking?.refusal().cloned()
}

fn withdraw(
    service: &ServiceFacts,
    allocations: &[AllocationFacts],
    board: &Board,
    now: Timestamp,
) -> Vec<Step> {
    let clear = |allocation: &AllocationFacts| board.is_clear(allocation.address);
    if !board.known || !allocations.iter().all(clear) {
        return Vec::new();
    }
    if !service.ingress.is_empty() || (service.is_held() && service.told.is_none()) {
        return vec![Step::Show(releasing(service, now))];
    }
    let open: Vec<_> = allocations.iter().filter_map(Release::of).collect();
    if !open.is_empty() {
        return open.into_iter().map(Step::Release).collect();
    }
    if service.is_held() {
        return vec![Step::Hold(without_mark(service))];
    }
    if service.told.is_some() && !service.deleting {
        return vec![Step::Show(Showing::default())];
    }
    Vec::new()
}

/// What a Service shows whose address no machine serves any more.
pub(crate) fn releasing(service: &ServiceFacts, now: Timestamp) -> Showing {
    let message = "the address is given back";
    let released = Finding::new(false, reasons::RELEASING, message);
    let conditions = Conditions::since(service.told.as_slice(), None, now)
        .tell(types::LOAD_BALANCER_READY, released)
        .finish();
    Showing {
        conditions,
        ..Showing::default()
    }
}

/// The finalizers of a Service with our mark.
pub(crate) fn with_mark(service: &ServiceFacts) -> Vec<String> {
    let mut held = without_mark(service);
    held.push(finalizers::SERVICE_LOAD_BALANCER.to_owned());
    held
}

/// The finalizers of a Service without our mark.
pub(crate) fn without_mark(service: &ServiceFacts) -> Vec<String> {
    let held = service.finalizers.iter();
    let others = held.filter(|held| *held != finalizers::SERVICE_LOAD_BALANCER);
    others.cloned().collect()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
