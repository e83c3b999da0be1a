//! A cluster is paused: nobody works on it, Cluster API included, until it goes on.

use std::sync::Arc;

use butler_api::keys::annotations;
use butler_runtime::object::ObjectKey;
use butler_testkit::simulator::{Deed, Failed, Moment, Operation, for_seeds};
use serde_json::{Value, json};

use crate::{
    cluster_api::{clusters, machines},
    scene::{ask, delete, here, scale, tenant_clusters},
    world::{Platform, seeds},
};

/// Somebody pauses a cluster, or lets it go on.
fn pause(name: &str, paused: bool) -> Deed {
    Deed::edit(tenant_clusters(), here(name), move |body| {
        body["metadata"]["annotations"] = if paused {
            json!({ annotations::PAUSED: "true" })
        } else {
            json!({})
        };
    })
}

/// Whether the Cluster of a cluster says that it is paused.
fn is_paused(platform: &Platform, name: &str) -> bool {
    let tenant = platform.tenant(name);
    let namespace = tenant["status"]["tenantNamespace"].as_str().unwrap();
    let key = ObjectKey::namespaced(namespace, name);
    let cluster = platform.simulation.store().get(&clusters(), &key).unwrap();
    cluster.pointer("/spec/paused") == Some(&Value::Bool(true))
}

/// A machine dies, and Cluster API hears no more of it.
fn lose_a_machine(platform: &mut Platform) {
    let dead = platform.cloud.machines().remove(0);
    platform.cloud.destroy(&dead.uid);
    let machine = platform.machine_known_as(&format!("fake://{}", dead.id));
    let heard = json!({ "metadata": { "annotations": { "example.com/last-heard-of": "now" } } });
    let heard = Operation::Merge(machines(), machine, heard);
    let store = platform.simulation.store_mut();
    store.perform("tenant", heard).unwrap();
}

#[test]
fn a_paused_cluster_is_left_alone_by_everybody_until_it_goes_on() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        platform.user(
            "alice",
            vec![
                (Moment::Anytime, ask("shop", "v1.36.3", 2)),
                (Moment::AtRest, pause("shop", true)),
            ],
        );
        platform.settles()?;
        assert!(is_paused(&platform, "shop"));
        platform.stays_at_rest(seed)?;
        let before = platform.machines("shop");
        lose_a_machine(&mut platform);
        platform.act(scale("shop", 3));
        platform.settles()?;
        let names = |machines: Vec<Arc<Value>>| -> Vec<Value> {
            let machines = machines.iter();
            machines
                .map(|machine| machine["metadata"]["name"].clone())
                .collect()
        };
        assert_eq!(names(platform.machines("shop")), names(before));
        assert_eq!(platform.cloud.machines().len(), 1, "none is replaced");
        platform.act(pause("shop", false));
        platform.settles()?;
        assert!(!is_paused(&platform, "shop"));
        platform.is_ready("shop");
        assert_eq!(platform.cloud.machines().len(), 3);
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_cluster_deleted_while_it_is_paused_goes_when_it_goes_on() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        platform.user(
            "alice",
            vec![
                (Moment::Anytime, ask("shop", "v1.36.3", 2)),
                (Moment::AtRest, pause("shop", true)),
                (Moment::AtRest, delete("shop")),
            ],
        );
        platform.settles()?;
        assert_eq!(platform.cloud.machines().len(), 2, "a pause holds the end");
        platform.stays_at_rest(seed)?;
        platform.act(pause("shop", false));
        platform.settles()?;
        platform.nothing_is_left();
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_cluster_paused_and_let_go_on_while_it_is_made_is_made() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        platform.user(
            "alice",
            vec![
                (Moment::Anytime, ask("shop", "v1.36.3", 1)),
                (Moment::Anytime, pause("shop", true)),
                (Moment::AtRest, pause("shop", false)),
            ],
        );
        platform.settles()?;
        platform.is_ready("shop");
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_pause_that_somebody_set_on_the_cluster_itself_outlives_that_of_the_tenant() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        platform.user("alice", vec![(Moment::Anytime, ask("shop", "v1.36.3", 1))]);
        platform.settles()?;
        let tenant = platform.tenant("shop");
        let namespace = tenant["status"]["tenantNamespace"].as_str().unwrap();
        let key = ObjectKey::namespaced(namespace, "shop");
        let paused = json!({ "spec": { "paused": true } });
        let paused = Operation::Merge(clusters(), key, paused);
        let store = platform.simulation.store_mut();
        store.perform("operator", paused).unwrap();
        platform.user(
            "alice",
            vec![
                (Moment::AtRest, pause("shop", true)),
                (Moment::AtRest, pause("shop", false)),
            ],
        );
        platform.settles()?;
        assert!(is_paused(&platform, "shop"));
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}
