//! Which address a Service has, and what is to become of the allocations made for it.

use std::net::Ipv4Addr;

use crate::{
    cluster::Counter,
    facts::{AllocationFacts, ServiceFacts, Wish},
};

/// How a Service stands with its allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing<'a> {
    /// The one whose address it has.
    pub(crate) serving: Option<&'a AllocationFacts>,
    /// Whether that is what it asks for now.
    pub(crate) satisfied: bool,
    /// The one that asks for what it asks for now, if that is under way.
    pub(crate) asking: Option<&'a AllocationFacts>,
    /// Those that nobody needs any more, and those that somebody wants back.
    pub(crate) surplus: Vec<&'a AllocationFacts>,
}

/// What a Service has. An address that it asked for earlier stays its own until the pool grants what it asks for now.
pub(crate) fn standing<'a>(
    service: &ServiceFacts,
    allocations: &'a [AllocationFacts],
    counter: &Counter,
) -> Standing<'a> {
    let satisfies = |allocation: &&AllocationFacts| match service.wish {
        Wish::Any => true,
        Wish::Address(address) => allocation.address == Some(address),
        Wish::Impossible(_) => false,
    };
    let usable = || allocations.iter().filter(|found| found.is_usable());
    let fitting = usable().find(satisfies);
    let serving = fitting.or_else(|| usable().next());
    let possible = service.wish.is_possible();
    let name = possible.then(|| counter.name(service, service.wish.pinned()));
    let asking = allocations.iter().find(|allocation| {
        let is_asked = name.as_deref() == Some(allocation.key.name.as_str());
        fitting.is_none() && is_asked
    });
    let needed = |allocation: &AllocationFacts| {
        let is = |other: Option<&AllocationFacts>| {
            other.is_some_and(|other| other.uid == allocation.uid)
        };
        allocation.in_use && !allocation.deleting && (is(serving) || is(asking))
    };
    Standing {
        serving,
        satisfied: fitting.is_some(),
        asking,
        surplus: allocations
            .iter()
            .filter(|allocation| !needed(allocation))
            .collect(),
    }
}

/// The address that some machine shall serve for a Service: one that is granted, of a Service that cannot vanish meanwhile.
pub(crate) fn served_address(
    service: &ServiceFacts,
    allocations: &[AllocationFacts],
    counter: &Counter,
) -> Option<Ipv4Addr> {
    if !service.is_wanting() || !service.is_held() {
        return None;
    }
    standing(service, allocations, counter).serving?.address
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::testing::{address, asked, counter, granted, held_service, service};

    #[test]
    fn an_address_is_served_when_it_is_granted_and_the_service_is_held() {
        let web = held_service("web");
        let grant = [granted(&web, 101)];
        let served = |service: &ServiceFacts, allocations: &[AllocationFacts]| {
            served_address(service, allocations, &counter())
        };
        assert_eq!(served(&web, &grant), Some(address(101)));
        assert_eq!(served(&web, &[asked(&web)]), None);
        assert_eq!(served(&service("web"), &grant), None, "it is not held");
        let going = ServiceFacts {
            deleting: true,
            ..web.clone()
        };
        assert_eq!(served(&going, &grant), None);
        let unmarked = AllocationFacts {
            in_use: false,
            ..granted(&web, 101)
        };
        assert_eq!(served(&web, &[unmarked]), None, "others may get it");
    }

    #[test]
    fn the_old_address_stays_until_the_new_one_is_granted() {
        let web = held_service("web");
        let old = granted(&web, 101);
        let moved = ServiceFacts {
            wish: Wish::Address(address(102)),
            ..web
        };
        let waiting = [old.clone(), asked(&moved)];
        let found = standing(&moved, &waiting, &counter());
        assert_eq!(found.serving, Some(&old));
        assert!(!found.satisfied);
        assert_eq!(found.surplus, Vec::<&AllocationFacts>::new());

        let both = [old.clone(), granted(&moved, 102)];
        let found = standing(&moved, &both, &counter());
        assert_eq!(found.serving, Some(&both[1]));
        assert!(found.satisfied);
        assert_eq!(found.surplus, [&old]);
    }

    #[test]
    fn a_service_that_has_the_address_it_asks_for_asks_no_more() {
        let web = held_service("web");
        let grant = [granted(&web, 101)];
        let pinned = ServiceFacts {
            wish: Wish::Address(address(101)),
            ..web
        };
        let found = standing(&pinned, &grant, &counter());
        assert!(found.satisfied);
        assert_eq!(found.asking, None);
    }

    #[test]
    fn an_allocation_that_somebody_deletes_is_given_back() {
        let web = held_service("web");
        let deleted = [AllocationFacts {
            deleting: true,
            ..granted(&web, 101)
        }];
        let found = standing(&web, &deleted, &counter());
        assert_eq!(found.serving, None);
        assert_eq!(found.surplus, [&deleted[0]]);
    }
}
