//! What makes a machine able to be a Kubernetes node: programs, CNI plugins, a container runtime that is configured, and
//! images.
//!
//! Owns: which of that a machine gets and where ([`NodeProfile`]), as additions to its specification; which further versions of
//! Kubernetes there are ([`NodeVersions`]).
//!
//! Must not: make a node of it. What kubeadm is told comes as user data.

mod versions;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

pub use versions::{NodeVersion, NodeVersions, VersionsError};

use crate::machine::{Bind, DiskFile, MachineSpec, PROGRAM_DIRECTORY};

/// Where CNI plugins are looked for in a machine.
pub const CNI_PLUGIN_DIRECTORY: &str = "/opt/cni/bin";
/// Where the network of pods is configured in a machine.
pub const CNI_CONFIG_DIRECTORY: &str = "/etc/cni/net.d";
/// Where containerd listens in a machine.
pub const CONTAINERD_SOCKET: &str = "unix:///run/containerd/containerd.sock";
const CONTAINERD_CONFIG: &str = "/etc/containerd/config.toml";
const REGISTRY_DIRECTORY: &str = "/etc/containerd/certs.d";
/// The name under which Butler's own program is in a machine.
const BUTLER: &str = "butler";
const READABLE: u32 = 0o644;

/// What makes a machine able to be a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeProfile {
    /// Butler's own program: the first process of the machine.
    pub butler: PathBuf,
    /// kubeadm, kubelet, kubectl, containerd, its shim and ctr, each under its own name.
    pub programs: Vec<PathBuf>,
    /// CNI plugins, each under its own name.
    pub cni_plugins: Vec<PathBuf>,
    /// The image that holds a pod's namespaces, as kubeadm of the version names it.
    pub sandbox_image: String,
    /// Where images can be pulled from that are not in the machine.
    pub mirror: Option<SocketAddr>,
    /// A prepared containerd root, so that the machine has its images at once.
    pub image_store: Option<PathBuf>,
}

impl NodeProfile {
    /// Adds all of it to a machine.
    pub fn apply(&self, spec: &mut MachineSpec) {
        let butler = Path::new(PROGRAM_DIRECTORY).join(BUTLER);
        spec.init = vec![butler.to_string_lossy().into_owned(), "init".to_owned()];
        spec.binds.push(bind(&self.butler, butler));
        for (paths, directory) in [
            (&self.programs, PROGRAM_DIRECTORY),
            (&self.cni_plugins, CNI_PLUGIN_DIRECTORY),
        ] {
            spec.binds.extend(paths.iter().map(|path| {
                let name = path.file_name().unwrap_or_default();
                bind(path, Path::new(directory).join(name))
            }));
        }
        spec.disk.files.push(file(
            Path::new(CONTAINERD_CONFIG),
            containerd_config(&self.sandbox_image),
        ));
        spec.disk.files.extend(self.mirror.map(|mirror| {
            // For every registry that has no entry of its own.
            file(
                &Path::new(REGISTRY_DIRECTORY).join("_default/hosts.toml"),
                format!("[host.\"http://{mirror}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"),
            )
        }));
        spec.disk.image_store.clone_from(&self.image_store);
    }
}

fn bind(source: &Path, destination: PathBuf) -> Bind {
    Bind {
        source: source.to_owned(),
        destination,
        writable: false,
    }
}

fn file(path: &Path, text: String) -> DiskFile {
    DiskFile {
        path: path.to_owned(),
        mode: READABLE,
        text,
    }
}

/// Groups are made by containerd itself, for there is no systemd. A machine may lack the right to lower the score by
/// which the kernel chooses what to end when memory runs out; without the word for that, no pod would start.
fn containerd_config(sandbox_image: &str) -> String {
    let sandbox = serde_json::Value::from(sandbox_image);
    format!(
        "version = 3\n\
         disabled_plugins = [\"io.containerd.nri.v1.nri\"]\n\
         \n\
         [plugins.'io.containerd.cri.v1.images'.pinned_images]\n\
         sandbox = {sandbox}\n\
         \n\
         [plugins.'io.containerd.cri.v1.images'.registry]\n\
         config_path = \"{REGISTRY_DIRECTORY}\"\n\
         \n\
         [plugins.'io.containerd.cri.v1.runtime']\n\
         restrict_oom_score_adj = true\n\
         \n\
         [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\n\
         runtime_type = \"io.containerd.runc.v2\"\n\
         \n\
         [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n\
         SystemdCgroup = false\n\
         \n\
         [plugins.'io.containerd.cri.v1.runtime'.cni]\n\
         bin_dirs = [\"{CNI_PLUGIN_DIRECTORY}\"]\n\
         conf_dir = \"{CNI_CONFIG_DIRECTORY}\"\n"
    )
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::machine::worker_for_tests;

    #[test]
    fn a_machine_gets_all_that_a_node_needs() {
        let profile = NodeProfile {
            butler: "/home/ada/target/release/butler-dev".into(),
            programs: vec!["/cache/kubelet-1.36.3/kubelet".into()],
            cni_plugins: vec!["/cache/cni-bridge-1.9.1/bridge".into()],
            sandbox_image: "registry.k8s.io/pause:3.10.2".to_owned(),
            mirror: Some("172.30.0.1:5000".parse().unwrap()),
            image_store: Some("/state/image-stores/0".into()),
        };
        let mut spec = worker_for_tests();
        spec.binds.clear();
        profile.apply(&mut spec);
        assert_eq!(spec.init, ["/opt/butler/bin/butler", "init"]);
        let places: Vec<_> = spec
            .binds
            .iter()
            .map(|bind| bind.destination.to_str().unwrap())
            .collect();
        assert_eq!(
            places,
            [
                "/opt/butler/bin/butler",
                "/opt/butler/bin/kubelet",
                "/opt/cni/bin/bridge"
            ]
        );
        assert_eq!(spec.disk.image_store, profile.image_store);
        let files: Vec<String> = spec
            .disk
            .files
            .iter()
            .map(|file| format!("{} {:o}\n{}", file.path.display(), file.mode, file.text))
            .collect();
        insta::assert_snapshot!(files.join("\n"));
    }
}
