//! Finds assets, one or many, by the rules of its settings. How one is found is in the module `search`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::Semaphore;

use crate::asset::{Asset, Platform};
use crate::cache::Store;
use crate::catalog::Catalog;
use crate::download::Downloader;
use crate::error::Error;
use crate::progress::{Progress, Silent};
use crate::search::{Search, blocking};
use crate::settings::Settings;

/// How many assets are worked on at once. Downloads overlap; builds take turns.
const CONCURRENCY: usize = 4;

/// Finds assets by the rules of its settings.
#[derive(Debug)]
pub struct Resolver {
    pub(crate) settings: Settings,
    catalog: Catalog,
    pub(crate) platform: Platform,
    pub(crate) store: Store,
    pub(crate) downloader: Downloader,
    /// One build uses every processor; two at once would compile shared packages twice.
    pub(crate) builds: Semaphore,
}

impl Resolver {
    /// A resolver with the catalogue of this crate.
    pub fn new(settings: Settings) -> Self {
        Self::with_catalog(settings, Catalog::builtin().clone())
    }

    /// A resolver with a catalogue of the caller's own.
    pub fn with_catalog(settings: Settings, catalog: Catalog) -> Self {
        let platform = Platform::host();
        Self {
            store: Store::new(&settings.cache, platform),
            downloader: Downloader::default(),
            builds: Semaphore::new(1),
            settings,
            catalog,
            platform,
        }
    }

    /// The path of the executable, without telling anybody about the way.
    pub async fn resolve(&self, asset: &Asset) -> Result<PathBuf, Error> {
        self.resolve_with(asset, &Silent).await
    }

    /// The path of the executable. What takes long is told to `progress`.
    pub async fn resolve_with(
        &self,
        asset: &Asset,
        progress: &dyn Progress,
    ) -> Result<PathBuf, Error> {
        let recipe = self.catalog.recipe(asset, self.platform)?;
        Search::new(self, asset, recipe, progress).run().await
    }

    /// The paths of all executables, several at a time. The first failure ends it; what is finished stays cached.
    pub async fn resolve_all(
        &self,
        assets: &[Asset],
        progress: &dyn Progress,
    ) -> Result<BTreeMap<Asset, PathBuf>, Error> {
        let wanted: BTreeSet<&Asset> = assets.iter().collect();
        stream::iter(wanted)
            .map(|asset| async move {
                let path = self.resolve_with(asset, progress).await?;
                Ok((asset.clone(), path))
            })
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await
    }

    /// Reads the whole cached file of an asset and compares its digest. An asset that is not cached is fine.
    pub async fn verify(&self, asset: &Asset) -> Result<(), Error> {
        let store = self.store.clone();
        let asset = asset.clone();
        blocking(&self.settings.cache, move || store.verify(&asset)).await
    }
}
