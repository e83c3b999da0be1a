//! The machines of this host: made, started, stopped, deleted, and found again after everything was killed.
//!
//! Owns: the order of the steps, so that each can be interrupted anywhere and asked for again. First comes the record,
//! then what it speaks of; on the way back the record goes last. Nothing here remembers anything between two calls but what
//! is on disk and in the kernel, so any process may go on where another was killed.
//!
//! Must not: decide which machines there should be.

mod bridge;
mod cluster_network;
mod control_group;
mod disk;
mod error;
mod inspect;
mod lifecycle;
mod machine_file;
mod process;
mod service_addresses;
mod store;
mod watch;

use std::{fmt, fs, path::PathBuf, sync::Arc, time::Duration};

use butler_api::name::{ClusterName, MachineName};

pub use error::Error;
pub use service_addresses::ServiceAddresses;
pub use store::Wanted;
pub use watch::{Ended, MachineWatch};

use crate::{
    cloud_config::{self, MetaData},
    command::Program,
    machine::{HostFacts, MachineSpec},
    network::{Network, NetworkSpec},
    runc::{ExecOutput, Runc},
    sysctl,
};
use error::FileContext as _;
use store::Store;

/// How long a machine may take to end by itself, unless the caller knows better.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(20);

/// File with the variables of a machine, in its seed.
pub(crate) const SEED_META_DATA: &str = "meta-data.json";
/// File with the user data of a machine, in its seed; written last.
pub(crate) const SEED_USER_DATA: &str = "user-data";

/// What a host needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Where machines live; absolute.
    pub state_directory: PathBuf,
    /// Whose machines these are; keeps the names of two installations on one host apart.
    pub cluster: ClusterName,
    /// How they are joined.
    pub network: NetworkSpec,
}

/// The machines of this host.
#[derive(Clone, Debug)]
pub struct Host {
    cluster: ClusterName,
    store: Arc<Store>,
    runc: Runc,
    network: Network,
    facts: Arc<HostFacts>,
    /// The first process of each machine that this process started last, for those who watch machines.
    started: Arc<watch::StartedSender>,
}

/// A machine, as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name.
    pub name: MachineName,
    /// How far it is.
    pub state: MachineState,
    /// Whether it is to run; unknown if it was half made.
    pub wanted: Option<Wanted>,
    /// What was asked for; unknown if it was half made.
    pub spec: Option<MachineSpec>,
}

/// How far a machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineState {
    /// Its first process runs.
    Running {
        /// Number of the first process on the host.
        pid: u32,
    },
    /// Nothing runs in it.
    Stopped,
    /// It cannot be started, only deleted.
    Broken {
        /// Why.
        reason: String,
    },
}

/// What a machine is told: who it is and what to do.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed {
    /// Cloud-config; holds secrets.
    pub user_data: Vec<u8>,
    /// The variables in it.
    pub meta_data: MetaData,
}

impl fmt::Debug for Seed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Seed")
            .field("user_data", &format_args!("{} bytes", self.user_data.len()))
            .field("meta_data", &self.meta_data)
            .finish()
    }
}

impl Host {
    /// Finds what the host has, and what was made here before. Makes nothing but the state directory.
    pub fn open(config: HostConfig) -> Result<Self, Error> {
        let HostConfig {
            state_directory,
            cluster,
            network,
        } = config;
        if !rustix::process::geteuid().is_root() {
            return Err(Error::NotRoot);
        }
        let speakable = state_directory
            .to_str()
            .is_some_and(|path| !path.contains([',', ':', '\\']));
        if !state_directory.is_absolute() || !speakable {
            return Err(Error::StateDirectory {
                path: state_directory,
            });
        }
        let runc = Program::find("runc", "runc").map_err(Error::Missing)?;
        let ip = Program::find("ip", "iproute2").map_err(Error::Missing)?;
        let nft = Program::find("nft", "nftables").map_err(Error::Missing)?;
        let facts = HostFacts::read()?;
        let store = Arc::new(Store::new(state_directory));
        store.prepare()?;
        let host = Self {
            cluster,
            runc: Runc::new(runc, store.runc()),
            network: Network::new(ip, nft, network),
            store,
            facts: Arc::new(facts),
            started: Arc::default(),
        };
        host.recorded_network()?;
        Ok(host)
    }

    /// What the host can give its machines.
    pub fn facts(&self) -> &HostFacts {
        &self.facts
    }

    /// All machines, as they are: records compared with what runs.
    pub async fn list(&self) -> Result<Vec<Machine>, Error> {
        let containers = self.runc.list().await.map_err(Error::List)?;
        let names = self.on_disk(Store::names).await?;
        Ok(names
            .into_iter()
            .map(|name| {
                let container = containers
                    .iter()
                    .find(|container| container.id == name.as_str());
                self.observed(name, container)
            })
            .collect())
    }

    /// One machine, if it is there.
    pub async fn get(&self, name: &MachineName) -> Result<Option<Machine>, Error> {
        if !self.store.machine(name).path.exists() {
            return Ok(None);
        }
        let container = self.runc.state(name.as_str()).await.map_err(Error::List)?;
        Ok(Some(self.observed(name.clone(), container.as_ref())))
    }

    /// Tells a machine what to do. It may run already: it carries out what it is told when it is told.
    pub async fn deliver(&self, name: &MachineName, seed: &Seed) -> Result<(), Error> {
        cloud_config::parse_bytes(&seed.user_data, &seed.meta_data).map_err(|source| {
            Error::UserData {
                name: name.clone(),
                source,
            }
        })?;
        let _lock = self.lock(name).await?;
        self.existing(name).await?;
        let directory = self.store.machine(name).seed();
        let seed = seed.clone();
        self.on_disk(move |_| {
            let meta_data_path = directory.join(SEED_META_DATA);
            let meta_data =
                serde_json::to_vec(&seed.meta_data).map_err(|source| Error::Record {
                    path: meta_data_path.clone(),
                    source,
                })?;
            fs::create_dir_all(&directory).file("make the directory", &directory)?;
            store::write_atomically(&meta_data_path, &meta_data)?;
            store::write_atomically(&directory.join(SEED_USER_DATA), &seed.user_data)
        })
        .await
    }

    /// Whether a machine was told what to do.
    pub async fn is_told(&self, name: &MachineName) -> Result<bool, Error> {
        let user_data = self.store.machine(name).seed().join(SEED_USER_DATA);
        self.on_disk(move |_| fs::exists(&user_data).file("look for", &user_data))
            .await
    }

    /// Runs a command in a running machine to its end. The first argument is the program.
    pub async fn exec<A: AsRef<str>>(
        &self,
        name: &MachineName,
        arguments: &[A],
    ) -> Result<ExecOutput, Error> {
        let arguments: Vec<String> = arguments
            .iter()
            .map(|argument| argument.as_ref().to_owned())
            .collect();
        if arguments
            .first()
            .is_none_or(|program| program.is_empty() || program.starts_with('-'))
        {
            return Err(Error::Command(arguments));
        }
        match self.get(name).await? {
            None => Err(Error::NotFound { name: name.clone() }),
            Some(Machine {
                state: MachineState::Running { .. },
                ..
            }) => self
                .runc
                .exec(name.as_str(), &arguments)
                .await
                .map_err(|source| Error::Runc {
                    doing: "run a command in",
                    name: name.clone(),
                    source,
                }),
            Some(_) => Err(Error::NotRunning { name: name.clone() }),
        }
    }

    /// What the first process of a machine wrote, in all its lives; the last lines alone if a number is given.
    pub async fn logs(
        &self,
        name: &MachineName,
        last_lines: Option<usize>,
    ) -> Result<String, Error> {
        let directory = self.store.machine(name);
        if !directory.path.exists() {
            return Err(Error::NotFound { name: name.clone() });
        }
        let console = directory.console();
        let text = self
            .on_disk(move |_| match fs::read(&console) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
                other => other
                    .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                    .file("read", console),
            })
            .await?;
        Ok(last_lines.map_or_else(|| text.clone(), |count| tail(&text, count)))
    }

    /// Starts every machine that is to run and does not, as after the host was started anew. Gives those that could not
    /// be started.
    pub async fn recover(&self) -> Result<Vec<(MachineName, Error)>, Error> {
        let mut failures = Vec::new();
        for machine in self.list().await? {
            let rests = machine.state == MachineState::Stopped;
            if rests
                && machine.wanted == Some(Wanted::Running)
                && let Err(error) = self.start(&machine.name).await
            {
                failures.push((machine.name, error));
            }
        }
        Ok(failures)
    }

    /// Deletes all machines, the bridge and the state: as if nothing had been here.
    pub async fn down(self) -> Result<(), Error> {
        for name in self.on_disk(Store::names).await? {
            self.delete(&name).await?;
        }
        let _lock = self.on_disk(Store::lock_network).await?;
        if self.recorded_network()?.is_some() {
            self.on_disk(|store| Ok(sysctl::release(store.root())?))
                .await?;
            self.network
                .remove_bridge()
                .await
                .map_err(|source| Error::Network {
                    doing: format!("remove the bridge {}", self.network.spec().bridge),
                    source,
                })?;
        }
        control_group::remove(&self.control_group(None)).await?;
        self.on_disk(Store::remove).await
    }

    /// The group of all machines, or of one.
    fn control_group(&self, name: Option<&MachineName>) -> String {
        let all = format!("/butler-{}", self.cluster);
        name.map_or_else(|| all.clone(), |name| format!("{all}/{name}"))
    }

    /// Work with files, on a thread that may wait for the disk.
    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let store = Arc::clone(&self.store);
        match tokio::task::spawn_blocking(move || work(&store)).await {
            Ok(result) => result,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines[lines.len().saturating_sub(count)..].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_log_are_whole() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(tail("a\nb", 5), "a\nb");
        assert_eq!(tail("a\nb\n", 0), "");
    }

    #[test]
    fn nobody_sees_user_data_in_a_log() {
        let seed = Seed {
            user_data: b"token".to_vec(),
            meta_data: MetaData::new("i-1", "worker"),
        };
        assert!(!format!("{seed:?}").contains("token"));
    }
}
