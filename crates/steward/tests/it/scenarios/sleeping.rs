//! Control planes that nobody needs for a while sleep: no pod of theirs runs, and all that they know is kept.

use butler_api::steward::tenant_control_plane::{
    ControlPlanePhase, TenantControlPlane, TenantControlPlaneStatus,
};
use butler_testkit::Options;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Namespace};
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};

use super::{World, version};
use crate::{etcd::free_port, kubelet::pod, scene};

/// All of it is this machine, so what a Service of the management cluster gets there is reached.
const SERVICE_RANGE: &str = "127.88.0.0/16";

/// The parts of a control plane at its cluster address.
fn at_cluster_address(port: u16, replicas: i32) -> Value {
    json!({
        "controlPlane": {
            "service": { "serviceType": "ClusterIP" }, "deployment": { "replicas": replicas },
        },
        "networkProfile": { "port": port },
    })
}

fn replicas(count: i32) -> Value {
    json!({ "controlPlane": { "deployment": { "replicas": count } } })
}

/// Which version each container runs.
fn versions(deployment: &Deployment) -> Vec<String> {
    let containers = pod(deployment).containers.into_iter();
    let tag = |image: String| image.rsplit_once(':').unwrap().1.to_owned();
    containers
        .map(|container| tag(container.image.unwrap()))
        .collect()
}

/// Whether a tenant has a namespace, or why it does not answer.
async fn has(tenant: &Client, namespace: &str) -> Result<bool, String> {
    let namespaces = Api::<Namespace>::all(tenant.clone());
    let found = namespaces.get_opt(namespace).await;
    found
        .map(|found| found.is_some())
        .map_err(|error| error.to_string())
}

impl World {
    /// Waits until a control plane sleeps with pods that would run this version.
    async fn asleep(&self, name: &str, at: &str) -> TenantControlPlane {
        self.rolled_out(name, "has no pods", |found| {
            let wanted = found.spec.as_ref().and_then(|spec| spec.replicas);
            wanted == Some(0) && versions(found).iter().all(|version| version == at)
        })
        .await;
        let sleeps = |status: &TenantControlPlaneStatus| {
            let resources = status.kubernetes_resources.clone().unwrap_or_default();
            let state = resources.version.unwrap_or_default();
            state.status == ControlPlanePhase::Sleeping && state.version.as_deref() == Some(at)
        };
        self.until(name, "sleeps", sleeps).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_at_its_cluster_address_sleeps_and_wakes_with_its_data() {
    let options = Options {
        apiserver_flags: vec![format!("--service-cluster-ip-range={SERVICE_RANGE}")],
        ..Options::default()
    };
    let world = World::start_with(options).await;
    let port = free_port();
    world.ask("shop", at_cluster_address(port, 1)).await;
    let ready = world.ready("shop").await;
    let service = world.services().get("shop").await.unwrap();
    let address = service.spec.unwrap().cluster_ip.unwrap();
    let endpoint = ready.status.unwrap().control_plane_endpoint;
    assert_eq!(endpoint, Some(format!("{address}:{port}")));
    let tenant = world.administrator("shop").await;
    let kept = serde_json::from_value(scene::namespace("kept")).unwrap();
    Api::<Namespace>::all(tenant.clone())
        .create(&PostParams::default(), &kept)
        .await
        .unwrap();

    // Nobody needs it overnight.
    world.edit("shop", &replicas(0)).await;
    let asleep = world.asleep("shop", "v1.36.3").await;
    assert_eq!(scene::ready(&json!(asleep)), "False Sleeping");
    assert!(!world.node.runs("shop").await);
    has(&tenant, "kept").await.unwrap_err();

    // Meanwhile somebody asks for another one that need not run yet, and has it upgraded in its sleep.
    let mut parts = at_cluster_address(port, 0);
    parts["kubernetes"] = json!({ "version": "v1.35.4", "kubelet": {} });
    world.ask("night", parts).await;
    world.asleep("night", "v1.35.4").await;
    let upgrade = json!({ "kubernetes": { "version": "v1.36.3" } });
    world.edit("night", &upgrade).await;
    let upgraded = world.asleep("night", "v1.36.3").await;
    assert_eq!(scene::ready(&json!(upgraded)), "False Sleeping");

    // In the morning both are as they were left.
    world.edit("shop", &replicas(1)).await;
    world.edit("night", &replicas(1)).await;
    world.ready("shop").await;
    assert_eq!(has(&tenant, "kept").await, Ok(true));
    let woken = world.ready("night").await;
    assert_eq!(version(&woken).version.as_deref(), Some("v1.36.3"));
    let other = world.administrator("night").await;
    assert_eq!(has(&other, "kube-system").await, Ok(true));
    assert_eq!(has(&other, "kept").await, Ok(false));
}
