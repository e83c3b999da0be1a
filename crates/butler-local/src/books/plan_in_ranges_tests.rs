use butler_api::keys::finalizers::SERVICE_LOAD_BALANCER;
use pretty_assertions::assert_eq;

use super::*;
use crate::{
    board::Seat,
    facts::AllocationFacts,
    ranges::{Choice, standings},
    testing::{OURSELVES, address, machine_name, range, service, tenant, unused_range},
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
    let ranges = allocations.iter();
    let ranges: Vec<_> = ranges
        .filter_map(|found| Range::of(found, &tenant(), OURSELVES))
        .collect();
    let found = standings(&[service], &ranges, Choice::Fixed);
    let standing = found.get(&service.uid).cloned().unwrap_or_default();
    plan(service, &standing, &ranges, board, Timestamp::UNIX_EPOCH)
}

/// The same Service after its one step was taken.
fn after(service: &ServiceFacts, steps: &[Step]) -> ServiceFacts {
    match steps {
        [Step::Show(showing)] => ServiceFacts {
            ingress: showing.ingress.clone(),
            told: showing.conditions.first().cloned(),
            ..service.clone()
        },
        [Step::Record(record)] => ServiceFacts {
            assigned: record.address,
            finalizers: record.finalizers.clone(),
            ..service.clone()
        },
        other => panic!("one step is due: {other:?}"),
    }
}

#[test]
fn an_address_is_written_down_when_its_range_is_marked_and_shown_when_it_is_served() {
    let new = service("web");
    assert_eq!(steps(&new, &[unused_range(100, 109)], &board(&[])), []);
    let marked = [range(100, 109)];
    let recorded = after(&new, &steps(&new, &marked, &board(&[])));
    assert_eq!(recorded.assigned, Some(address(100)));
    assert_eq!(
        recorded.finalizers,
        [SERVICE_LOAD_BALANCER],
        "in the same write"
    );
    assert_eq!(
        steps(&recorded, &marked, &board(&[])),
        [],
        "no machine has it yet"
    );
    let shown = after(&recorded, &steps(&recorded, &marked, &board(&[100])));
    assert_eq!(shown.ingress, ["10.213.76.100"]);
    assert_eq!(
        steps(&shown, &marked, &board(&[100])),
        [],
        "at rest nothing is written"
    );
}

#[test]
fn a_service_that_goes_gives_its_address_back_in_order() {
    let marked = [range(100, 109)];
    let new = service("web");
    let recorded = after(&new, &steps(&new, &marked, &board(&[])));
    let mut web = after(&recorded, &steps(&recorded, &marked, &board(&[100])));
    web.balanced = false;
    assert_eq!(steps(&web, &marked, &board(&[100])), [], "still served");
    let hidden = after(&web, &steps(&web, &marked, &board(&[])));
    assert_eq!(hidden.ingress, Vec::<String>::new());
    let let_go = after(&hidden, &steps(&hidden, &marked, &board(&[])));
    assert_eq!((let_go.assigned, let_go.finalizers.len()), (None, 0));
    let silent = after(&let_go, &steps(&let_go, &marked, &board(&[])));
    assert_eq!(silent.told, None);
    assert_eq!(steps(&silent, &marked, &board(&[])), []);
}

#[test]
fn a_service_moves_out_of_a_range_that_goes_and_says_so_if_it_cannot() {
    let marked = [range(100, 109)];
    let new = service("web");
    let recorded = after(&new, &steps(&new, &marked, &board(&[])));
    let web = after(&recorded, &steps(&recorded, &marked, &board(&[100])));
    let going = AllocationFacts {
        deleting: true,
        ..range(100, 109)
    };
    let moved = after(
        &web,
        &steps(&web, &[going.clone(), range(110, 119)], &board(&[100])),
    );
    assert_eq!(moved.assigned, Some(address(110)));

    let homeless = after(&web, &steps(&web, &[going], &board(&[])));
    assert_eq!(homeless.ingress, Vec::<String>::new());
    assert_eq!(homeless.told.unwrap().reason, "PoolExhausted");
}

#[test]
fn services_that_are_none_of_ours_are_left_alone() {
    let foreign = ServiceFacts {
        balanced: false,
        deleting: true,
        finalizers: vec![SERVICE_LOAD_BALANCER.to_owned()],
        ..service("theirs")
    };
    assert_eq!(steps(&foreign, &[range(100, 109)], &board(&[])), []);
    assert_eq!(steps(&service("web"), &[], &board(&[])), []);
}
