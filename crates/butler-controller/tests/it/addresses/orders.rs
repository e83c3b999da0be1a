//! Whatever the order of events and whatever goes wrong on the way.

use std::time::Duration;

use butler_testkit::simulator::{Deed, Moment, Simulation, for_seeds};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use serde_json::{Value, json};

use super::{
    scene::{self as addresses, allocation, allocation_kind, comes_to_rest, holds_always},
    truth::Truth,
};
use crate::scene::{self, system};

/// The pools of the stories. The windows of `wide` reach over two ledgers, and three for its larger wishes.
const POOLS: [&str; 2] = ["narrow", "wide"];

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

/// A world with a cluster, the pools, and as many replicas of each controller.
fn world(seed: u64, replicas: usize) -> Simulation {
    let pools = POOLS.map(|name| (scene::pool_kind(), pool(name)));
    let mut simulation = addresses::world(seed, pools);
    addresses::controllers(&mut simulation, replicas);
    holds_always(&mut simulation, "no address twice", Truth::nothing_twice);
    simulation
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
        Deed::create(allocation_kind(), allocation(&name, pool, &wish))
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
