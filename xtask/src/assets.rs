//! The binaries that tests run, and what belongs to them, made before the tests so that their making is seen. Some tests have no
//! way out of their network, so all of it must be there before.

use anyhow::Context;
use butler_assets::{Asset, Component, Resolver, Settings, Version};

/// What the test servers, and the machines of tests, are made of; what is soonest needed comes first.
const NEEDED: [Component; 22] = [
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
    Component::NatsServer,
];

/// What clusters are upgraded from.
const OLDER_KUBERNETES: &str = "1.35.4";
/// What of it their control planes and nodes run.
const OLDER: [Component; 6] = [
    Component::KubeApiserver,
    Component::KubeControllerManager,
    Component::KubeScheduler,
    Component::KubeProxy,
    Component::Kubelet,
    Component::Kubeadm,
];

/// Makes sure that they are there.
pub(crate) fn run() -> anyhow::Result<String> {
    let runtime = tokio::runtime::Runtime::new().context("could not start the runtime")?;
    let found = runtime.block_on(async {
        let older: Version = OLDER_KUBERNETES.parse()?;
        let mut assets = NEEDED.map(Asset::default_of).to_vec();
        assets.extend(OLDER.map(|component| Asset::new(component, older.clone())));
        let found = butler_assets::ensure(&assets).await?;
        let resolver = Resolver::new(Settings::from_env()?);
        resolver.cluster_api_manifests().await?;
        Ok::<_, butler_assets::Error>(found)
    })?;
    let lines = found
        .iter()
        .map(|(asset, path)| format!("{asset}: {}", path.display()));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}
