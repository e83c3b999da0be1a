//! Addresses of the machines of tenant clusters, which count for the clusters.

use butler_api::{
    butler::machine_request::MachineRequest,
    keys::{groups, labels},
};
use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{Deed, Failed, Moment, Simulation, for_seeds};
use serde_json::{Value, json};

use super::{
    scene::{
        Whim, allocation_kind, comes_to_rest, controllers, give_back, holds_always, pool, put,
        shows, world,
    },
    truth::Truth,
};
use crate::scene::{self, TEAM, system};

/// Where the machines of the cluster `cheap` are asked for.
const NAMESPACE: &str = "cheap-0a1b2c3d";
const MACHINES: [&str; 6] = ["m0", "m1", "m2", "m3", "m4", "m5"];

/// A world where the cluster `cheap` may have three addresses for machines, from two pools.
fn limited(seed: u64) -> Simulation {
    let provider = system("rack");
    let cheap = ObjectKey::namespaced(TEAM, "cheap");
    let network = json!({
        "mode": "ipam",
        "poolRefs": [{ "name": "blue" }, { "name": "green" }],
        "quotaPerTenant": { "maxNodeIPs": 3, "maxLoadBalancerIPs": 2 },
    });
    let spec = json!({ "provider": "local", "network": network });
    let scenery = [
        (scene::provider_kind(), scene::provider(&provider, spec)),
        (
            scene::cluster_kind(),
            scene::cluster(&cheap, Some(&provider), 1),
        ),
        (scene::namespace_kind(), scene::namespace(NAMESPACE)),
        (
            scene::pool_kind(),
            pool("blue", &json!({ "cidr": "10.42.0.0/28" })),
        ),
        (
            scene::pool_kind(),
            pool("green", &json!({ "cidr": "10.43.0.0/28" })),
        ),
    ];
    let mut simulation = world(seed, scenery);
    for name in MACHINES {
        let request = json!({ "spec": {
            "providerRef": { "name": "rack", "namespace": "butler-system" },
            "role": "worker", "cpu": 1, "memoryMB": 1024, "diskGB": 10,
        } });
        let key = ObjectKey::namespaced(NAMESPACE, name);
        let kind = Kind::of::<MachineRequest>();
        let body = scene::object(&kind, &key, request);
        put(&mut simulation, kind, body);
    }
    controllers(&mut simulation, 1);
    holds_always(&mut simulation, "no address twice", Truth::nothing_twice);
    simulation
}

/// The address of a machine, as providers ask for it.
fn for_machine(name: &str, pool: &str) -> Value {
    let mut body = scene::object(
        &allocation_kind(),
        &system(name),
        json!({ "spec": {
            "poolRef": { "name": pool }, "type": "nodes", "count": 1,
            "ownerRef": {
                "apiVersion": groups::BUTLER_API_VERSION, "kind": "MachineRequest",
                "name": name, "namespace": NAMESPACE,
            },
        } }),
    );
    body["metadata"]["labels"] = json!({
        labels::SOURCE_NAMESPACE: TEAM, labels::SOURCE_NAME: "cheap",
    });
    body
}

fn asks(name: &str, pool: &str) -> Deed {
    Deed::create(allocation_kind(), for_machine(name, pool))
}

/// How many machines have an address, and how many are told that they are too many.
fn counted(simulation: &Simulation) -> (usize, usize) {
    let shown: Vec<_> = MACHINES
        .iter()
        .map(|name| shows(simulation, name))
        .collect();
    let granted = shown.iter().filter(|shown| shown.starts_with("10."));
    let refused = shown.iter().filter(|shown| *shown == "QuotaExceeded");
    (granted.count(), refused.count())
}

#[test]
fn a_tenant_gets_no_more_machines_than_its_provider_allows() {
    for_seeds(0..100, |seed| {
        let mut simulation = limited(seed);
        holds_always(&mut simulation, "the quota holds", |truth| {
            truth.at_most("cheap", 3)
        });
        let steps = Whim::new(seed, 0).steps(12, |whim| {
            let name = whim.pick(&MACHINES);
            if whim.pick(&[true, false, false]) {
                return give_back(name);
            }
            asks(name, "blue")
        });
        simulation.user("provider", steps);
        comes_to_rest(&mut simulation)?;
        let (granted, refused) = counted(&simulation);
        assert!(
            granted <= 3 && (granted == 3 || refused == 0),
            "{granted} {refused}"
        );
        Ok::<_, Failed>(())
    })
    .unwrap();
}

#[test]
fn a_machine_that_waits_for_its_tenants_share_gets_an_address_when_another_goes_whatever_its_pool()
{
    for_seeds(0..100, |seed| {
        let mut simulation = limited(seed);
        let first = ["m0", "m1"].map(|name| (Moment::Anytime, asks(name, "blue")));
        let steps = first
            .into_iter()
            .chain([(Moment::AtRest, asks("m2", "green"))]);
        simulation.user("provider", steps.collect());
        comes_to_rest(&mut simulation)?;
        assert_eq!(counted(&simulation), (3, 0));
        let waits = vec![(Moment::Anytime, asks("m3", "blue"))];
        simulation.user("growing", waits);
        comes_to_rest(&mut simulation)?;
        assert_eq!(shows(&simulation, "m3"), "QuotaExceeded");
        let shrinks = vec![(Moment::Anytime, give_back("m2"))];
        simulation.user("shrinking", shrinks);
        comes_to_rest(&mut simulation)?;
        assert_eq!(shows(&simulation, "m3"), "10.42.0.3-10.42.0.3");
        Ok::<_, Failed>(())
    })
    .unwrap();
}
