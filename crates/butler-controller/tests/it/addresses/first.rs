//! The first ranges of tenant clusters that ask for the same addresses at once: who is refused goes to another pool, or asks for
//! fewer.

use butler_api::{
    butler::{
        ip_allocation::{AllocationPhase, IPAllocation},
        tenant_cluster::TenantCluster,
    },
    keys::names,
};
use butler_controller::{run::COMPONENT, tenant_cluster::TenantClusterReconciler};
use butler_runtime::object::ObjectKey;
use butler_testkit::simulator::{Deed, Failed, Moment, Simulation, for_seeds};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    scene::{comes_to_rest, controllers, holds_always, pool, put},
    truth::Truth,
};
use crate::scene::{self, SYSTEM, system};

const TENANTS: &str = names::DEFAULT_TENANT_NAMESPACE;

fn key(cluster: &str) -> ObjectKey {
    ObjectKey::namespaced(TENANTS, cluster)
}

fn asking(cluster: &str, networking: &Value) -> Deed {
    let mut body = scene::cluster(&key(cluster), Some(&system("local")), 0);
    body["spec"]["networking"] = networking.clone();
    Deed::create(scene::cluster_kind(), body)
}

fn asks_now(cluster: &str, networking: Value) -> Deed {
    Deed::edit(scene::cluster_kind(), key(cluster), move |body| {
        body["spec"]["networking"] = networking.clone();
    })
}

/// Two pools of 14 addresses each.
fn world(seed: u64) -> Simulation {
    let mut simulation = Simulation::new(seed);
    for name in [SYSTEM, TENANTS] {
        put(
            &mut simulation,
            scene::namespace_kind(),
            scene::namespace(name),
        );
    }
    let pools = [("rack", "10.42.0.0/28"), ("spare", "10.43.0.0/28")];
    for (name, cidr) in pools {
        let pool = pool(name, &json!({ "cidr": cidr }));
        put(&mut simulation, scene::pool_kind(), pool);
    }
    let provider = scene::provider(
        &system("local"),
        json!({ "provider": "local", "network": {
            "mode": "ipam",
            "poolRefs": [{ "name": "rack", "priority": 1 }, { "name": "spare" }],
        } }),
    );
    put(&mut simulation, scene::provider_kind(), provider);
    controllers(&mut simulation, 1);
    simulation.controller(COMPONENT, TenantClusterReconciler::default);
    holds_always(&mut simulation, "no address twice", Truth::nothing_twice);
    simulation
}

/// What a cluster has, and what `NetworkReady` says of it.
fn has(simulation: &Simulation, cluster: &str) -> (i32, String) {
    let ranges = simulation.store().all::<IPAllocation>().unwrap();
    let ranges = ranges.iter().filter(|range| {
        let owner = range.spec.tenant_cluster_ref.as_ref();
        let status = range.status.as_ref();
        let granted = status.is_some_and(|one| one.phase == Some(AllocationPhase::Allocated));
        owner.is_some_and(|owner| owner.name == cluster) && granted
    });
    let counts = ranges.filter_map(|range| range.status.as_ref()?.allocated_count);
    let clusters = simulation.store().all::<TenantCluster>().unwrap();
    let found = clusters.iter().find(|found| found.name_any() == cluster);
    let conditions = found.and_then(|found| found.status.as_ref());
    let mut conditions = conditions.into_iter().flat_map(|status| &status.conditions);
    let said = conditions.find(|said| said.type_ == "NetworkReady");
    let said = said.map_or_else(String::new, |said| {
        format!("{}: {}", said.reason, said.message)
    });
    (counts.sum(), said)
}

#[test]
fn who_was_refused_by_one_pool_gets_its_first_range_from_another() {
    for_seeds(0..100, |seed| {
        let mut simulation = world(seed);
        for cluster in ["shop", "bank"] {
            let steps = vec![(
                Moment::Anytime,
                asking(cluster, &json!({ "lbPoolSize": 8 })),
            )];
            simulation.user(cluster, steps);
        }
        comes_to_rest(&mut simulation)?;
        for cluster in ["shop", "bank"] {
            let (count, said) = has(&simulation, cluster);
            assert_eq!(count, 8, "{cluster}: {said}\n{}", simulation.log().tail(60));
        }
        // Now no pool has so many in one run, and that is told until fewer will do.
        let steps = vec![(
            Moment::Anytime,
            asking("kiosk", &json!({ "lbPoolSize": 8 })),
        )];
        simulation.user("kiosk", steps);
        comes_to_rest(&mut simulation)?;
        let (count, said) = has(&simulation, "kiosk");
        assert_eq!(count, 0);
        assert!(said.starts_with("PoolExhausted: "), "{said}");
        let fewer = asks_now("kiosk", json!({ "lbPoolSize": 4 }));
        simulation.user("kiosk-owner", vec![(Moment::Anytime, fewer)]);
        comes_to_rest(&mut simulation)?;
        let (count, said) = has(&simulation, "kiosk");
        assert_eq!(count, 4, "{said}\n{}", simulation.log().tail(60));
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_range_that_somebody_else_has_can_be_exchanged_for_another_and_one_that_is_granted_cannot() {
    let range =
        |start: &str, end: &str| json!({ "loadBalancerPool": { "start": start, "end": end } });
    for_seeds(0..60, |seed| {
        let mut simulation = world(seed);
        let first = asking("shop", &range("10.42.0.4", "10.42.0.7"));
        simulation.user("shop", vec![(Moment::Anytime, first)]);
        comes_to_rest(&mut simulation)?;
        let second = asking("bank", &range("10.42.0.6", "10.42.0.9"));
        simulation.user("bank", vec![(Moment::Anytime, second)]);
        comes_to_rest(&mut simulation)?;
        let (count, said) = has(&simulation, "bank");
        assert_eq!(count, 0);
        assert!(said.starts_with("PinnedRangeTaken: "), "{said}");
        let moved = asks_now("bank", range("10.42.0.8", "10.42.0.9"));
        simulation.user("bank-owner", vec![(Moment::Anytime, moved)]);
        comes_to_rest(&mut simulation)?;
        assert_eq!(
            has(&simulation, "bank").0,
            2,
            "{}",
            simulation.log().tail(60)
        );
        let moved = asks_now("shop", range("10.43.0.1", "10.43.0.4"));
        simulation.user("shop-owner", vec![(Moment::Anytime, moved)]);
        comes_to_rest(&mut simulation)?;
        let (count, said) = has(&simulation, "shop");
        assert_eq!(count, 4);
        assert!(
            said.contains("the cluster has 10.42.0.4-10.42.0.7"),
            "{said}"
        );
        // What the words advise does what they say.
        let ranges = simulation.store().all::<IPAllocation>().unwrap();
        let of_shop = ranges
            .iter()
            .find(|range| range.name_any().contains("-shop-lb-"));
        let delete = Deed::delete(
            super::scene::allocation_kind(),
            ObjectKey::of(of_shop.unwrap()),
        );
        simulation.user("admin", vec![(Moment::Anytime, delete)]);
        comes_to_rest(&mut simulation)?;
        let told = has(&simulation, "shop");
        assert_eq!(told, (4, "Ready: 10.43.0.1-10.43.0.4".to_owned()));
        Ok::<(), Failed>(())
    })
    .unwrap();
}
