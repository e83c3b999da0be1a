//! The world of the stories: Steward, a database, and Kubernetes' own controllers in a few lines.

use std::{collections::BTreeSet, ops::Range, sync::Arc, time::Duration};

use butler_runtime::{
    object::{Kind, ObjectKey},
    reconciler::Bell,
};
use butler_testkit::simulator::{
    Chances, Deed, Failed, Moment, Operation, Simulation,
    players::{self, text},
    seeds_asked_for,
};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::Value;
use steward::{
    data_store::DataStoreReconciler,
    kubeconfig_generator::KubeconfigGeneratorReconciler,
    moves::Moves,
    settings::Settings,
    tenant_control_plane::{Ports, TenantControlPlaneReconciler},
};

use crate::{
    database::Database,
    scene::{self, COMPONENT, OneKey, SYSTEM, TEAM, here},
};

/// The worlds that each story is told in: a few, or those that are asked for, as by `STEWARD_SEEDS=1000`.
pub(crate) fn seeds() -> Range<u64> {
    seeds_asked_for(ASKED_FOR, SEEDS)
}

/// The worlds of the one story that is told in many every time: a whole life, from the creation to the deletion. As many as one
/// processor tells in a minute.
pub(crate) fn seeds_of_a_life() -> Range<u64> {
    seeds_asked_for(ASKED_FOR, LIVES)
}

const ASKED_FOR: &str = "STEWARD_SEEDS";
const SEEDS: u64 = 25;
const LIVES: u64 = 500;
/// A world that has not come to rest by then never will.
pub(crate) const STEPS: u64 = 60_000;
/// Longer than any story.
pub(crate) const STORE_PERIOD: Duration = Duration::from_hours(24);

/// A world with a store whose certificates are there, and as many replicas of Steward.
pub(crate) fn world(seed: u64) -> (Simulation, Database) {
    let mut simulation = Simulation::new(seed);
    let store = simulation.store_mut();
    for name in [SYSTEM, TEAM] {
        let create = Operation::create(scene::namespaces(), scene::namespace(name));
        store.perform("admin", create).unwrap();
    }
    let certificates = scene::store_certificates("default");
    let create = Operation::create(scene::secrets(), certificates);
    store.perform("admin", create).unwrap();
    let database = Database::new(simulation.wire());
    // With one replica there are more seeds in which a single mishap decides.
    for _ in 0..=(seed % 2) {
        let port = database.clone();
        simulation.controller(COMPONENT, move || {
            let ports = Ports {
                stores: Arc::new(port.clone()),
                tenants: None,
                moves: Arc::new(Moves::new(Bell::default())),
                keys: Arc::new(OneKey),
                bell: Bell::default(),
            };
            TenantControlPlaneReconciler::new(Settings::default(), ports)
        });
        let port = database.clone();
        simulation.controller(COMPONENT, move || {
            DataStoreReconciler::new(Settings::default(), Arc::new(port.clone()), STORE_PERIOD)
        });
        simulation.controller(COMPONENT, || KubeconfigGeneratorReconciler);
    }
    simulation.foreign("services", players::services);
    simulation.foreign("deployments", players::deployments);
    // Of two replicas that both believe to lead, a late one may make what the other has just taken away. It takes it away
    // again: at rest nothing may be left, and that is for each story to look at.
    if seed.is_multiple_of(2) {
        let contents = Arc::clone(&database.contents);
        simulation.invariant("what is in a store belongs to somebody", move |store| {
            let living: BTreeSet<_> = store
                .objects(&scene::control_planes())
                .iter()
                .map(|found| text(found, "/metadata/uid").to_owned())
                .collect();
            let contents = contents.lock().unwrap();
            let mut owners = contents.keys().map(|(_, uid)| uid);
            owners
                .find(|uid| !living.contains(*uid))
                .map_or(Ok(()), |uid| Err(uid.clone()))
        });
    }
    (simulation, database)
}

/// The operator makes the default store.
pub(crate) fn store_deed() -> (Moment, Deed) {
    (
        Moment::Anytime,
        Deed::create(scene::stores(), scene::store("default")),
    )
}

/// Somebody makes a control plane.
pub(crate) fn create_deed(name: &str, parts: Value) -> (Moment, Deed) {
    let body = scene::control_plane(&here(name), parts);
    (Moment::Anytime, Deed::create(scene::control_planes(), body))
}

/// The object of a key, as it is.
pub(crate) fn found(simulation: &Simulation, kind: &Kind, key: &ObjectKey) -> Value {
    let object = simulation.store().get(kind, key);
    let object =
        object.unwrap_or_else(|| panic!("{kind} {key} is there\n{}", simulation.log().tail(60)));
    object.as_ref().clone()
}

/// A control plane is ready, in words and in deeds.
pub(crate) fn assert_ready(simulation: &Simulation, name: &str) {
    let control_plane = found(simulation, &scene::control_planes(), &here(name));
    assert_eq!(
        scene::ready(&control_plane),
        "True Ready",
        "{}",
        simulation.log().tail(80)
    );
    let version = &control_plane["status"]["kubernetesResources"]["version"];
    assert_eq!(version["status"], "Ready", "{control_plane}");
    assert_eq!(
        version["version"],
        control_plane["spec"]["kubernetes"]["version"]
    );
    assert_eq!(
        control_plane["status"]["observedGeneration"],
        control_plane["metadata"]["generation"]
    );
    let deployment = found(simulation, &Kind::of::<Deployment>(), &here(name));
    let volumes = deployment["spec"]["template"]["spec"]["volumes"]
        .as_array()
        .unwrap();
    let sources = volumes.iter().flat_map(|volume| {
        let projected = volume["projected"]["sources"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let names = projected
            .into_iter()
            .map(|source| source["secret"]["name"].clone());
        names
            .chain([volume["secret"]["secretName"].clone()])
            .collect::<Vec<_>>()
    });
    for name in sources.filter_map(|name| name.as_str().map(str::to_owned)) {
        found(simulation, &scene::secrets(), &here(&name));
    }
}

/// Neither another look nor a restart writes anything.
pub(crate) fn assert_at_rest(simulation: &mut Simulation) -> Result<(), Failed> {
    simulation.chances(Chances::calm());
    simulation.look_again();
    let outcome = simulation.run(STEPS)?;
    assert_eq!(outcome.writes, [], "another look changes nothing");
    simulation.restart();
    let outcome = simulation.run(STEPS)?;
    assert_eq!(outcome.writes, [], "a restart changes nothing");
    simulation.chances(Chances::default());
    Ok(())
}

/// What there is of the stories' namespace, beside what was there from the beginning.
pub(crate) fn left(simulation: &Simulation) -> Vec<String> {
    let all = simulation.store().everything();
    let here =
        all.filter(|(kind, key, _)| key.namespace.as_deref() == Some(TEAM) && kind.kind != "Event");
    here.map(|(kind, key, _)| format!("{kind} {key}")).collect()
}

/// Nothing is left of what is gone: no object whose owner is no more, no part of a store that is nobody's.
pub(crate) fn assert_nothing_leaked(simulation: &Simulation, database: &Database) {
    let living: BTreeSet<_> = simulation
        .store()
        .everything()
        .map(|(_, _, body)| text(body, "/metadata/uid"))
        .collect();
    for (kind, key, body) in simulation.store().everything() {
        let owners = body.pointer("/metadata/ownerReferences");
        let owners = owners.and_then(Value::as_array).into_iter().flatten();
        for owner in owners {
            let is_there = living.contains(text(owner, "/uid"));
            assert!(is_there, "{kind} {key} belongs to {owner}, which is gone");
        }
    }
    let contents = database.contents.lock().unwrap();
    for (store, uid) in contents.keys() {
        let is_there = living.contains(uid.as_str());
        assert!(is_there, "{store} has a part of {uid}, which is gone");
    }
}
