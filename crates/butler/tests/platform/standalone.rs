//! A control plane on machines of its own: it comes, its workers come and go, it becomes another, and goes.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use butler_testkit::simulator::{Failed, Moment, ObjectStore, for_seeds, players::text};
use serde_json::Value;

use crate::{
    cluster_api::is_of_control_plane,
    laws::machines_of,
    scene::{ask_standalone, delete, scale, upgrade},
    world::{Platform, seeds},
};

/// Some ask for three members, others for one.
fn members(seed: u64) -> i64 {
    if seed.is_multiple_of(2) { 1 } else { 3 }
}

/// The addresses of the machines of a control plane.
fn addresses(platform: &Platform, name: &str) -> BTreeSet<String> {
    let machines = platform.machines(name).into_iter();
    let own = machines.filter(|machine| is_of_control_plane(machine));
    let address = |machine: &Value| {
        let addresses = machine["status"]["addresses"].as_array();
        let mut addresses = addresses.into_iter().flatten();
        let inside = addresses.find(|address| address["type"] == "InternalIP");
        inside.unwrap()["address"].as_str().unwrap().to_owned()
    };
    own.map(|machine| address(&machine)).collect()
}

/// Whoever asks for the API server is led to the machines of the control plane, and to no other.
fn is_reached(platform: &Platform, name: &str) {
    let balancers = platform.cloud.load_balancers();
    let [balancer] = &balancers[..] else {
        panic!("{balancers:?}\n{}", platform.simulation.log().tail(60));
    };
    let targets = balancer.targets.iter();
    let targets: BTreeSet<_> = targets.filter_map(|target| target.ip.clone()).collect();
    assert_eq!(targets, addresses(platform, name));
    let endpoint = platform.tenant(name)["status"]["controlPlaneEndpoint"].clone();
    assert_eq!(endpoint, format!("{}:6443", balancer.address));
}

#[test]
fn a_control_plane_on_machines_comes_has_its_workers_scaled_and_goes() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        platform.user(
            "alice",
            vec![
                (
                    Moment::Anytime,
                    ask_standalone("ledger", "v1.36.3", members(seed), 1),
                ),
                (Moment::AtRest, scale("ledger", 3)),
                (Moment::AtRest, scale("ledger", 2)),
            ],
        );
        platform.settles()?;
        platform.is_ready("ledger");
        is_reached(&platform, "ledger");
        platform.addresses_agree();
        platform.stays_at_rest(seed)?;
        platform.act(delete("ledger"));
        platform.settles()?;
        platform.nothing_is_left();
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

/// No worker is newer than any machine of its control plane.
fn nobody_is_ahead(store: &ObjectStore) -> Result<(), String> {
    let machines = machines_of(store, "ledger").into_iter();
    let (own, workers): (Vec<_>, Vec<_>) =
        machines.partition(|machine| is_of_control_plane(machine));
    // All have as many digits: texts are in the order of versions.
    let version = |machine: &Arc<Value>| text(machine, "/spec/version").to_owned();
    let oldest = own.iter().map(version).min();
    let newest = workers.iter().map(version).max();
    match oldest.zip(newest) {
        Some((oldest, newest)) if newest > oldest => Err(format!("{newest} with {oldest}")),
        _ => Ok(()),
    }
}

#[test]
fn a_control_plane_on_machines_is_upgraded_before_its_workers() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        platform.always("no worker is ahead of its control plane", nobody_is_ahead);
        let wish = ask_standalone("ledger", "v1.35.4", members(seed), 1);
        platform.user("alice", vec![(Moment::Anytime, wish)]);
        platform.settles()?;
        let before = platform.machines_at_provider("ledger");
        platform.act(upgrade("ledger", "v1.36.3"));
        platform.settles()?;
        platform.is_ready("ledger");
        is_reached(&platform, "ledger");
        let after = platform.machines_at_provider("ledger");
        assert!(before.is_disjoint(&after), "{before:?} became {after:?}");
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_control_plane_on_machines_that_is_deleted_while_it_is_made_leaves_nothing() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        let wish = ask_standalone("ledger", "v1.36.3", members(seed), 2);
        let soon = Moment::After(Duration::from_secs(seed % 13));
        platform.user(
            "alice",
            vec![(Moment::Anytime, wish), (soon, delete("ledger"))],
        );
        platform.settles()?;
        platform.nothing_is_left();
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}
