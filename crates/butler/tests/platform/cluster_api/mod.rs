//! A model of Cluster API: its core controllers, its kubeadm providers of bootstrap data and control planes, and its health checks, each
//! one step at a time.
//!
//! Owns the order of things that plans rely on: who holds what by which finalizer, who owns whom, how machines follow each other
//! in a roll-out, and in which order a cluster goes.
//!
//! Must not: fail, or know anything of Butler but the contract of infrastructure and control planes. For time it waits where the
//! real one does: while a tenant does not answer, and no longer than the limits that its Machines name.

mod bootstrap;
mod clones;
mod clusters;
mod control_planes;
mod deployments;
mod health;
mod machines;
mod sets;

use std::sync::Arc;

use butler_api::{
    cluster_api::{
        butler_cluster::ButlerCluster,
        butler_machine::{ButlerMachine, ButlerMachineTemplate},
        cluster::Cluster,
        kubeadm_control_plane::KubeadmControlPlane,
        machine::Machine,
        machine_group::{MachineDeployment, MachineSet},
        steward_control_plane::StewardControlPlane,
    },
    keys::groups,
};
use butler_provider::fake::Cloud;
use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{ObjectStore, Operation, Simulation, players::text};
use serde_json::{Value, json};

pub(crate) use self::control_planes::is_of_control_plane;

/// Who Cluster API is to the API server.
const WHO: &str = "cluster-api";

pub(crate) fn clusters() -> Kind {
    Kind::of::<Cluster>()
}

pub(crate) fn deployments() -> Kind {
    Kind::of::<MachineDeployment>()
}

pub(crate) fn sets() -> Kind {
    Kind::of::<MachineSet>()
}

pub(crate) fn machines() -> Kind {
    Kind::of::<Machine>()
}

fn control_planes() -> Kind {
    Kind::of::<KubeadmControlPlane>()
}

pub(crate) fn infrastructure_machines() -> Kind {
    Kind::of::<ButlerMachine>()
}

fn kind(group: &str, version: &str, kind: &str) -> Kind {
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        namespaced: true,
    }
}

fn bootstrap_configs() -> Kind {
    kind(
        groups::BOOTSTRAP,
        groups::BOOTSTRAP_VERSION,
        "KubeadmConfig",
    )
}

fn bootstrap_templates() -> Kind {
    kind(
        groups::BOOTSTRAP,
        groups::BOOTSTRAP_VERSION,
        "KubeadmConfigTemplate",
    )
}

fn health_checks() -> Kind {
    kind(
        groups::CLUSTER_API,
        groups::CLUSTER_API_VERSION,
        "MachineHealthCheck",
    )
}

/// The kind that a reference of the contract means.
fn referred(reference: &Value) -> Option<Kind> {
    let kinds = [
        Kind::of::<ButlerCluster>(),
        Kind::of::<ButlerMachineTemplate>(),
        Kind::of::<StewardControlPlane>(),
        control_planes(),
        infrastructure_machines(),
        bootstrap_configs(),
        bootstrap_templates(),
    ];
    let mut kinds = kinds.into_iter();
    kinds.find(|kind| reference["kind"] == kind.kind && reference["apiGroup"] == kind.group)
}

/// Whether the API server of the tenant answers whose Cluster is in a namespace.
pub(crate) type Answers = fn(&ObjectStore, &str) -> bool;

/// Lets Cluster API live in a world. Whether a machine has become a node, the infrastructure shows.
pub(crate) fn live(simulation: &mut Simulation, cloud: &Arc<Cloud>, answers: Answers) {
    simulation.foreign("capi-cluster", clusters::keep);
    simulation.foreign("capi-machine-deployment", deployments::keep);
    let mut made = 0;
    simulation.foreign("capi-machine-set", move |store| {
        sets::keep(store, &mut made)
    });
    let mut made = 0;
    simulation.foreign("capi-control-plane", move |store| {
        control_planes::keep(store, &mut made)
    });
    let nodes = Arc::clone(cloud);
    simulation.foreign("capi-machine", move |store| {
        let tenants = machines::Tenants {
            nodes: &nodes,
            answers,
        };
        machines::keep(store, &tenants)
    });
    simulation.foreign("capi-bootstrap", bootstrap::keep);
    simulation.foreign("capi-health-check", move |store| {
        health::keep(store, answers)
    });
}

/// Does the first thing that is to be done for any object of a kind.
fn first(
    store: &mut ObjectStore,
    kind: &Kind,
    mut act: impl FnMut(&mut ObjectStore, &Value) -> Option<String>,
) -> Option<String> {
    let objects = store.objects(kind).into_iter();
    let objects: Vec<_> = objects.filter(|object| !is_paused(store, object)).collect();
    objects.into_iter().find_map(|object| act(store, &object))
}

/// Whether the Cluster of an object is to be left alone.
fn is_paused(store: &ObjectStore, object: &Value) -> bool {
    let cluster = cluster_of(store, object);
    cluster.is_some_and(|cluster| is_true(&cluster, "/spec/paused"))
}

/// The Cluster that an object belongs to, or is.
fn cluster_of(store: &ObjectStore, object: &Value) -> Option<Arc<Value>> {
    let named = [
        text(object, "/spec/clusterName"),
        text(object, "/metadata/labels/cluster.x-k8s.io~1cluster-name"),
        text(object, "/metadata/name"),
    ];
    let name = named.into_iter().find(|name| !name.is_empty())?;
    let namespace = text(object, "/metadata/namespace");
    store.get(&clusters(), &ObjectKey::namespaced(namespace, name))
}

fn is_true(body: &Value, pointer: &str) -> bool {
    body.pointer(pointer) == Some(&json!(true))
}

fn count(body: &Value, pointer: &str) -> i64 {
    let found = body.pointer(pointer).and_then(Value::as_i64);
    found.unwrap_or_default()
}

fn list<'a>(body: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    let found = body.pointer(pointer).and_then(Value::as_array);
    found.into_iter().flatten()
}

/// Whether a condition of an object holds; `None` if it says nothing of it.
pub(crate) fn holds(body: &Value, type_: &str) -> Option<bool> {
    let mut conditions = list(body, "/status/conditions");
    let found = conditions.find(|condition| condition["type"] == type_)?;
    Some(found["status"] == "True")
}

fn merge(store: &mut ObjectStore, kind: &Kind, key: &ObjectKey, patch: Value) {
    let operation = Operation::Merge(kind.clone(), key.clone(), patch);
    store.perform(WHO, operation).unwrap();
}

fn delete(store: &mut ObjectStore, kind: &Kind, key: &ObjectKey) -> String {
    let operation = Operation::delete(kind.clone(), key.clone());
    store.perform(WHO, operation).unwrap();
    format!("deletes {kind} {key}")
}

/// Creates an object, if its namespace still takes any.
fn create(store: &mut ObjectStore, kind: &Kind, body: Value) -> Option<String> {
    let key = ObjectKey::in_body(&body);
    let operation = Operation::create(kind.clone(), body);
    store.perform(WHO, operation).ok()?;
    Some(format!("makes {kind} {key}"))
}

/// Writes a status that says something new.
fn tell(store: &mut ObjectStore, kind: &Kind, body: &Value, status: Value) -> Option<String> {
    if body.get("status") == Some(&status) {
        return None;
    }
    let key = ObjectKey::in_body(body);
    store.update_status(WHO, kind, &key, status);
    Some(format!("tells of {kind} {key}"))
}

/// Holds an object by a finalizer.
fn hold(store: &mut ObjectStore, kind: &Kind, body: &Value, finalizer: &str) -> Option<String> {
    let mut held: Vec<_> = list(body, "/metadata/finalizers").cloned().collect();
    if held.contains(&json!(finalizer)) {
        return None;
    }
    held.push(json!(finalizer));
    let key = ObjectKey::in_body(body);
    merge(
        store,
        kind,
        &key,
        json!({ "metadata": { "finalizers": held } }),
    );
    Some(format!("holds {kind} {key}"))
}

/// Takes a finalizer off.
fn let_go(store: &mut ObjectStore, kind: &Kind, body: &Value, finalizer: &str) -> Option<String> {
    let held = list(body, "/metadata/finalizers");
    let left: Vec<_> = held.filter(|held| **held != finalizer).cloned().collect();
    if left.len() == list(body, "/metadata/finalizers").count() {
        return None;
    }
    let key = ObjectKey::in_body(body);
    merge(
        store,
        kind,
        &key,
        json!({ "metadata": { "finalizers": left } }),
    );
    Some(format!("lets go of {kind} {key}"))
}

/// A reference to an owner, as the owned carry it.
fn ownership(kind: &Kind, owner: &Value, controls: bool) -> Value {
    let mut reference = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "name": text(owner, "/metadata/name"), "uid": text(owner, "/metadata/uid"),
    });
    if controls {
        reference["controller"] = true.into();
    }
    reference
}

fn is_owned_by(body: &Value, owner: &Value) -> bool {
    let mut owners = list(body, "/metadata/ownerReferences");
    owners.any(|reference| reference["uid"] == owner["metadata"]["uid"])
}

/// Makes an object somebody's own, with the label that all objects of a cluster have. Whoever controlled it does no more, if
/// the new owner does.
fn own(
    store: &mut ObjectStore,
    (kind, body): (&Kind, &Value),
    (owner_kind, owner): (&Kind, &Value),
    controls: bool,
) -> Option<String> {
    if is_owned_by(body, owner) {
        return None;
    }
    let owners = list(body, "/metadata/ownerReferences");
    let owners = owners.filter(|reference| !controls || reference.get("controller").is_none());
    let mut owners: Vec<_> = owners.cloned().collect();
    owners.push(ownership(owner_kind, owner, controls));
    let cluster = match text(owner, "/spec/clusterName") {
        "" => text(owner, "/metadata/name"),
        name => name,
    };
    let patch = json!({ "metadata": {
        "labels": { "cluster.x-k8s.io/cluster-name": cluster },
        "ownerReferences": owners,
    } });
    let key = ObjectKey::in_body(body);
    merge(store, kind, &key, patch);
    Some(format!("makes {kind} {key} that of its {owner_kind}"))
}

/// Objects of a kind that somebody owns.
fn owned(store: &ObjectStore, kind: &Kind, owner: &Value) -> Vec<Arc<Value>> {
    let objects = store.objects(kind).into_iter();
    objects.filter(|body| is_owned_by(body, owner)).collect()
}

/// A condition, which keeps the time at which it came to say this.
fn condition(
    store: &ObjectStore,
    before: &Value,
    type_: &str,
    status: &str,
    reason: &str,
) -> Value {
    let mut conditions = list(before, "/status/conditions");
    let known = conditions.find(|condition| condition["type"] == type_);
    let known = known.filter(|known| known["status"] == status && known["reason"] == reason);
    known.cloned().unwrap_or_else(|| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": "",
            "lastTransitionTime": store.now().round(jiff::Unit::Second).unwrap(),
        })
    })
}
