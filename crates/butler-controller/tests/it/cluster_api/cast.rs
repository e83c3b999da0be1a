//! Cluster API and a provider, as players: each does one thing at a time, as the real ones would.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use butler_api::keys::{finalizers, labels};
use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{
    ObjectStore, Operation, Simulation,
    players::{is_deleting, text},
};
use serde_json::{Value, json};

use super::scene;

/// What Cluster API holds its own objects by.
const FINALIZER: &str = "cluster.x-k8s.io/played";

/// An object of Cluster API as it is once Cluster API has seen it: it does not go before its infrastructure.
pub(super) fn seen(mut owner: Value) -> Value {
    owner["metadata"]["finalizers"] = json!([FINALIZER]);
    owner
}

fn is_true(body: &Value, pointer: &str) -> bool {
    body.pointer(pointer) == Some(&json!(true))
}

fn is_held(body: &Value, finalizer: &str) -> bool {
    let held = body
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array);
    held.is_some_and(|held| held.contains(&json!(finalizer)))
}

fn objects(store: &ObjectStore, kind: &Kind) -> Vec<Value> {
    let objects = store.objects(kind).into_iter();
    objects.map(|object| object.as_ref().clone()).collect()
}

fn merge(store: &mut ObjectStore, who: &str, kind: &Kind, key: &ObjectKey, patch: Value) {
    let operation = Operation::Merge(kind.clone(), key.clone(), patch);
    store.perform(who, operation).unwrap();
}

fn delete(store: &mut ObjectStore, who: &str, kind: &Kind, key: &ObjectKey) {
    let operation = Operation::delete(kind.clone(), key.clone());
    store.perform(who, operation).unwrap();
}

/// Plays Cluster API's core: takes possession, passes on what is provisioned, deletes in order.
pub(super) fn play_cluster_api(simulation: &mut Simulation) {
    simulation.foreign("cluster-api", |store| {
        let clusters = objects(store, &scene::cluster_kind());
        for cluster in &clusters {
            if !is_true(cluster, "/spec/paused") {
                let did = keep_cluster(store, cluster);
                if did.is_some() {
                    return did;
                }
            }
        }
        for machine in objects(store, &scene::machine_kind()) {
            let of = text(&machine, "/spec/clusterName");
            let cluster = clusters
                .iter()
                .find(|cluster| text(cluster, "/metadata/name") == of);
            if !cluster.is_some_and(|cluster| is_true(cluster, "/spec/paused")) {
                let did = keep_machine(store, &machine);
                if did.is_some() {
                    return did;
                }
            }
        }
        None
    });
}

fn keep_cluster(store: &mut ObjectStore, cluster: &Value) -> Option<String> {
    let (kind, infrastructure) = (scene::cluster_kind(), scene::butler_cluster_kind());
    if is_deleting(cluster) {
        let machines = objects(store, &scene::machine_kind());
        if let Some(machine) = machines.iter().find(|machine| !is_deleting(machine)) {
            let key = ObjectKey::in_body(machine);
            delete(store, "cluster-api", &scene::machine_kind(), &key);
            return Some(format!("deletes Machine {key}"));
        }
        if !machines.is_empty() {
            return None;
        }
    }
    let did = keep(store, &kind, cluster, &infrastructure);
    if did.is_some() {
        return did;
    }
    let key = ObjectKey::in_body(cluster);
    let found = store.get(&infrastructure, &reference(cluster))?;
    let provisioned = is_true(&found, "/status/initialization/provisioned");
    let passed_on = is_true(cluster, "/status/initialization/infrastructureProvisioned");
    (provisioned && !passed_on).then(|| {
        let status = json!({ "initialization": { "infrastructureProvisioned": true } });
        store.update_status("cluster-api", &kind, &key, status);
        format!("takes the infrastructure of {key} for provisioned")
    })
}

fn keep_machine(store: &mut ObjectStore, machine: &Value) -> Option<String> {
    let (kind, infrastructure) = (scene::machine_kind(), scene::butler_machine_kind());
    let did = keep(store, &kind, machine, &infrastructure);
    if did.is_some() {
        return did;
    }
    let key = ObjectKey::in_body(machine);
    let found = store.get(&infrastructure, &reference(machine))?;
    let identity = text(&found, "/spec/providerID");
    let provisioned = is_true(&found, "/status/initialization/provisioned");
    if !provisioned || is_true(machine, "/status/initialization/infrastructureProvisioned") {
        return None;
    }
    let patch = json!({ "spec": { "providerID": identity } });
    merge(store, "cluster-api", &kind, &key, patch);
    let status = json!({ "initialization": { "infrastructureProvisioned": true } });
    store.update_status("cluster-api", &kind, &key, status);
    Some(format!("takes {key} for provisioned as {identity}"))
}

fn reference(owner: &Value) -> ObjectKey {
    let namespace = text(owner, "/metadata/namespace");
    ObjectKey::namespaced(namespace, text(owner, "/spec/infrastructureRef/name"))
}

/// Holds an object of Cluster API while its infrastructure exists, and makes the infrastructure its own.
fn keep(
    store: &mut ObjectStore,
    kind: &Kind,
    owner: &Value,
    infrastructure: &Kind,
) -> Option<String> {
    let who = "cluster-api";
    let key = ObjectKey::in_body(owner);
    let held = is_held(owner, FINALIZER);
    let found = store.get(infrastructure, &reference(owner));
    match (is_deleting(owner), found) {
        (false, Some(found)) if text(&found, "/metadata/ownerReferences/0/uid").is_empty() => {
            if is_deleting(&found) {
                return None;
            }
            let cluster = match text(owner, "/spec/clusterName") {
                "" => key.name.as_str(),
                name => name,
            };
            let patch = json!({ "metadata": {
                "labels": { labels::CLUSTER_API_CLUSTER: cluster },
                "ownerReferences": [{
                    "apiVersion": kind.api_version(), "kind": kind.kind, "name": key.name,
                    "uid": text(owner, "/metadata/uid"),
                }],
            } });
            merge(store, who, infrastructure, &reference(owner), patch);
            Some(format!("makes {infrastructure} {key} its own"))
        }
        (true, Some(found)) if !is_deleting(&found) => {
            delete(store, who, infrastructure, &reference(owner));
            Some(format!("deletes {infrastructure} {key}"))
        }
        (true, None) if held => {
            let patch = json!({ "metadata": { "finalizers": [] } });
            merge(store, who, kind, &key, patch);
            Some(format!("lets go of {kind} {key}"))
        }
        _ => None,
    }
}

/// The machines that exist at a provider: the UID of the request, and of the `ButlerMachine` it is for.
pub(super) type Machines = Rc<RefCell<BTreeMap<String, String>>>;

/// Plays a provider that makes every machine but those whose name begins with `bad`.
pub(super) fn play_provider(simulation: &mut Simulation) -> Machines {
    let machines = Machines::default();
    let at_provider = Rc::clone(&machines);
    simulation.foreign("provider", move |store| {
        let mut requests = objects(store, &scene::request_kind()).into_iter();
        requests.find_map(|request| serve(store, &request, &mut at_provider.borrow_mut()))
    });
    machines
}

fn serve(
    store: &mut ObjectStore,
    request: &Value,
    machines: &mut BTreeMap<String, String>,
) -> Option<String> {
    let (who, kind) = ("provider", scene::request_kind());
    let key = ObjectKey::in_body(request);
    let uid = text(request, "/metadata/uid").to_owned();
    let held = is_held(request, finalizers::MACHINE_REQUEST);
    if is_deleting(request) {
        if machines.remove(&uid).is_some() {
            return Some(format!("removes the machine of {key}"));
        }
        return held.then(|| {
            let patch = json!({ "metadata": { "finalizers": [] } });
            merge(store, who, &kind, &key, patch);
            format!("lets go of {key}")
        });
    }
    if !held {
        let patch = json!({ "metadata": { "finalizers": [finalizers::MACHINE_REQUEST] } });
        merge(store, who, &kind, &key, patch);
        return Some(format!("holds {key}"));
    }
    let mut tell = |status: Value| {
        store.update_status(who, &kind, &key, status);
        Some(format!("tells of {key}"))
    };
    match text(request, "/status/phase") {
        "" => tell(json!({ "phase": "Creating" })),
        "Creating" if key.name.starts_with("bad") => tell(json!({
            "phase": "Failed", "failureReason": "QuotaExceeded", "failureMessage": "the host is full",
        })),
        "Creating" if !machines.contains_key(&uid) => {
            let owner = request.pointer("/metadata/labels");
            let owner = owner.and_then(|labels| labels[labels::OWNER_UID].as_str());
            machines.insert(uid, owner.unwrap_or_default().to_owned());
            Some(format!("makes the machine of {key}"))
        }
        "Creating" => tell(json!({ "phase": "Running", "ipAddress": "172.30.0.7" })),
        _ => None,
    }
}
