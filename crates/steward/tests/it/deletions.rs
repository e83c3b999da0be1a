//! However a deletion comes, it ends, and nothing is left behind.

use std::time::Duration;

use butler_api::{
    conditions::types,
    keys::{finalizers, labels, values},
};
use butler_runtime::object::ObjectKey;
use butler_testkit::simulator::{Deed, Failed, Moment, Operation, for_seeds};
use serde_json::json;

use crate::{
    cast::{
        STEPS, assert_at_rest, assert_nothing_leaked, assert_ready, create_deed, found, left,
        seeds, store_deed, world,
    },
    generators::generator_deed,
    scene::{self, TEAM, here},
};

#[test]
fn a_control_plane_deleted_at_any_time_leaves_nothing_and_its_neighbour_alone() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, database) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        let wait = Moment::After(Duration::from_secs(seed % 7));
        let delete = Deed::delete(scene::control_planes(), here("shop"));
        simulation.user(
            "alice",
            vec![create_deed("shop", json!({})), (wait, delete)],
        );
        simulation.user("bob", vec![create_deed("web", json!({}))]);
        simulation.run(STEPS)?;
        let remains: Vec<_> = left(&simulation)
            .into_iter()
            .filter(|one| one.contains("shop"))
            .collect();
        assert!(
            remains.is_empty(),
            "{remains:?}\n{}",
            simulation.log().tail(60)
        );
        assert_ready(&simulation, "web");
        assert_eq!(
            database.contents.lock().unwrap().len(),
            1,
            "the neighbour keeps its data"
        );
        assert_nothing_leaked(&simulation, &database);
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn what_an_older_release_holds_goes_with_its_control_plane() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, database) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        let held = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": "shop-datastore-config", "namespace": TEAM,
                "labels": {
                    labels::STEWARD_PROJECT: values::STEWARD_PROJECT,
                    labels::STEWARD_NAME: "shop",
                    labels::STEWARD_COMPONENT: "datastore-config",
                },
                "finalizers": [finalizers::DATA_STORE_SECRET],
            },
        });
        let create_held = Deed::create(scene::secrets(), held);
        let delete = Deed::delete(scene::control_planes(), here("shop"));
        simulation.user(
            "alice",
            vec![
                (Moment::Anytime, create_held),
                create_deed("shop", json!({})),
                (Moment::AtRest, delete),
            ],
        );
        simulation.run(STEPS)?;
        let remains: Vec<_> = left(&simulation)
            .into_iter()
            .filter(|one| one.contains("shop"))
            .collect();
        assert!(
            remains.is_empty(),
            "{remains:?}\n{}",
            simulation.log().tail(60)
        );
        assert_nothing_leaked(&simulation, &database);
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_control_plane_with_kubeconfigs_for_others_takes_them_along() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, database) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        // In some worlds the kubeconfig is there by then, in others it is on its way.
        let wait = if seed % 4 < 2 {
            Moment::AtRest
        } else {
            Moment::After(Duration::from_secs(seed % 7))
        };
        let delete = Deed::delete(scene::control_planes(), here("shop"));
        simulation.user(
            "alice",
            vec![create_deed("shop", json!({})), (wait, delete)],
        );
        simulation.user("bob", vec![create_deed("web", json!({}))]);
        simulation.user("carol", vec![generator_deed("monitoring", json!({}))]);
        simulation.run(STEPS)?;
        let remains: Vec<_> = left(&simulation)
            .into_iter()
            .filter(|one| one.contains("shop"))
            .collect();
        assert!(
            remains.is_empty(),
            "{remains:?}\n{}",
            simulation.log().tail(60)
        );
        assert_nothing_leaked(&simulation, &database);
        let key = ObjectKey::cluster("monitoring");
        let generator = found(&simulation, &scene::generators(), &key);
        assert_eq!(scene::ready(&generator), "True Ready", "{generator}");
        assert_eq!(generator["status"]["resources"], 1, "{generator}");
        found(&simulation, &scene::secrets(), &here("web-monitoring"));
        assert_at_rest(&mut simulation)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_namespace_deleted_at_any_time_takes_everything_with_it() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, database) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        simulation.user("alice", vec![create_deed("shop", json!({}))]);
        let wait = Moment::After(Duration::from_secs(seed % 7));
        let delete = Deed::delete(scene::namespaces(), ObjectKey::cluster(TEAM));
        simulation.user("admin", vec![(wait, delete)]);
        simulation.run(STEPS)?;
        assert_eq!(left(&simulation), [""; 0], "{}", simulation.log().tail(60));
        assert!(database.contents.lock().unwrap().is_empty());
        assert_nothing_leaked(&simulation, &database);
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_store_in_use_goes_after_its_control_planes() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, database) = world(seed);
        let key = ObjectKey::cluster("default");
        simulation.user(
            "operator",
            vec![
                store_deed(),
                (Moment::AtRest, Deed::delete(scene::stores(), key.clone())),
            ],
        );
        simulation.user("alice", vec![create_deed("shop", json!({}))]);
        simulation.run(STEPS)?;
        let held = found(&simulation, &scene::stores(), &key);
        assert_eq!(scene::ready(&held), "False DeletionBlocked");
        assert_ready(&simulation, "shop");
        let delete = Operation::delete(scene::control_planes(), here("shop"));
        simulation.store_mut().perform("alice", delete).unwrap();
        simulation.run(STEPS)?;
        assert!(simulation.store().get(&scene::stores(), &key).is_none());
        assert_eq!(left(&simulation), [""; 0]);
        assert!(database.contents.lock().unwrap().is_empty());
        assert_nothing_leaked(&simulation, &database);
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_control_plane_whose_store_is_gone_for_good_can_be_deleted() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, database) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        simulation.user("alice", vec![create_deed("shop", json!({}))]);
        simulation.run(STEPS)?;
        // The machines burn down, and with them what was on them.
        *database.is_down.lock().unwrap() = true;
        let kinds = [
            (scene::control_planes(), here("shop")),
            (scene::stores(), ObjectKey::cluster("default")),
        ];
        for (kind, key) in kinds.clone() {
            simulation
                .store_mut()
                .perform("operator", Operation::delete(kind, key))
                .unwrap();
        }
        database.contents.lock().unwrap().clear();
        simulation.run(STEPS)?;
        for (kind, key) in kinds {
            let remains = simulation.store().get(&kind, &key);
            assert!(
                remains.is_none(),
                "{remains:?}\n{}",
                simulation.log().tail(60)
            );
        }
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn two_who_want_the_same_part_of_a_store_get_it_one_after_the_other() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, database) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        let same = json!({ "dataStoreSchema": "shop", "dataStoreUsername": "shop" });
        simulation.user("alice", vec![create_deed("one", same.clone())]);
        simulation.user("bob", vec![create_deed("other", same)]);
        simulation.run(STEPS)?;
        assert_eq!(database.contents.lock().unwrap().len(), 1);
        let told = ["one", "other"].map(|name| {
            let body = found(&simulation, &scene::control_planes(), &here(name));
            (name, scene::condition(&body, types::DATA_STORE_READY))
        });
        let holders: Vec<_> = told
            .iter()
            .filter(|(_, said)| said == "True Ready")
            .collect();
        let [(holder, _)] = holders.as_slice() else {
            panic!("{told:?}\n{}", simulation.log().tail(60));
        };
        let waiting = if *holder == "one" { "other" } else { "one" };
        let delete = Operation::delete(scene::control_planes(), here(holder));
        simulation.store_mut().perform("alice", delete).unwrap();
        simulation.run(STEPS)?;
        assert_ready(&simulation, waiting);
        Ok::<(), Failed>(())
    })
    .unwrap();
}
