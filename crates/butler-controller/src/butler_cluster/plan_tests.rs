//! What the infrastructure of a cluster shows, one obstacle at a time.

use butler_api::cluster_api::contract::ControlPlaneEndpoint;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::testing::{at, told};

fn cluster(spec: Value) -> ButlerCluster {
    let mut body = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "ButlerCluster",
        "metadata": { "name": "shop", "namespace": "payments", "generation": 1 },
        "spec": { "providerRef": { "name": "rack", "namespace": "butler-system" } },
    });
    if let Value::Object(more) = spec {
        body["spec"].as_object_mut().unwrap().extend(more);
    }
    serde_json::from_value(body).unwrap()
}

fn endpoint() -> ControlPlaneEndpoint {
    ControlPlaneEndpoint {
        host: "192.0.2.10".to_owned(),
        port: 6443,
    }
}

fn ready_world() -> World {
    World {
        owner: OwnerSight::Found {
            endpoint: Some(endpoint()),
            awaits_control_plane: false,
        },
        provider: ProviderSight::Ready,
        machines: Vec::new(),
    }
}

fn deleted(mut cluster: ButlerCluster) -> ButlerCluster {
    let metadata = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "name": "shop", "namespace": "payments" });
    cluster.metadata = serde_json::from_value(metadata).unwrap();
    cluster
}

#[test]
fn infrastructure_that_nobody_uses_waits_for_its_cluster() {
    let plan = plan(&cluster(json!({})), &World::default(), at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    Ready=False WaitingForDependencies: waiting for a Cluster that names it in spec.infrastructureRef
    Paused=False NotPaused
    status.initialization: {"provisioned":false}
    status.ready: false
    "#);
}

#[test]
fn an_owner_that_is_not_there_is_named() {
    let world = World {
        owner: OwnerSight::Missing(ObjectKey::namespaced("payments", "shop")),
        ..ready_world()
    };
    let plan = plan(&cluster(json!({})), &world, at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    Ready=False WaitingForDependencies: waiting for its Cluster payments/shop
    Paused=False NotPaused
    status.initialization: {"provisioned":false}
    status.ready: false
    "#);
}

#[test]
fn a_provider_that_does_not_exist_is_told_as_a_warning() {
    let world = World {
        provider: ProviderSight::Missing,
        ..ready_world()
    };
    let plan = plan(&cluster(json!({})), &world, at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    Ready=False ProviderConfigNotFound: spec.providerRef: the ProviderConfig butler-system/rack does not exist; create it or correct the reference
    Paused=False NotPaused
    status.initialization: {"provisioned":false}
    status.ready: false
    Warning ProviderConfigNotFound: spec.providerRef: the ProviderConfig butler-system/rack does not exist; create it or correct the reference
    "#);
}

#[test]
fn a_provider_that_is_not_ready_says_why() {
    let why = "spec.credentialsRef: the Secret butler-system/login does not exist; create it";
    let world = World {
        provider: ProviderSight::NotReady(why.to_owned()),
        ..ready_world()
    };
    let plan = plan(&cluster(json!({})), &world, at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    Ready=False WaitingForDependencies: the ProviderConfig butler-system/rack is not ready: spec.credentialsRef: the Secret butler-system/login does not exist; create it
    Paused=False NotPaused
    status.initialization: {"provisioned":false}
    status.ready: false
    "#);
}

#[test]
fn without_an_endpoint_no_machine_could_join() {
    let world = World {
        owner: OwnerSight::Found {
            endpoint: None,
            awaits_control_plane: false,
        },
        ..ready_world()
    };
    let plan = plan(&cluster(json!({})), &world, at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    Ready=False WaitingForDependencies: spec.controlPlaneEndpoint: waiting for the control plane to write it; write it yourself if the control plane has no controller that does
    Paused=False NotPaused
    status.initialization: {"provisioned":false}
    status.ready: false
    "#);
}

#[test]
fn the_endpoint_may_be_its_own_or_that_of_its_cluster() {
    let without = World {
        owner: OwnerSight::Found {
            endpoint: None,
            awaits_control_plane: false,
        },
        ..ready_world()
    };
    let own = cluster(json!({ "controlPlaneEndpoint": { "host": "192.0.2.10", "port": 6443 } }));
    for plan in [
        plan(&own, &without, at(1)),
        plan(&cluster(json!({})), &ready_world(), at(1)),
    ] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(told(&plan), @r#"
            Ready=True Ready
            Paused=False NotPaused
            status.initialization: {"provisioned":true}
            status.ready: true
            "#);
        }
    }
}

#[test]
fn nobody_is_sent_to_a_hosted_control_plane_that_does_not_answer_yet() {
    let world = World {
        owner: OwnerSight::Found {
            endpoint: Some(endpoint()),
            awaits_control_plane: true,
        },
        ..ready_world()
    };
    let plan = plan(&cluster(json!({})), &world, at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    Ready=False WaitingForDependencies: waiting until the control plane answers
    Paused=False NotPaused
    status.initialization: {"provisioned":false}
    status.ready: false
    "#);
}

#[test]
fn what_was_provisioned_stays_so_when_its_provider_breaks() {
    let mut cluster = cluster(json!({}));
    cluster.status = Some(plan(&cluster, &ready_world(), at(1)).status);
    let world = World {
        provider: ProviderSight::NotReady("the Secret is gone".to_owned()),
        ..ready_world()
    };
    let plan = plan(&cluster, &world, at(2));
    insta::assert_snapshot!(told(&plan), @r#"
    Ready=False WaitingForDependencies: the ProviderConfig butler-system/rack is not ready: the Secret is gone
    Paused=False NotPaused
    status.initialization: {"provisioned":true}
    status.ready: true
    "#);
}

#[test]
fn infrastructure_stays_while_machines_do() {
    let machines = (0..7).map(|number| ObjectKey::namespaced("payments", format!("shop-{number}")));
    let world = World {
        machines: machines.collect(),
        ..ready_world()
    };
    let plan = plan(&deleted(cluster(json!({}))), &world, at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    Ready=False DeletionBlocked: waiting until its ButlerMachines are gone: shop-0, shop-1, shop-2, shop-3, shop-4 and 2 more
    Paused=False NotPaused
    status.initialization: {"provisioned":false}
    status.ready: false
    "#);
}

#[test]
fn infrastructure_without_machines_goes_at_once() {
    let plan = plan(&deleted(cluster(json!({}))), &World::default(), at(1));
    assert_eq!(plan.next, Next::Done);
}
