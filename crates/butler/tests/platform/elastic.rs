//! Addresses for Services that become more by need and fewer without, on a platform where others need addresses, too.

use std::time::Duration;

use butler_testkit::simulator::{Deed, Failed, Moment, ObjectStore, for_seeds};
use serde_json::{Value, json};

use crate::{
    host::{self, HOST, SERVICES},
    scene::{ask, delete, here, scale, tenant_clusters},
    world::{Platform, seeds},
};

/// How many addresses for Services a cluster may have.
const MOST: i32 = 4;
/// Clusters of the stories.
const CLUSTERS: [&str; 2] = ["shop", "bank"];
/// Enough for everything that two clusters may have: their Services, their machines.
const ROOMY: &str = "10.213.0.0/26";

/// Ranges begin with one address and grow by one, as far as they may.
fn elastic_ranges() -> Value {
    json!({
        "loadBalancer": {
            "allocationMode": "elastic", "initialPoolSize": 1, "growthIncrement": 1,
        },
        "quotaPerTenant": { "maxLoadBalancerIPs": MOST },
    })
}

/// A platform whose ranges follow the need, with somebody who serves Services.
fn platform(seed: u64) -> Platform {
    let mut platform = Platform::with_addresses(seed, ROOMY, &elastic_ranges());
    platform.simulation.foreign(HOST, host::serve);
    platform.always("what is used stays", host::used_ranges_stay);
    platform.always("nobody has more than the quota", |store| {
        let mut clusters = CLUSTERS.iter().map(|name| (name, held(store, name)));
        let greedy = clusters.find(|(_, held)| *held > MOST);
        greedy.map_or(Ok(()), |(name, held)| Err(format!("{name} has {held}")))
    });
    platform
}

/// How many addresses for Services a cluster has.
fn held(store: &ObjectStore, name: &str) -> i32 {
    let ranges = host::ranges(store, name).into_iter();
    let granted = ranges.filter(host::is_granted);
    granted.filter_map(|range| range.spec.count).sum()
}

/// Somebody makes Services, or deletes some.
fn services(name: &str, count: i32) -> Deed {
    Deed::annotate(tenant_clusters(), here(name), SERVICES, &count.to_string())
}

/// At rest a cluster is Ready, and has addresses for as many Services as it may have, but no range that nobody uses beside the first.
fn has(platform: &Platform, name: &str, services: i32) {
    platform.is_ready(name);
    let store = platform.simulation.store();
    let log = || platform.simulation.log().tail(100);
    let held = held(store, name);
    assert!(
        held >= services.min(MOST),
        "{name} has {held} for {services}\n{}",
        log()
    );
    let mut granted = host::ranges(store, name).into_iter();
    let idle = granted
        .find(|range| host::is_growth(range) && host::is_granted(range) && !host::is_marked(range));
    assert_eq!(idle, None, "{}", log());
    let conditions = platform.tenant(name)["status"]["conditions"].clone();
    let mut conditions = conditions.as_array().unwrap().iter();
    let said = conditions.find(|one| one["type"] == "NetworkReady");
    let words = said.unwrap()["message"].as_str().unwrap();
    let is_refused = words.contains("more addresses cannot be had");
    assert_eq!(is_refused, services > MOST, "{words}\n{}", log());
}

#[test]
fn ranges_grow_and_shrink_with_the_need_within_the_quota_and_all_of_them_are_returned() {
    for_seeds(seeds(), |seed| {
        let mut platform = platform(seed);
        platform.user("alice", vec![(Moment::Anytime, ask("shop", "v1.36.3", 1))]);
        platform.settles()?;
        has(&platform, "shop", 0);
        for count in [1, 3, 6, 2, 0] {
            platform.act(services("shop", count));
            platform.settles()?;
            has(&platform, "shop", count);
            platform.addresses_agree();
        }
        platform.stays_at_rest(seed)?;
        platform.act(services("shop", 3));
        platform.settles()?;
        platform.act(delete("shop"));
        platform.settles()?;
        platform.nothing_is_left();
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn neighbours_whose_needs_change_at_once_have_what_they_need_and_nothing_twice() {
    for_seeds(seeds(), |seed| {
        let mut platform = platform(seed);
        let seconds = |turn: u64| Duration::from_secs((seed + 1) * turn * 97 % 800);
        for (turn, name) in (1_u64..).zip(CLUSTERS) {
            let after = |step: u64| Moment::After(seconds(turn + step));
            let steps = vec![
                (Moment::Anytime, ask(name, "v1.36.3", 1)),
                (after(1), services(name, 5)),
                (after(2), scale(name, 2)),
                (after(3), services(name, 1)),
                (after(4), services(name, 3)),
            ];
            platform.user(name, steps);
        }
        platform.settles()?;
        for name in CLUSTERS {
            has(&platform, name, 3);
        }
        platform.addresses_agree();
        platform.stays_at_rest(seed)?;
        // One goes while its ranges grow, the other while they shrink.
        let moment = Moment::After(seconds(1));
        for (name, count) in CLUSTERS.into_iter().zip([4, 0]) {
            let steps = vec![
                (Moment::Anytime, services(name, count)),
                (moment, delete(name)),
            ];
            platform.user(name, steps);
        }
        platform.settles()?;
        platform.nothing_is_left();
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}
