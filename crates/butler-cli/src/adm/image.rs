//! `butleradm image`: what machines can pull from this host.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use butler_api::version::KubernetesVersion;
use butler_assets::{
    Asset, Component, Resolver, Settings,
    images::{ImageArchive, ImageRequest},
    stderr_progress,
};
use butler_host::{images::Library, node::NodeVersion};
use clap::Subcommand;
use kube::config::Kubeconfig;
use steward_tenant::core_dns_tag;

use super::{
    Global,
    error::Error,
    installation::{Installation, Places},
    up::client,
    versions,
};
use crate::output::table::table;

/// Programs of a node that must be of the version of its cluster.
const VERSIONED: [Component; 2] = [Component::Kubelet, Component::Kubeadm];

/// Verbs of `butleradm image`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Command {
    /// List the images that machines can pull
    List,
    /// Let machines pull the images of an archive, as "docker save" or "ctr images export" write it
    #[command(after_help = "Examples:\n  butleradm image add ./shop.tar")]
    Add {
        /// The archive
        file: PathBuf,
    },
    /// Have another version of Kubernetes on this host, for control planes that run as pods and for new machines
    #[command(
        after_help = "What control planes and nodes of the version are made of is downloaded or built if it is not in the cache; a \
        build takes minutes. Machines that are there keep the kubelet they have.\n\nExamples:\n  \
        butleradm image kubernetes 1.35.4"
    )]
    Kubernetes {
        /// The version
        version: KubernetesVersion,
    },
}

/// Carries out a verb. Gives what to print.
pub(crate) async fn run(command: &Command, global: &Global) -> anyhow::Result<String> {
    let places = global.places()?;
    let Some(installation) = places.read()? else {
        return Err(Error::NotInstalled {
            name: global.installation(),
        }
        .into());
    };
    match command {
        Command::List => list(&places),
        Command::Add { file } => add(&places, file),
        Command::Kubernetes { version } => kubernetes(&installation, &places, version).await,
    }
}

fn list(places: &Places) -> anyhow::Result<String> {
    let images = Library::open(places.images())?.images()?;
    let rows = images
        .into_iter()
        .map(|image| [image.reference, image.digest]);
    Ok(table(["IMAGE", "DIGEST"], rows))
}

fn add(places: &Places, file: &Path) -> anyhow::Result<String> {
    let library = Library::open(places.images())?;
    let names = library.check(file)?;
    let target = places.images().join(file.file_name().unwrap_or_default());
    // Not among those that are served before it is whole.
    let beside = places.root().join("image.part");
    fs::copy(file, &beside)
        .and_then(|_| fs::rename(&beside, &target))
        .inspect_err(|_| drop(fs::remove_file(&beside)))
        .map_err(|source| Error::File {
            doing: "copy the images to",
            path: target,
            source,
        })?;
    Ok(announcement(names))
}

/// Makes the images of a version and puts them beside those of the installation, lets machines be nodes of it, and tells the
/// platform. Done already, it changes nothing.
async fn kubernetes(
    installation: &Installation,
    places: &Places,
    version: &KubernetesVersion,
) -> anyhow::Result<String> {
    let progress = stderr_progress();
    let resolver = Resolver::new(Settings::from_env()?);
    let number = version.bare().parse()?;
    let mut images = resolver
        .hosted_images(&number, core_dns_tag(version), progress.as_ref())
        .await?;
    let of_nodes = ImageRequest {
        kubernetes: number,
        cluster_api: false,
        own: Vec::new(),
    };
    let nodes = resolver.image_set(&of_nodes, progress.as_ref()).await?;
    images.extend(nodes.images);
    images.sort_by(|one, other| one.reference.cmp(&other.reference));
    images.dedup();
    let library = Library::open(places.images())?;
    let (references, archives): (Vec<String>, Vec<PathBuf>) = images
        .into_iter()
        .map(|ImageArchive { reference, path }| (reference, path))
        .unzip();
    tokio::task::spawn_blocking(move || library.adopt(&archives)).await??;
    let programs = VERSIONED
        .into_iter()
        .map(|component| Asset::kubernetes(component, &version.bare()))
        .collect::<Result<Vec<_>, _>>()?;
    let programs = resolver.resolve_all(&programs, progress.as_ref()).await?;
    let node = NodeVersion {
        programs: programs.into_values().collect(),
        sandbox_image: nodes.sandbox,
    };
    places.further_nodes().record(version, &node)?;
    let client = client(Kubeconfig::read_from(places.kubeconfig())?).await?;
    versions::tell(&client, places, &installation.kubernetes_version)
        .await
        .with_context(|| {
            format!(
                "machines can be nodes of {version} now, but the platform could not be told; run this again when it answers"
            )
        })?;
    let pullable = announcement(references);
    Ok(format!(
        "{pullable}New machines can be nodes of {version} now.\n"
    ))
}

/// What can be pulled from now on.
fn announcement(references: Vec<String>) -> String {
    let lines: Vec<String> = references
        .into_iter()
        .map(|reference| format!("{reference} can be pulled now.\n"))
        .collect();
    lines.concat()
}
