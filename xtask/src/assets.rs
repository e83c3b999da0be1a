//! The binaries that tests run, made before the tests so that their making is seen.

use anyhow::Context;
use butler_assets::{Asset, Component};

/// What the test servers, and the machines of tests, are made of; what is soonest needed comes first.
const NEEDED: [Component; 21] = [
    Component::Etcd,
    Component::KubeApiserver,
    Component::KubeControllerManager,
    Component::KubeScheduler,
    Component::KubeProxy,
    Component::Kubelet,
    Component::Kubeadm,
    Component::Kubectl,
    Component::Containerd,
    Component::ContainerdShimRuncV2,
    Component::Ctr,
    Component::CniBridge,
    Component::CniHostLocal,
    Component::CniLoopback,
    Component::CniPortmap,
    Component::Coredns,
    Component::Helm,
    Component::ClusterApiCore,
    Component::ClusterApiKubeadmBootstrap,
    Component::ClusterApiKubeadmControlPlane,
    Component::Pause,
];

/// Makes sure that they are there.
pub(crate) fn run() -> anyhow::Result<String> {
    let runtime = tokio::runtime::Runtime::new().context("could not start the runtime")?;
    let found = runtime.block_on(butler_assets::ensure(&NEEDED.map(Asset::default_of)))?;
    let lines = found
        .iter()
        .map(|(asset, path)| format!("{asset}: {}", path.display()));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}
