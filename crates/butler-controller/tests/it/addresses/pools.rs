//! Pools that change, that overlap, and that others take addresses of.

use butler_api::{
    butler::network_pool::NetworkPool, cluster_api::machine::Machine, conditions::types,
};
use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{Deed, Failed, Moment, Operation, Simulation, for_seeds};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    scene::{
        Whim, ask, comes_to_rest, controllers, give_back, holds_always, pinned, pool, set_pool,
        shows, window, world,
    },
    truth::Truth,
};
use crate::scene::{self, TEAM, system};

/// A pool of 10.42.0.0/28 that gives out this window.
fn part(start: u8, end: u8) -> Value {
    let window = window(&format!("10.42.0.{start}"), &format!("10.42.0.{end}"));
    json!({ "cidr": "10.42.0.0/28", "tenantAllocation": window })
}

/// Asks these pools for a few addresses, and gives them back.
fn asks(
    seed: u64,
    person: u64,
    count: usize,
    pools: &'static [&'static str],
) -> Vec<(Moment, Deed)> {
    Whim::new(seed, person).steps(count, |whim| {
        let name = format!("claim-{person}-{}", whim.pick(&[0, 1, 2]));
        if whim.pick(&[true, false, false]) {
            return give_back(&name);
        }
        let wish = match whim.pick(&[0, 1, 2]) {
            0 => pinned("10.42.0.6", "10.42.0.7"),
            _ => json!({ "count": whim.pick(&[1, 2, 3, 6]) }),
        };
        ask(&name, whim.pick(pools), &wish)
    })
}

fn pool_named(simulation: &Simulation, name: &str) -> NetworkPool {
    let pools = simulation.store().all::<NetworkPool>().unwrap();
    pools
        .into_iter()
        .find(|pool| pool.name_any() == name)
        .unwrap()
}

fn condition(pool: &NetworkPool, type_: &str) -> String {
    let status = pool.status.as_ref().unwrap();
    let said = status.conditions.iter().find(|one| one.type_ == type_);
    said.unwrap().message.clone()
}

#[test]
fn pools_that_overlap_never_give_one_address_twice() {
    const POOLS: &[&str] = &["blue", "green"];
    for_seeds(0..150, |seed| {
        let mut simulation = world(seed, []);
        controllers(&mut simulation, 1);
        holds_always(&mut simulation, "no address twice", Truth::nothing_twice);
        simulation.user(
            "alice",
            vec![
                (
                    Moment::Anytime,
                    Deed::create(scene::pool_kind(), pool("blue", &part(1, 7))),
                ),
                (Moment::Anytime, set_pool("blue", part(1, 10))),
            ],
        );
        simulation.user(
            "bob",
            vec![(
                Moment::Anytime,
                Deed::create(scene::pool_kind(), pool("green", &part(6, 14))),
            )],
        );
        for person in 0..2 {
            let steps = asks(seed, person, 7, POOLS);
            simulation.user(&format!("person-{person}"), steps);
        }
        comes_to_rest(&mut simulation)?;
        let disjoint = condition(&pool_named(&simulation, "green"), types::DISJOINT);
        assert!(
            disjoint.contains("10.42.0.6-10.42.0.10 with NetworkPool butler-system/blue"),
            "{disjoint}"
        );

        // All are given back and one of the pools goes: the other gives out what both had.
        let claims =
            (0..2).flat_map(|person| (0..3).map(move |number| format!("claim-{person}-{number}")));
        let mut steps: Vec<_> = claims
            .map(|claim| (Moment::Anytime, give_back(&claim)))
            .collect();
        steps.push((
            Moment::Anytime,
            Deed::delete(scene::pool_kind(), system("blue")),
        ));
        steps.push((
            Moment::Anytime,
            ask("later", "green", &pinned("10.42.0.6", "10.42.0.14")),
        ));
        simulation.user("cleaner", steps);
        comes_to_rest(&mut simulation)?;
        assert_eq!(shows(&simulation, "later"), "10.42.0.6-10.42.0.14");
        Ok::<_, Failed>(())
    })
    .unwrap();
}

#[test]
fn a_pool_made_of_what_another_has_left_waits_for_the_last_of_it() {
    for_seeds(0..150, |seed| {
        let mut simulation = world(seed, [(scene::pool_kind(), pool("blue", &part(1, 14)))]);
        controllers(&mut simulation, 1);
        holds_always(&mut simulation, "no address twice", Truth::nothing_twice);
        simulation.user("person", asks(seed, 0, 4, &["blue"]));
        // A number of addresses changes hands from one pool to another, at rest, while blue has some of them in use.
        let keeper = vec![
            (
                Moment::Anytime,
                ask("keeper", "blue", &pinned("10.42.0.12", "10.42.0.12")),
            ),
            (Moment::AtRest, set_pool("blue", part(1, 7))),
            (
                Moment::AtRest,
                Deed::create(scene::pool_kind(), pool("green", &part(8, 14))),
            ),
            (
                Moment::Anytime,
                ask("all", "green", &pinned("10.42.0.8", "10.42.0.14")),
            ),
        ];
        simulation.user("keeper", keeper);
        comes_to_rest(&mut simulation)?;
        if shows(&simulation, "keeper") == "10.42.0.12-10.42.0.12" {
            assert_eq!(shows(&simulation, "all"), "PinnedRangeTaken");
        }
        let claims = ["claim-0-0", "claim-0-1", "claim-0-2", "keeper"];
        let steps = claims.map(|claim| (Moment::Anytime, give_back(claim)));
        simulation.user("cleaner", steps.into());
        comes_to_rest(&mut simulation)?;
        assert_eq!(shows(&simulation, "all"), "10.42.0.8-10.42.0.14");
        Ok::<_, Failed>(())
    })
    .unwrap();
}

#[test]
fn addresses_that_change_pools_while_they_are_asked_for_are_given_once() {
    for_seeds(0..150, |seed| {
        let pools = [("blue", part(1, 10)), ("green", part(11, 14))];
        let pools = pools.map(|(name, spec)| (scene::pool_kind(), pool(name, &spec)));
        let mut simulation = world(seed, pools);
        controllers(&mut simulation, 1);
        holds_always(&mut simulation, "no address twice", Truth::nothing_twice);
        for person in 0..3 {
            let steps = asks(seed, person, 7, &["blue", "green"]);
            simulation.user(&format!("person-{person}"), steps);
        }
        let border = Whim::new(seed, 9).steps(8, |whim| match whim.pick(&[0, 1, 2, 3]) {
            0 => set_pool("blue", part(1, 10)),
            1 => set_pool("blue", part(1, 4)),
            2 => set_pool("green", part(5, 14)),
            _ => set_pool("green", part(11, 14)),
        });
        simulation.user("admin", border);
        comes_to_rest(&mut simulation)
    })
    .unwrap();
}

#[test]
fn pools_grow_and_shrink_while_addresses_are_asked_for() {
    for_seeds(0..120, |seed| {
        let mut simulation = world(seed, [(scene::pool_kind(), pool("blue", &part(3, 9)))]);
        controllers(&mut simulation, 1 + usize::from(seed % 3 == 0));
        holds_always(&mut simulation, "no address twice", Truth::nothing_twice);
        for person in 0..2 {
            simulation.user(
                &format!("person-{person}"),
                asks(seed, person, 8, &["blue"]),
            );
        }
        let shapes = [
            part(3, 9),
            part(1, 4),
            part(8, 14),
            json!({ "cidr": "10.42.0.0/28" }),
            json!({ "cidr": "10.42.0.0/20", "reserved": [{ "cidr": "10.42.0.0/29" }] }),
        ];
        let changes = Whim::new(seed, 9).steps(6, |whim| set_pool("blue", whim.pick(&shapes)));
        simulation.user("admin", changes);
        comes_to_rest(&mut simulation)
    })
    .unwrap();
}

/// Gives an object of the management cluster an address.
fn appears(simulation: &mut Simulation, kind: Kind, key: ObjectKey, status: Value) {
    let mut done = false;
    let name = kind.kind.clone();
    let body = scene::object(&kind, &key, json!({ "spec": {} }));
    simulation.foreign(&name, move |store| {
        if std::mem::replace(&mut done, true) {
            return None;
        }
        let create = Operation::create(kind.clone(), body.clone());
        store.perform("admin", create).unwrap();
        store.update_status("admin", &kind, &key, status.clone());
        Some(format!("creates {kind} {key}"))
    });
}

#[test]
fn addresses_of_the_management_cluster_itself_are_not_given_out() {
    for_seeds(0..80, |seed| {
        let mut simulation = world(seed, [(scene::pool_kind(), pool("blue", &part(1, 14)))]);
        controllers(&mut simulation, 1);
        holds_always(&mut simulation, "no address twice", Truth::nothing_twice);
        let ingress = json!({ "loadBalancer": { "ingress": [{ "ip": "10.42.0.3" }] } });
        appears(
            &mut simulation,
            Kind::of::<Service>(),
            system("ingress"),
            ingress,
        );
        let internal = |address: &str| {
            json!({ "addresses": [
                { "type": "InternalIP", "address": address },
                { "type": "Hostname", "address": "worker" },
            ] })
        };
        let node = ObjectKey::cluster("worker");
        appears(
            &mut simulation,
            Kind::of::<Node>(),
            node,
            internal("10.42.0.6"),
        );
        let machine = ObjectKey::namespaced(TEAM, "machine");
        appears(
            &mut simulation,
            Kind::of::<Machine>(),
            machine,
            internal("10.42.0.9"),
        );
        let wishes = vec![
            (
                Moment::AtRest,
                ask("pinned", "blue", &pinned("10.42.0.6", "10.42.0.6")),
            ),
            (Moment::Anytime, ask("most", "blue", &json!({ "count": 5 }))),
            (Moment::Anytime, ask("none", "blue", &json!({ "count": 6 }))),
        ];
        simulation.user("person", wishes);
        comes_to_rest(&mut simulation)?;
        assert_eq!(shows(&simulation, "pinned"), "PinnedRangeTaken");
        assert_eq!(shows(&simulation, "most"), "10.42.0.10-10.42.0.14");
        assert_eq!(shows(&simulation, "none"), "PoolExhausted");
        let status = pool_named(&simulation, "blue").status.unwrap();
        let users: Vec<_> = status
            .infrastructure_allocations
            .iter()
            .map(|user| json!([user.ip, user.source]))
            .collect();
        let expected = [
            json!(["10.42.0.3", "metallb"]),
            json!(["10.42.0.6", "node"]),
            json!(["10.42.0.9", "machine"]),
        ];
        assert_eq!(users, expected);

        let leaving = Deed::delete(Kind::of::<Node>(), ObjectKey::cluster("worker"));
        simulation.user("operator", vec![(Moment::Anytime, leaving)]);
        comes_to_rest(&mut simulation)?;
        assert_eq!(shows(&simulation, "pinned"), "10.42.0.6-10.42.0.6");
        Ok::<_, Failed>(())
    })
    .unwrap();
}

/// A world where the cluster `cheap` may have four addresses for load balancers.
fn limited(seed: u64) -> Simulation {
    let provider = system("rack");
    let cheap = ObjectKey::namespaced(TEAM, "cheap");
    let network = json!({
        "mode": "ipam",
        "poolRefs": [{ "name": "blue" }],
        "quotaPerTenant": { "maxLoadBalancerIPs": 4 },
    });
    let spec = json!({ "provider": "local", "network": network });
    let scenery = [
        (scene::provider_kind(), scene::provider(&provider, spec)),
        (
            scene::cluster_kind(),
            scene::cluster(&cheap, Some(&provider), 1),
        ),
        (scene::pool_kind(), pool("blue", &part(1, 14))),
    ];
    let mut simulation = world(seed, scenery);
    controllers(&mut simulation, 1);
    holds_always(&mut simulation, "no address twice", Truth::nothing_twice);
    simulation
}

/// Asks for so many addresses for the cluster `cheap`.
fn for_cheap(name: &str, count: i32) -> Deed {
    let owner = json!({ "name": "cheap", "namespace": TEAM });
    ask(
        name,
        "blue",
        &json!({ "count": count, "tenantClusterRef": owner }),
    )
}

#[test]
fn no_tenant_gets_more_than_its_provider_allows() {
    for_seeds(0..100, |seed| {
        let mut simulation = limited(seed);
        holds_always(&mut simulation, "the quota holds", |truth| {
            truth.at_most("cheap", 4)
        });
        let steps = Whim::new(seed, 0).steps(9, |whim| {
            let name = format!("cheap-{}", whim.pick(&[0, 1, 2, 3]));
            if whim.pick(&[true, false, false]) {
                return give_back(&name);
            }
            for_cheap(&name, whim.pick(&[1, 2, 3]))
        });
        simulation.user("tenant", steps);
        let others = vec![
            (Moment::Anytime, for_cheap("five", 5)),
            (
                Moment::Anytime,
                ask("unlimited", "blue", &json!({ "count": 6 })),
            ),
        ];
        simulation.user("others", others);
        comes_to_rest(&mut simulation)?;
        assert_eq!(shows(&simulation, "five"), "QuotaExceeded");
        let unlimited = shows(&simulation, "unlimited");
        assert!(unlimited.contains("10.42.0."), "{unlimited}");
        Ok::<_, Failed>(())
    })
    .unwrap();
}

#[test]
fn who_waits_for_a_larger_share_gets_it_when_the_provider_allows_more() {
    for_seeds(0..60, |seed| {
        let mut simulation = limited(seed);
        simulation.user("tenant", vec![(Moment::Anytime, for_cheap("five", 5))]);
        comes_to_rest(&mut simulation)?;
        assert_eq!(shows(&simulation, "five"), "QuotaExceeded");
        let raise = Deed::edit(scene::provider_kind(), system("rack"), |body| {
            body["spec"]["network"]["quotaPerTenant"]["maxLoadBalancerIPs"] = 5.into();
        });
        simulation.user("admin", vec![(Moment::Anytime, raise)]);
        comes_to_rest(&mut simulation)?;
        assert_eq!(shows(&simulation, "five"), "10.42.0.1-10.42.0.5");
        Ok::<_, Failed>(())
    })
    .unwrap();
}
