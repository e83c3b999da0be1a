//! `butlerctl cluster upgrade`.

use butler_api::{name::ClusterName, version::KubernetesVersion};
use clap::Args;
use serde_json::json;

use super::{
    Patience,
    follow::{Goal, follow},
    hold,
};
use crate::ctl::{error::Error, platform::Platform};

/// Flags of `butlerctl cluster upgrade`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Name of the cluster
    name: ClusterName,
    /// The version it shall have, such as v1.36.3: at most one minor version newer than the one it has
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
    if let Some(why) = hold::from_changing(&cluster) {
        let (name, how) = (name.to_owned(), "is not upgraded");
        return Err(Error::Stuck { name, how, why }.into());
    }
    let wished: Result<KubernetesVersion, _> = cluster.spec.kubernetes_version.parse();
    if wished.is_ok_and(|wished| wished == *target) {
        return Ok(format!("{name} is to have {target} already.\n"));
    }
    let patch = json!({ "spec": { "kubernetesVersion": target.to_string() } });
    platform.change(name, patch, "upgrade").await?;
    let Some(patience) = patience.time() else {
        return Ok(format!(
            "{name} goes to {target}; \"butlerctl cluster get {}\" shows how far it is.\n",
            platform.call(name)
        ));
    };
    let title = format!("Upgrading {name} to {target}");
    Box::pin(follow(platform, name, Goal::Version, title, patience)).await?;
    Ok(format!("{name} has {target}.\n"))
}
