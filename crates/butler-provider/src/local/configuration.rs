//! What the process on a host is told about its installation: written by whoever made it, read at the start.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use butler_api::{name::ClusterName, version::KubernetesVersion};
use butler_host::{
    host::HostConfig,
    network::NetworkSpec,
    node::{NodeProfile, NodeVersions},
};
use butler_runtime::object::ObjectKey;
use serde::{Deserialize, Serialize};

/// An installation on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LocalConfiguration {
    /// Whose machines these are; keeps two installations on one host apart.
    pub cluster: ClusterName,
    /// Where machines live.
    pub state_directory: PathBuf,
    /// How they are joined.
    pub network: NetworkSpec,
    /// What makes a machine able to be a node.
    pub node: NodeProfile,
    /// The version of Kubernetes that such a node has.
    pub node_version: KubernetesVersion,
    /// Further versions that machines can have.
    pub further_nodes: NodeVersions,
    /// Archives of images, served to machines.
    pub images: PathBuf,
    /// Namespace of the `NetworkPool` that Services get their addresses from.
    pub pool_namespace: String,
    /// Its name.
    pub pool: String,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file cannot be read.
    #[error("could not read the configuration {path}", path = path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file does not hold one.
    #[error("{path} is not the configuration of an installation; \"butleradm up\" writes it anew", path = path.display())]
    Understand {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
}

impl LocalConfiguration {
    /// Reads it from a file.
    pub fn read(path: &Path) -> Result<Self, ConfigurationError> {
        let text = fs::read(path).map_err(|source| ConfigurationError::Read {
            path: path.to_owned(),
            source,
        })?;
        serde_json::from_slice(&text).map_err(|source| ConfigurationError::Understand {
            path: path.to_owned(),
            source,
        })
    }

    /// What the host needs to know.
    pub fn host(&self) -> HostConfig {
        HostConfig {
            state_directory: self.state_directory.clone(),
            cluster: self.cluster.clone(),
            network: self.network.clone(),
        }
    }

    /// The pool.
    pub(super) fn pool(&self) -> ObjectKey {
        ObjectKey {
            namespace: Some(self.pool_namespace.clone()),
            name: self.pool.clone(),
        }
    }

    /// Where names are answered, if machines may ask for any.
    pub(super) fn name_server(&self) -> SocketAddr {
        (self.network.host(), NAME_SERVER_PORT).into()
    }
}

/// Where the resolvers of machines ask.
pub const NAME_SERVER_PORT: u16 = 53;
