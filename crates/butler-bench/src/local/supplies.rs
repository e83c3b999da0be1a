//! What both sides are given before any clock runs: programs, images, configurations.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    path::{Path, PathBuf},
};

use anyhow::Context;
use butler_api::version::KubernetesVersion;
use butler_assets::{
    Asset, Component, Resolver, Settings,
    images::{ImageRequest, ImageSet},
    stderr_progress,
};
use butler_cli::adm::recipe;
use serde_json::Value;

use crate::progress;

/// Programs, images and manifests, all at hand.
pub(crate) struct Supplies {
    /// What clusters run.
    pub(crate) kubernetes: KubernetesVersion,
    /// Archives with the images of Kubernetes and Cluster API.
    pub(crate) images: ImageSet,
    /// All objects of Cluster API. Holds private keys.
    pub(crate) cluster_api: Vec<Value>,
    /// Where assets are kept.
    pub(crate) cache: PathBuf,
    programs: BTreeMap<Component, PathBuf>,
}

impl Supplies {
    /// Finds or makes everything, and reads it once: nobody is to wait for the disk for what the other has read.
    pub(crate) async fn gather() -> anyhow::Result<Self> {
        progress("gathering programs and images");
        let settings = Settings::from_env()?;
        let cache = settings.cache.clone();
        let resolver = Resolver::new(settings);
        let kubelet = Asset::default_of(Component::Kubelet).version.to_string();
        let telling = stderr_progress();
        // Charts are up's alone.
        let components = [Component::Helm].into_iter();
        let components = components
            .chain(recipe::NODE)
            .chain(recipe::RUNTIME)
            .chain(recipe::CNI);
        let assets: Vec<Asset> = components.map(Asset::default_of).collect();
        let found = resolver.resolve_all(&assets, telling.as_ref()).await?;
        let request = ImageRequest {
            kubernetes: kubelet.parse()?,
            cluster_api: true,
            own: Vec::new(),
        };
        let supplies = Self {
            kubernetes: kubelet.parse()?,
            images: resolver.image_set(&request, telling.as_ref()).await?,
            cluster_api: recipe::cluster_api(&resolver).await?,
            cache,
            programs: found
                .into_iter()
                .map(|(asset, path)| (asset.component, path))
                .collect(),
        };
        supplies.read_once().await?;
        Ok(supplies)
    }

    /// Where a program is.
    pub(crate) fn program(&self, component: Component) -> anyhow::Result<&Path> {
        let found = self.programs.get(&component).map(PathBuf::as_path);
        found.with_context(|| format!("{component} was not asked for"))
    }

    /// Where some programs are.
    pub(crate) fn programs(
        &self,
        components: impl IntoIterator<Item = Component>,
    ) -> anyhow::Result<Vec<PathBuf>> {
        components
            .into_iter()
            .map(|component| self.program(component).map(Path::to_owned))
            .collect()
    }

    async fn read_once(&self) -> anyhow::Result<()> {
        let mut files = self.images.archives();
        files.extend(self.programs.values().cloned());
        let reading = move || -> anyhow::Result<()> {
            for path in files {
                File::open(&path)
                    .and_then(|mut file| io::copy(&mut file, &mut io::sink()))
                    .with_context(|| format!("could not read {}", path.display()))?;
            }
            Ok(())
        };
        tokio::task::spawn_blocking(reading).await?
    }
}
