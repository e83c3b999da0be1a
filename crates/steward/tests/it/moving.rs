//! The state of a control plane moves from one store to another while its tenant writes. Whatever goes wrong on the way, nothing
//! that the tenant was told is stored gets lost, and it can write again in the end.

use std::{collections::BTreeSet, sync::Arc};

use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{
    Deed, Failed, Moment, ObjectStore, Operation, Simulation, for_seeds,
    players::{self, text},
};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};
use steward::{
    data_store::DataStoreReconciler,
    settings::Settings,
    tenant_control_plane::{Ports, TenantControlPlaneReconciler},
};

use crate::{
    cast::{STEPS, STORE_PERIOD, assert_at_rest, assert_ready, create_deed, found, left, seeds},
    scene::{self, COMPONENT, OneKey, SYSTEM, TEAM, here},
    vault::Vault,
};

const STORES: [&str; 2] = ["default", "silver"];
const TIMEOUT: &str = "steward.butlerlabs.dev/migration-timeout";

/// Pods come and go one step at a time: new ones beside the old ones first, if they can work with their store at all.
fn play_pods(vault: &Vault, store: &mut ObjectStore) -> Option<String> {
    let kind = Kind::of::<Deployment>();
    for deployment in store.objects(&kind) {
        let key = ObjectKey::in_body(&deployment);
        let Some(owner) = store.get(&scene::control_planes(), &key) else {
            continue;
        };
        let uid = text(&owner, "/metadata/uid").to_owned();
        let label = "/spec/template/metadata/labels/component.steward.butlerlabs.dev~1datastore";
        let used = text(&deployment, label).to_owned();
        let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or_default();
        let generation = &deployment["metadata"]["generation"];
        let status = &deployment["status"];
        let mut contents = vault.contents();
        let is_useless = contents.useless.contains(&used);
        let serving = contents.serving.entry(uid).or_default();
        let others = serving.iter().any(|other| *other != used);
        let ready = if wanted == 0 {
            0
        } else {
            i64::try_from(serving.len()).unwrap().min(1)
        };
        let numbers = |replicas: i64, updated: i64, ready: i64| {
            json!({
                "observedGeneration": generation, "replicas": replicas,
                "updatedReplicas": updated, "readyReplicas": ready,
            })
        };
        let next = if wanted == 0 && !serving.is_empty() {
            serving.clear();
            Some(numbers(0, 0, 0))
        } else if status["observedGeneration"] != *generation {
            Some(numbers(wanted, 0, ready))
        } else if wanted > 0 && !serving.contains(&used) && !is_useless {
            serving.insert(used.clone());
            Some(numbers(wanted + 1, 1, 1))
        } else if serving.contains(&used) && (others || status["readyReplicas"] != wanted) {
            *serving = BTreeSet::from([used.clone()]);
            Some(numbers(wanted, wanted, wanted))
        } else if wanted > 0 && serving.contains(&used) && status["updatedReplicas"] != wanted {
            Some(numbers(wanted, wanted, wanted))
        } else {
            None
        };
        if let Some(next) = next {
            let words = format!("{key} with {used}: {serving:?}");
            drop(contents);
            store.update_status("pods", &kind, &key, next);
            return Some(words);
        }
    }
    None
}

/// The store that has the state by the status, and the UID, of every control plane that is not being deleted.
fn homes(store: &ObjectStore) -> Vec<(String, String)> {
    let all = store.objects(&scene::control_planes());
    let staying = all
        .iter()
        .filter(|found| found.pointer("/metadata/deletionTimestamp").is_none());
    let homes = staying.map(|found| {
        let home = text(found, "/status/storage/dataStoreName").to_owned();
        (home, text(found, "/metadata/uid").to_owned())
    });
    homes.filter(|(home, _)| !home.is_empty()).collect()
}

/// A world with two stores and a control plane that serves from the first.
pub(crate) fn world(seed: u64) -> Result<(Simulation, Vault), Failed> {
    let mut simulation = Simulation::new(seed);
    let store = simulation.store_mut();
    for name in [SYSTEM, TEAM] {
        let create = Operation::create(scene::namespaces(), scene::namespace(name));
        store.perform("admin", create).unwrap();
    }
    for name in STORES {
        let create = Operation::create(scene::secrets(), scene::store_certificates(name));
        store.perform("admin", create).unwrap();
        let create = Operation::create(scene::stores(), scene::store(name));
        store.perform("admin", create).unwrap();
    }
    let vault = Vault::new(simulation.wire());
    vault.contents().writes = 3;
    // One replica: in a cluster, only the one with the lease works.
    let of_process = vault.clone();
    simulation.controller(COMPONENT, move || {
        let reach = of_process.begin_life();
        let ports = Ports {
            stores: Arc::new(reach.clone()),
            tenants: Some(Arc::new(reach.clone())),
            bell: reach.bell(),
            moves: Arc::new(reach),
            keys: Arc::new(OneKey),
        };
        TenantControlPlaneReconciler::new(Settings::default(), ports)
    });
    let store_port = vault.clone();
    simulation.controller(COMPONENT, move || {
        DataStoreReconciler::new(
            Settings::default(),
            Arc::new(store_port.clone()),
            STORE_PERIOD,
        )
    });
    simulation.foreign("services", players::services);
    let of_pods = vault.clone();
    simulation.foreign("pods", move |store| play_pods(&of_pods, store));
    let of_tenants = vault.clone();
    simulation.foreign("tenants", move |store| {
        of_tenants.contents().configure(store)
    });
    let of_errands = vault.clone();
    simulation.foreign("errands", move |store| {
        of_errands.contents().run_errand(store)
    });
    let of_customers = vault.clone();
    simulation.foreign("customers", move |_| of_customers.contents().write());
    let checked = vault.clone();
    simulation.invariant("what was stored is there", move |store| {
        let contents = checked.contents();
        for (home, uid) in homes(store) {
            let accepted = contents.accepted.get(&uid).cloned().unwrap_or_default();
            let part = contents.parts.get(&(home.clone(), uid.clone()));
            let kept = part.map(|part| part.entries.clone()).unwrap_or_default();
            if !accepted.is_subset(&kept) {
                return Err(format!("{home} has {kept:?} and not {accepted:?}"));
            }
        }
        Ok(())
    });
    let parts = json!({ "dataStore": "default" });
    simulation.user("alice", vec![create_deed("shop", parts)]);
    simulation.run(STEPS)?;
    assert_ready(&simulation, "shop");
    vault.contents().writes = 40;
    Ok((simulation, vault))
}

fn shop(simulation: &Simulation) -> Value {
    found(simulation, &scene::control_planes(), &here("shop"))
}

fn edit(change: impl Fn(&mut Value) + 'static) -> (Moment, Deed) {
    let edit = Deed::edit(scene::control_planes(), here("shop"), change);
    (Moment::Anytime, edit)
}

/// The move may take as long as it wants to.
pub(crate) fn patience() -> (Moment, Deed) {
    let patience = Deed::annotate(scene::control_planes(), here("shop"), TIMEOUT, "500h");
    (Moment::Anytime, patience)
}

pub(crate) fn move_to(store: &'static str) -> (Moment, Deed) {
    edit(move |body| body["spec"]["dataStore"] = store.into())
}

/// The state is in this store and nowhere else, and the tenant has written all that it wanted to.
pub(crate) fn assert_lives_in(simulation: &Simulation, vault: &Vault, store: &str) {
    let shop = shop(simulation);
    let tail = || simulation.log().tail(80);
    let uid = text(&shop, "/metadata/uid").to_owned();
    assert_eq!(
        shop["status"]["storage"]["dataStoreName"],
        store,
        "{}",
        tail()
    );
    let contents = vault.contents();
    let kept: Vec<_> = contents.parts.keys().cloned().collect();
    assert_eq!(kept, [(store.to_owned(), uid.clone())], "{}", tail());
    let part = &contents.parts[&(store.to_owned(), uid.clone())];
    assert_eq!(part.entries, contents.accepted[&uid], "{}", tail());
    assert_eq!(part.entries.len(), 40, "{}", tail());
    assert_eq!(contents.serving[&uid], BTreeSet::from([store.to_owned()]));
    drop(contents);
    assert_ready(simulation, "shop");
}

#[test]
fn the_state_moves_to_another_store_and_no_write_is_lost() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, vault) = world(seed)?;
        simulation.user("alice", vec![patience(), move_to("silver")]);
        simulation.run(STEPS)?;
        assert_lives_in(&simulation, &vault, "silver");
        let shop = shop(&simulation);
        assert_eq!(shop["status"]["storage"].get("migration"), None);
        assert_eq!(scene::condition(&shop, "DataStoreMigrated"), "absent");
        let users = |name: &str| {
            let store = found(&simulation, &scene::stores(), &ObjectKey::cluster(name));
            store["status"]["usedBy"].clone()
        };
        assert_eq!(users("silver"), json!(["payments/shop"]));
        assert_ne!(users("default"), json!(["payments/shop"]));
        assert_at_rest(&mut simulation)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_move_with_little_patience_ends_in_one_of_the_stores() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, vault) = world(seed)?;
        simulation.user("alice", vec![move_to("silver")]);
        simulation.run(STEPS)?;
        let is_moved = shop(&simulation)["status"]["storage"]
            .get("migration")
            .is_none();
        let home = if is_moved { "silver" } else { "default" };
        assert_lives_in(&simulation, &vault, home);
        assert_at_rest(&mut simulation)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn pods_that_cannot_work_with_the_new_store_come_back_to_the_old_one() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, vault) = world(seed)?;
        vault.contents().useless.insert("silver".to_owned());
        simulation.user("alice", vec![move_to("silver")]);
        simulation.run(STEPS)?;
        assert_lives_in(&simulation, &vault, "default");
        let told = scene::condition(&shop(&simulation), "DataStoreMigrated");
        assert_eq!(told, "False MigrationFailed");
        assert_at_rest(&mut simulation)?;
        // Whoever sets it back has nothing left to be told.
        simulation.user("alice", vec![move_to("default")]);
        simulation.run(STEPS)?;
        let told = scene::condition(&shop(&simulation), "DataStoreMigrated");
        assert_eq!(told, "absent");
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn whoever_changes_their_mind_ends_where_they_want_to_be() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, vault) = world(seed)?;
        simulation.user(
            "alice",
            vec![patience(), move_to("silver"), move_to("default")],
        );
        simulation.run(STEPS)?;
        assert_lives_in(&simulation, &vault, "default");
        assert_at_rest(&mut simulation)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_control_plane_that_is_put_to_sleep_and_woken_on_the_way_arrives() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, vault) = world(seed)?;
        let scale = |replicas: i32| {
            edit(move |body| {
                body["spec"]["controlPlane"]["deployment"]["replicas"] = replicas.into();
            })
        };
        simulation.user("alice", vec![patience(), move_to("silver")]);
        simulation.user("bob", vec![scale(0), scale(2)]);
        simulation.run(STEPS)?;
        assert_lives_in(&simulation, &vault, "silver");
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_control_plane_that_is_deleted_on_the_way_leaves_nothing_in_either_store() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, vault) = world(seed)?;
        let delete = Deed::delete(scene::control_planes(), here("shop"));
        simulation.user("alice", vec![move_to("silver"), (Moment::Anytime, delete)]);
        simulation.run(STEPS)?;
        assert_eq!(left(&simulation), Vec::<String>::new());
        let kept: Vec<_> = vault.contents().parts.keys().cloned().collect();
        assert_eq!(kept, [], "{}", simulation.log().tail(80));
        Ok::<(), Failed>(())
    })
    .unwrap();
}
