//! What people change of a control plane that serves, and what they break: it serves again.

use butler_api::keys::annotations;
use butler_testkit::eventually;
use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::Deployment,
        core::v1::{Namespace, Secret},
    },
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{World, on_loopback};
use crate::{
    etcd::free_port,
    hosting::{LOOPBACK, PATIENCE},
    kubelet::{container, flag, pod},
};

fn listens_on(deployment: &Deployment, port: u16) -> bool {
    let pod = pod(deployment);
    let arguments = container(&pod, "kube-apiserver").args.clone().unwrap();
    flag(&arguments, "--secure-port") == port.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_follows_its_port_and_mends_its_settings() {
    let world = World::start().await;
    world.ask("shop", on_loopback(free_port())).await;
    world.ready("shop").await;

    // The port changes three times.
    for _ in 0..3 {
        let port = free_port();
        world
            .edit("shop", &json!({ "networkProfile": { "port": port } }))
            .await;
        let what = "listens on its new port";
        world
            .rolled_out("shop", what, |found| listens_on(found, port))
            .await;
        let ready = world.ready("shop").await;
        let endpoint = ready.status.unwrap().control_plane_endpoint;
        assert_eq!(endpoint, Some(format!("{LOOPBACK}:{port}")));
        let service = world.services().get("shop").await.unwrap();
        let ports = service.spec.unwrap().ports.unwrap();
        assert!(ports.iter().any(|found| found.port == i32::from(port)));
        let tenant = Api::<Namespace>::all(world.administrator("shop").await);
        tenant.get("kube-system").await.unwrap();
    }

    // Somebody writes a password where there is none. Nothing that the pods hold has changed in the end, so they stay.
    let before = world.deployments().get("shop").await.unwrap();
    let secrets = world.secrets();
    let good = secrets.get("shop-datastore-config").await.unwrap();
    let corrupt =
        json!({ "data": { "DB_PASSWORD": ByteString(b"guessed".to_vec()), "DB_USER": null } });
    secrets
        .patch(
            "shop-datastore-config",
            &PatchParams::default(),
            &Patch::Merge(corrupt),
        )
        .await
        .unwrap();
    let what = "is as it was";
    let mended = eventually(&secrets, "shop-datastore-config", what, PATIENCE, |found| {
        found.is_some_and(|found| found.data == good.data)
    })
    .await;
    let written = |secret: &Secret| {
        let notes = secret.metadata.annotations.clone().unwrap();
        notes[annotations::STEWARD_CHECKSUM].clone()
    };
    assert_eq!(written(&mended), written(&good));
    world.ready("shop").await;
    let after = world.deployments().get("shop").await.unwrap();
    assert_eq!(after.metadata.generation, before.metadata.generation);
    let tenant = Api::<Namespace>::all(world.administrator("shop").await);
    tenant.get("kube-system").await.unwrap();
}
