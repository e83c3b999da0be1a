use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::{
    board::Board,
    facts::Answer,
    testing::{OURSELVES, address, held_service, range, service, tenant, unused_range},
};

fn ranges(allocations: &[AllocationFacts]) -> Vec<Range> {
    let ranges = allocations.iter();
    let ranges = ranges.filter_map(|found| Range::of(found, &tenant(), OURSELVES));
    ranges.collect()
}

/// A Service for which an address was written down.
fn assigned(name: &str, number: u8) -> ServiceFacts {
    ServiceFacts {
        assigned: Some(address(number)),
        ..held_service(name)
    }
}

/// The same, which also shows it.
fn showing(name: &str, number: u8) -> ServiceFacts {
    let told = serde_json::json!({
        "type": "LoadBalancerReady", "status": "True", "reason": "AddressServed", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    ServiceFacts {
        ingress: vec![address(number).to_string()],
        told: serde_json::from_value(told).unwrap(),
        ..assigned(name, number)
    }
}

fn wishing(service: ServiceFacts, number: u8) -> ServiceFacts {
    ServiceFacts {
        wish: Wish::Address(address(number)),
        ..service
    }
}

fn stand(services: &[ServiceFacts], allocations: &[AllocationFacts]) -> BTreeMap<String, Standing> {
    let services: Vec<_> = services.iter().collect();
    standings(&services, &ranges(allocations), Choice::Fixed)
}

fn one(service: &ServiceFacts, allocations: &[AllocationFacts]) -> Standing {
    let mut found = stand(std::slice::from_ref(service), allocations);
    found.remove(&service.uid).unwrap_or_default()
}

fn words(standing: &Standing) -> String {
    let refusal = standing.refusal.as_ref();
    refusal.map_or_else(String::new, |refusal| {
        format!("{}: {}", refusal.reason, refusal.message)
    })
}

#[test]
fn services_get_the_first_addresses_that_are_free_each_another() {
    let services = [service("b"), assigned("a", 100), service("c")];
    let found = stand(&services, &[range(100, 109)]);
    assert_eq!(found["uid-a"].has, Some(address(100)));
    assert_eq!(found["uid-a"].next, None);
    assert_eq!(found["uid-b"].next, Some(address(101)));
    assert_eq!(found["uid-b"].has, None, "it is not written down yet");
    assert_eq!(found["uid-c"].next, Some(address(102)));
}

#[test]
fn a_service_keeps_what_it_has_even_if_only_its_status_says_so() {
    let lost = ServiceFacts {
        assigned: None,
        ..showing("web", 105)
    };
    let found = one(&lost, &[range(100, 109)]);
    assert_eq!(found.has, Some(address(105)));
    assert_eq!(found.next, Some(address(105)), "it is written down again");
}

#[test]
fn addresses_are_used_of_a_range_that_carries_our_mark() {
    let found = one(&assigned("web", 100), &[unused_range(100, 109)]);
    assert_eq!((found.has, found.next), (None, Some(address(100))));
    let theirs = AllocationFacts {
        used_by: Some("somebody-else".to_owned()),
        ..range(100, 109)
    };
    let found = one(&service("web"), &[theirs]);
    assert_eq!((found.has, found.next), (None, None));
}

#[test]
fn what_came_with_the_cluster_is_filled_before_what_was_added() {
    let grown = AllocationFacts {
        origin: Origin::Growth,
        ..range(90, 99)
    };
    let unused = AllocationFacts {
        origin: Origin::Growth,
        ..unused_range(80, 89)
    };
    let next = |allocations: &[AllocationFacts]| one(&service("web"), allocations).next;
    let initial = unused_range(100, 100);
    let all = [unused.clone(), grown.clone(), initial];
    assert_eq!(next(&all), Some(address(100)));
    assert_eq!(
        next(&[unused, grown]),
        Some(address(90)),
        "that is in use anyway"
    );
}

#[test]
fn a_wish_is_granted_inside_of_the_ranges_and_refused_in_words_elsewhere() {
    let all = [range(100, 103), range(110, 111)];
    let granted = one(&wishing(service("web"), 102), &all);
    assert_eq!(granted.next, Some(address(102)));
    let outside = one(&wishing(service("web"), 150), &all);
    assert_eq!(
        words(&outside),
        "PinnedRangeOutside: 10.213.76.150 is not an address of this cluster; ask for one of 10.213.76.100-10.213.76.103, 10.213.76.110-10.213.76.111, or for none in particular"
    );
    assert_eq!(outside.waits, None, "more addresses would not help");
    let services = [assigned("first", 102), wishing(service("rival"), 102)];
    let found = stand(&services, &all);
    assert_eq!(
        words(&found["uid-rival"]),
        "PinnedRangeTaken: 10.213.76.102 is in use by the Service shop/first; ask for another address, or for none in particular"
    );
}

#[test]
fn whoever_takes_any_address_leaves_the_one_that_another_asks_for() {
    let services = [service("any"), wishing(service("picky"), 100)];
    let found = stand(&services, &[range(100, 101)]);
    assert_eq!(found["uid-picky"].next, Some(address(100)));
    assert_eq!(found["uid-any"].next, Some(address(101)));
}

#[test]
fn the_old_address_stays_while_the_new_one_cannot_be_had() {
    let moved = wishing(showing("web", 101), 150);
    let found = one(&moved, &[range(100, 103)]);
    assert_eq!(found.has, Some(address(101)));
    assert_eq!(found.next, None);
    assert!(found.refusal.is_some());
}

#[test]
fn a_full_range_is_told_and_counted() {
    let created = Timestamp::from_second(1_000).unwrap();
    let late = ServiceFacts {
        created,
        ..service("late")
    };
    let found = stand(&[assigned("web", 100), late], &[range(100, 100)]);
    assert_eq!(
        words(&found["uid-late"]),
        "PoolExhausted: all addresses of the cluster are in use (10.213.76.100: 1); delete a Service of type LoadBalancer, or raise spec.networking.lbPoolSize of the TenantCluster"
    );
    let expected = Waiting {
        count: 1,
        since: Some(created),
    };
    assert_eq!(waiting(&found), expected);
    assert_eq!(waiting(&stand(&[], &[])), Waiting::default());
}

#[test]
fn where_ranges_grow_by_themselves_nobody_is_told_to_do_anything() {
    let (web, late) = (assigned("web", 100), service("late"));
    let full = ranges(&[range(100, 100)]);
    let found = standings(&[&web, &late], &full, Choice::Growing);
    assert_eq!(
        words(&found["uid-late"]),
        "AwaitingGrant: all addresses of the cluster are in use (10.213.76.100: 1); the cluster gets more when a Service has waited for half a minute, or its TenantCluster says under NetworkReady why not"
    );
    assert_eq!(waiting(&found).count, 1);
}

#[test]
fn a_cluster_without_ranges_may_have_somebody_else_for_its_services() {
    let silent = one(&service("web"), &[]);
    assert_eq!(silent.refusal, None);
    assert!(silent.waits.is_some(), "but it is known that it waits");
    let by_name = ServiceFacts {
        names_us: true,
        ..service("web")
    };
    assert!(words(&one(&by_name, &[])).starts_with("PoolExhausted: the cluster has no addresses"));
    let served_by_another = ServiceFacts {
        ingress: vec!["192.0.2.1".to_owned()],
        ..service("web")
    };
    let left_alone = one(&served_by_another, &[range(100, 109)]);
    assert_eq!(left_alone, Standing::default());
}

#[test]
fn a_range_that_is_not_granted_yet_is_waited_for_and_its_refusal_passed_on() {
    let coming = AllocationFacts {
        answer: Answer::Awaited,
        address: None,
        last: None,
        ..unused_range(100, 109)
    };
    let waits = one(&service("web"), std::slice::from_ref(&coming));
    assert!(words(&waits).starts_with("AwaitingGrant: "), "{waits:?}");
    let refused = AllocationFacts {
        answer: Answer::Refused(Refusal {
            reason: "PoolExhausted".to_owned(),
            message: "spec.count: nothing is left".to_owned(),
        }),
        ..coming
    };
    let told = one(&service("web"), &[refused]);
    assert_eq!(words(&told), "PoolExhausted: spec.count: nothing is left");
}

#[test]
fn services_of_a_range_that_goes_are_moved_or_refused() {
    let going = AllocationFacts {
        deleting: true,
        ..range(100, 109)
    };
    let services = [showing("a", 100), showing("b", 101)];
    let found = stand(&services, &[going.clone(), range(110, 110)]);
    assert_eq!(found["uid-a"].has, None);
    assert_eq!(found["uid-a"].next, Some(address(110)));
    assert!(
        words(&found["uid-b"]).starts_with("PoolExhausted"),
        "{found:?}"
    );
}

#[test]
fn nothing_new_is_chosen_while_a_write_is_not_seen_yet() {
    let web = service("web");
    let found = standings(&[&web], &ranges(&[range(100, 109)]), Choice::None);
    assert_eq!(found["uid-web"], Standing::default());
}

#[test]
fn an_address_that_two_services_claim_is_the_ones_that_shows_it() {
    let found = stand(
        &[assigned("forged", 100), showing("web", 100)],
        &[range(100, 109)],
    );
    assert_eq!(found["uid-web"].has, Some(address(100)));
    assert_eq!(found["uid-forged"].has, None);
    assert_eq!(found["uid-forged"].next, Some(address(101)));
}

#[test]
fn a_range_carries_our_mark_exactly_as_long_as_it_is_used() {
    let clear = Board {
        known: true,
        ..Board::default()
    };
    let change = |services: &[ServiceFacts], allocation: AllocationFacts, board: &Board| {
        let found = stand(services, std::slice::from_ref(&allocation));
        let services: Vec<_> = services.iter().collect();
        let range = &ranges(&[allocation])[0];
        mark_change(range, &services, &found, board, true)
    };
    let unused = || unused_range(100, 109);
    let marked = || range(100, 109);
    let going = || AllocationFacts {
        deleting: true,
        ..marked()
    };
    let put = Some(MarkChange::Put);
    let take_off = Some(MarkChange::TakeOff);
    assert_eq!(change(&[], unused(), &clear), None);
    assert_eq!(change(&[service("web")], unused(), &clear), put);
    assert_eq!(change(&[service("web")], marked(), &clear), None);
    assert_eq!(change(&[], marked(), &clear), take_off);
    assert_eq!(
        change(&[], marked(), &Board::default()),
        None,
        "nobody has looked"
    );
    let served = Board {
        possible: [address(104)].into(),
        ..clear.clone()
    };
    assert_eq!(change(&[], marked(), &served), None, "a machine has one");
    assert_eq!(
        change(&[showing("web", 100)], going(), &clear),
        None,
        "it is shown"
    );
    assert_eq!(change(&[assigned("web", 100)], going(), &clear), take_off);
}

#[test]
fn a_mark_stays_while_an_address_may_have_been_written_down() {
    let clear = Board {
        known: true,
        ..Board::default()
    };
    let marked = &ranges(&[range(100, 109)])[0];
    let none = BTreeMap::new();
    assert_eq!(mark_change(marked, &[], &none, &clear, false), None);
    assert_eq!(
        mark_change(marked, &[], &none, &clear, true),
        Some(MarkChange::TakeOff)
    );
}

fn any_service() -> impl Strategy<Value = ServiceFacts> {
    let number = || prop::option::of(100_u8..112);
    let parts = (
        0_u8..12,
        number(),
        number(),
        number(),
        any::<[bool; 2]>(),
        0_i64..4,
    );
    parts.prop_map(
        |(name, assigned, shown, wish, [deleting, told], created)| ServiceFacts {
            created: Timestamp::from_second(created).unwrap(),
            deleting,
            assigned: assigned.map(address),
            ingress: shown
                .map(|number| address(number).to_string())
                .into_iter()
                .collect(),
            told: showing("x", 1).told.filter(|_| told),
            wish: wish.map_or(Wish::Any, |number| Wish::Address(address(number))),
            ..held_service(&format!("s{name}"))
        },
    )
}

proptest! {
    /// Whatever stands on the Services: no address is two Services', and none is outside of the ranges.
    #[test]
    fn an_address_is_never_two_services(services in prop::collection::vec(any_service(), 0..12)) {
        let mut services = services;
        services.sort_by(|one, other| one.uid.cmp(&other.uid));
        services.dedup_by(|one, other| one.uid == other.uid);
        let found = stand(&services, &[range(100, 104), unused_range(108, 109)]);
        let mut given = BTreeMap::new();
        for (uid, standing) in &found {
            let addresses = standing.has.iter().chain(&standing.next).chain(&standing.owns);
            for address in addresses {
                let other = given.insert(*address, uid);
                prop_assert!(other.is_none_or(|other| other == uid), "{address}: {other:?} and {uid}");
            }
            for address in standing.has.iter().chain(&standing.next) {
                let number = address.octets()[3];
                prop_assert!((100..=104).contains(&number) || (108..=109).contains(&number));
            }
        }
    }

    /// What was chosen is what is there after it was written down.
    #[test]
    fn what_was_written_down_stays(services in prop::collection::vec(any_service(), 0..12)) {
        let mut services = services;
        services.sort_by(|one, other| one.uid.cmp(&other.uid));
        services.dedup_by(|one, other| one.uid == other.uid);
        let all = [range(100, 104)];
        let before = stand(&services, &all);
        for service in &mut services {
            if let Some(next) = before.get(&service.uid).and_then(|standing| standing.next) {
                service.assigned = Some(next);
            }
        }
        let after = stand(&services, &all);
        for (uid, standing) in &before {
            if let Some(next) = standing.next {
                prop_assert_eq!(after[uid].has, Some(next));
            }
        }
    }
}
