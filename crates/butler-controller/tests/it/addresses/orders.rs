//! Whatever the order of events and whatever goes wrong on the way.

use std::{cell::Cell, time::Duration};

use butler_api::butler::{
    ip_allocation::IPAllocation, network_pool::NetworkPool, network_pool_ledger::NetworkPoolLedger,
};
use butler_controller::{
    ip_allocation::IPAllocationReconciler, network_pool::NetworkPoolReconciler, run::COMPONENT,
};
use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{
    Chances, Deed, Failed, Moment, ObjectStore, Operation, Simulation, for_seeds,
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use serde_json::{Value, json};

use super::truth::Truth;
use crate::scene::{self, SYSTEM, TEAM, system};

const STEPS: u64 = 60_000;
/// The pools of the stories. The windows of `wide` reach over two ledgers, and three for its larger wishes.
const POOLS: [&str; 2] = ["narrow", "wide"];

fn truth(store: &ObjectStore) -> Truth {
    Truth {
        pools: store.all::<NetworkPool>().unwrap(),
        ledgers: store.all::<NetworkPoolLedger>().unwrap(),
        allocations: store.all::<IPAllocation>().unwrap(),
    }
}

fn allocation_kind() -> Kind {
    Kind::of::<IPAllocation>()
}

fn pool(name: &str) -> Value {
    let spec = match name {
        "narrow" => json!({ "cidr": "10.40.0.0/28", "reserved": [{ "cidr": "10.40.0.4/31" }] }),
        _ => json!({
            "cidr": "10.41.0.0/20",
            "tenantAllocation": { "ranges": [
                { "start": "10.41.3.252", "end": "10.41.4.3" },
                { "start": "10.41.7.250", "end": "10.41.12.5" },
            ] },
        }),
    };
    scene::object(&scene::pool_kind(), &system(name), json!({ "spec": spec }))
}

fn allocation(name: &str, pool: &str, wish: Value) -> Value {
    let mut spec = json!({
        "poolRef": { "name": pool },
        "tenantClusterRef": { "name": "shop", "namespace": TEAM },
        "type": "loadbalancer",
    });
    spec.as_object_mut()
        .unwrap()
        .extend(wish.as_object().unwrap().clone());
    scene::object(&allocation_kind(), &system(name), json!({ "spec": spec }))
}

/// A world with a cluster, the pools, and as many replicas of each controller.
fn world(seed: u64, replicas: usize) -> Simulation {
    let mut simulation = Simulation::new(seed);
    let shop = ObjectKey::namespaced(TEAM, "shop");
    let scenery = [
        (scene::namespace_kind(), scene::namespace(SYSTEM)),
        (scene::namespace_kind(), scene::namespace(TEAM)),
        (scene::cluster_kind(), scene::cluster(&shop, None, 1)),
        (scene::pool_kind(), pool(POOLS[0])),
        (scene::pool_kind(), pool(POOLS[1])),
    ];
    for (kind, body) in scenery {
        let create = Operation::create(kind, body);
        simulation.store_mut().perform("admin", create).unwrap();
    }
    for _ in 0..replicas {
        simulation.controller(COMPONENT, NetworkPoolReconciler::default);
        simulation.controller(COMPONENT, IPAllocationReconciler::default);
    }
    holds_always(&mut simulation, "no address twice", Truth::nothing_twice);
    simulation
}

/// Adds what must hold at every moment. Only a moment that changed something is looked at.
fn holds_always(simulation: &mut Simulation, name: &str, check: fn(&Truth) -> Result<(), String>) {
    let looked_at = Cell::new(0);
    simulation.invariant(name, move |store| {
        let revision = store.revision();
        if looked_at.replace(revision) == revision {
            return Ok(());
        }
        check(&truth(store))
    });
}

/// Asks for addresses and gives them back, at random.
fn deeds(seed: u64, person: u64, count: usize) -> Vec<(Moment, Deed)> {
    let mut random = SmallRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(person));
    let mut deed = || {
        let name = format!("claim-{person}-{}", random.random_range(0..4));
        if random.random_bool(0.4) {
            return Deed::delete(allocation_kind(), system(&name));
        }
        let pool = POOLS[random.random_range(0..POOLS.len())];
        let wish = match (random.random_range(0..6), pool) {
            (0, _) => json!({}),
            (1, "narrow") => {
                json!({ "pinnedRange": { "startAddress": "10.40.0.8", "endAddress": "10.40.0.9" } })
            }
            (1, _) => {
                json!({ "pinnedRange": { "startAddress": "10.41.3.254", "endAddress": "10.41.4.1" } })
            }
            (2, "wide") => json!({ "count": random.random_range(1..1200) }),
            _ => json!({ "count": random.random_range(1..7) }),
        };
        Deed::create(allocation_kind(), allocation(&name, pool, wish))
    };
    let moments = [
        Moment::Anytime,
        Moment::Anytime,
        Moment::After(Duration::from_secs(1)),
        Moment::AtRest,
    ];
    let mut random = SmallRng::seed_from_u64(seed ^ person);
    (0..count)
        .map(|_| (moments[random.random_range(0..moments.len())], deed()))
        .collect()
}

/// Runs to rest, and sees that all numbers agree and that nothing is written any more.
fn comes_to_rest(simulation: &mut Simulation) -> Result<(), Failed> {
    simulation.run(STEPS)?;
    let told = truth(simulation.store()).at_rest();
    told.unwrap_or_else(|lie| panic!("{lie}\n{}", simulation.log().tail(80)));
    simulation.chances(Chances::calm());
    simulation.look_again();
    let outcome = simulation.run(STEPS)?;
    assert_eq!(
        outcome.writes,
        [],
        "another look changes nothing\n{}",
        simulation.log().tail(60)
    );
    Ok(())
}

#[test]
fn one_controller_that_dies_and_sees_late_never_hides_what_it_gave() {
    for_seeds(0..600, |seed| {
        let mut simulation = world(seed, 1);
        holds_always(
            &mut simulation,
            "the pool hides nothing",
            Truth::nothing_hidden,
        );
        for person in 0..3 {
            simulation.user(&format!("person-{person}"), deeds(seed, person, 7));
        }
        comes_to_rest(&mut simulation)
    })
    .unwrap();
}

#[test]
fn two_controllers_at_once_never_grant_one_address_twice() {
    for_seeds(0..400, |seed| {
        let mut simulation = world(seed, 2);
        for person in 0..3 {
            simulation.user(&format!("person-{person}"), deeds(seed, person, 7));
        }
        comes_to_rest(&mut simulation)
    })
    .unwrap();
}
