//! One installation on this host: what was asked for, and where its parts are.
//!
//! Owns: the record that `up` writes first and `down` removes last, and every path and name that follows from an
//! installation's name. Must not: make anything but the record.

use std::{
    fs, io,
    net::Ipv4Addr,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt},
    path::{Path, PathBuf},
};

use butler_api::{
    name::{ClusterName, MachineName},
    version::KubernetesVersion,
};
use butler_host::{
    host::HostConfig,
    machine::MachineId,
    network::{Egress, InterfaceName, NetworkSpec},
    node::NodeVersions,
};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::error::Error;

/// Where the registry mirror listens, on the bridge.
pub(crate) const MIRROR_PORT: u16 = 5000;
/// Addresses of pods of the management cluster.
pub(crate) const PODS: &str = "10.244.0.0/16";
/// Addresses of its Services.
pub(crate) const SERVICES: &str = "10.96.0.0/12";
/// The kernel's limit for names of interfaces, and what a bridge is called first.
const BRIDGE_PREFIX: &str = "br-";

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Installation {
    /// Name of the installation and of its management cluster.
    pub(crate) name: ClusterName,
    /// Addresses of machines and of load balancers.
    pub(crate) range: Ipv4Net,
    /// What the management cluster runs.
    pub(crate) kubernetes_version: KubernetesVersion,
    /// Processors of each machine.
    pub(crate) cpus: u32,
    /// Memory of each machine in MiB.
    #[serde(rename = "memoryMiB")]
    pub(crate) memory_mib: u32,
    /// What machines may reach.
    pub(crate) egress: Egress,
    /// Machines beside the first.
    pub(crate) workers: u32,
    /// Of the first machine.
    pub(crate) first_machine_id: MachineId,
}

impl Installation {
    /// The first machine's name.
    pub(crate) fn first_machine(&self) -> Result<MachineName, Error> {
        machine_name(&format!("{}-cp-0", self.name))
    }

    /// A worker's name.
    pub(crate) fn worker(&self, number: u32) -> Result<MachineName, Error> {
        machine_name(&format!("{}-worker-{number}", self.name))
    }

    /// The host on the bridge: the first address.
    pub(crate) fn host_address(&self) -> Ipv4Addr {
        nth(self.range, 1)
    }

    /// The first machine on the bridge: the second address.
    pub(crate) fn first_address(&self) -> Ipv4Addr {
        nth(self.range, 2)
    }

    /// An address with the length of the range.
    pub(crate) fn on_bridge(&self, address: Ipv4Addr) -> Result<Ipv4Net, Error> {
        Ipv4Net::new(address, self.range.prefix_len())
            .map_err(|_| Error::Range { range: self.range })
    }

    /// What the host needs to know.
    pub(crate) fn host_config(&self, places: &Places) -> Result<HostConfig, Error> {
        let guarded = [PODS, SERVICES].map(str::parse::<Ipv4Net>);
        Ok(HostConfig {
            state_directory: places.machines(),
            cluster: self.name.clone(),
            network: NetworkSpec {
                bridge: bridge(&self.name)?,
                address: self.on_bridge(self.host_address())?,
                egress: self.egress,
                guarded: guarded.into_iter().flatten().collect(),
            },
        })
    }
}

fn nth(range: Ipv4Net, number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(range.network().to_bits().saturating_add(number))
}

fn machine_name(text: &str) -> Result<MachineName, Error> {
    text.parse().map_err(|source| Error::Name {
        name: text.to_owned(),
        source,
    })
}

/// The bridge of an installation. Names of interfaces have at most fifteen characters, so that only short names fit.
pub(crate) fn bridge(name: &ClusterName) -> Result<InterfaceName, Error> {
    let text = format!("{BRIDGE_PREFIX}{name}");
    text.parse().map_err(|source| Error::BridgeName {
        name: name.clone(),
        source,
    })
}

/// Where the parts of an installation are on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    root: PathBuf,
    kubeconfig: PathBuf,
}

impl Places {
    /// Below a directory of all installations; the kubeconfig is in the user's home.
    pub(crate) fn new(state: &Path, home: &Path, name: &ClusterName) -> Self {
        Self {
            root: state.join(name.as_str()),
            kubeconfig: home.join(".butler").join(format!("{name}-kubeconfig")),
        }
    }

    /// Everything of the installation.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the directory, for root alone, and waits until nobody else works on the installation.
    pub(crate) fn lock(&self) -> Result<fs::File, Error> {
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| Error::File {
                doing,
                path,
                source,
            }
        };
        let beside = self.root.with_extension("lock");
        if let Some(state) = self.root.parent() {
            fs::create_dir_all(state).map_err(failed("make", state))?;
        }
        let lock = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&beside)
            .map_err(failed("lock", &beside))?;
        lock.lock().map_err(failed("lock", &beside))?;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.root)
            .and_then(|()| fs::set_permissions(&self.root, PermissionsExt::from_mode(0o700)))
            .map_err(failed("make", &self.root))?;
        Ok(lock)
    }

    /// Removes the lock, with the installation.
    pub(crate) fn unlock(&self) {
        // Whoever waits for it finds nothing to do, and makes another.
        let _ = fs::remove_file(self.root.with_extension("lock"));
    }

    /// What people use.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The state of machines.
    pub(crate) fn machines(&self) -> PathBuf {
        self.root.join("host")
    }

    /// What the host process uses to reach the API server.
    pub(crate) fn host_kubeconfig(&self) -> PathBuf {
        self.root.join("provider-kubeconfig")
    }

    /// Archives of images that the mirror serves.
    pub(crate) fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    /// Further versions of Kubernetes that machines can have.
    pub(crate) fn further_nodes(&self) -> NodeVersions {
        NodeVersions::in_directory(self.root.join("nodes"))
    }

    /// Prepared stores of images.
    pub(crate) fn image_stores(&self) -> PathBuf {
        self.root.join("image-stores")
    }

    /// The `butler` binary that machines and the host process run.
    pub(crate) fn butler(&self) -> PathBuf {
        self.root.join("bin/butler")
    }

    /// What the host process is told.
    pub(crate) fn host_configuration(&self) -> PathBuf {
        self.root.join("provider.json")
    }

    /// Who supervises the host process.
    pub(crate) fn supervisor(&self) -> PathBuf {
        self.root.join("supervisor.json")
    }

    /// What the host process says.
    pub(crate) fn host_log(&self) -> PathBuf {
        self.root.join("provider.log")
    }

    /// Helm's own files.
    pub(crate) fn helm(&self) -> PathBuf {
        self.root.join("helm")
    }

    /// What was asked for, as a file.
    pub(crate) fn record(&self) -> PathBuf {
        self.root.join("installation.json")
    }

    /// What was asked for, if there is an installation.
    pub(crate) fn read(&self) -> Result<Option<Installation>, Error> {
        let path = self.record();
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::File {
                doing: "read",
                path,
                source,
            }),
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|source| Error::Record { path, source }),
        }
    }

    /// Writes down what was asked for.
    pub(crate) fn write(&self, installation: &Installation) -> Result<(), Error> {
        let path = self.record();
        let text = serde_json::to_vec_pretty(installation).map_err(|source| Error::Record {
            path: path.clone(),
            source,
        })?;
        write_private(&path, &text)
    }
}

/// Gives a file to the user who called us by sudo: they want to read it. A link that somebody put there is not followed.
pub(crate) fn give_to_caller(path: &Path) -> Result<(), Error> {
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u32>().ok())
    };
    let (Some(user), Some(group)) = (number("SUDO_UID"), number("SUDO_GID")) else {
        return Ok(());
    };
    for path in std::iter::once(path).chain(path.parent()) {
        std::os::unix::fs::lchown(path, Some(user), Some(group)).map_err(|source| Error::File {
            doing: "give to its user",
            path: path.to_owned(),
            source,
        })?;
    }
    Ok(())
}

/// Replaces a file whole; only its owner may read it, and its directory if it had to be made.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    use io::Write as _;
    let failed = |doing, path: &Path| {
        let path = path.to_owned();
        move |source| Error::File {
            doing,
            path,
            source,
        }
    };
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(failed("make", directory))?;
    }
    let beside = path.with_extension("new");
    drop(fs::remove_file(&beside));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)
        .map_err(failed("write", &beside))?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(failed("write", &beside))?;
    fs::rename(&beside, path).map_err(failed("write", path))
}
