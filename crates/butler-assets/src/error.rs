//! What can go wrong while an asset is found, and what the reader can do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::asset::Asset;
use crate::component::Component;
use crate::digest::Digest;
use crate::settings::{ASSETS_DIR, MIRROR, Source};

/// Why an asset could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that is no component.
    #[error("there is no component {name:?}; the components are {known}")]
    UnknownComponent {
        /// What was written.
        name: String,
        /// What could have been.
        known: String,
    },
    /// A text that is no version.
    #[error("{text:?} is not a version; write it like 1.36.3, with or without a leading v")]
    InvalidVersion {
        /// What was written.
        text: String,
    },
    /// A Kubernetes version was asked for something else.
    #[error("{component} does not carry a Kubernetes version; ask for it by its own version")]
    NotKubernetes {
        /// What was asked for.
        component: Component,
    },
    /// The catalogue does not parse.
    #[error("the asset catalogue cannot be read")]
    Catalog(#[source] toml::de::Error),
    /// The catalogue refers to a group it does not have.
    #[error(
        "the asset catalogue puts {component} into the group {group:?}, which it does not describe"
    )]
    NoSuchGroup {
        /// The component.
        component: Component,
        /// The missing group.
        group: String,
    },
    /// The catalogue does not describe the component.
    #[error("the asset catalogue does not describe {component}")]
    NotInCatalog {
        /// The component.
        component: Component,
    },
    /// Manifests could not be rendered.
    #[error("the manifests of Cluster API could not be had: {reason}")]
    Manifests {
        /// What went wrong and what to do.
        reason: String,
    },
    /// An environment variable has a value that cannot be used.
    #[error("{variable}: {reason}")]
    Setting {
        /// The variable.
        variable: &'static str,
        /// What is wrong with it and what would be right.
        reason: String,
    },
    /// The user's directory has the file, but nobody can run it.
    #[error("{path} is to be used as {asset}, but it is not an executable file; run chmod +x on it, or remove it from {ASSETS_DIR}", path = path.display())]
    NotExecutable {
        /// What was asked for.
        asset: Box<Asset>,
        /// The file.
        path: PathBuf,
    },
    /// The download is not what the project says it is.
    #[error(
        "checksum mismatch of {asset}: {url} should have SHA-256 {expected} but has {actual}; the file was thrown away. \
         Try again; if it stays so, the mirror does not serve what it promises: choose another with {MIRROR}, \
         or put a binary you trust into a directory and name that with {ASSETS_DIR}"
    )]
    ChecksumMismatch {
        /// What was asked for.
        asset: Box<Asset>,
        /// Where it came from.
        url: String,
        /// What the checksum file states.
        expected: Digest,
        /// What arrived.
        actual: Digest,
    },
    /// A file in the cache is not what was put there.
    #[error("{path} of {asset} should have SHA-256 {expected} but has {actual}; delete it, and it is made again when it is needed", path = path.display())]
    Corrupt {
        /// What was asked for.
        asset: Box<Asset>,
        /// The file in the cache.
        path: PathBuf,
        /// What was put there.
        expected: Digest,
        /// What is there.
        actual: Digest,
    },
    /// Every allowed source failed.
    #[error("{asset} could not be had.{}", tried(attempts))]
    Unavailable {
        /// What was asked for.
        asset: Box<Asset>,
        /// What was tried, in order.
        attempts: Vec<Attempt>,
    },
    /// The cache cannot be read or written.
    #[error("cannot {doing} {path} in the asset cache; check that its disk has room and that you may write there", path = path.display())]
    Cache {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// Wraps an error of the file system with what was being done.
    pub(crate) fn cache(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Cache {
            doing,
            path,
            source,
        }
    }
}

/// One source that was tried, and why it did not help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The source.
    pub source: Source,
    /// Why it failed, and what would make it work.
    pub reason: String,
}

impl fmt::Display for Attempt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.source, self.reason)
    }
}

fn tried(attempts: &[Attempt]) -> String {
    let mut text = String::new();
    for attempt in attempts {
        text.push_str("\n  ");
        text.push_str(&attempt.to_string());
    }
    text
}

/// An error with everything below it in one line, for reasons that are kept as text.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // Some libraries repeat their source in their own words.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
