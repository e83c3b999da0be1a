//! A Cluster of the real Cluster API whose control plane Steward hosts. Played are only the cloud and the kubelets.

use std::{
    net::{Ipv4Addr, TcpListener},
    time::Duration,
};

use butler_api::{
    cluster_api::{butler_cluster::ButlerCluster, steward_control_plane::StewardControlPlane},
    keys::labels,
    steward::tenant_control_plane::TenantControlPlane,
};
use butler_runtime::object::Kind;
use butler_testkit::{eventually, eventually_gone};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    manager,
    scene::{self, CLUSTER},
};
use crate::{
    real::{create, run_steward, serve_at, set_the_scene},
    scene::{TEAM, condition},
};

const PATIENCE: Duration = Duration::from_mins(1);
/// The control plane, which is not named like its Cluster.
const HOSTED: &str = "hosted";
/// Cluster API connects to whatever it takes for initialized, and shall find nobody.
pub(super) const LOOPBACK: &str = "127.0.0.1";

pub(super) fn unused_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

pub(super) fn dynamic(client: &Client, kind: &Kind) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), TEAM, &kind.api_resource())
}

/// The Cluster once a part of its status is so.
async fn cluster_with(client: &Client, what: &str, pointer: &str) -> Value {
    let clusters = dynamic(client, &scene::clusters());
    let found = eventually(&clusters, CLUSTER, what, PATIENCE, |found| {
        found.and_then(|found| found.data.pointer(pointer)) == Some(&json!(true))
    });
    found.await.data
}

async fn hosted_when(client: &Client, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let control_planes = Api::<StewardControlPlane>::namespaced(client.clone(), TEAM);
    let found = eventually(&control_planes, HOSTED, what, PATIENCE, |found| {
        found.is_some_and(|found| is_so(&json!(found)))
    });
    json!(found.await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_of_the_real_cluster_api_gets_a_hosted_control_plane() {
    let server = manager::start().await;
    let client = server.client_as("story");
    set_the_scene(&client).await;
    let steward = run_steward(&server);
    let port = unused_port();
    let clusters = dynamic(&client, &scene::clusters());
    let kind = scene::butler_clusters();
    let cluster = scene::cluster(HOSTED, Some(&kind), port);
    let cluster: DynamicObject = serde_json::from_value(cluster).unwrap();
    clusters
        .create(&PostParams::default(), &cluster)
        .await
        .unwrap();
    let control_planes = Api::<StewardControlPlane>::namespaced(client.clone(), TEAM);
    create(&control_planes, scene::control_plane(HOSTED, json!({}))).await;
    let infrastructure = Api::<ButlerCluster>::namespaced(client.clone(), TEAM);
    create(&infrastructure, scene::infrastructure(&kind)).await;

    // The control plane runs, and Cluster API takes it for initialized.
    serve_at(&client, HOSTED, LOOPBACK).await;
    let initialized = "/status/initialization/controlPlaneInitialized";
    let cluster = cluster_with(&client, "has a control plane", initialized).await;
    let endpoint = json!({ "host": LOOPBACK, "port": port });
    assert_eq!(cluster["spec"]["controlPlaneEndpoint"], endpoint);
    for type_ in ["ControlPlaneInitialized", "ControlPlaneAvailable"] {
        let said = condition(&cluster, type_);
        assert!(said.starts_with("True"), "{type_} {said}: {cluster:#}");
    }

    // The infrastructure was told, and its provider is content with that.
    let told = eventually(&infrastructure, CLUSTER, "is told", PATIENCE, |found| {
        found.is_some_and(|found| found.spec.control_plane_endpoint.is_some())
    })
    .await;
    assert_eq!(json!(told.spec.control_plane_endpoint), endpoint);
    let provisioned =
        json!({ "status": { "initialization": { "provisioned": true }, "ready": true } });
    let parameters = PatchParams::default();
    infrastructure
        .patch_status(CLUSTER, &parameters, &Patch::Merge(provisioned))
        .await
        .unwrap();
    let pointer = "/status/initialization/infrastructureProvisioned";
    cluster_with(&client, "has its infrastructure", pointer).await;

    // Cluster API finds the Secrets where it looks for them.
    let secrets = Api::<Secret>::namespaced(client.clone(), TEAM);
    for (name, entry) in [("shop-kubeconfig", "value"), ("shop-ca", "tls.key")] {
        let secret = secrets.get(name).await.unwrap();
        assert_eq!(secret.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
        let labels = secret.metadata.labels.unwrap_or_default();
        assert_eq!(labels[labels::CLUSTER_API_CLUSTER], CLUSTER);
        assert!(!secret.data.unwrap_or_default()[entry].0.is_empty());
    }

    // Who scales it finds its pods; at zero it sleeps, and stays initialized.
    let scale = json!(control_planes.get_scale(HOSTED).await.unwrap());
    assert_eq!(scale["spec"]["replicas"], 2);
    assert_eq!(scale["status"]["replicas"], 2);
    assert_eq!(
        scale["status"]["selector"],
        "steward.butlerlabs.dev/name=hosted"
    );
    let zero = json!({ "spec": { "replicas": 0 } });
    control_planes
        .patch_scale(HOSTED, &parameters, &Patch::Merge(zero))
        .await
        .unwrap();
    let deployments = Api::<Deployment>::namespaced(client.clone(), TEAM);
    let deployment = eventually(&deployments, HOSTED, "is at zero", PATIENCE, |found| {
        let spec = found.and_then(|found| found.spec.as_ref());
        spec.is_some_and(|spec| spec.replicas == Some(0))
    })
    .await;
    let status = json!({ "status": { "observedGeneration": deployment.metadata.generation, "replicas": 0,
        "readyReplicas": 0, "updatedReplicas": 0, "availableReplicas": 0 } });
    deployments
        .patch_status(HOSTED, &parameters, &Patch::Merge(status))
        .await
        .unwrap();
    let asleep = hosted_when(&client, "sleeps", |found| {
        condition(found, "Available") == "False Sleeping" && found["status"]["replicas"] == 0
    })
    .await;
    assert_eq!(asleep["status"]["initialized"], true);
    assert_eq!(asleep["status"]["ready"], false);

    // Deleted, everything goes, and the control plane not before what it stands for.
    clusters
        .delete(CLUSTER, &DeleteParams::default())
        .await
        .unwrap();
    eventually_gone(&control_planes, HOSTED, PATIENCE).await;
    let tenants = Api::<TenantControlPlane>::namespaced(client.clone(), TEAM);
    assert!(tenants.get_opt(HOSTED).await.unwrap().is_none());
    eventually_gone(&clusters, CLUSTER, PATIENCE).await;
    eventually_gone(&secrets, "shop-kubeconfig", PATIENCE).await;
    steward.begin();
}
