//! `butlerctl cluster upgrade`.

use butler_api::{name::ClusterName, version::KubernetesVersion};
use clap::Args;
use serde_json::json;

use super::{
    Patience,
    follow::{Goal, follow},
};
use crate::ctl::platform::Platform;

/// Flags of `butlerctl cluster upgrade`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Name of the cluster
    name: ClusterName,
    /// The version it shall have
    #[arg(long = "version", alias = "kubernetes-version", value_name = "VERSION")]
    target: KubernetesVersion,
    #[command(flatten)]
    patience: Patience,
}

/// Asks for another version, and waits until all run it. Whether it can be had the platform decides.
pub(super) async fn upgrade(arguments: &Arguments, platform: &Platform) -> anyhow::Result<String> {
    let Arguments {
        name,
        target,
        patience,
    } = arguments;
    let name = name.as_str();
    let cluster = platform.cluster(name).await?;
    let wished: Result<KubernetesVersion, _> = cluster.spec.kubernetes_version.parse();
    if wished.is_ok_and(|wished| wished == *target) {
        return Ok(format!("{name} is to have {target} already.\n"));
    }
    let patch = json!({ "spec": { "kubernetesVersion": target.to_string() } });
    platform.change(name, patch, "upgrade").await?;
    let Some(patience) = patience.time() else {
        return Ok(format!(
            "{name} goes to {target}; \"butlerctl cluster get {name}\" shows how far it is.\n"
        ));
    };
    let title = format!("Upgrading {name} to {target}");
    Box::pin(follow(platform, name, Goal::Change, title, patience)).await?;
    Ok(format!("{name} has {target}.\n"))
}
