//! A control plane in another cluster, and the end of one.

use pretty_assertions::assert_eq;
use serde_json::Value;

use super::tests::{lines, settled};
use super::*;
use crate::{
    steward_control_plane::scene::{control_plane, here, serving, world, young},
    testing::now,
};

fn deleted(mut control_plane: StewardControlPlane) -> StewardControlPlane {
    let time = json!("2026-01-01T00:00:00Z");
    control_plane.metadata.deletion_timestamp = serde_json::from_value(time).unwrap();
    control_plane
}

fn external() -> StewardControlPlane {
    control_plane(json!({ "deployment": { "externalClusterReference": {
        "kubeconfigSecretName": "east", "kubeconfigSecretKey": "value", "deploymentNamespace": "hosted",
    } } }))
}

#[test]
fn a_control_plane_in_another_cluster_is_applied_there_until_it_is_as_wanted() {
    let empty = World {
        host: Host::There,
        ..world(None)
    };
    let first = plan(&external(), &empty, now());
    insta::assert_snapshot!(lines(&first), @r#"
    Available=False Pending: the TenantControlPlane hosted/kcp-6f9619ff-8b86-4011-b42d-00c04fc964ff is being made
    RollingOut=False Creating: there is no TenantControlPlane yet
    ScalingUp=False Creating: there is no TenantControlPlane yet
    ScalingDown=False Creating: there is no TenantControlPlane yet
    FoundExternalReferenceClient=True Succeeded: the other cluster answers
    TenantControlPlaneCreated=False Pending: the TenantControlPlane hosted/kcp-6f9619ff-8b86-4011-b42d-00c04fc964ff is being made
    TenantControlPlaneAddressReady=False Pending: the address is not known yet
    ControlPlaneEndpointPatched=False Pending: the endpoint is written when it is known
    InfrastructureClusterPatched=True NotRequired: the Cluster has no spec.infrastructureRef
    KubeadmResourcesCreated=False Pending: the Secrets are made when there is a TenantControlPlane
    StewardControlPlaneIsInitialized=False Pending: waiting until the API server serves and its kubeconfig is there
    StewardControlPlaneIsReady=False Pending: the API server does not serve; Available says why
    Paused=False NotPaused:
    apply there hosted/kcp-6f9619ff-8b86-4011-b42d-00c04fc964ff
    externalManagedControlPlane: true
    initialization: {"controlPlaneInitialized":false}
    initialized: false
    ready: false
    "#);
    let Some(Effect::ApplyElsewhere(manifest)) = first.effects.first() else {
        panic!("{first:?}");
    };
    let there = TenantSight {
        namespace: "hosted".to_owned(),
        name: manifest.key.name.clone(),
        controller: None,
        applied: Some(hash_of_intent(&manifest.body)),
        ..young()
    };
    let world = World {
        host: Host::There,
        ..world(Some(there))
    };
    assert_eq!(plan(&external(), &world, now()).effects, []);
}

#[test]
fn another_cluster_that_cannot_be_reached_is_told() {
    let world = World {
        host: Host::Unreachable(
            "the Secret payments/east with the kubeconfig does not exist; create it".to_owned(),
        ),
        ..world(None)
    };
    let plan = plan(&external(), &world, now());
    insta::assert_snapshot!(lines(&plan), @r#"
    Available=False Failed: the Secret payments/east with the kubeconfig does not exist; create it
    RollingOut=False Creating: there is no TenantControlPlane yet
    ScalingUp=False Creating: there is no TenantControlPlane yet
    ScalingDown=False Creating: there is no TenantControlPlane yet
    FoundExternalReferenceClient=False Failed: the Secret payments/east with the kubeconfig does not exist; create it
    TenantControlPlaneCreated=False Pending: waiting until the other cluster can be reached
    TenantControlPlaneAddressReady=False Pending: the address is not known yet
    ControlPlaneEndpointPatched=False Pending: the endpoint is written when it is known
    InfrastructureClusterPatched=True NotRequired: the Cluster has no spec.infrastructureRef
    KubeadmResourcesCreated=False Pending: the Secrets are made when there is a TenantControlPlane
    StewardControlPlaneIsInitialized=False Pending: waiting until the API server serves and its kubeconfig is there
    StewardControlPlaneIsReady=False Pending: the API server does not serve; Available says why
    Paused=False NotPaused:
    Warning Failed: the Secret payments/east with the kubeconfig does not exist; create it
    externalManagedControlPlane: true
    initialization: {"controlPlaneInitialized":false}
    initialized: false
    ready: false
    "#);
}

#[test]
fn a_running_control_plane_is_not_moved() {
    let world = World {
        host: Host::There,
        left_behind: Some(here("shop")),
        ..world(None)
    };
    let plan = plan(&external(), &world, now());
    assert_eq!(plan.effects, []);
    let notes: Vec<_> = plan
        .notes
        .iter()
        .map(|note| note.message.as_str())
        .collect();
    insta::assert_snapshot!(notes.join("\n"), @"spec.deployment.externalClusterReference: the control plane runs here as TenantControlPlane payments/shop, and a control plane cannot be moved; remove the reference");
}

#[test]
fn a_deleted_control_plane_goes_after_its_tenant_control_plane() {
    let control_plane = deleted(control_plane(Value::Null));
    let first = plan(&control_plane, &settled(), now());
    insta::assert_snapshot!(lines(&first), @r"
    Available=False Deleting:
    Deleting=True Deleting: waiting until the TenantControlPlane payments/shop is gone
    Paused=False NotPaused:
    remove payments/shop tenant-uid
    externalManagedControlPlane: true
    initialized: false
    ready: false
    ");
    let going = World {
        tenant: Some(TenantSight {
            deleting: true,
            ..serving()
        }),
        ..settled()
    };
    let second = plan(&control_plane, &going, now());
    assert_eq!((second.effects.len(), second.next), (0, Next::AwaitChange));
    let gone = World {
        tenant: None,
        ..settled()
    };
    assert_eq!(plan(&control_plane, &gone, now()).next, Next::Done);
}

#[test]
fn a_deleted_control_plane_leaves_that_of_somebody_else_alone() {
    let foreign = TenantSight {
        controller: None,
        ..serving()
    };
    let control_plane = deleted(control_plane(Value::Null));
    let plan = plan(&control_plane, &world(Some(foreign)), now());
    assert_eq!(plan.effects, []);
    assert_eq!(plan.next, Next::Done);
}

#[test]
fn a_deleted_control_plane_waits_for_a_cluster_that_cannot_be_reached() {
    let world = World {
        host: Host::Unreachable("it does not answer".to_owned()),
        ..world(None)
    };
    let plan = plan(&deleted(external()), &world, now());
    assert_eq!(plan.next, Next::AwaitChange);
    let notes: Vec<_> = plan
        .notes
        .iter()
        .map(|note| note.message.as_str())
        .collect();
    insta::assert_snapshot!(notes.join("\n"), @"the TenantControlPlane hosted/kcp-6f9619ff-8b86-4011-b42d-00c04fc964ff of the other cluster cannot be deleted: it does not answer; or delete it yourself and remove the finalizer");
}
