//! From a [`Blueprint`] to the objects of a tenant cluster. Every function is pure, and one for each kind of object.
//!
//! | file | objects |
//! |---|---|
//! | [`namespace`], [`access`] | the Namespace, who of the team may do what in it |
//! | [`cluster`], [`infrastructure`] | Cluster; `ButlerCluster`, `NutanixCluster` or `KubevirtCluster` |
//! | [`hosted`], [`standalone`] | `StewardControlPlane` or `KamajiControlPlane`; `KubeadmControlPlane`, `LoadBalancerRequest` |
//! | [`templates`], [`bootstrap`] | machine templates, `KubeadmConfigTemplate`: what machines are, what they do first |
//! | [`machines`], [`health`] | `MachineDeployment` and `MachineHealthCheck` of a pool |
//!
//! Templates cannot be changed while machines are made from them. So each has a hash of what it says in its name: what says
//! something else is another template, and whoever refers to it rolls over. Old ones go when no machine is left of them.
//!
//! Must not: leave out what a blueprint says, nor add what it does not. What is absent belongs to somebody else.

mod access;
mod bootstrap;
mod cluster;
mod health;
mod hosted;
mod infrastructure;
mod machines;
mod namespace;
mod standalone;
mod templates;
#[cfg(test)]
mod tests;

use butler_api::cluster_api::kubeadm_control_plane::KubeadmControlPlane;
use butler_runtime::object::{Kind, Manifest};
use serde_json::{Value, json};

pub(crate) use self::{
    access::access,
    bootstrap::HOSTS_FILE,
    cluster::cluster,
    health::control_plane_health,
    infrastructure::{infrastructure, nutanix_credentials},
    machines::pool,
    namespace::namespace,
    standalone::load_balancer,
};
use super::blueprint::{Blueprint, ControlPlane};

/// The control plane, and what it is made from if it has machines.
pub(crate) fn control_plane(blueprint: &Blueprint) -> Vec<Manifest> {
    match &blueprint.control_plane {
        ControlPlane::Hosted(wish) => vec![hosted::control_plane(blueprint, wish)],
        ControlPlane::Standalone(wish) => standalone::control_plane(blueprint, wish),
    }
}

/// Name and place of an object, with the labels and annotations that all have.
fn metadata(blueprint: &Blueprint, name: &str) -> Value {
    let mut metadata = json!({
        "name": name,
        "namespace": blueprint.namespace,
        "labels": blueprint.labels,
    });
    if !blueprint.annotations.is_empty() {
        metadata["annotations"] = json!(blueprint.annotations);
    }
    metadata
}

/// A reference to an object of the same namespace, as Cluster API's contract v1beta2 writes it.
fn reference(object: &Manifest) -> Value {
    json!({ "apiGroup": object.kind.group, "kind": object.kind.kind, "name": object.key.name })
}

/// The same, by the kind alone.
fn reference_to(kind: &Kind, name: &str) -> Value {
    json!({ "apiGroup": kind.group, "kind": kind.kind, "name": name })
}

/// How long the parts of a machine's end may take, in seconds. Without them, Cluster API would wait for ever: a pod that may
/// not be evicted, or a node that is gone, would keep a cluster from being deleted.
fn deletion() -> Value {
    json!({
        "nodeDrainTimeoutSeconds": 300,
        "nodeVolumeDetachTimeoutSeconds": 300,
        "nodeDeletionTimeoutSeconds": 60,
    })
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Leaves out members that say nothing: Cluster API refuses empty objects.
fn without_empty(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.retain(|_, member| !is_empty(member));
    }
    object
}

/// The kind of Cluster API's own control plane.
fn kubeadm_control_plane() -> Kind {
    Kind::of::<KubeadmControlPlane>()
}
