//! Who gets which addresses, in which order, and how they come back.

use butler_api::{
    butler::{
        ip_allocation::{AllocationType, IPAllocation},
        network_pool::InfrastructureSource,
    },
    keys::finalizers,
};
use butler_ipam::{Layout, Owner, range_text};
use serde_json::{Value, json};

use super::*;
use crate::{
    ipam::{ledger::Guard, ledger::tests::Shelf, observe::Share},
    testing::{at, told},
};

/// A pool of this spec: `rack` in `butler-system`.
pub(super) fn pool(spec: Value) -> NetworkPool {
    let mut body = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "NetworkPool",
        "metadata": { "name": "rack", "namespace": "butler-system", "uid": "rack-uid", "generation": 1 },
    });
    body["spec"] = spec;
    serde_json::from_value(body).unwrap()
}

/// A pool of 14 addresses.
pub(super) fn small() -> NetworkPool {
    pool(json!({ "cidr": "10.40.0.0/28" }))
}

/// The world of a pool that nobody asks.
pub(super) fn quiet(pool: &NetworkPool) -> World {
    World {
        layout: Layout::of(&pool.spec),
        around: Surroundings::default(),
        gone: BTreeSet::new(),
    }
}

/// An allocation of a load balancer's addresses, made in this second, with more in its spec.
pub(super) fn asks(name: &str, second: i64, more: Value) -> Claimant {
    changed(name, second, more, |_| {})
}

/// The same, with a change.
pub(super) fn changed(
    name: &str,
    second: i64,
    more: Value,
    change: impl Fn(&mut Value),
) -> Claimant {
    let mut body = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "IPAllocation",
        "metadata": {
            "name": name,
            "namespace": "butler-system",
            "uid": format!("{name}-uid"),
            "creationTimestamp": at(second),
            "finalizers": [finalizers::IP_ALLOCATION],
        },
        "spec": {
            "poolRef": { "name": "rack" },
            "tenantClusterRef": { "name": name, "namespace": "payments" },
            "type": "loadbalancer",
        },
    });
    let Value::Object(more) = more else {
        panic!("fields of the spec")
    };
    body["spec"].as_object_mut().unwrap().extend(more);
    change(&mut body);
    Claimant::of(&serde_json::from_value::<IPAllocation>(body).unwrap())
}

/// An allocation that shows these addresses.
pub(super) fn has(name: &str, start: &str, end: &str) -> Claimant {
    changed(name, 1, json!({}), |body| {
        body["status"] = json!({ "phase": "Allocated", "startAddress": start, "endAddress": end });
    })
}

/// An allocation under deletion in this phase.
fn leaves(name: &str, phase: &str) -> Claimant {
    changed(name, 1, json!({}), |body| {
        body["metadata"]["deletionTimestamp"] = json!(at(5));
        body["status"] = json!({ "phase": phase });
    })
}

pub(super) fn with<const COUNT: usize>(mut world: World, asking: [Claimant; COUNT]) -> World {
    for claimant in asking {
        world
            .around
            .claimants
            .insert(claimant.uid.clone(), claimant);
    }
    world
}

/// The same world, with a ledger that grants these.
pub(super) fn granting(mut world: World, grants: &[(&str, &str)]) -> World {
    world.around.ledger = shelf(grants).ledger();
    world
}

fn shelf(grants: &[(&str, &str)]) -> Shelf {
    Shelf::granting(&ObjectKey::namespaced("butler-system", "rack"), grants)
}

/// What is done, as lines; announcements are looked at by [`served`].
fn effects(plan: &Plan<NetworkPoolStatus, Effect>) -> String {
    let line = |effect: &Effect| match effect {
        Effect::Announce { .. } => None,
        Effect::Write(page) => {
            let over = match &page.guard {
                Guard::Absent => "new".to_owned(),
                Guard::Version {
                    resource_version, ..
                } => format!("over {resource_version}"),
            };
            let entries = page.spec.entries.iter().map(|entry| {
                let range = AddressRange::from_texts(&entry.start_address, &entry.end_address);
                format!("{}={}", entry.allocation.name, range_text(&range.unwrap()))
            });
            let entries = entries.collect::<Vec<_>>().join(" ");
            let entries = if entries.is_empty() {
                "nothing"
            } else {
                &entries
            };
            Some(format!("write {} ({over}): {entries}", page.key.name))
        }
        Effect::Remove {
            key,
            resource_version,
            ..
        } => Some(format!("remove {} at {resource_version}", key.name)),
    };
    let lines = plan.effects.iter().filter_map(line);
    lines.collect::<Vec<_>>().join("\n")
}

/// The numbers a plan shows and what it does.
pub(super) fn deeds(plan: &Plan<NetworkPoolStatus, Effect>) -> String {
    let status = &plan.status;
    let number = |number: Option<i32>| number.unwrap_or(-1);
    let numbers = format!(
        "allocated {} in {}, available {}, ledger {}",
        number(status.allocated_ips),
        number(status.allocation_count),
        number(status.available_ips),
        status.ledger_revision.unwrap_or(-1),
    );
    format!("{numbers}\n{}", effects(plan))
}

/// The whole plan.
pub(super) fn shown(plan: &Plan<NetworkPoolStatus, Effect>) -> String {
    format!("{}\n{}", told(plan), effects(plan))
}

/// Plans, and sees that what is granted is announced before it is written.
fn served(pool: &NetworkPool, world: &World) -> String {
    let plan = plan(pool, world, at(10));
    let grants = plan
        .effects
        .iter()
        .any(|effect| matches!(effect, Effect::Write(page) if page.recorded));
    let announced = plan
        .effects
        .iter()
        .position(|effect| matches!(effect, Effect::Announce { .. }));
    assert_eq!(announced, grants.then_some(0), "{:?}", plan.effects);
    deeds(&plan)
}

#[test]
fn an_empty_pool_counts_itself() {
    let pool = pool(json!({
        "cidr": "10.40.0.0/24",
        "reserved": [{ "cidr": "10.40.0.0/28" }],
        "tenantAllocation": { "start": "10.40.0.10", "end": "10.40.0.99" },
    }));
    insta::assert_snapshot!(shown(&plan(&pool, &quiet(&pool), at(10))), @r#"
    Ready=True Ready
    Disjoint=True NoOverlap
    CapacityWarning=False UtilizationBelowThreshold: less than 70 percent of the addresses are in use
    CapacityCritical=False UtilizationBelowThreshold: less than 85 percent of the addresses are in use
    CapacityExhausted=False UtilizationBelowThreshold: less than 95 percent of the addresses are in use
    status.allocatedIPs: 0
    status.allocationCount: 0
    status.availableIPs: 84
    status.fragmentationPercent: 0
    status.infrastructureConsumedIPs: 0
    status.largestFreeBlock: 84
    status.ledgerRevision: 0
    status.poolSizeIPs: 256
    status.reservedIPs: 16
    status.totalIPs: 84
    status.unmanagedRanges: [{"end":"10.40.0.254","start":"10.40.0.100"}]
    status.unmanagedScopeIPs: 155
    "#);
}

/// What is announced.
fn announced(plan: &Plan<NetworkPoolStatus, Effect>) -> Vec<(i32, i64)> {
    let effects = plan.effects.iter();
    effects
        .filter_map(|effect| match effect {
            Effect::Announce {
                allocated,
                revision,
            } => Some((*allocated, *revision)),
            _ => None,
        })
        .collect()
}

#[test]
fn a_first_wish_is_counted_in_public_before_it_is_granted() {
    let pool = small();
    let world = with(quiet(&pool), [asks("shop", 1, json!({ "count": 3 }))]);
    assert_eq!(announced(&plan(&pool, &world, at(10))), [(3, 1)]);
    insta::assert_snapshot!(served(&pool, &world), @"
    allocated 3 in 1, available 11, ledger 1
    write rack.0a280000 (new): shop=10.40.0.1-10.40.0.3
    ");
}

#[test]
fn an_announcement_never_says_what_was_said_before() {
    let mut pool = small();
    pool.status = Some(NetworkPoolStatus {
        ledger_revision: Some(7),
        allocated_ips: Some(3),
        ..NetworkPoolStatus::default()
    });
    let world = with(quiet(&pool), [asks("shop", 1, json!({ "count": 3 }))]);
    let plan = plan(&pool, &world, at(10));
    assert_eq!(announced(&plan), [(3, 8)]);
    assert_eq!(plan.status.ledger_revision, Some(1), "and then the truth");
}

#[test]
fn what_comes_back_and_what_is_granted_are_one_write() {
    let pool = small();
    let world = granting(quiet(&pool), &[("10.40.0.1-10.40.0.12", "shop")]);
    let world = with(
        world,
        [
            leaves("shop", "Released"),
            asks("bank", 2, json!({ "count": 4 })),
        ],
    );
    let both = plan(&pool, &world, at(10));
    assert_eq!(
        announced(&both),
        [(16, 2)],
        "on the way both may be counted"
    );
    insta::assert_snapshot!(deeds(&both), @"
    allocated 4 in 1, available 10, ledger 2
    write rack.0a280000 (over v1): bank=10.40.0.1-10.40.0.4
    ");
}

#[test]
fn who_comes_first_is_served_first() {
    let pool = small();
    let world = with(
        quiet(&pool),
        [
            asks("zoo", 1, json!({ "count": 2 })),
            asks("bank", 2, json!({ "count": 2 })),
            asks("shop", 3, json!({ "count": 1 })),
        ],
    );
    insta::assert_snapshot!(served(&pool, &world), @"
    allocated 5 in 3, available 9, ledger 1
    write rack.0a280000 (new): zoo=10.40.0.1-10.40.0.2 bank=10.40.0.3-10.40.0.4 shop=10.40.0.5/32
    ");
}

#[test]
fn what_does_not_fit_does_not_hold_up_what_does() {
    let pool = small();
    let world = with(
        quiet(&pool),
        [
            asks("first", 1, json!({ "count": 10 })),
            asks("greedy", 2, json!({ "count": 5 })),
            asks("modest", 3, json!({ "count": 4 })),
        ],
    );
    insta::assert_snapshot!(served(&pool, &world), @"
    allocated 14 in 2, available 0, ledger 1
    write rack.0a280000 (new): first=10.40.0.1-10.40.0.10 modest=10.40.0.11-10.40.0.14
    ");
}

#[test]
fn an_allocation_that_is_not_held_or_is_leaving_gets_nothing() {
    let pool = small();
    let unheld = changed("unheld", 1, json!({ "count": 1 }), |body| {
        body["metadata"]["finalizers"] = json!([]);
    });
    let world = with(quiet(&pool), [unheld, leaves("leaving", "Pending")]);
    insta::assert_snapshot!(served(&pool, &world), @"allocated 0 in 0, available 14, ledger 0");
}

#[test]
fn what_an_allocation_gave_back_is_taken_back() {
    let pool = small();
    let world = granting(
        quiet(&pool),
        &[("10.40.0.1-10.40.0.3", "shop"), ("10.40.0.4", "bank")],
    );
    let world = with(
        world,
        [
            leaves("shop", "Released"),
            has("bank", "10.40.0.4", "10.40.0.4"),
        ],
    );
    insta::assert_snapshot!(deeds(&plan(&pool, &world, at(10))), @"
    allocated 1 in 1, available 13, ledger 1
    write rack.0a280000 (over v1): bank=10.40.0.4/32
    ");
}

#[test]
fn what_a_leaving_allocation_has_not_given_back_stays() {
    let pool = small();
    let world = granting(quiet(&pool), &[("10.40.0.1-10.40.0.3", "shop")]);
    let world = with(world, [leaves("shop", "Allocated")]);
    insta::assert_snapshot!(deeds(&plan(&pool, &world, at(10))), @"allocated 3 in 1, available 11, ledger 1");
    let used = changed("shop", 1, json!({}), |body| {
        body["metadata"]["deletionTimestamp"] = json!(at(5));
        body["metadata"]["finalizers"] =
            json!([finalizers::ADDRESSES_IN_USE, finalizers::IP_ALLOCATION]);
        body["status"] = json!({ "phase": "Released" });
    });
    let world = with(world, [used]);
    assert_eq!(
        plan(&pool, &world, at(10)).effects,
        [],
        "somebody uses the addresses"
    );
}

#[test]
fn an_allocation_that_is_gone_is_forgotten_and_one_out_of_sight_is_not() {
    let pool = small();
    let mut world = granting(
        quiet(&pool),
        &[("10.40.0.1-10.40.0.3", "gone"), ("10.40.0.4", "unseen")],
    );
    assert_eq!(
        plan(&pool, &world, at(10)).effects,
        [],
        "nobody knows what became of them"
    );
    world.gone.insert("gone-uid".to_owned());
    insta::assert_snapshot!(deeds(&plan(&pool, &world, at(10))), @"
    allocated 1 in 1, available 13, ledger 1
    write rack.0a280000 (over v1): unseen=10.40.0.4/32
    ");
}

#[test]
fn an_allocation_with_two_grants_loses_the_one_it_does_not_use() {
    let pool = small();
    let world = granting(
        quiet(&pool),
        &[
            ("10.40.0.1-10.40.0.3", "shop"),
            ("10.40.0.4-10.40.0.6", "shop"),
        ],
    );
    let world = with(world, [has("shop", "10.40.0.4", "10.40.0.6")]);
    insta::assert_snapshot!(deeds(&plan(&pool, &world, at(10))), @"
    allocated 3 in 1, available 11, ledger 1
    write rack.0a280000 (over v1): shop=10.40.0.4-10.40.0.6
    ");
}

#[test]
fn what_a_crash_left_is_cleared_before_anything_reaches_over_pages_again() {
    let pool = pool(json!({ "cidr": "10.40.0.0/20" }));
    let mut shelf = Shelf::default();
    let entry = crate::ipam::ledger::tests::entry("10.40.3.254-10.40.4.1", "shop");
    let writes = shelf
        .ledger()
        .rewrite(&ObjectKey::of(&pool), &BTreeSet::new(), &[entry]);
    shelf.write_all(&writes[..1]);
    let mut world = with(quiet(&pool), [asks("shop", 1, json!({ "count": 4 }))]);
    world.around.ledger = shelf.ledger();
    insta::assert_snapshot!(deeds(&plan(&pool, &world, at(10))), @"
    allocated 4 in 1, available 4086, ledger 2
    write rack.0a280000 (new): shop=10.40.0.1-10.40.0.4
    write rack.0a280400 (over v1): nothing
    ");
}

#[test]
fn addresses_that_others_use_are_not_given_out() {
    let pool = small();
    let mut world = with(
        quiet(&pool),
        [
            asks("shop", 1, json!({ "count": 8 })),
            asks("bank", 2, json!({ "count": 2 })),
        ],
    );
    let around = &mut world.around;
    around.services.insert(
        "10.40.0.3".parse().unwrap(),
        "the gateway of ProviderConfig butler-system/rack".to_owned(),
    );
    let address: std::net::IpAddr = "10.40.0.6".parse().unwrap();
    let node = butler_api::butler::network_pool::InfrastructureAllocation {
        ip: address.to_string(),
        source: InfrastructureSource::Node,
        service_ref: None,
        node_ref: Some(butler_api::reference::LocalReference {
            name: "worker-1".to_owned(),
        }),
        machine_ref: None,
    };
    around.infrastructure.insert(address, node);
    let shared = AddressRange::from_texts("10.40.0.9", "10.40.0.14").unwrap();
    around
        .shared
        .push((shared, "NetworkPool butler-system/other".to_owned()));
    insta::assert_snapshot!(shown(&plan(&pool, &world, at(10))), @r#"
    Ready=True Ready
    Disjoint=False Overlaps: shares 10.40.0.9-10.40.0.14 with NetworkPool butler-system/other; neither gives these addresses out until the pools are apart, or named as different networks by an annotation
    CapacityWarning=True UtilizationAboveThreshold: at least 70 percent of the addresses are in use
    CapacityCritical=False UtilizationBelowThreshold: less than 85 percent of the addresses are in use
    CapacityExhausted=False UtilizationBelowThreshold: less than 95 percent of the addresses are in use
    status.allocatedIPs: 2
    status.allocationCount: 1
    status.availableIPs: 4
    status.fragmentationPercent: 50
    status.infrastructureAllocations: [{"ip":"10.40.0.6","nodeRef":{"name":"worker-1"},"source":"node"}]
    status.infrastructureConsumedIPs: 1
    status.largestFreeBlock: 2
    status.ledgerRevision: 1
    status.poolSizeIPs: 16
    status.reservedIPs: 0
    status.totalIPs: 14
    status.unmanagedScopeIPs: 0
    Warning PoolCapacityWarning: 70 percent or more of the addresses are in use; widen the pool or add another
    write rack.0a280000 (new): bank=10.40.0.1-10.40.0.2
    "#);
    insta::assert_snapshot!(served(&pool, &world), @"
    allocated 2 in 1, available 4, ledger 1
    write rack.0a280000 (new): bank=10.40.0.1-10.40.0.2
    ");
}

#[test]
fn nobody_gets_more_than_the_quota() {
    let pool = small();
    let mut world = granting(quiet(&pool), &[("10.40.0.1-10.40.0.2", "shop")]);
    let of_shop = |name: &str, count: i32, kind: &str| {
        asks(
            name,
            2,
            json!({
                "count": count,
                "type": kind,
                "tenantClusterRef": { "name": "shop", "namespace": "payments" },
            }),
        )
    };
    world = with(
        world,
        [
            has("shop", "10.40.0.1", "10.40.0.2"),
            of_shop("more", 3, "loadbalancer"),
            of_shop("nodes", 3, "nodes"),
            of_shop("rest", 1, "loadbalancer"),
            asks("bank", 3, json!({ "count": 4 })),
        ],
    );
    let shop = Owner {
        kind: "TenantCluster".to_owned(),
        namespace: Some("payments".to_owned()),
        name: "shop".to_owned(),
    };
    let share = Share {
        most: 5,
        elsewhere: 2,
    };
    world
        .around
        .quotas
        .insert((shop, AllocationType::Loadbalancer), share);
    insta::assert_snapshot!(served(&pool, &world), @"
    allocated 10 in 4, available 4, ledger 2
    write rack.0a280000 (over v1): shop=10.40.0.1-10.40.0.2 nodes=10.40.0.3-10.40.0.5 rest=10.40.0.6/32 bank=10.40.0.7-10.40.0.10
    ");
}

#[test]
fn who_does_not_say_how_many_gets_what_the_pool_gives_by_default() {
    let pool = pool(json!({
        "cidr": "10.40.0.0/24",
        "tenantAllocation": { "defaults": { "nodesPerTenant": 2, "lbPoolPerTenant": 3 } },
    }));
    let world = with(
        quiet(&pool),
        [
            asks("shop", 1, json!({})),
            asks("bank", 2, json!({ "type": "nodes" })),
        ],
    );
    insta::assert_snapshot!(served(&pool, &world), @"
    allocated 5 in 2, available 249, ledger 1
    write rack.0a280000 (new): shop=10.40.0.1-10.40.0.3 bank=10.40.0.4/31
    ");
}

#[test]
fn a_pinned_range_is_granted_exactly_or_not_at_all() {
    let pool = small();
    let pinned = |start: &str, end: &str| json!({ "pinnedRange": { "startAddress": start, "endAddress": end } });
    let world = with(
        quiet(&pool),
        [
            asks("first", 1, pinned("10.40.0.5", "10.40.0.6")),
            asks("late", 2, pinned("10.40.0.6", "10.40.0.7")),
            asks("beyond", 3, pinned("10.40.0.14", "10.40.0.15")),
            asks("other", 4, pinned("10.40.0.7", "10.40.0.7")),
        ],
    );
    insta::assert_snapshot!(served(&pool, &world), @"
    allocated 3 in 2, available 11, ledger 1
    write rack.0a280000 (new): first=10.40.0.5-10.40.0.6 other=10.40.0.7/32
    ");
}

#[test]
fn a_pool_from_before_there_was_a_ledger_takes_what_allocations_say() {
    let pool = small();
    let world = with(
        quiet(&pool),
        [
            asks("new", 0, json!({ "count": 4 })),
            has("old", "10.40.0.1", "10.40.0.8"),
            has("older", "10.40.0.10", "10.40.0.11"),
        ],
    );
    insta::assert_snapshot!(served(&pool, &world), @"
    allocated 10 in 2, available 4, ledger 1
    write rack.0a280000 (new): old=10.40.0.1-10.40.0.8 older=10.40.0.10/31
    ");
}

#[test]
fn addresses_from_before_there_was_a_ledger_stay_with_who_leaves_until_they_are_given_back() {
    let pool = small();
    let leaving = |phase: &str| {
        changed("old", 1, json!({}), |body| {
            body["metadata"]["deletionTimestamp"] = json!(at(5));
            body["status"] = json!({
                "phase": phase, "startAddress": "10.40.0.1", "endAddress": "10.40.0.12",
            });
        })
    };
    let new = asks("new", 2, json!({ "count": 3 }));
    let world = with(quiet(&pool), [leaving("Allocated"), new.clone()]);
    insta::assert_snapshot!(served(&pool, &world), @"
    allocated 12 in 1, available 2, ledger 1
    write rack.0a280000 (new): old=10.40.0.1-10.40.0.12
    ");
    let world = with(quiet(&pool), [leaving("Released"), new]);
    insta::assert_snapshot!(served(&pool, &world), @"
    allocated 3 in 1, available 11, ledger 1
    write rack.0a280000 (new): new=10.40.0.1-10.40.0.3
    ");
}
