//! Further versions of Kubernetes that machines of this host can be nodes of.
//!
//! Owns: what of a node depends on the version, and the directory in which it is on record, one file for each version.
//!
//! Must not: fetch anything. Who records a version has its programs.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use butler_api::version::KubernetesVersion;
use serde::{Deserialize, Serialize};

use super::NodeProfile;

/// What of a node depends on the version of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeVersion {
    /// kubeadm and kubelet, each under its own name.
    pub programs: Vec<PathBuf>,
    /// The image that holds a pod's namespaces, as kubeadm of the version names it.
    pub sandbox_image: String,
}

/// Why versions cannot be read or recorded.
#[derive(Debug, thiserror::Error)]
pub enum VersionsError {
    /// A file or the directory cannot be used.
    #[error("could not {doing} {path}", path = path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file does not hold a version.
    #[error("{path} does not say what nodes of this version are made of; \"butleradm image kubernetes\" writes it anew", path = path.display())]
    Understand {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
}

/// The versions on record in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeVersions(PathBuf);

impl NodeVersions {
    /// Those of a directory, which need not exist.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// Puts a version on record, whole or not at all.
    pub fn record(
        &self,
        version: &KubernetesVersion,
        node: &NodeVersion,
    ) -> Result<(), VersionsError> {
        let path = self.file(version);
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| VersionsError::File {
                doing,
                path,
                source,
            }
        };
        fs::create_dir_all(&self.0).map_err(failed("make", &self.0))?;
        let text = serde_json::to_vec_pretty(node).map_err(|source| VersionsError::Understand {
            path: path.clone(),
            source,
        })?;
        let beside = path.with_extension("new");
        fs::write(&beside, text)
            .and_then(|()| fs::rename(&beside, &path))
            .map_err(failed("write", &path))
    }

    /// What nodes of a version are made of; `None` if nobody has put it on record.
    pub fn find(&self, version: &KubernetesVersion) -> Result<Option<NodeVersion>, VersionsError> {
        let path = self.file(version);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|source| VersionsError::File {
                doing: "read",
                path: path.clone(),
                source,
            })?,
        };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|source| VersionsError::Understand { path, source })
    }

    /// All versions on record.
    pub fn list(&self) -> Result<Vec<KubernetesVersion>, VersionsError> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.and_then(Iterator::collect::<Result<Vec<_>, _>>),
        };
        let entries = entries.map_err(|source| VersionsError::File {
            doing: "list",
            path: self.0.clone(),
            source,
        })?;
        let versions = entries.iter().filter_map(|entry| {
            let name = entry.file_name();
            name.to_str()?.strip_suffix(".json")?.parse().ok()
        });
        let mut versions: Vec<KubernetesVersion> = versions.collect();
        versions.sort();
        Ok(versions)
    }

    fn file(&self, version: &KubernetesVersion) -> PathBuf {
        self.0.join(format!("v{}.json", version.bare()))
    }
}

impl NodeProfile {
    /// The same node with the programs of another version. What is not Kubernetes' stays.
    #[must_use]
    pub fn of_version(&self, version: &NodeVersion) -> Self {
        let replaced = |path: &PathBuf| {
            let mut others = version.programs.iter();
            let other = others.find(|other| other.file_name() == path.file_name());
            other.unwrap_or(path).clone()
        };
        Self {
            programs: self.programs.iter().map(replaced).collect(),
            sandbox_image: version.sandbox_image.clone(),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn older() -> NodeVersion {
        NodeVersion {
            programs: vec!["/cache/kubelet-1.35.4/kubelet".into()],
            sandbox_image: "registry.k8s.io/pause:3.10.1".to_owned(),
        }
    }

    #[test]
    fn a_version_that_was_put_on_record_is_found_again_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let versions = NodeVersions::in_directory(directory.path().join("nodes"));
        let (old, new) = ("1.35.4".parse().unwrap(), "1.36.3".parse().unwrap());
        assert_eq!(versions.find(&old).unwrap(), None);
        assert_eq!(versions.list().unwrap(), []);
        versions.record(&old, &older()).unwrap();
        versions.record(&old, &older()).unwrap();
        assert_eq!(versions.find(&old).unwrap(), Some(older()));
        assert_eq!(versions.find(&new).unwrap(), None);
        assert_eq!(versions.list().unwrap(), [old]);
    }

    #[test]
    fn a_record_that_cannot_be_read_says_how_to_mend_it() {
        let directory = tempfile::tempdir().unwrap();
        let versions = NodeVersions::in_directory(directory.path());
        let old = "1.35.4".parse().unwrap();
        fs::write(directory.path().join("v1.35.4.json"), "{").unwrap();
        let words = versions.find(&old).unwrap_err().to_string();
        assert!(words.contains("butleradm image kubernetes"), "{words}");
    }

    #[test]
    fn a_node_of_another_version_differs_in_what_is_kubernetes_alone() {
        let profile = NodeProfile {
            butler: "/state/butler".into(),
            programs: vec![
                "/cache/kubelet-1.36.3/kubelet".into(),
                "/cache/containerd-2.4.2/containerd".into(),
            ],
            cni_plugins: vec!["/cache/cni-bridge-1.9.1/bridge".into()],
            sandbox_image: "registry.k8s.io/pause:3.10.2".to_owned(),
            mirror: None,
            image_store: Some("/state/image-stores/0".into()),
        };
        let other = profile.of_version(&older());
        assert_eq!(
            other,
            NodeProfile {
                programs: vec![
                    "/cache/kubelet-1.35.4/kubelet".into(),
                    "/cache/containerd-2.4.2/containerd".into(),
                ],
                sandbox_image: "registry.k8s.io/pause:3.10.1".to_owned(),
                ..profile
            }
        );
    }
}
