//! A class of clusters, and a Cluster of it.

use butler_api::keys::groups;
use butler_runtime::object::Kind;
use serde_json::{Value, json};

use super::scene::{CLUSTER, clusters};

/// The class, its infrastructure, and its control plane before and after its owner thought better of it.
pub(super) const CLASS: &str = "hosted";
pub(super) const BEFORE: &str = "hosted-1";
pub(super) const AFTER: &str = "hosted-2";
/// Where the images of this Cluster come from. Its class would take them from elsewhere.
pub(super) const REGISTRY: &str = "mirror.example.com";
pub(super) const OLD: &str = "v1.35.4";
pub(super) const NEW: &str = "v1.36.3";

pub(super) fn classes() -> Kind {
    Kind {
        kind: "ClusterClass".to_owned(),
        plural: "clusterclasses".to_owned(),
        ..clusters()
    }
}

/// A template of control planes, whose Services are for somebody to see.
pub(super) fn template(name: &str, audience: &str) -> Value {
    json!({
        "apiVersion": groups::CONTROL_PLANE_API_VERSION, "kind": "StewardControlPlaneTemplate",
        "metadata": { "name": name },
        "spec": { "template": {
            "metadata": { "labels": { "environment": "production" } },
            "spec": {
                "addons": { "coreDNS": {}, "konnectivity": {} },
                "network": {
                    "serviceType": "LoadBalancer",
                    "serviceAnnotations": { "example.com/audience": audience },
                },
            },
        } },
    })
}

pub(super) fn infrastructure_template() -> Value {
    json!({
        "apiVersion": groups::INFRASTRUCTURE_API_VERSION, "kind": "ButlerClusterTemplate",
        "metadata": { "name": CLASS },
        "spec": { "template": {
            "spec": { "providerRef": { "name": "rack", "namespace": "butler-system" } },
        } },
    })
}

/// Where a class finds its control plane.
pub(super) fn control_plane_of(template: &str) -> Value {
    json!({ "templateRef": {
        "apiVersion": groups::CONTROL_PLANE_API_VERSION, "kind": "StewardControlPlaneTemplate",
        "name": template,
    } })
}

pub(super) fn class() -> Value {
    json!({
        "apiVersion": classes().api_version(), "kind": "ClusterClass",
        "metadata": { "name": CLASS },
        "spec": {
            "controlPlane": control_plane_of(BEFORE),
            "infrastructure": { "templateRef": {
                "apiVersion": groups::INFRASTRUCTURE_API_VERSION, "kind": "ButlerClusterTemplate",
                "name": CLASS,
            } },
            "variables": [{
                "name": "registry", "required": false,
                "schema": { "openAPIV3Schema": { "type": "string", "default": "registry.k8s.io" } },
            }],
            "patches": [{ "name": "registry", "definitions": [{
                "selector": {
                    "apiVersion": groups::CONTROL_PLANE_API_VERSION, "kind": "StewardControlPlaneTemplate",
                    "matchResources": { "controlPlane": true },
                },
                "jsonPatches": [{
                    "op": "add", "path": "/spec/template/spec/registry",
                    "valueFrom": { "variable": "registry" },
                }],
            }] }],
        },
    })
}

/// A Cluster of the class.
pub(super) fn cluster(port: u16) -> Value {
    json!({
        "apiVersion": clusters().api_version(), "kind": "Cluster",
        "metadata": { "name": CLUSTER },
        "spec": {
            "clusterNetwork": {
                "apiServerPort": port,
                "services": { "cidrBlocks": ["10.96.0.0/16"] }, "pods": { "cidrBlocks": ["10.244.0.0/16"] },
            },
            "topology": {
                "classRef": { "name": CLASS },
                "version": OLD,
                "controlPlane": { "replicas": 2 },
                "variables": [{ "name": "registry", "value": REGISTRY }],
            },
        },
    })
}
