//! The objects of a cluster whose control plane is hosted.

use butler_api::{
    cluster_api::{
        butler_cluster::ButlerCluster, cluster::Cluster, steward_control_plane::StewardControlPlane,
    },
    keys::groups,
};
use butler_runtime::object::{Kind, ObjectKey};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::scene::here;

/// The Cluster of the stories, and its infrastructure.
pub(super) const CLUSTER: &str = "shop";

pub(super) fn clusters() -> Kind {
    Kind::of::<Cluster>()
}

pub(super) fn control_planes() -> Kind {
    Kind::of::<StewardControlPlane>()
}

pub(super) fn butler_clusters() -> Kind {
    Kind::of::<ButlerCluster>()
}

/// A kind of infrastructure that Steward knows by its name alone.
pub(super) fn nutanix_clusters() -> Kind {
    Kind {
        group: groups::INFRASTRUCTURE.to_owned(),
        version: "v1beta1".to_owned(),
        kind: "NutanixCluster".to_owned(),
        plural: "nutanixclusters".to_owned(),
        namespaced: true,
    }
}

pub(super) fn definitions() -> Kind {
    Kind::of::<CustomResourceDefinition>()
}

fn object(kind: &Kind, key: &ObjectKey, parts: Value) -> Value {
    let mut body = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": { "name": key.name, "namespace": key.namespace },
    });
    if let Value::Object(parts) = parts {
        body.as_object_mut().unwrap().extend(parts);
    }
    body
}

/// The definition of a kind, as its provider labels it.
pub(super) fn definition(kind: &Kind) -> Value {
    let name = format!("{}.{}", kind.plural, kind.group);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": name, "labels": { "cluster.x-k8s.io/v1beta1": format!("v1alpha4_{}", kind.version) } },
    })
}

/// A definition of a kind that takes anything, for servers that really serve it.
pub(super) fn served(kind: &Kind) -> CustomResourceDefinition {
    let mut definition = definition(kind);
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    definition["spec"] = json!({
        "group": kind.group,
        "scope": "Namespaced",
        "names": {
            "kind": kind.kind, "plural": kind.plural, "singular": kind.kind.to_lowercase(),
            "listKind": format!("{}List", kind.kind),
        },
        "versions": [{
            "name": kind.version, "served": true, "storage": true,
            "schema": { "openAPIV3Schema": anything }, "subresources": { "status": {} },
        }],
    });
    serde_json::from_value(definition).unwrap()
}

/// The Cluster, as its owner writes it.
pub(super) fn cluster(control_plane: &str, infrastructure: Option<&Kind>, port: u16) -> Value {
    let mut spec = json!({
        "controlPlaneRef": {
            "apiGroup": groups::CONTROL_PLANE, "kind": "StewardControlPlane", "name": control_plane,
        },
        "clusterNetwork": {
            "apiServerPort": port,
            "services": { "cidrBlocks": ["10.96.0.0/16"] }, "pods": { "cidrBlocks": ["10.244.0.0/16"] },
        },
    });
    if let Some(kind) = infrastructure {
        spec["infrastructureRef"] =
            json!({ "apiGroup": kind.group, "kind": kind.kind, "name": CLUSTER });
    }
    object(&clusters(), &here(CLUSTER), json!({ "spec": spec }))
}

/// Its control plane.
pub(super) fn control_plane(name: &str, parts: Value) -> Value {
    let mut spec = json!({ "version": "v1.36.3", "replicas": 2, "network": { "serviceType": "LoadBalancer" } });
    if let Value::Object(parts) = parts {
        spec.as_object_mut().unwrap().extend(parts);
    }
    object(&control_planes(), &here(name), json!({ "spec": spec }))
}

/// Its infrastructure.
pub(super) fn infrastructure(kind: &Kind) -> Value {
    let spec = json!({ "providerRef": { "name": "rack", "namespace": "butler-system" } });
    object(kind, &here(CLUSTER), json!({ "spec": spec }))
}
