//! A machine that becomes a Kubernetes node of the size that was asked for.

use std::{fs, sync::Arc};

use butler_assets::{Component, oci::Image};
use butler_host::{
    cloud_config::MetaData,
    host::{Host, Seed},
    images::{Library, Mirror},
    machine::MachineSpec,
};
use pretty_assertions::assert_eq;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    images::{Assets, MIRROR_PORT, own_bytes},
    scene::{Scene, needs_a_host},
};

/// What kubeadm is told; words in capitals are filled in.
const KUBEADM: &str = include_str!("kubeadm.yaml");

const CNI: &str = r#"{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}"#;

fn user_data(spec: &MachineSpec) -> String {
    let config = KUBEADM
        .replace("ADDRESS", &spec.address.addr().to_string())
        .replace("NAME", &spec.hostname);
    let indented = |text: &str| {
        text.lines()
            .map(|line| format!("    {line}"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    format!(
        "#cloud-config\nwrite_files:\n- path: /run/kubeadm.yaml\n  content: |\n{}\n- path: /etc/cni/net.d/10-pods.conflist\n  content: |\n{}\nruncmd:\n- kubeadm init --config /run/kubeadm.yaml > /var/log/kubeadm.log 2>&1 && touch /run/initialised || touch /run/failed\n",
        indented(&config),
        indented(CNI)
    )
}

async fn shell(host: &Host, spec: &MachineSpec, line: &str) -> (bool, String) {
    let output = host
        .exec(&spec.name, &["sh", "-c", line])
        .await
        .expect("a running machine");
    (output.success(), output.text().trim().to_owned())
}

/// Until a condition of the shell holds; what the machine wrote is told if it does not.
async fn until(scene: &Scene, spec: &MachineSpec, condition: &str) {
    let line = format!("timeout 240 sh -c 'until {condition}; do sleep 0.2; done'");
    if shell(&scene.host, spec, &line).await.0 {
        return;
    }
    let logs = scene.machine_directory("node").join("disk/rootfs/var/log");
    for log in ["kubeadm.log", "kubelet.log", "containerd.log"] {
        let text = fs::read_to_string(logs.join(log)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(30)..].join("\n");
        assert_eq!(last, "", "{log}; not seen in time: {condition}");
    }
}

const KUBECTL: &str = "kubectl --kubeconfig /etc/kubernetes/admin.conf";

#[tokio::test]
async fn kubeadm_makes_a_node_of_the_size_that_was_asked_for() {
    needs_a_host!();
    let scene = Scene::new().await;
    let host = &scene.host;
    let assets = Assets::new();
    let (archives, sandbox) = assets.kubernetes().await;
    let store = assets
        .stores(&scene)
        .await
        .prepare(&archives)
        .await
        .unwrap();
    let mut spec = assets.node(&scene, &sandbox, Some(store)).await;
    spec.cpu_millicores = 900;
    spec.memory_bytes = 3 * 1024 * 1024 * 1024;

    host.create(spec.clone()).await.unwrap();
    let size = own_bytes(&scene.machine_directory("node"));
    assert!(size < 3 * 1024 * 1024, "{size} bytes of its own");
    host.start(&spec.name).await.unwrap();
    let seed = Seed {
        user_data: user_data(&spec).into_bytes(),
        meta_data: MetaData::new(spec.id.as_str(), "node"),
    };
    host.deliver(&spec.name, &seed).await.unwrap();
    until(&scene, &spec, "test -e /run/initialised -o -e /run/failed").await;
    until(&scene, &spec, "test -e /run/initialised").await;

    let capacity = "get node node -o jsonpath={.status.capacity.cpu}/{.status.capacity.memory}";
    let (_, capacity) = shell(host, &spec, &format!("{KUBECTL} {capacity}")).await;
    assert_eq!(capacity, "1/3Gi");
    let ready =
        format!("{KUBECTL} wait --for=condition=Ready node/node --timeout=1s >/dev/null 2>&1");
    until(&scene, &spec, &ready).await;
    // All that kubeadm starts runs, from images that were there: kube-proxy with its rules and CoreDNS with its network.
    let pods = format!(
        "{KUBECTL} wait --for=condition=Ready pods --all --namespace kube-system --timeout=1s >/dev/null 2>&1"
    );
    until(&scene, &spec, &pods).await;

    // A pod of an image that only the host has, which is always pulled.
    let [pause] = assets.paths([Component::Pause]).await;
    let directory = scene.config.state_directory.join("images");
    let library = Arc::new(Library::open(&directory).unwrap());
    let mut image = Image::new("registry.example/of/a-user:v1");
    image
        .program(pause, "/waits")
        .unwrap()
        .entrypoint(["/waits"]);
    let archive = directory.join("of-a-user.tar");
    image.write_archive(&archive).unwrap();
    let address = (scene.config.network.address.addr(), MIRROR_PORT).into();
    let mirror = Mirror::bind(address, library).await.unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(mirror.serve(CancellationToken::new()));
    let run = format!(
        "{KUBECTL} run pulled --image registry.example/of/a-user:v1 --image-pull-policy Always >/dev/null 2>&1"
    );
    until(&scene, &spec, &run).await;
    let pulled =
        format!("{KUBECTL} wait --for=condition=Ready pod/pulled --timeout=1s >/dev/null 2>&1");
    until(&scene, &spec, &pulled).await;
    serving.shutdown().await;
    fs::remove_file(archive).unwrap();
    scene.finish().await;
}
