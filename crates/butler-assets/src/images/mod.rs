//! The images of a cluster, as OCI archives under their official names, made of the assets.
//!
//! Owns: which images a Kubernetes version wants (kubeadm of that version says so; a control plane that runs as pods wants
//! fewer, and no kubeadm), what is in each of them, and the archives below `<cache>/images`. An archive is made once and
//! again when what it is made of has changed; it appears whole or not at all.
//!
//! Must not: give an image to anybody. Archives are files; what is done with them is the caller's business.
//!
//! ```no_run
//! # async fn example() -> Result<(), butler_assets::images::Error> {
//! use butler_assets::{Resolver, Settings, Silent, images::{ImageRequest, OwnImage}};
//!
//! let resolver = Resolver::new(Settings::from_env()?);
//! let set = resolver
//!     .image_set(
//!         &ImageRequest {
//!             kubernetes: "1.36.3".parse()?,
//!             cluster_api: true,
//!             own: vec![OwnImage {
//!                 reference: "ghcr.io/butlerdotdev/butler:v0.1.0".to_owned(),
//!                 executable: "/usr/local/bin/butler".into(),
//!             }],
//!         },
//!         &Silent,
//!     )
//!     .await?;
//! # let _ = set;
//! # Ok(())
//! # }
//! ```

mod archives;
mod contents;
mod table;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use futures::stream::{self, StreamExt, TryStreamExt};

use crate::asset::{Asset, Version};
use crate::command::{self, Invocation};
use crate::component::Component;
use crate::error::chain;
use crate::progress::Progress;
use crate::resolver::Resolver;
use crate::search::blocking;
use crate::{Error as AssetError, oci};

pub use table::{Listed, cluster_api, hosted, parse_list};

/// How many archives are made at once: they are bound by the disk and one processor each.
const CONCURRENCY: usize = 2;

/// Why an image set could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What it is made of could not be had, or the cache cannot be used.
    #[error(transparent)]
    Asset(#[from] AssetError),
    /// An archive could not be assembled.
    #[error(transparent)]
    Assemble(#[from] oci::Error),
    /// kubeadm was asked which images it wants and did not say.
    #[error("kubeadm {version} did not list its images: {reason}")]
    List {
        /// Which one.
        version: Version,
        /// What it said.
        reason: String,
    },
    /// kubeadm wants an image that nobody here can make.
    #[error(
        "kubeadm wants the image {reference}, and Butler does not know what is in it; use a Kubernetes version that Butler knows"
    )]
    Unknown {
        /// The image.
        reference: String,
    },
    /// kubeadm lists no image that holds a pod's namespaces.
    #[error("kubeadm {version} lists no pause image; use a Kubernetes version that Butler knows")]
    NoSandbox {
        /// Which one.
        version: Version,
    },
    /// A program of this machine that an image needs is not installed.
    #[error(
        "the image {reference} needs the program {program} of this machine; install the package {package}"
    )]
    Missing {
        /// The image.
        reference: String,
        /// The program.
        program: &'static str,
        /// What usually brings it.
        package: &'static str,
    },
}

/// Which images are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRequest {
    /// All that kubeadm of this version asks for.
    pub kubernetes: Version,
    /// The managers of Cluster API as well.
    pub cluster_api: bool,
    /// Images of the caller's own programs.
    pub own: Vec<OwnImage>,
}

/// An image of one program of the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnImage {
    /// The full reference.
    pub reference: String,
    /// The program; it is in the image under its own name in `/usr/local/bin`, with the libraries it needs.
    pub executable: PathBuf,
}

/// An archive with one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageArchive {
    /// The full reference.
    pub reference: String,
    /// The OCI archive.
    pub path: PathBuf,
}

/// The archives of an image set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSet {
    /// All of them, in the order in which they were asked for.
    pub images: Vec<ImageArchive>,
    /// The image that holds a pod's namespaces: what containerd is to be configured with.
    pub sandbox: String,
}

impl ImageSet {
    /// The files alone.
    pub fn archives(&self) -> Vec<PathBuf> {
        self.images.iter().map(|image| image.path.clone()).collect()
    }
}

impl Resolver {
    /// Makes sure that every image is there as an archive.
    pub async fn image_set(
        &self,
        request: &ImageRequest,
        progress: &dyn Progress,
    ) -> Result<ImageSet, Error> {
        let mut listed = self
            .kubernetes_images(&request.kubernetes, progress)
            .await?;
        let sandbox = listed
            .iter()
            .find(|image| image.component == Component::Pause)
            .map(|image| image.reference.clone())
            .ok_or_else(|| Error::NoSandbox {
                version: request.kubernetes.clone(),
            })?;
        if request.cluster_api {
            listed.extend(cluster_api());
        }
        let mut images = self
            .archives_of(listed, &request.kubernetes, progress)
            .await?;
        for own in request.own.clone() {
            images.push(self.own_image(own, progress).await?);
        }
        Ok(ImageSet { images, sandbox })
    }

    /// Makes sure that every image of a control plane that runs as pods is there as an archive.
    pub async fn hosted_images(
        &self,
        kubernetes: &Version,
        core_dns_tag: &str,
        progress: &dyn Progress,
    ) -> Result<Vec<ImageArchive>, Error> {
        let listed = hosted(kubernetes, core_dns_tag);
        self.archives_of(listed, kubernetes, progress).await
    }

    /// Makes sure that images are there as archives; parts of Kubernetes have this version.
    async fn archives_of(
        &self,
        listed: Vec<Listed>,
        kubernetes: &Version,
        progress: &dyn Progress,
    ) -> Result<Vec<ImageArchive>, Error> {
        let assets = listed
            .iter()
            .map(|image| asset(image.component, kubernetes))
            .collect::<Result<Vec<_>, _>>()?;
        let paths: BTreeMap<Component, PathBuf> = self
            .resolve_all(&assets, progress)
            .await?
            .into_iter()
            .map(|(asset, path)| (asset.component, path))
            .collect();

        let mut images = Vec::new();
        for Listed {
            reference,
            component,
        } in listed
        {
            let program = paths
                .get(&component)
                .cloned()
                .ok_or(AssetError::NotInCatalog { component })?;
            images.push(
                blocking(&self.settings.cache, move || {
                    Ok(contents::image(&reference, component, &program))
                })
                .await??,
            );
        }
        stream::iter(images)
            .map(|image| archives::ensure(&self.settings.cache, image, progress))
            .buffered(CONCURRENCY)
            .try_collect()
            .await
    }

    /// Makes sure that an image of the caller's own program is there as an archive.
    pub async fn own_image(
        &self,
        own: OwnImage,
        progress: &dyn Progress,
    ) -> Result<ImageArchive, Error> {
        let image = blocking(&self.settings.cache, move || Ok(contents::own_image(&own))).await??;
        archives::ensure(&self.settings.cache, image, progress).await
    }

    /// The images that kubeadm of a version asks for. Only that kubeadm knows the versions of what is not Kubernetes.
    pub async fn kubernetes_images(
        &self,
        version: &Version,
        progress: &dyn Progress,
    ) -> Result<Vec<Listed>, Error> {
        let kubeadm = self
            .resolve_with(&Asset::new(Component::Kubeadm, version.clone()), progress)
            .await?;
        let invocation = Invocation {
            program: kubeadm,
            arguments: ["config", "images", "list", "--kubernetes-version"]
                .map(OsString::from)
                .into_iter()
                .chain([format!("v{version}").into()])
                .collect(),
            directory: PathBuf::from("/"),
            environment: Vec::new(),
        };
        let printed = command::run(&invocation, |_| {})
            .await
            .map_err(|error| Error::List {
                version: version.clone(),
                reason: chain(&error),
            })?;
        parse_list(&printed)
    }
}

/// Kubernetes' own parts have its version, all others the one Butler is tested with.
fn asset(component: Component, kubernetes: &Version) -> Result<Asset, AssetError> {
    match Asset::kubernetes(component, kubernetes.as_str()) {
        Err(AssetError::NotKubernetes { .. }) => Ok(Asset::default_of(component)),
        other => other,
    }
}
