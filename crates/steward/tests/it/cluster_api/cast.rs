//! Cluster API as a player, which does one thing at a time as the real one would; and the watch on kinds that no cache holds.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, sync::Arc};

use butler_api::{cluster_api::steward_control_plane::StewardControlPlane, keys::labels};
use butler_runtime::{
    object::{Kind, ObjectKey},
    reconciler::Bell,
};
use butler_testkit::simulator::{
    ObjectStore, Operation, Simulation,
    players::{is_deleting, text},
};
use serde_json::{Value, json};
use steward::steward_control_plane::{
    ClusterApiSettings, StewardControlPlaneReconciler, elsewhere::Nowhere,
};

use super::scene;
use crate::{database::Database, scene::COMPONENT};

/// What Cluster API holds its own objects by.
const FINALIZER: &str = "cluster.x-k8s.io/played";
const WHO: &str = "cluster-api";

/// A Cluster as it is once Cluster API has seen it: it does not go before what it is made of.
pub(super) fn seen(mut cluster: Value) -> Value {
    cluster["metadata"]["finalizers"] = json!([FINALIZER]);
    cluster
}

fn perform(store: &mut ObjectStore, operation: Operation) {
    store.perform(WHO, operation).unwrap();
}

/// The world of hosted control planes, with Cluster API and its provider.
pub(super) fn world(seed: u64) -> (Simulation, Database) {
    let (mut simulation, database) = crate::cast::world(seed);
    let definition = scene::definition(&scene::nutanix_clusters());
    let create = Operation::create(scene::definitions(), definition);
    simulation.store_mut().perform("admin", create).unwrap();
    let bells = Rc::new(RefCell::new(Vec::<Bell<StewardControlPlane>>::new()));
    for _ in 0..=(seed % 2) {
        let bells = Rc::clone(&bells);
        simulation.controller(COMPONENT, move || {
            let bell = Bell::default();
            bells.borrow_mut().push(bell.clone());
            let settings = ClusterApiSettings::default();
            StewardControlPlaneReconciler::new(settings, Arc::new(Nowhere), bell)
        });
    }
    simulation.foreign("lookout", lookout(bells));
    simulation.foreign(WHO, play);
    (simulation, database)
}

/// Rings for every change of infrastructure that no cache shows.
fn lookout(
    bells: Rc<RefCell<Vec<Bell<StewardControlPlane>>>>,
) -> impl FnMut(&mut ObjectStore) -> Option<String> {
    let mut known = BTreeMap::new();
    move |store| {
        let found = store.objects(&scene::nutanix_clusters());
        let now: BTreeMap<_, _> = found
            .iter()
            .map(|body| {
                let version = text(body, "/metadata/resourceVersion").to_owned();
                (ObjectKey::in_body(body), version)
            })
            .collect();
        if known == now {
            return None;
        }
        known = now;
        for control_plane in store.objects(&scene::control_planes()) {
            let uid = text(&control_plane, "/metadata/uid");
            bells.borrow().iter().for_each(|bell| bell.ring(uid));
        }
        Some("sees a change of infrastructure".to_owned())
    }
}

/// What a Cluster is made of: kind and key of each.
fn parts(cluster: &Value) -> Vec<(Kind, ObjectKey)> {
    let namespace = text(cluster, "/metadata/namespace");
    let kinds = [
        scene::control_planes(),
        scene::butler_clusters(),
        scene::nutanix_clusters(),
    ];
    ["controlPlaneRef", "infrastructureRef"]
        .into_iter()
        .filter_map(|field| {
            let reference = &cluster["spec"][field];
            let kind = kinds.iter().find(|kind| reference["kind"] == kind.kind)?;
            let name = reference["name"].as_str()?;
            Some((kind.clone(), ObjectKey::namespaced(namespace, name)))
        })
        .collect()
}

/// Plays Cluster API's core: takes possession, passes on what is initialized, deletes in order.
fn play(store: &mut ObjectStore) -> Option<String> {
    let mut clusters = store.objects(&scene::clusters()).into_iter();
    clusters.find_map(|cluster| {
        if cluster.pointer("/spec/paused") == Some(&json!(true)) {
            None
        } else if is_deleting(&cluster) {
            teardown(store, &cluster)
        } else {
            keep(store, &cluster)
        }
    })
}

fn keep(store: &mut ObjectStore, cluster: &Value) -> Option<String> {
    let key = ObjectKey::in_body(cluster);
    for (kind, part) in parts(cluster) {
        let Some(found) = store.get(&kind, &part) else {
            continue;
        };
        if is_deleting(&found) || !text(&found, "/metadata/ownerReferences/0/uid").is_empty() {
            continue;
        }
        let patch = json!({ "metadata": {
            "labels": { labels::CLUSTER_API_CLUSTER: key.name },
            "ownerReferences": [{
                "apiVersion": scene::clusters().api_version(), "kind": "Cluster", "name": key.name,
                "uid": text(cluster, "/metadata/uid"),
            }],
        } });
        let merge = Operation::Merge(kind.clone(), part.clone(), patch);
        perform(store, merge);
        return Some(format!("makes {kind} {part} its own"));
    }
    let (kind, part) = parts(cluster).into_iter().next()?;
    let control_plane = store.get(&kind, &part)?;
    let initialized = "/status/initialization/controlPlaneInitialized";
    let is_new = control_plane.pointer(initialized) == Some(&json!(true))
        && cluster.pointer(initialized) != Some(&json!(true));
    is_new.then(|| {
        let endpoint = &control_plane["spec"]["controlPlaneEndpoint"];
        let patch = json!({ "spec": { "controlPlaneEndpoint": endpoint } });
        perform(
            store,
            Operation::Merge(scene::clusters(), key.clone(), patch),
        );
        let status = json!({ "initialization": { "controlPlaneInitialized": true } });
        store.update_status(WHO, &scene::clusters(), &key, status);
        format!("takes the control plane of {key} for initialized")
    })
}

/// The control plane goes before the infrastructure, and the Cluster last.
fn teardown(store: &mut ObjectStore, cluster: &Value) -> Option<String> {
    let key = ObjectKey::in_body(cluster);
    for (kind, part) in parts(cluster) {
        if let Some(found) = store.get(&kind, &part) {
            return (!is_deleting(&found)).then(|| {
                perform(store, Operation::delete(kind.clone(), part.clone()));
                format!("deletes {kind} {part}")
            });
        }
    }
    let held = cluster
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array);
    held.is_some_and(|held| !held.is_empty()).then(|| {
        let patch = json!({ "metadata": { "finalizers": [] } });
        perform(
            store,
            Operation::Merge(scene::clusters(), key.clone(), patch),
        );
        format!("lets go of {key}")
    })
}
