//! What is to be installed: its name, its chart, its values.

use std::fmt;
use std::path::PathBuf;

use butler_api::name::{NamespaceName, ObjectName};

use crate::Values;

/// Where a release is and what it is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReleaseName {
    /// The namespace that holds helm's records of it, and the objects of the chart that name no other.
    pub namespace: NamespaceName,
    /// The name, unique in the namespace.
    pub name: ObjectName,
}

impl ReleaseName {
    /// The release `name` in `namespace`.
    pub const fn new(namespace: NamespaceName, name: ObjectName) -> Self {
        Self { namespace, name }
    }
}

impl fmt::Display for ReleaseName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// A release as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    /// Where it is and what it is called.
    pub name: ReleaseName,
    /// What is installed.
    pub chart: ChartSource,
    /// What is chosen; all else is as the chart has it.
    pub values: Values,
}

/// Where a chart comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChartSource {
    /// A directory or an archive on this host.
    Path(PathBuf),
    /// A chart repository.
    Repository {
        /// Its address, such as `https://charts.example.com`.
        url: String,
        /// The chart.
        name: String,
        /// The version, or a range of versions.
        version: String,
    },
    /// A registry of OCI images.
    Registry {
        /// The chart without version, such as `oci://registry.example.com/charts/cilium`.
        reference: String,
        /// The version, or a range of versions.
        version: String,
    },
}

impl fmt::Display for ChartSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(formatter),
            Self::Repository { url, name, version } => {
                write!(formatter, "{name} {version} of {url}")
            }
            Self::Registry { reference, version } => write!(formatter, "{reference} {version}"),
        }
    }
}
