//! What a machine is made of: programs, images, and a store of images that new machines share.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use butler_assets::{
    Asset, Component, Digest, Event, Progress as AssetProgress, Source,
    images::{ImageArchive, ImageRequest, OwnImage},
};
use butler_host::{
    images::{ContainerdPrograms, ImageStores, Library},
    node::NodeProfile,
};

use super::Run;
use crate::{
    adm::{error::Error, installation::MIRROR_PORT},
    output::progress::{Outcome, Running},
};

/// Where the image of the controllers would be published; on one host it is made of the binary that is there.
const BUTLER_IMAGE: &str = "ghcr.io/butlerdotdev/butler";
/// What the reference of an image of etcd has in it.
const ETCD_IMAGE: &str = "/etcd:";
/// How many digits of a digest tell two builds apart.
const DIGITS: usize = 12;

/// Programs that machines need, of the Kubernetes version of the installation.
pub const NODE: [Component; 3] = [Component::Kubelet, Component::Kubeadm, Component::Kubectl];
/// Programs of the container runtime.
pub const RUNTIME: [Component; 3] = [
    Component::Containerd,
    Component::ContainerdShimRuncV2,
    Component::Ctr,
];
/// What makes the network of pods.
pub const CNI: [Component; 4] = [
    Component::CniBridge,
    Component::CniHostLocal,
    Component::CniLoopback,
    Component::CniPortmap,
];

/// Where each program is.
pub(crate) struct Parts(BTreeMap<Component, PathBuf>);

impl Parts {
    /// A program that was asked for.
    pub(crate) fn path(&self, component: Component) -> &Path {
        self.0
            .get(&component)
            .map_or_else(|| Path::new(""), PathBuf::as_path)
    }
}

/// What machines and the cluster pull.
pub(crate) struct Images {
    /// What is in the store of every machine.
    pub(crate) shared: Vec<ImageArchive>,
    /// The image of Butler's components.
    pub(crate) butler: String,
    /// The image of the etcd that kubeadm would run; the store of tenants runs the same.
    pub(crate) etcd: String,
    /// What tells this build of Butler from others.
    pub(crate) build: String,
    /// The image that holds a pod's namespaces.
    pub(crate) sandbox: String,
}

/// Tells what happens to assets in the line of the step.
struct Line<'step>(&'step Running);

impl AssetProgress for Line<'_> {
    fn report(&self, asset: &Asset, event: Event<'_>) {
        match event {
            Event::Started {
                source: Source::Download | Source::Build,
                from,
                ..
            } => {
                self.0.detail(&format!("{asset}: {from}"));
            }
            Event::Waiting { reason } => self.0.detail(&format!("{asset}: waiting for {reason}")),
            Event::Skipped { .. } | Event::Advanced { .. } | Event::Step { .. } | Event::Ticked => {
            }
            _ => self.0.detail(&format!("{asset}")),
        }
    }
}

/// Finds, downloads or builds the programs, and what belongs to them.
pub(super) async fn assets(run: &Run) -> anyhow::Result<Parts> {
    let step = run.progress.begin("Programs");
    let version = run.installation.kubernetes_version.bare();
    let common = RUNTIME.into_iter().chain(CNI).chain([Component::Helm]);
    let mut assets: Vec<Asset> = common.map(Asset::default_of).collect();
    for component in NODE {
        assets.push(Asset::kubernetes(component, &version)?);
    }
    let found = run.resolver.resolve_all(&assets, &Line(&step)).await?;
    // Needed much later, but nothing is begun that cannot be completed.
    run.resolver.cluster_api_manifests().await?;
    let parts = found
        .into_iter()
        .map(|(asset, path)| (asset.component, path))
        .collect();
    step.end(Outcome::Done);
    Ok(Parts(parts))
}

/// Makes the images, and puts them where the mirror finds them.
pub(super) async fn images(run: &Run) -> anyhow::Result<Images> {
    let step = run.progress.begin("Images");
    let build = digits(&run.butler)?;
    let butler = format!("{BUTLER_IMAGE}:{}-{build}", env!("CARGO_PKG_VERSION"));
    let request = ImageRequest {
        kubernetes: run.installation.kubernetes_version.bare().parse()?,
        cluster_api: true,
        own: vec![OwnImage {
            reference: butler.clone(),
            executable: run.butler.clone(),
        }],
    };
    let set = run.resolver.image_set(&request, &Line(&step)).await?;
    let library = Library::open(run.places.images())?;
    let archives = set.archives();
    tokio::task::spawn_blocking(move || library.adopt(&archives)).await??;
    step.end(Outcome::Done);
    let shared: Vec<ImageArchive> = set
        .images
        .into_iter()
        .filter(|image| image.reference != butler)
        .collect();
    let etcd = shared
        .iter()
        .map(|image| image.reference.clone())
        .find(|reference| reference.contains(ETCD_IMAGE))
        .context("there is no etcd among the images of this Kubernetes version")?;
    Ok(Images {
        shared,
        butler,
        etcd,
        build,
        sandbox: set.sandbox,
    })
}

/// Prepares the store that machines share.
pub(super) async fn image_store(
    run: &Run,
    parts: &Parts,
    images: &Images,
) -> anyhow::Result<PathBuf> {
    let step = run.progress.begin("Image store");
    let programs = ContainerdPrograms {
        containerd: parts.path(Component::Containerd).to_owned(),
        ctr: parts.path(Component::Ctr).to_owned(),
    };
    let stores = ImageStores::new(run.places.root(), programs);
    let archives: Vec<PathBuf> = images
        .shared
        .iter()
        .map(|image| image.path.clone())
        .collect();
    let store = stores
        .prepare(&archives)
        .await
        .context("could not prepare the store of images")?;
    step.end(Outcome::Done);
    Ok(store)
}

/// What makes the machines of this installation able to be nodes.
pub(super) fn node_profile(run: &Run, parts: &Parts, images: &Images, store: &Path) -> NodeProfile {
    let paths = |components: &[Component]| {
        components
            .iter()
            .map(|part| parts.path(*part).to_owned())
            .collect::<Vec<_>>()
    };
    let mut programs = paths(&NODE);
    programs.extend(paths(&RUNTIME));
    NodeProfile {
        butler: run.places.butler(),
        programs,
        cni_plugins: paths(&CNI),
        sandbox_image: images.sandbox.clone(),
        mirror: Some((run.installation.host_address(), MIRROR_PORT).into()),
        image_store: Some(store.to_owned()),
    }
}

/// Keeps the binary that machines and the host process run, so that what is built next does not disturb them.
pub(super) fn keep_binary(run: &Run) -> Result<(), Error> {
    let kept = run.places.butler();
    let beside = kept.with_extension("new");
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File {
            doing: "write",
            path,
            source,
        }
    };
    if let Some(directory) = kept.parent() {
        fs::create_dir_all(directory).map_err(failed(directory))?;
    }
    fs::copy(&run.butler, &beside).map_err(failed(&beside))?;
    fs::rename(&beside, &kept).map_err(failed(&kept))
}

/// The first digits of a program's digest.
fn digits(program: &Path) -> anyhow::Result<String> {
    let (digest, _) = Digest::of_file(program)
        .with_context(|| format!("could not read {}", program.display()))?;
    Ok(digest
        .to_string()
        .trim_start_matches("sha256:")
        .chars()
        .take(DIGITS)
        .collect())
}
