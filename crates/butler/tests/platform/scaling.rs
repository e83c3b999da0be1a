//! More workers, fewer, none, and other pools of them.

use butler_testkit::simulator::{Deed, Failed, Moment, for_seeds};
use serde_json::json;

use crate::{
    scene::{ask, delete, here, scale, tenant_clusters},
    world::{Platform, seeds},
};

/// Some wait until all is done before they want something else, others do not.
fn patience(seed: u64) -> Moment {
    if seed.is_multiple_of(3) {
        Moment::Anytime
    } else {
        Moment::AtRest
    }
}

#[test]
fn workers_come_and_go_as_they_are_asked_for() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        let mut steps = vec![(Moment::Anytime, ask("shop", "v1.36.3", 2))];
        let numbers = [4, 1, 0, 1];
        steps.extend(numbers.map(|workers| (patience(seed), scale("shop", workers))));
        platform.user("alice", steps);
        platform.settles()?;
        platform.is_ready("shop");
        assert_eq!(platform.cloud.machines().len(), 1);
        platform.addresses_agree();
        platform.stays_at_rest(seed)?;
        platform.act(delete("shop"));
        platform.settles()?;
        platform.nothing_is_left();
        Ok::<(), Failed>(())
    })
    .unwrap();
}

/// Somebody wants these pools beside the plain workers.
fn pools(names: &'static [&'static str]) -> Deed {
    Deed::edit(tenant_clusters(), here("shop"), move |body| {
        let pools = names
            .iter()
            .map(|name| json!({ "name": name, "replicas": 1, "labels": { "tier": name } }));
        body["spec"]["nodePools"] = pools.collect();
    })
}

#[test]
fn pools_are_added_and_removed_beside_the_others() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        platform.user(
            "alice",
            vec![
                (Moment::Anytime, ask("shop", "v1.36.3", 1)),
                (patience(seed), pools(&["batch"])),
                (patience(seed), pools(&["batch", "edge"])),
                (patience(seed), pools(&["edge"])),
            ],
        );
        platform.settles()?;
        platform.is_ready("shop");
        let machines = platform.machines("shop");
        let names: Vec<_> = machines
            .iter()
            .filter_map(|machine| {
                machine["metadata"]["labels"]["cluster.x-k8s.io/deployment-name"].as_str()
            })
            .collect();
        assert_eq!(names, ["shop-edge", "shop-workers"]);
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}
