//! What an allocation shows from the asking to the giving back.

use serde_json::{Value, json};

use super::*;
use crate::testing::{at, told};

const GRACE: Duration = Duration::from_mins(10);

/// An allocation for the cluster `payments/shop`, after a change.
fn allocation(change: impl Fn(&mut Value)) -> IPAllocation {
    let mut body = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "IPAllocation",
        "metadata": {
            "name": "shop-lb",
            "namespace": "butler-system",
            "uid": "shop-lb-uid",
            "generation": 1,
            "finalizers": [finalizers::IP_ALLOCATION],
        },
        "spec": {
            "poolRef": { "name": "rack" },
            "tenantClusterRef": { "name": "shop", "namespace": "payments" },
            "type": "loadbalancer",
        },
    });
    change(&mut body);
    serde_json::from_value(body).unwrap()
}

fn asking() -> IPAllocation {
    allocation(|_| {})
}

/// One that shows two addresses.
fn showing() -> IPAllocation {
    let mut allocation = asking();
    let granted = decide(&allocation, &granting("10.40.0.8", "10.40.0.9"));
    allocation.status = Some(granted.status);
    allocation
}

fn deleted(mut allocation: IPAllocation) -> IPAllocation {
    allocation.metadata.deletion_timestamp = Some(Time(at(5)));
    allocation
}

/// The same with another finalizer on it.
fn held_by(mut allocation: IPAllocation, finalizer: &str) -> IPAllocation {
    let finalizers = allocation.metadata.finalizers.get_or_insert_default();
    finalizers.push(finalizer.to_owned());
    allocation
}

fn with_pool(pool: PoolSight) -> World {
    World {
        owner: Presence::Present,
        grant: None,
        pool,
    }
}

fn granting(start: &str, end: &str) -> World {
    World {
        grant: AddressRange::from_texts(start, end).ok(),
        ..with_pool(PoolSight::MayGrant)
    }
}

fn waiting() -> World {
    with_pool(PoolSight::MayGrant)
}

fn ownerless() -> World {
    World {
        owner: Presence::Gone,
        ..granting("10.40.0.8", "10.40.0.9")
    }
}

fn decide(allocation: &IPAllocation, world: &World) -> Plan<IPAllocationStatus, Effect> {
    plan(allocation, world, GRACE, at(10))
}

/// The whole plan.
fn shown(plan: &Plan<IPAllocationStatus, Effect>) -> String {
    let effects = plan.effects.iter().map(|effect| format!("{effect:?}"));
    let lines: Vec<_> = [told(plan)].into_iter().chain(effects).collect();
    lines.join("\n")
}

#[test]
fn who_asks_waits_for_the_pool() {
    insta::assert_snapshot!(shown(&decide(&asking(), &waiting())), @r#"
    Ready=False AwaitingGrant: waiting for the NetworkPool rack to grant the addresses
    OwnerPresent=True OwnerFound
    status.phase: "Pending"
    "#);
}

#[test]
fn who_is_granted_something_shows_it_and_says_so_once() {
    let world = granting("10.40.0.8", "10.40.0.11");
    insta::assert_snapshot!(shown(&decide(&asking(), &world)), @r#"
    Ready=True Allocated
    OwnerPresent=True OwnerFound
    status.addresses: ["10.40.0.8","10.40.0.9","10.40.0.10","10.40.0.11"]
    status.allocatedAt: "1970-01-01T00:00:10Z"
    status.allocatedBy: "networkpool-controller"
    status.allocatedCount: 4
    status.cidr: "10.40.0.8/30"
    status.endAddress: "10.40.0.11"
    status.phase: "Allocated"
    status.startAddress: "10.40.0.8"
    Normal IPsAllocated: 10.40.0.8/30 is granted
    "#);
    let mut allocation = asking();
    allocation.status = Some(decide(&allocation, &world).status);
    let again = plan(&allocation, &world, GRACE, at(99));
    assert_eq!(Some(again.status), allocation.status);
    assert_eq!((again.notes, again.effects), (Vec::new(), Vec::new()));
}

#[test]
fn a_range_that_is_no_block_is_shown_by_its_ends() {
    let plan = decide(&asking(), &granting("10.40.0.7", "10.40.0.9"));
    assert_eq!(plan.status.cidr.as_deref(), Some("10.40.0.7-10.40.0.9"));
}

#[test]
fn addresses_are_listed_as_long_as_they_are_few() {
    let listed = |start: &str, end: &str| {
        let status = decide(&asking(), &granting(start, end)).status;
        (status.addresses.len(), status.allocated_count)
    };
    assert_eq!(listed("10.40.0.0", "10.40.0.255"), (256, Some(256)));
    assert_eq!(listed("10.40.0.0", "10.40.1.0"), (0, Some(257)));
    assert_eq!(listed("255.255.255.255", "255.255.255.255"), (1, Some(1)));
    assert_eq!(listed("fd00::", "fd00::ff"), (256, Some(256)));
    let last = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    assert_eq!(listed(last, last), (1, Some(1)));
    let status = decide(&asking(), &granting("fd00::9", "fd00::a")).status;
    assert_eq!(status.addresses, ["fd00::9", "fd00::a"]);
}

#[test]
fn each_way_of_getting_nothing_says_what_to_do() {
    let refusals = [
        PoolSight::Missing,
        PoolSight::Invalid,
        PoolSight::Deleting,
        PoolSight::Refuses(Refused {
            reason: butler_ipam::reasons::POOL_EXHAUSTED,
            field: "spec.count".to_owned(),
            message: "no free address: 0 of 14 are free".to_owned(),
        }),
    ];
    let told: Vec<_> = refusals
        .into_iter()
        .map(|refusal| shown(&decide(&asking(), &with_pool(refusal))))
        .collect();
    insta::assert_snapshot!(told.join("\n\n"), @r#"
    Ready=False PoolNotFound: spec.poolRef: the NetworkPool rack does not exist in this namespace; create it
    OwnerPresent=True OwnerFound
    status.phase: "Failed"
    Warning AllocationFailed: spec.poolRef: the NetworkPool rack does not exist in this namespace; create it
    CountRefusal

    Ready=False PoolInvalid: spec.poolRef: the NetworkPool rack is not valid; its Ready condition says why
    OwnerPresent=True OwnerFound
    status.phase: "Failed"
    Warning AllocationFailed: spec.poolRef: the NetworkPool rack is not valid; its Ready condition says why
    CountRefusal

    Ready=False Deleting: spec.poolRef: the NetworkPool rack is being deleted; use another
    OwnerPresent=True OwnerFound
    status.phase: "Failed"
    Warning AllocationFailed: spec.poolRef: the NetworkPool rack is being deleted; use another
    CountRefusal

    Ready=False PoolExhausted: spec.count: no free address: 0 of 14 are free
    OwnerPresent=True OwnerFound
    status.phase: "Failed"
    Warning AllocationFailed: spec.count: no free address: 0 of 14 are free
    CountRefusal
    "#);
}

#[test]
fn a_refusal_is_told_and_counted_once() {
    let world = with_pool(PoolSight::Missing);
    let mut allocation = asking();
    let first = decide(&allocation, &world);
    assert_eq!(first.effects, [Effect::CountRefusal]);
    allocation.status = Some(first.status);
    let again = decide(&allocation, &world);
    assert_eq!((again.notes, again.effects), (Vec::new(), Vec::new()));
}

#[test]
fn who_was_refused_waits_again_when_the_pool_may_grant() {
    let mut allocation = asking();
    allocation.status = Some(decide(&allocation, &with_pool(PoolSight::Missing)).status);
    let status = decide(&allocation, &waiting()).status;
    assert_eq!(status.phase, Some(AllocationPhase::Pending));
}

#[test]
fn who_has_addresses_keeps_them_whatever_the_ledger_and_the_pool_look_like() {
    let before = showing();
    for pool in [
        PoolSight::MayGrant,
        PoolSight::Missing,
        PoolSight::Invalid,
        PoolSight::Deleting,
    ] {
        let plan = decide(&before, &with_pool(pool.clone()));
        assert_eq!(Some(&plan.status), before.status.as_ref(), "{pool:?}");
        assert_eq!(plan.notes, []);
    }
}

#[test]
fn addresses_that_somebody_else_was_granted_are_reported_as_lost() {
    let holder = "TenantCluster payments/bank".to_owned();
    let world = with_pool(PoolSight::Lost(holder));
    insta::assert_snapshot!(shown(&decide(&showing(), &world)), @r#"
    Ready=False PinnedRangeTaken: the addresses are held by TenantCluster payments/bank too; take them out of use here, delete this allocation and create another
    OwnerPresent=True OwnerFound
    status.addresses: ["10.40.0.8","10.40.0.9"]
    status.allocatedAt: "1970-01-01T00:00:10Z"
    status.allocatedBy: "networkpool-controller"
    status.allocatedCount: 2
    status.cidr: "10.40.0.8/31"
    status.endAddress: "10.40.0.9"
    status.phase: "Failed"
    status.startAddress: "10.40.0.8"
    Warning AllocationFailed: the addresses are held by TenantCluster payments/bank too; take them out of use here, delete this allocation and create another
    CountRefusal
    "#);
}

#[test]
fn who_is_deleted_in_use_keeps_its_addresses_and_says_who_holds_it() {
    let allocation = held_by(deleted(showing()), finalizers::ADDRESSES_IN_USE);
    let allocation = held_by(allocation, "example.com/router");
    let plan = decide(&allocation, &granting("10.40.0.8", "10.40.0.9"));
    insta::assert_snapshot!(shown(&plan), @r#"
    Ready=True Allocated
    OwnerPresent=True OwnerFound
    Deleting=True InUse: the addresses are given back when nobody uses them: finalizers butler.butlerlabs.dev/addresses-in-use, example.com/router
    status.addresses: ["10.40.0.8","10.40.0.9"]
    status.allocatedAt: "1970-01-01T00:00:10Z"
    status.allocatedBy: "networkpool-controller"
    status.allocatedCount: 2
    status.cidr: "10.40.0.8/31"
    status.endAddress: "10.40.0.9"
    status.phase: "Allocated"
    status.startAddress: "10.40.0.8"
    "#);
}

#[test]
fn a_release_is_public_before_the_addresses_are_taken_back() {
    let mut allocation = deleted(showing());
    let granted = granting("10.40.0.8", "10.40.0.9");
    let first = decide(&allocation, &granted);
    insta::assert_snapshot!(shown(&first), @r#"
    Ready=False Released: the addresses are given back
    status.addresses: ["10.40.0.8","10.40.0.9"]
    status.allocatedAt: "1970-01-01T00:00:10Z"
    status.allocatedBy: "networkpool-controller"
    status.allocatedCount: 2
    status.cidr: "10.40.0.8/31"
    status.endAddress: "10.40.0.9"
    status.phase: "Released"
    status.releasedAt: "1970-01-01T00:00:10Z"
    status.startAddress: "10.40.0.8"
    "#);
    let unseen = decide(&allocation, &waiting());
    assert_eq!(unseen.next, Next::AwaitChange, "not public yet");

    allocation.status = Some(first.status.clone());
    let second = plan(&allocation, &granted, GRACE, at(99));
    assert_eq!(
        (&second.status, second.next),
        (&first.status, Next::AwaitChange)
    );
    let last = plan(&allocation, &waiting(), GRACE, at(99));
    assert_eq!((&last.status, last.next), (&first.status, Next::Done));
}

#[test]
fn who_never_had_anything_goes_at_once() {
    let plan = decide(&deleted(asking()), &waiting());
    assert_eq!(plan.next, Next::Done);
    // A grant that nobody has used yet is taken back first.
    let plan = decide(&deleted(asking()), &granting("10.40.0.8", "10.40.0.9"));
    assert_eq!(plan.next, Next::AwaitChange);
    assert_eq!(plan.status.phase, Some(AllocationPhase::Released));
}

/// Plans from what was said before, and keeps what is said now.
fn goes_on(allocation: &mut IPAllocation, second: i64) -> Plan<IPAllocationStatus, Effect> {
    let plan = plan(allocation, &ownerless(), GRACE, at(second));
    allocation.status = Some(plan.status.clone());
    plan
}

#[test]
fn what_has_no_owner_is_collected_after_a_while() {
    let mut allocation = held_by(showing(), finalizers::ADDRESSES_IN_USE);
    let noticed = goes_on(&mut allocation, 1_000);
    insta::assert_snapshot!(shown(&noticed), @r#"
    Ready=True Allocated
    OwnerPresent=False OwnerGone: TenantCluster payments/shop does not exist; create it, or the addresses are collected
    status.addresses: ["10.40.0.8","10.40.0.9"]
    status.allocatedAt: "1970-01-01T00:00:10Z"
    status.allocatedBy: "networkpool-controller"
    status.allocatedCount: 2
    status.cidr: "10.40.0.8/31"
    status.endAddress: "10.40.0.9"
    status.phase: "Allocated"
    status.startAddress: "10.40.0.8"
    next: After(600s)
    "#);
    let later = goes_on(&mut allocation, 1_599);
    assert_eq!(
        (later.effects, later.next),
        (Vec::new(), Next::After(Duration::from_secs(1)))
    );
    let collected = goes_on(&mut allocation, 1_600);
    assert_eq!(collected.effects, [Effect::Collect]);
    insta::assert_snapshot!(told(&collected), @r#"
    Ready=True Allocated
    OwnerPresent=False OwnerGone: TenantCluster payments/shop does not exist; create it, or the addresses are collected
    status.addresses: ["10.40.0.8","10.40.0.9"]
    status.allocatedAt: "1970-01-01T00:00:10Z"
    status.allocatedBy: "networkpool-controller"
    status.allocatedCount: 2
    status.cidr: "10.40.0.8/31"
    status.endAddress: "10.40.0.9"
    status.phase: "Allocated"
    status.startAddress: "10.40.0.8"
    Normal OrphanedAllocationGC: TenantCluster payments/shop is gone; its addresses are collected
    "#);
    let mut allocation = deleted(allocation);
    let freed = goes_on(&mut allocation, 1_601);
    assert_eq!(
        freed.effects,
        [Effect::LetGo],
        "the user went with the owner"
    );
    assert_eq!(freed.notes, []);
}

#[test]
fn an_owner_that_comes_back_in_time_keeps_its_addresses() {
    let mut allocation = showing();
    goes_on(&mut allocation, 1_000);
    let found = plan(
        &allocation,
        &granting("10.40.0.8", "10.40.0.9"),
        GRACE,
        at(1_500),
    );
    assert_eq!(
        (&found.effects, found.next),
        (&Vec::new(), Next::AwaitChange)
    );
    allocation.status = Some(found.status);
    let lost_again = goes_on(&mut allocation, 2_000);
    assert_eq!(lost_again.next, Next::After(GRACE), "the wait begins anew");
}

#[test]
fn the_marks_of_others_are_not_taken_off() {
    let mut allocation = held_by(deleted(showing()), "example.com/router");
    goes_on(&mut allocation, 1_000);
    let plan = goes_on(&mut allocation, 2_000);
    assert_eq!((plan.effects, plan.next), (Vec::new(), Next::AwaitChange));
}

#[test]
fn an_owner_that_nobody_watches_is_left_to_people() {
    let allocation = allocation(|body| {
        body["spec"]["tenantClusterRef"] = Value::Null;
        body["spec"]["ownerRef"] =
            json!({ "apiVersion": "example.com/v1", "kind": "Router", "name": "edge" });
    });
    let world = World {
        owner: Presence::Unwatched,
        ..waiting()
    };
    insta::assert_snapshot!(shown(&decide(&allocation, &world)), @r#"
    Ready=False AwaitingGrant: waiting for the NetworkPool rack to grant the addresses
    OwnerPresent=Unknown NotRequired: Router edge is of a kind that Butler does not watch; delete this allocation when the addresses are not needed
    status.phase: "Pending"
    "#);
}
