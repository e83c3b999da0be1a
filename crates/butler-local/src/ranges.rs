//! Which address of its cluster's ranges a Service of a tenant has.
//!
//! Owns: the choice. The ranges are `IPAllocation` objects of the `TenantCluster`; which of their addresses a Service was given is
//! written on the Service before any machine serves it. Whoever reads the same caches comes to the same answer, and in it an
//! address is never two Services'.

use std::{collections::BTreeMap, fmt, net::Ipv4Addr};

use butler_api::{butler::ip_allocation::AllocationClusterReference, conditions::reasons};
use jiff::Timestamp;

use crate::{
    board::Board,
    cluster::Waiting,
    facts::{AllocationFacts, Origin, Refusal, ServiceFacts, Wish},
};

/// Addresses from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: Ipv4Addr,
    pub(crate) last: Ipv4Addr,
}

impl Span {
    pub(crate) fn contains(self, address: Ipv4Addr) -> bool {
        (self.first..=self.last).contains(&address)
    }

    fn addresses(self) -> impl Iterator<Item = Ipv4Addr> {
        (u32::from(self.first)..=u32::from(self.last)).map(Ipv4Addr::from)
    }

    fn count(self) -> usize {
        self.addresses().size_hint().0
    }
}

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(formatter, "{}", self.first)
        } else {
            write!(formatter, "{}-{}", self.first, self.last)
        }
    }
}

/// Addresses that a tenant cluster was granted for its Services, or asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) allocation: AllocationFacts,
    /// Its addresses, once it is granted.
    pub(crate) span: Option<Span>,
    /// Whether addresses of it may be given to Services: it stays, and nobody else uses it.
    pub(crate) open: bool,
    /// Whether it carries our mark, so that it is not given to anybody else.
    pub(crate) ours: bool,
}

impl Range {
    /// The range that an allocation is, if it is one of this tenant; `user` is who we are.
    pub(crate) fn of(
        allocation: &AllocationFacts,
        tenant: &AllocationClusterReference,
        user: &str,
    ) -> Option<Self> {
        let is_one = allocation.balances && allocation.service.is_none();
        if !is_one || allocation.tenant.as_ref() != Some(tenant) {
            return None;
        }
        let span = allocation.address.zip(allocation.last);
        let span = span.map(|(first, last)| Span { first, last });
        let ours = allocation.in_use && allocation.used_by.as_deref() == Some(user);
        let free = ours || !allocation.in_use;
        Some(Self {
            open: allocation.is_granted() && !allocation.deleting && free && span.is_some(),
            span,
            ours,
            allocation: allocation.clone(),
        })
    }

    pub(crate) fn contains(&self, address: Ipv4Addr) -> bool {
        self.span.is_some_and(|span| span.contains(address))
    }

    /// Those that came with the cluster are filled first, then those that are in use anyway: the others may go.
    fn order(&self) -> (bool, bool, Option<Ipv4Addr>) {
        let first = self.span.map(|span| span.first);
        (self.allocation.origin != Origin::Initial, !self.ours, first)
    }
}

/// Whether an address may be served: its range stays and carries our mark.
pub(crate) fn is_usable(ranges: &[Range], address: Ipv4Addr) -> bool {
    let mut usable = ranges.iter().filter(|range| range.open && range.ours);
    usable.any(|range| range.contains(address))
}

/// How a Service stands with the ranges of its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The addresses that are nobody else's because of it.
    pub(crate) owns: Vec<Ipv4Addr>,
    /// The one that machines may serve for it.
    pub(crate) has: Option<Ipv4Addr>,
    /// The one that is to be written down for it.
    pub(crate) next: Option<Ipv4Addr>,
    /// Why it cannot have what it asks for.
    pub(crate) refusal: Option<Refusal>,
    /// Since when it waits, if more addresses would help.
    pub(crate) waits: Option<Timestamp>,
}

/// Whether new addresses are chosen, and of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Not now: while something that we wrote about a Service is not seen yet, the caches do not show everything that is taken.
    None,
    /// Of ranges that stay as they are.
    Fixed,
    /// Of ranges that grow by themselves when Services wait.
    Growing,
}

/// How all Services stand, by their UIDs.
pub(crate) fn standings(
    services: &[&ServiceFacts],
    ranges: &[Range],
    choice: Choice,
) -> BTreeMap<String, Standing> {
    let mut taken = owners(services);
    let mut ranges: Vec<_> = ranges.iter().collect();
    ranges.sort_by_key(|range| range.order());
    let mut found = BTreeMap::<_, Standing>::new();
    for (address, owner) in &taken {
        let standing = found.entry(owner.uid.clone()).or_default();
        standing.owns.push(*address);
    }
    let mut wanting: Vec<_> = services
        .iter()
        .filter(|service| is_served(service))
        .collect();
    // Whoever is content with any address must not take the one that another asks for.
    wanting.sort_by_key(|service| (service.wish == Wish::Any, service.created, &service.uid));
    for service in wanting {
        let mut standing = found.remove(&service.uid).unwrap_or_default();
        decide(service, &mut standing, &ranges, &taken, choice);
        if let Some(next) = standing.next {
            taken.insert(next, service);
        }
        found.insert(service.uid.clone(), standing);
    }
    found
}

/// Whether the Service wants an address of ours. One that shows what we did not write is somebody else's.
fn is_served(service: &ServiceFacts) -> bool {
    let untouched = service.told.is_none() && service.assigned.is_none();
    let is_anothers = untouched && !service.names_us && !service.ingress.is_empty();
    service.is_wanting() && !is_anothers
}

/// The addresses that a Service shows because we said so.
pub(crate) fn shown(service: &ServiceFacts) -> impl Iterator<Item = Ipv4Addr> {
    let ours = service.told.is_some();
    let texts = service.ingress.iter().filter(move |_| ours);
    texts.filter_map(|text| text.parse().ok())
}

/// Whose each address is. Of several it is the one's that shows it, then the oldest's.
fn owners<'a>(services: &[&'a ServiceFacts]) -> BTreeMap<Ipv4Addr, &'a ServiceFacts> {
    let mut claims = Vec::new();
    for service in services {
        for address in shown(service) {
            claims.push((address, false, service.created, &service.uid, *service));
        }
        if let Some(address) = service.assigned {
            claims.push((address, true, service.created, &service.uid, *service));
        }
    }
    claims.sort_by_key(|(address, unshown, created, uid, _)| (*address, *unshown, *created, *uid));
    let mut owners = BTreeMap::new();
    for (address, .., service) in claims {
        owners.entry(address).or_insert(service);
    }
    owners
}

fn decide(
    service: &ServiceFacts,
    standing: &mut Standing,
    ranges: &[&Range],
    taken: &BTreeMap<Ipv4Addr, &ServiceFacts>,
    choice: Choice,
) {
    let range_of = |address| {
        ranges
            .iter()
            .find(|range| range.open && range.contains(address))
    };
    let claimed = service.assigned.or_else(|| shown(service).next());
    let current = claimed.filter(|address| {
        let own = standing.owns.contains(address);
        own && range_of(*address).is_some()
    });
    let in_place = |address: &Ipv4Addr| range_of(*address).is_some_and(|range| range.ours);
    standing.has = current.filter(in_place);
    // What it has is written down again if that got lost, and marked again if the mark did.
    standing.next = current.filter(|_| standing.has.is_none() || service.assigned.is_none());
    match &service.wish {
        Wish::Impossible(message) => {
            standing.refusal = Some(Refusal {
                reason: reasons::INVALID_ADDRESS.to_owned(),
                message: message.clone(),
            });
        }
        Wish::Address(address) if current == Some(*address) => {}
        Wish::Any if current.is_some() => {}
        _ if choice == Choice::None => {}
        Wish::Address(address) => match (range_of(*address), taken.get(address)) {
            (Some(_), Some(other)) if other.uid != service.uid => {
                let message = format!(
                    "{address} is in use by the Service {}; ask for another address, or for none in particular",
                    other.key
                );
                standing.refusal = Some(refused(reasons::PINNED_RANGE_TAKEN, message));
            }
            (Some(_), _) => standing.next = Some(*address),
            (None, _) => standing.refusal = Some(outside(*address, ranges)),
        },
        Wish::Any => {
            let open = ranges.iter().filter(|range| range.open);
            let mut addresses = open
                .filter_map(|range| range.span)
                .flat_map(Span::addresses);
            match addresses.find(|address| !taken.contains_key(address)) {
                Some(address) => standing.next = Some(address),
                None => wait(service, standing, ranges, choice),
            }
        }
    }
}

fn refused(reason: &str, message: String) -> Refusal {
    Refusal {
        reason: reason.to_owned(),
        message,
    }
}

/// The address that is asked for is in no range of the cluster.
fn outside(address: Ipv4Addr, ranges: &[&Range]) -> Refusal {
    let message = if ranges.iter().any(|range| range.open) {
        let spans = spans(ranges);
        format!(
            "{address} is not an address of this cluster; ask for one of {spans}, or for none in particular"
        )
    } else {
        format!("{address} is not an address of this cluster, which has none for load balancers")
    };
    refused(reasons::PINNED_RANGE_OUTSIDE, message)
}

/// No address is left. A cluster without any range has perhaps somebody else for its Services, so nothing is said to one that
/// does not ask for us by name; but that it waits is known.
fn wait(service: &ServiceFacts, standing: &mut Standing, ranges: &[&Range], choice: Choice) {
    let told = service.told.as_ref();
    let since = told.map_or(service.created, |told| told.last_transition_time.0);
    standing.waits = Some(since);
    let coming = || {
        ranges
            .iter()
            .filter(|range| !range.allocation.is_granted() && !range.allocation.deleting)
    };
    let refusal = coming().find_map(|range| range.allocation.refusal().cloned());
    let open = ranges.iter().filter(|range| range.open);
    let count: usize = open.filter_map(|range| range.span).map(Span::count).sum();
    let no_reason_to_speak = ranges.is_empty() && !service.names_us && told.is_none();
    standing.refusal = if no_reason_to_speak {
        None
    } else if refusal.is_some() {
        refusal
    } else if coming().next().is_some() {
        let message = "waiting for the NetworkPool to grant addresses to the cluster".to_owned();
        Some(refused(reasons::AWAITING_GRANT, message))
    } else if count == 0 {
        let message = "the cluster has no addresses for load balancers; the condition NetworkReady of its TenantCluster says why".to_owned();
        Some(refused(reasons::POOL_EXHAUSTED, message))
    } else {
        let full = format!(
            "all addresses of the cluster are in use ({}: {count})",
            spans(ranges)
        );
        Some(if choice == Choice::Growing {
            let message = format!(
                "{full}; the cluster gets more when a Service has waited for half a minute, or its TenantCluster says under NetworkReady why not"
            );
            refused(reasons::AWAITING_GRANT, message)
        } else {
            let message = format!(
                "{full}; delete a Service of type LoadBalancer, or raise spec.networking.lbPoolSize of the TenantCluster"
            );
            refused(reasons::POOL_EXHAUSTED, message)
        })
    };
}

fn spans(ranges: &[&Range]) -> String {
    let mut spans: Vec<_> = ranges
        .iter()
        .filter(|range| range.open)
        .filter_map(|range| range.span)
        .collect();
    spans.sort_by_key(|span| span.first);
    let spans: Vec<_> = spans.iter().map(ToString::to_string).collect();
    spans.join(", ")
}

/// How many wait.
pub(crate) fn waiting(standings: &BTreeMap<String, Standing>) -> Waiting {
    let waits = || standings.values().filter_map(|standing| standing.waits);
    Waiting {
        count: waits().count(),
        since: waits().min(),
    }
}

/// Whether a range carries our mark as long as it must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkChange {
    /// An address of it is about to be used.
    Put,
    /// No address of it is used, or about to be.
    TakeOff,
}

/// What is to become of our mark on a range. While something that we wrote about a Service is not seen yet (`all_seen`), it may
/// be that an address of the range was written down: the mark stays.
pub(crate) fn mark_change(
    range: &Range,
    services: &[&ServiceFacts],
    standings: &BTreeMap<String, Standing>,
    board: &Board,
    all_seen: bool,
) -> Option<MarkChange> {
    let mut standings = standings.values();
    // What was written down of a range that goes is on its way out, or never comes back.
    let wanted = range.open
        && standings.any(|standing| {
            let mut addresses = standing.owns.iter().chain(&standing.next);
            addresses.any(|address| range.contains(*address))
        });
    if wanted {
        return (!range.ours).then_some(MarkChange::Put);
    }
    let is_shown = || {
        let mut shown = services.iter().flat_map(|service| shown(service));
        shown.any(|address| range.contains(address))
    };
    let is_there = || {
        board
            .possible
            .iter()
            .any(|address| range.contains(*address))
    };
    let is_free = range.ours && all_seen && board.known && !is_there() && !is_shown();
    is_free.then_some(MarkChange::TakeOff)
}

#[cfg(test)]
#[path = "ranges_tests.rs"]
mod tests;
