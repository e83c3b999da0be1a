//! What a pool says about itself, and how it goes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::{
    tests::{asks, deeds, granting, has, pool, quiet, shown, small, with},
    *,
};
use crate::{
    ipam::ledger::tests::Shelf,
    testing::{at, told},
};

fn deleted(mut pool: NetworkPool) -> NetworkPool {
    pool.metadata.deletion_timestamp = Some(Time(at(5)));
    pool
}

/// Plans from what was said before, and keeps what is said now.
fn goes_on(pool: &mut NetworkPool, world: &World, second: i64) -> Plan<NetworkPoolStatus, Effect> {
    let plan = plan(pool, world, at(second));
    pool.status = Some(plan.status.clone());
    plan
}

#[test]
fn an_invalid_spec_lists_all_that_is_wrong_and_keeps_the_numbers() {
    let mut pool = small();
    goes_on(&mut pool, &quiet(&small()), 10);
    pool.spec.cidr = "10.40.0.1/28".to_owned();
    pool.spec.tenant_allocation =
        serde_json::from_value(json!({ "start": "10.40.0.9", "end": "ten" })).ok();
    pool.metadata.generation = Some(2);
    let world = with(quiet(&pool), [asks("shop", 1, json!({ "count": 1 }))]);
    insta::assert_snapshot!(shown(&plan(&pool, &world, at(20))), @r#"
    Disjoint=True NoOverlap
    CapacityWarning=False UtilizationBelowThreshold: less than 70 percent of the addresses are in use
    CapacityCritical=False UtilizationBelowThreshold: less than 85 percent of the addresses are in use
    CapacityExhausted=False UtilizationBelowThreshold: less than 95 percent of the addresses are in use
    Ready=False ValidationFailed: spec.cidr: CIDR "10.40.0.1/28" is not valid: the address has bits beyond the prefix; did you mean 10.40.0.0/28?; spec.tenantAllocation: address "ten" is not valid: write an IPv4 or IPv6 address, for example 10.40.1.100 or fd00::10; correct it
    status.allocatedIPs: 0
    status.allocationCount: 0
    status.availableIPs: 14
    status.fragmentationPercent: 0
    status.infrastructureConsumedIPs: 0
    status.largestFreeBlock: 14
    status.ledgerRevision: 0
    status.poolSizeIPs: 16
    status.reservedIPs: 0
    status.totalIPs: 14
    status.unmanagedScopeIPs: 0
    "#);
}

#[test]
fn an_invalid_pool_takes_back_what_is_given_back_and_can_go() {
    let mut pool = small();
    pool.spec.cidr = "10.40.0.1/28".to_owned();
    let mut shelf = Shelf::granting(&ObjectKey::of(&pool), &[("10.40.0.1", "gone")]);
    let mut world = with(quiet(&pool), [asks("shop", 1, json!({ "count": 1 }))]);
    world.gone.insert("gone-uid".to_owned());
    world.around.ledger = shelf.ledger();
    let withdrawing = plan(&pool, &world, at(10));
    assert_eq!(withdrawing.effects.len(), 1);
    shelf.write_all(&shelf.ledger().rewrite(
        &ObjectKey::of(&pool),
        &shelf.ledger().grants().cloned().collect(),
        &[],
    ));
    world.around.ledger = shelf.ledger();
    assert_eq!(plan(&pool, &world, at(11)).effects, []);
    let pool = deleted(pool);
    insta::assert_snapshot!(shown(&plan(&pool, &world, at(12))), @r#"
    Ready=False ValidationFailed: spec.cidr: CIDR "10.40.0.1/28" is not valid: the address has bits beyond the prefix; did you mean 10.40.0.0/28?; correct it
    remove rack.0a280000 at v2
    "#);
    world.around.ledger = Shelf::default().ledger();
    assert_eq!(plan(&pool, &world, at(13)).next, Next::Done);
}

#[test]
fn a_page_that_cannot_be_read_stops_everything() {
    let pool = deleted(small());
    let mut world = granting(quiet(&pool), &[("10.40.0.1", "gone")]);
    world.gone.insert("gone-uid".to_owned());
    world.around.unreadable = Some(
        "the NetworkPoolLedger butler-system/rack.0a280000 cannot be read: no address".to_owned(),
    );
    insta::assert_snapshot!(shown(&plan(&pool, &world, at(10))), @"
    Ready=False Failed: the NetworkPoolLedger butler-system/rack.0a280000 cannot be read: no address; nothing is granted until it is corrected
    ");
}

#[test]
fn a_pool_in_use_does_not_go_and_says_for_whom() {
    let pool = deleted(small());
    let grants = [
        ("10.40.0.1", "bank"),
        ("10.40.0.2", "shop"),
        ("10.40.0.3", "zoo"),
        ("10.40.0.4", "museum"),
        ("10.40.0.5", "theatre"),
    ];
    let world = granting(quiet(&pool), &grants);
    let world = with(world, [asks("late", 1, json!({ "count": 1 }))]);
    insta::assert_snapshot!(shown(&plan(&pool, &world, at(10))), @"
    Ready=False Deleting: goes away when these IPAllocations have given their addresses back: bank, shop, zoo and 2 more; delete them or their owners
    Disjoint=True NoOverlap
    CapacityWarning=False UtilizationBelowThreshold: less than 70 percent of the addresses are in use
    CapacityCritical=False UtilizationBelowThreshold: less than 85 percent of the addresses are in use
    CapacityExhausted=False UtilizationBelowThreshold: less than 95 percent of the addresses are in use
    status.allocatedIPs: 5
    status.allocationCount: 5
    status.availableIPs: 9
    status.fragmentationPercent: 0
    status.infrastructureConsumedIPs: 0
    status.largestFreeBlock: 9
    status.ledgerRevision: 1
    status.poolSizeIPs: 16
    status.reservedIPs: 0
    status.totalIPs: 14
    status.unmanagedScopeIPs: 0
    ");
}

#[test]
fn a_pool_that_nobody_uses_takes_its_pages_with_it() {
    let pool = deleted(small());
    let key = ObjectKey::of(&pool);
    let mut shelf = Shelf::granting(&key, &[("10.40.0.1", "gone")]);
    let mut world = quiet(&pool);
    world.gone.insert("gone-uid".to_owned());
    world.around.ledger = shelf.ledger();
    let withdrawing = plan(&pool, &world, at(10));
    insta::assert_snapshot!(deeds(&withdrawing), @"
    allocated 0 in 0, available 14, ledger 1
    write rack.0a280000 (over v1): nothing
    ");
    for effect in &withdrawing.effects {
        let Effect::Write(page) = effect else {
            panic!("nothing else")
        };
        assert!(shelf.write(page));
    }
    world.around.ledger = shelf.ledger();
    let removing = plan(&pool, &world, at(11));
    insta::assert_snapshot!(deeds(&removing), @"
    allocated 0 in 0, available 14, ledger 1
    remove rack.0a280000 at v2
    ");
    assert_eq!(removing.next, Next::AwaitChange);
    let going = plan(&pool, &quiet(&pool), at(12));
    assert_eq!((going.effects, going.next), (Vec::new(), Next::Done));
}

#[test]
fn a_page_that_somebody_deletes_stays_as_long_as_its_pool() {
    let pool = small();
    let key = ObjectKey::of(&pool);
    let mut shelf = Shelf::granting(&key, &[("10.40.0.1", "shop")]);
    shelf.delete_all();
    let mut world = with(quiet(&pool), [has("shop", "10.40.0.1", "10.40.0.1")]);
    world.around.ledger = shelf.ledger();
    assert_eq!(plan(&pool, &world, at(10)).effects, []);
    let grants = shelf.ledger().grants().cloned().collect();
    shelf.write_all(&shelf.ledger().rewrite(&key, &grants, &[]));
    world.around.claimants.clear();
    world.around.ledger = shelf.ledger();
    assert_eq!(plan(&pool, &world, at(11)).effects, []);
}

/// A pool of 14 addresses of which the first so many are granted.
fn filled(count: u8) -> World {
    let pool = small();
    let range = format!("10.40.0.1-10.40.0.{count}");
    if count == 0 {
        return quiet(&pool);
    }
    granting(quiet(&pool), &[(&range, "shop")])
}

#[test]
fn each_tier_of_capacity_is_told_once_and_so_is_the_return() {
    let mut pool = small();
    let mut told = Vec::new();
    // 9 of 14 are 64 percent, 10 are 71, 12 are 85, 14 are 100.
    for (second, count) in [0, 9, 10, 11, 12, 14, 14, 12, 10, 9, 0]
        .into_iter()
        .enumerate()
    {
        let plan = goes_on(&mut pool, &filled(count), i64::try_from(second).unwrap());
        let raised = plan.status.conditions.iter().filter(|condition| {
            condition.type_.starts_with("Capacity") && condition.status == "True"
        });
        let notes: Vec<_> = plan.notes.iter().map(|note| note.reason.as_str()).collect();
        told.push(format!("{count}: {} raised, {notes:?}", raised.count()));
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    0: 0 raised, []
    9: 0 raised, []
    10: 1 raised, ["PoolCapacityWarning"]
    11: 1 raised, []
    12: 2 raised, ["PoolCapacityCritical"]
    14: 3 raised, ["PoolCapacityExhausted"]
    14: 3 raised, []
    12: 2 raised, []
    10: 1 raised, []
    9: 0 raised, ["PoolCapacityRecovered"]
    0: 0 raised, []
    "#);
}

#[test]
fn a_full_pool_says_so_in_full() {
    insta::assert_snapshot!(told(&plan(&small(), &filled(14), at(10))), @"
    Ready=True Ready
    Disjoint=True NoOverlap
    CapacityWarning=True UtilizationAboveThreshold: at least 70 percent of the addresses are in use
    CapacityCritical=True UtilizationAboveThreshold: at least 85 percent of the addresses are in use
    CapacityExhausted=True UtilizationAboveThreshold: at least 95 percent of the addresses are in use
    status.allocatedIPs: 14
    status.allocationCount: 1
    status.availableIPs: 0
    status.fragmentationPercent: 0
    status.infrastructureConsumedIPs: 0
    status.largestFreeBlock: 0
    status.ledgerRevision: 1
    status.poolSizeIPs: 16
    status.reservedIPs: 0
    status.totalIPs: 14
    status.unmanagedScopeIPs: 0
    Warning PoolCapacityExhausted: 95 percent or more of the addresses are in use; widen the pool or add another
    ");
}

#[test]
fn what_lies_outside_of_a_narrowed_pool_stays_and_is_counted() {
    let pool = pool(json!({
        "cidr": "10.40.0.0/24",
        "tenantAllocation": { "start": "10.40.0.10", "end": "10.40.0.19" },
    }));
    let world = granting(
        quiet(&pool),
        &[("10.40.0.1-10.40.0.4", "shop"), ("10.40.0.10", "bank")],
    );
    let world = with(
        world,
        [
            has("shop", "10.40.0.1", "10.40.0.4"),
            has("bank", "10.40.0.10", "10.40.0.10"),
        ],
    );
    insta::assert_snapshot!(shown(&plan(&pool, &world, at(10))), @r#"
    Ready=True OutsidePool: 1 allocations have addresses that the pool does not give out any more; they keep them until they are deleted
    Disjoint=True NoOverlap
    CapacityWarning=False UtilizationBelowThreshold: less than 70 percent of the addresses are in use
    CapacityCritical=False UtilizationBelowThreshold: less than 85 percent of the addresses are in use
    CapacityExhausted=False UtilizationBelowThreshold: less than 95 percent of the addresses are in use
    status.allocatedIPs: 5
    status.allocationCount: 2
    status.availableIPs: 9
    status.fragmentationPercent: 0
    status.infrastructureConsumedIPs: 0
    status.largestFreeBlock: 9
    status.ledgerRevision: 1
    status.poolSizeIPs: 256
    status.reservedIPs: 0
    status.totalIPs: 10
    status.unmanagedRanges: [{"end":"10.40.0.9","start":"10.40.0.1"},{"end":"10.40.0.254","start":"10.40.0.20"}]
    status.unmanagedScopeIPs: 244
    "#);
}

#[test]
fn a_pool_of_ipv6_counts_as_far_as_the_fields_go() {
    let pool = pool(json!({ "cidr": "fd00::/64" }));
    insta::assert_snapshot!(told(&plan(&pool, &quiet(&pool), at(10))), @"
    Ready=True Ready
    Disjoint=True NoOverlap
    CapacityWarning=False UtilizationBelowThreshold: less than 70 percent of the addresses are in use
    CapacityCritical=False UtilizationBelowThreshold: less than 85 percent of the addresses are in use
    CapacityExhausted=False UtilizationBelowThreshold: less than 95 percent of the addresses are in use
    status.allocatedIPs: 0
    status.allocationCount: 0
    status.availableIPs: 2147483647
    status.fragmentationPercent: 0
    status.infrastructureConsumedIPs: 0
    status.largestFreeBlock: 2147483647
    status.ledgerRevision: 0
    status.poolSizeIPs: 9223372036854775807
    status.reservedIPs: 0
    status.totalIPs: 2147483647
    status.unmanagedScopeIPs: 0
    ");
}

#[test]
fn planning_again_says_the_same() {
    for count in [0, 9, 14] {
        let mut pool = small();
        let first = goes_on(&mut pool, &filled(count), 10);
        let second = goes_on(&mut pool, &filled(count), 99);
        assert_eq!((second.status, second.notes), (first.status, Vec::new()));
    }
}
