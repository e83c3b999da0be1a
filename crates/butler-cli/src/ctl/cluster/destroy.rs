//! `butlerctl cluster destroy`.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use butler_api::{butler::tenant_cluster::TenantCluster, name::ClusterName};
use clap::Args;
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Preconditions},
};

use super::{
    Patience,
    follow::{Goal, follow},
    hold, view,
};
use crate::ctl::{error::Error, platform::Platform};

/// Flags of `butlerctl cluster destroy`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Name of the cluster
    name: ClusterName,
    /// Do not ask whether that is meant
    #[arg(long, short, alias = "force")]
    yes: bool,
    #[command(flatten)]
    patience: Patience,
}

/// Destroys a cluster, and waits until it is gone.
pub(super) async fn destroy(arguments: &Arguments, platform: &Platform) -> anyhow::Result<String> {
    let name = arguments.name.as_str();
    let cluster = platform.cluster(name).await?;
    if let Some(why) = hold::from_going(&cluster) {
        let (name, how) = (name.to_owned(), "is not destroyed");
        return Err(Error::Stuck { name, how, why }.into());
    }
    if !arguments.yes && cluster.metadata.deletion_timestamp.is_none() {
        confirm(&cluster)?;
    }
    // The one that was asked about, and no other that took its name meanwhile.
    let parameters = DeleteParams::default().preconditions(Preconditions {
        uid: cluster.uid(),
        resource_version: None,
    });
    platform
        .clusters()
        .delete(name, &parameters)
        .await
        .map_err(Error::api(format!("destroy the cluster {name}")))?;
    let Some(patience) = arguments.patience.time() else {
        return Ok(format!(
            "{name} is being destroyed; \"butlerctl cluster why {}\" says what that waits for.\n",
            platform.call(name)
        ));
    };
    let title = format!("Destroying {name}");
    Box::pin(follow(platform, name, Goal::End, title, patience)).await?;
    Ok(format!("{name} is gone.\n"))
}

/// Lets the reader type the name.
fn confirm(cluster: &TenantCluster) -> Result<(), Error> {
    let name = cluster.name_any();
    if !io::stdin().is_terminal() {
        return Err(Error::Usage(format!(
            "nobody is there to confirm that {name} is to be destroyed; pass --yes"
        )));
    }
    // Who cannot read the question cannot answer it, and nothing happens.
    drop(write!(io::stderr(), "{}", question(cluster)));
    let mut answer = String::new();
    drop(io::stdin().lock().read_line(&mut answer));
    if answer.trim() == name {
        Ok(())
    } else {
        Err(Error::Usage(format!(
            "{name} was not confirmed; nothing was changed"
        )))
    }
}

fn question(cluster: &TenantCluster) -> String {
    let name = cluster.name_any();
    format!(
        "This destroys {name} ({}) with its machines, volumes and all data in it. It cannot be undone.\nType the name of the cluster to go on: ",
        view::phase(cluster)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctl::cluster::testing::cluster;

    #[test]
    fn whoever_destroys_is_told_what_is_lost() {
        insta::assert_snapshot!(question(&cluster("True")), @r"
        This destroys demo (Ready) with its machines, volumes and all data in it. It cannot be undone.
        Type the name of the cluster to go on:
        ");
    }
}
