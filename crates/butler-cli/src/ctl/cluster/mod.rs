//! `butlerctl cluster`: what is done with clusters. One module for each command; what they show is in `view`, what a cluster
//! says of itself that it waits for in `waits`, and how it is followed until then in `follow`.

mod create;
mod destroy;
mod follow;
mod hold;
mod kubeconfig;
mod scale;
#[cfg(test)]
mod testing;
mod upgrade;
mod view;
mod waits;
mod why;

use std::time::Duration;

use butler_api::name::ClusterName;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use kube::{Api, ResourceExt as _, api::ListParams};

use super::{Global, error::Error, platform::Platform};
use crate::{
    flags::duration,
    output::document::{Format, Notation, document, list},
};

/// What can be done with clusters.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Create a cluster, and wait until it is ready
    #[command(
        after_help = "Examples:\n  butlerctl cluster create demo\n  butlerctl cluster create demo --workers 3 --cpu 2 --memory 4Gi\n  butlerctl cluster create demo --team payments\n  butlerctl cluster create -f demo.yaml --no-wait\n  butlerctl cluster create demo --dry-run > demo.yaml"
    )]
    Create(Box<create::Arguments>),
    /// List clusters
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  butlerctl cluster list\n  butlerctl cluster list -n payments -o wide\n  butlerctl cluster list -A -o json"
    )]
    List {
        /// Those of all namespaces
        #[arg(long, short = 'A')]
        all_namespaces: bool,
        /// How they are printed
        #[arg(long, short, value_enum, default_value = "table")]
        output: Format,
    },
    /// Show one cluster
    #[command(
        after_help = "Examples:\n  butlerctl cluster get demo\n  butlerctl cluster get demo -n payments -o yaml"
    )]
    Get {
        /// Name of the cluster
        name: ClusterName,
        /// How it is printed
        #[arg(long, short, value_enum, default_value = "table")]
        output: Format,
    },
    /// Print a kubeconfig of a cluster, or put it into a file
    #[command(
        after_help = "Examples:\n  butlerctl cluster kubeconfig demo > demo.conf\n  butlerctl cluster kubeconfig demo --merge\n  butlerctl cluster kubeconfig demo --user jane --group developers --ttl 8h -o jane.conf"
    )]
    Kubeconfig(kubeconfig::Arguments),
    /// Change the number of workers
    #[command(
        after_help = "Examples:\n  butlerctl cluster scale demo --workers 4\n  butlerctl cluster scale demo --pool large --workers 0"
    )]
    Scale(scale::Arguments),
    /// Move a cluster to a newer version of Kubernetes: the control plane first, then worker by worker
    #[command(
        after_help = "Examples:\n  butlerctl cluster upgrade demo --version v1.36.3\n  butlerctl cluster upgrade demo --version v1.36.3 --timeout 1h"
    )]
    Upgrade(upgrade::Arguments),
    /// Destroy a cluster with everything in it
    #[command(
        visible_alias = "delete",
        after_help = "Examples:\n  butlerctl cluster destroy demo\n  butlerctl cluster destroy demo --yes --no-wait"
    )]
    Destroy(destroy::Arguments),
    /// Say what a cluster waits for, and why
    #[command(after_help = "Examples:\n  butlerctl cluster why demo")]
    Why {
        /// Name of the cluster
        name: ClusterName,
    },
}

/// Whether the command waits, and for how long.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Wait until it is done, and show how far it is; this is what happens without the flag too
    #[arg(long, conflicts_with = "no_wait")]
    wait: bool,
    /// Do not wait
    #[arg(long)]
    no_wait: bool,
    /// How long to wait, in seconds or as 20m
    #[arg(long, value_name = "TIME", default_value = "20m", value_parser = duration)]
    timeout: Duration,
}

impl Patience {
    /// How long to wait, if at all.
    fn time(self) -> Option<Duration> {
        (self.wait || !self.no_wait).then_some(self.timeout)
    }
}

/// Carries out a command. Gives what to print.
pub(super) async fn run(command: Command, global: &Global) -> anyhow::Result<String> {
    let platform = Platform::open(global).await?;
    match command {
        Command::Create(arguments) => Box::pin(create::create(&arguments, &platform)).await,
        Command::List {
            all_namespaces,
            output,
        } => all(&platform, all_namespaces, output).await,
        Command::Get { name, output } => {
            let cluster = platform.cluster(name.as_str()).await?;
            match output {
                Format::Table => Ok(view::details(&cluster, Timestamp::now())),
                Format::Wide => Ok(view::more_details(&cluster, Timestamp::now())),
                Format::Json => document(&cluster, Notation::Json),
                Format::Yaml => document(&cluster, Notation::Yaml),
                Format::Name => Ok(format!("{}\n", cluster.name_any())),
            }
        }
        Command::Kubeconfig(arguments) => kubeconfig::kubeconfig(&arguments, &platform).await,
        Command::Scale(arguments) => Box::pin(scale::scale(&arguments, &platform)).await,
        Command::Upgrade(arguments) => Box::pin(upgrade::upgrade(&arguments, &platform)).await,
        Command::Destroy(arguments) => Box::pin(destroy::destroy(&arguments, &platform)).await,
        Command::Why { name } => why::why(name.as_str(), &platform).await,
    }
}

async fn all(platform: &Platform, everywhere: bool, output: Format) -> anyhow::Result<String> {
    let clusters = if everywhere {
        Api::all(platform.client.clone())
    } else {
        platform.clusters()
    };
    let found = match clusters.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Err(Error::NoPlatform.into()),
        other => other.map_err(Error::api("list clusters"))?,
    };
    let found = found.items;
    Ok(match output {
        Format::Table | Format::Wide if found.is_empty() => {
            view::none(&platform.namespace, everywhere)
        }
        Format::Table if everywhere => view::table_of_all(&found, Timestamp::now()),
        Format::Table => view::table_of_one(&found, Timestamp::now()),
        Format::Wide => view::wide_table(&found, Timestamp::now()),
        Format::Json => list(&found, Notation::Json)?,
        Format::Yaml => list(&found, Notation::Yaml)?,
        Format::Name => found
            .iter()
            .map(|cluster| match cluster.namespace() {
                Some(namespace) if everywhere => format!("{namespace}/{}\n", cluster.name_any()),
                _ => format!("{}\n", cluster.name_any()),
            })
            .collect(),
    })
}
