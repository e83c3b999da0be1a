//! Finds, downloads, verifies or builds the programs Butler stands on, and makes OCI archives of them.
//!
//! Ask a [`Resolver`] for an [`Asset`] and it answers with the path of an executable. It looks, in this order, into a
//! directory given by the user, the cache, the official download (checksum verified), and builds from the pinned Go
//! module in `deps/` at last. What each binary is, where it is published and how it is built is data: `catalog.toml`.
//!
//! Ask it for an image set and it makes OCI archives of them: see [`images`].
//!
//! This crate owns the cache below `<cache>/assets` and `<cache>/images`. It knows nothing about clusters, runs none of
//! the programs it provides but kubeadm, to ask it for names, and prints nothing: what happens is told to a [`Progress`].
//!
//! ```no_run
//! # async fn example() -> Result<(), butler_assets::Error> {
//! use butler_assets::{Asset, Component, Resolver, Settings};
//!
//! let resolver = Resolver::new(Settings::from_env()?);
//! let etcd = resolver.resolve(&Asset::default_of(Component::Etcd)).await?;
//! let old = resolver.resolve(&Asset::kubernetes(Component::KubeApiserver, "1.35.4")?).await?;
//! # let _ = (etcd, old);
//! # Ok(())
//! # }
//! ```

mod archive;
mod asset;
mod cache;
mod catalog;
mod command;
mod component;
mod digest;
mod download;
mod error;
mod go;
pub mod images;
mod lock;
mod manifests;
pub mod oci;
mod progress;
mod resolver;
mod search;
mod settings;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use asset::{Asset, Platform, Version};
pub use catalog::Catalog;
pub use component::Component;
pub use digest::{Digest, InvalidDigest};
pub use error::{Attempt, Error};
pub use progress::{
    Event, ImageEvent, LineProgress, Progress, Silent, TerminalProgress, stderr_progress,
};
pub use resolver::Resolver;
pub use settings::{Mirrors, Settings, Source, Sources};

/// Makes sure that every asset is there, with the settings of the environment and progress on standard error.
///
/// This is the call for build scripts and command lines; a program with settings of its own uses [`Resolver`].
pub async fn ensure(assets: &[Asset]) -> Result<BTreeMap<Asset, PathBuf>, Error> {
    let progress = stderr_progress();
    Resolver::new(Settings::from_env()?)
        .resolve_all(assets, progress.as_ref())
        .await
}
