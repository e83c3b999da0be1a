//! What somebody is told who asks the API server for everything that belongs to a cluster.

use butler_runtime::reconciler::Reconciler;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::{
    tenant_cluster::{
        TenantClusterReconciler,
        scene::{UID, after, deleted, shop, world},
    },
    testing::at,
};

fn object(api_version: &str, kind: &str, name: &str, rest: Value) -> Value {
    let mut body = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": { "name": name, "namespace": "shop-0a1b2c3d", "uid": format!("uid of {name}") },
    });
    if let (Some(body), Value::Object(rest)) = (body.as_object_mut(), rest) {
        body.extend(rest);
    }
    body
}

fn says(type_: &str, status: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": "Because", "message": message,
        "lastTransitionTime": "1970-01-01T00:01:00Z",
    })
}

/// What the API server shows of a cluster whose first machine cannot be made.
fn objects() -> Vec<Value> {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": "shop-0a1b2c3d", "uid": "n", "labels": { "butler.butlerlabs.dev/owner-uid": UID } },
    });
    let capi = "cluster.x-k8s.io/v1beta2";
    vec![
        namespace,
        object(
            capi,
            "Cluster",
            "shop",
            json!({ "status": { "initialization": { "infrastructureProvisioned": true } } }),
        ),
        object(
            "controlplane.cluster.x-k8s.io/v1alpha1",
            "StewardControlPlane",
            "shop",
            json!({ "spec": { "version": "v1.36.3" }, "status": {
                "version": "v1.36.3", "initialization": { "controlPlaneInitialized": true },
                "versions": [{ "version": "v1.36.3", "replicas": 1 }, { "version": "v1.35.4", "replicas": 1 }],
                "conditions": [says("Available", "True", ""), says("RollingOut", "True", "1 of 2 pods")],
            } }),
        ),
        object("v1", "Secret", "shop-kubeconfig", json!({})),
        object("v1", "Secret", "shop-admin-kubeconfig", json!({})),
        object(
            capi,
            "MachineDeployment",
            "shop-workers",
            json!({ "spec": { "replicas": 2 }, "status": { "replicas": 2, "readyReplicas": 1, "upToDateReplicas": 2 } }),
        ),
        object(
            capi,
            "MachineSet",
            "shop-workers-1",
            json!({ "spec": { "template": { "spec": {
                "bootstrap": { "configRef": { "apiGroup": "b", "kind": "KubeadmConfigTemplate", "name": "t" } },
                "infrastructureRef": { "apiGroup": "i", "kind": "ButlerMachineTemplate", "name": "t" },
            } } } }),
        ),
        object(
            capi,
            "Machine",
            "shop-workers-1-x",
            json!({ "spec": { "clusterName": "shop" }, "status": {
                "conditions": [says("InfrastructureReady", "False", "")],
            } }),
        ),
        object(
            "infrastructure.cluster.x-k8s.io/v1alpha1",
            "ButlerMachine",
            "shop-workers-1-x",
            json!({ "status": { "conditions": [says("Ready", "False", "the disk is full; make room")] } }),
        ),
    ]
}

fn related() -> Related {
    let mut related = Related::default();
    for object in objects() {
        related.see(object);
    }
    related
}

#[test]
fn the_first_obstacle_is_told_with_the_words_of_whoever_meets_it() {
    let found = why(&shop(&json!({})), &related());
    assert_eq!(
        found,
        [Waiting::new(
            "WorkersReady",
            "WorkersProvisioning",
            "1 of 2 workers are ready, and shop-workers-1-x is not: the disk is full; make room",
        )
        .since(Some(at(60)))]
    );
}

/// What is told of a cluster whose load balancer says this of itself.
fn told_of_balancer(status: &Value) -> Waiting {
    let mut related = related();
    let cluster = related.cluster.as_mut().unwrap();
    cluster.facts.infrastructure_provisioned = false;
    let request = object(
        "butler.butlerlabs.dev/v1alpha1",
        "LoadBalancerRequest",
        "shop",
        json!({
            "spec": { "clusterName": "shop-0a1b2c3d", "providerConfigRef": { "name": "local" }, "port": 6443 },
            "status": status,
        }),
    );
    related.see(request);
    why(&shop(&json!({})), &related).remove(0)
}

#[test]
fn a_load_balancer_that_fails_or_waits_is_told_with_its_own_words() {
    let told = |why: &str| Waiting::new("InfrastructureReady", "InfrastructureProvisioning", why);
    let failed = json!({ "phase": "Failed", "failureMessage": "no address is free; free one" });
    assert_eq!(
        told_of_balancer(&failed),
        told("LoadBalancerRequest: no address is free; free one").needs_somebody()
    );
    let waits = json!({
        "phase": "Creating",
        "conditions": [says("Ready", "False", "the provider does not answer")],
    });
    assert_eq!(
        told_of_balancer(&waits),
        told("LoadBalancerRequest: the provider does not answer").since(Some(at(60)))
    );
    assert_eq!(
        told_of_balancer(&json!({})),
        told("LoadBalancerRequest: it has no endpoint yet")
    );
    let made = json!({ "phase": "Ready", "endpoint": "172.30.0.200" });
    assert_eq!(
        told_of_balancer(&made),
        told("the infrastructure is being made")
    );
}

#[test]
fn objects_are_read_as_the_caches_read_them() {
    let related = related();
    let control_plane = related.control_plane.as_ref().unwrap();
    assert_eq!(
        control_plane.facts.version.as_deref(),
        Some("v1.35.4"),
        "the oldest one counts"
    );
    assert!(control_plane.facts.rolling_out && control_plane.facts.available);
    assert_eq!(related.kubeconfig.as_deref(), Some("shop-admin-kubeconfig"));
    assert_eq!(
        related.sets["shop-workers-1"].templates,
        ["ButlerMachineTemplate", "KubeadmConfigTemplate"]
            .map(|kind| (kind.to_owned(), "t".to_owned()))
    );
}

#[test]
fn what_only_the_controller_can_judge_is_repeated() {
    let mut cluster = shop(&json!({}));
    let reconciler = TenantClusterReconciler::default();
    let mut world = world(Related::default());
    world.provider = None;
    let plan = reconciler.plan(&cluster, &world, at(5));
    cluster = after(cluster, &plan);
    let found = why(&cluster, &Related::default());
    assert_eq!(
        (found[0].what.as_str(), found[0].reason.as_str()),
        ("ProviderAccessGranted", "ProviderConfigNotFound")
    );
    assert_eq!(found[0].since, Some(at(5)));
}

#[test]
fn a_pause_and_a_failed_pass_come_first() {
    let mut cluster = shop(&json!({}));
    let conditions = json!([
        says(
            "Paused",
            "True",
            "remove the annotation butler.butlerlabs.dev/paused to go on"
        ),
        says(
            "Reconciled",
            "False",
            "could not apply Cluster shop: no answer"
        ),
    ]);
    cluster.status = serde_json::from_value(json!({ "conditions": conditions })).unwrap();
    let found: Vec<_> = why(&cluster, &related())
        .into_iter()
        .map(|found| found.what)
        .collect();
    assert_eq!(found, ["Paused", "Reconciled", "WorkersReady"]);
}

#[test]
fn the_end_of_a_cluster_is_told_by_its_present_step() {
    let found = why(&deleted(shop(&json!({}))), &related());
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].why,
        "waiting until its machines are gone: shop-workers-1-x (shop-workers-1-x: the disk is full; make room)"
    );
}

#[test]
fn a_cluster_that_is_as_it_shall_be_waits_for_nothing() {
    assert_eq!(
        why(&shop(&json!({})), &crate::tenant_cluster::scene::ready()),
        []
    );
}
