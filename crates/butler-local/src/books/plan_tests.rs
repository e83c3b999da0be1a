use pretty_assertions::assert_eq;

use super::*;
use crate::{
    facts::Answer,
    testing::{address, asked, counter, granted, held_service, machine_name, service},
};

/// What is known when these addresses are on machine `m1`.
fn board(served: &[u8]) -> Board {
    let seat = |number: &u8| (address(*number), Seat::On(machine_name("m1")));
    Board {
        known: true,
        possible: served.iter().copied().map(address).collect(),
        seats: served.iter().map(seat).collect(),
    }
}

fn steps(service: &ServiceFacts, allocations: &[AllocationFacts], board: &Board) -> Vec<Step> {
    plan(
        service,
        allocations,
        &counter(),
        board,
        Timestamp::UNIX_EPOCH,
    )
}

/// The same Service after a showing was written.
fn shown(service: &ServiceFacts, steps: &[Step]) -> ServiceFacts {
    let [Step::Show(showing)] = steps else {
        panic!("nothing but a showing is due: {steps:?}");
    };
    ServiceFacts {
        ingress: showing.ingress.clone(),
        told: showing.conditions.first().cloned(),
        ..service.clone()
    }
}

/// A Service whose address is served.
fn served(name: &str) -> (ServiceFacts, AllocationFacts) {
    let service = held_service(name);
    let grant = granted(&service, 101);
    let steps = steps(&service, std::slice::from_ref(&grant), &board(&[101]));
    (shown(&service, &steps), grant)
}

fn words(service: &ServiceFacts) -> (String, String, String) {
    let told = service.told.clone().unwrap();
    (told.status, told.reason, told.message)
}

fn texts(status: &str, reason: &str, message: &str) -> (String, String, String) {
    (status.to_owned(), reason.to_owned(), message.to_owned())
}

#[test]
fn a_new_service_asks_is_held_and_says_that_it_waits() {
    let new = service("web");
    let first = steps(&new, &[], &board(&[]));
    assert_eq!(
        first,
        [Step::Ask(Box::new(counter().allocation(&new, None)))]
    );
    let waiting = [asked(&new)];
    let second = steps(&new, &waiting, &board(&[]));
    let mark = finalizers::SERVICE_LOAD_BALANCER.to_owned();
    assert_eq!(second, [Step::Hold(vec![mark])]);
    let held = held_service("web");
    let told = shown(&held, &steps(&held, &waiting, &board(&[])));
    let message = "waiting for the NetworkPool to grant an address";
    assert_eq!(words(&told), texts("False", "AwaitingGrant", message));
    assert_eq!(
        steps(&told, &waiting, &board(&[])),
        [],
        "it waits in silence"
    );
}

#[test]
fn an_address_is_shown_once_a_machine_serves_it() {
    let held = held_service("web");
    let grant = [granted(&held, 101)];
    assert_eq!(
        steps(&held, &grant, &board(&[])),
        [],
        "nobody has looked at it yet"
    );
    let due = steps(&held, &grant, &board(&[101]));
    let told = shown(&held, &due);
    assert_eq!(told.ingress, ["10.213.76.101"]);
    let message = "machine m1 serves 10.213.76.101";
    assert_eq!(words(&told), texts("True", "AddressServed", message));
    assert_eq!(
        steps(&told, &grant, &board(&[101])),
        [],
        "at rest nothing is written"
    );
    let [Step::Show(showing)] = due.as_slice() else {
        panic!("{due:?}");
    };
    assert_eq!(
        showing.note,
        Some(Note::normal(reasons::ENSURED_LOAD_BALANCER, message))
    );
}

#[test]
fn an_address_that_moves_is_shown_all_the_while() {
    let (service, grant) = served("web");
    let grant = [grant];
    let mut moving = board(&[101]);
    moving.seats.clear();
    assert_eq!(steps(&service, &grant, &moving), []);
    moving
        .seats
        .insert(address(101), Seat::Nowhere("no machine"));
    let homeless = shown(&service, &steps(&service, &grant, &moving));
    assert_eq!(homeless.ingress, ["10.213.76.101"]);
    let told = texts("False", "NoHealthyMachine", "no machine");
    assert_eq!(words(&homeless), told);
    moving
        .seats
        .insert(address(101), Seat::On(machine_name("m2")));
    let moved = shown(&homeless, &steps(&homeless, &grant, &moving));
    assert_eq!(words(&moved).2, "machine m2 serves 10.213.76.101");
}

#[test]
fn an_address_that_no_machine_has_served_yet_is_not_shown() {
    let held = held_service("web");
    let grant = [granted(&held, 101)];
    let mut nowhere = board(&[]);
    nowhere
        .seats
        .insert(address(101), Seat::Nowhere("no machine"));
    let told = shown(&held, &steps(&held, &grant, &nowhere));
    assert_eq!(told.ingress, Vec::<String>::new());
}

#[test]
fn a_refusal_is_told_in_the_pools_words() {
    let held = held_service("web");
    let refused = [AllocationFacts {
        answer: Answer::Refused(Refusal {
            reason: "PoolExhausted".to_owned(),
            message: "spec.count: nothing is left".to_owned(),
        }),
        ..asked(&held)
    }];
    let due = steps(&held, &refused, &board(&[]));
    let told = shown(&held, &due);
    let expected = texts("False", "PoolExhausted", "spec.count: nothing is left");
    assert_eq!(words(&told), expected);
    let [Step::Show(showing)] = due.as_slice() else {
        panic!("{due:?}");
    };
    let note = Note::warning("SyncLoadBalancerFailed", "spec.count: nothing is left");
    assert_eq!(showing.note, Some(note));
    assert_eq!(steps(&told, &refused, &board(&[])), [], "it is told once");
}

#[test]
fn a_wish_that_makes_no_sense_is_told_and_the_old_address_stays() {
    let (service, grant) = served("web");
    let senseless = ServiceFacts {
        wish: Wish::Impossible("spec.loadBalancerIP: no".to_owned()),
        ..service
    };
    let told = shown(&senseless, &steps(&senseless, &[grant], &board(&[101])));
    assert_eq!(told.ingress, ["10.213.76.101"]);
    assert_eq!(
        words(&told),
        texts("False", "InvalidAddress", "spec.loadBalancerIP: no")
    );
}

#[test]
fn another_wish_replaces_the_address_once_it_is_granted() {
    let (service, old) = served("web");
    let moved = ServiceFacts {
        wish: Wish::Address(address(102)),
        ..service
    };
    let asking = steps(&moved, std::slice::from_ref(&old), &board(&[101]));
    let wanted = counter().allocation(&moved, Some(address(102)));
    assert!(asking.contains(&Step::Ask(Box::new(wanted))), "{asking:?}");

    let both = [old.clone(), granted(&moved, 102)];
    let told = shown(&moved, &steps(&moved, &both, &board(&[102])));
    assert_eq!(told.ingress, ["10.213.76.102"]);
    let release = Release::of(&old).map(Step::Release).unwrap();
    assert_eq!(steps(&told, &both, &board(&[102])), [release]);
    assert_eq!(
        steps(&told, &both, &board(&[101, 102])),
        [],
        "it is still somewhere"
    );
}

type Leave = fn(&mut ServiceFacts);

/// Whether it is deleted or becomes something else, the steps are the same; the caches show each before the next comes.
#[test]
fn what_was_given_is_given_back_in_order() {
    let ways_out: [(&str, Leave); 2] = [
        ("deleted", |service| service.deleting = true),
        ("of another type", |service| service.balanced = false),
    ];
    for (why, leave) in ways_out {
        let (mut service, grant) = served("web");
        leave(&mut service);
        let grants = [grant.clone()];
        assert_eq!(
            steps(&service, &grants, &board(&[101])),
            [],
            "{why}: still served"
        );
        assert_eq!(
            steps(&service, &grants, &Board::default()),
            [],
            "{why}: nobody has looked"
        );

        let clear = board(&[]);
        let mut service = shown(&service, &steps(&service, &grants, &clear));
        assert_eq!(service.ingress, Vec::<String>::new(), "{why}");
        assert_eq!(words(&service).1, "Releasing", "{why}");

        let release = Release::of(&grant).map(Step::Release).unwrap();
        assert_eq!(steps(&service, &grants, &clear), [release], "{why}");
        let released = [AllocationFacts {
            deleting: true,
            in_use: false,
            ..grant
        }];
        for allocations in [released.as_slice(), &[]] {
            let due = steps(&service, allocations, &clear);
            assert_eq!(due, [Step::Hold(Vec::new())], "{why}");
        }
        service.finalizers.clear();
        let due = steps(&service, &[], &clear);
        if service.deleting {
            assert_eq!(due, [], "{why}");
        } else {
            assert_eq!(due, [Step::Show(Showing::default())], "{why}");
            service.told = None;
            assert_eq!(steps(&service, &[], &clear), [], "{why}");
        }
    }
}

#[test]
fn marks_of_others_are_left_alone() {
    let foreign = ServiceFacts {
        balanced: false,
        deleting: true,
        ..held_service("theirs")
    };
    assert_eq!(steps(&foreign, &[], &board(&[])), []);
}

#[test]
fn an_allocation_that_somebody_deletes_is_given_back_and_asked_for_again() {
    let (service, grant) = served("web");
    let deleted = AllocationFacts {
        deleting: true,
        ..grant
    };
    let told = shown(
        &service,
        &steps(&service, std::slice::from_ref(&deleted), &board(&[101])),
    );
    assert_eq!(told.ingress, Vec::<String>::new());
    let release = Release::of(&deleted).map(Step::Release).unwrap();
    assert_eq!(steps(&told, &[deleted], &board(&[])), [release]);
    let again = counter().allocation(&told, None);
    assert_eq!(steps(&told, &[], &board(&[])), [Step::Ask(Box::new(again))]);
}

#[test]
fn allocations_of_a_service_that_is_gone_are_given_back_when_no_machine_has_the_address() {
    let orphan = [granted(&service("gone"), 101)];
    assert_eq!(plan_orphans(&orphan, &board(&[101])), []);
    assert_eq!(plan_orphans(&orphan, &Board::default()), []);
    let release = Release::of(&orphan[0]).map(Step::Release).unwrap();
    assert_eq!(plan_orphans(&orphan, &board(&[])), [release]);
}
