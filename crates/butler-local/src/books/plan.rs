//! Decides what is written to the API server about one Service, and about allocations that have lost theirs.
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
        steps.extend(showing(service, &standing, board, now).map(Step::Show));
    } else if !allocations.is_empty() {
        let mut held = service.finalizers.clone();
        held.push(finalizers::SERVICE_LOAD_BALANCER.to_owned());
        steps.push(Step::Hold(held));
    }
    steps
}

fn shows(service: &ServiceFacts, address: Option<Ipv4Addr>) -> bool {
    let text = address.map(|address| address.to_string());
    text.is_some_and(|text| service.ingress.contains(&text))
}

/// What the Service should show, if that is not what it shows.
fn showing(
    service: &ServiceFacts,
    standing: &Standing<'_>,
    board: &Board,
    now: Timestamp,
) -> Option<Showing> {
    let address = standing.serving.and_then(|serving| serving.address);
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
    let (conditions, note) = match refusal(service, standing) {
        // That what is asked for cannot be had matters more than that something else is served meanwhile.
        Some(Refusal { reason, message }) => {
            let note = failed(&message);
            let refused = conditions.say(types::LOAD_BALANCER_READY, false, &reason, message);
            (refused, Some(note))
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
    standing.asking?.refusal.clone()
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
        let message = "the address is given back";
        let released = Finding::new(false, reasons::RELEASING, message);
        let conditions = Conditions::since(service.told.as_slice(), None, now)
            .tell(types::LOAD_BALANCER_READY, released)
            .finish();
        return vec![Step::Show(Showing {
            conditions,
            ..Showing::default()
        })];
    }
    let open: Vec<_> = allocations.iter().filter_map(Release::of).collect();
    if !open.is_empty() {
        return open.into_iter().map(Step::Release).collect();
    }
    if service.is_held() {
        let held = service.finalizers.iter();
        let others = held.filter(|held| *held != finalizers::SERVICE_LOAD_BALANCER);
        return vec![Step::Hold(others.cloned().collect())];
    }
    if service.told.is_some() && !service.deleting {
        return vec![Step::Show(Showing::default())];
    }
    Vec::new()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
