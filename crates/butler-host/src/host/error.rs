//! Why something on the host was not done.

use std::{io, path::PathBuf};

use butler_api::name::{ClusterName, MachineName};
use thiserror::Error;

use crate::{
    cloud_config,
    command::Failure,
    machine::{FactsError, MachineId, SpecError},
    network::{NetworkError, NetworkSpec, PodNetworkError},
    sysctl::SysctlError,
};

/// Why something on the host was not done. Nothing is half done without a record of it: asking again goes on from there.
#[derive(Debug, Error)]
pub enum Error {
    /// Namespaces and control groups are for root.
    #[error("machines need root: run this with sudo")]
    NotRoot,
    /// The overlay of a machine could not name its directories.
    #[error(
        "the state directory {} cannot be used: give an absolute path without comma, colon and backslash", path.display()
    )]
    StateDirectory {
        /// As given.
        path: PathBuf,
    },
    /// The directory belongs to another network.
    #[error(
        "the machines in this state directory are of cluster {cluster} on bridge {} with {}: use those, or take everything down first", network.bridge, network.address
    )]
    OtherNetwork {
        /// Whose machines they are.
        cluster: ClusterName,
        /// Their network.
        network: NetworkSpec,
    },
    /// What the host can give is not known.
    #[error("could not look at this host")]
    Facts(#[from] FactsError),
    /// A program that machines need is missing.
    #[error(transparent)]
    Missing(Failure),
    /// The machine cannot be as it is asked for.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The user data cannot be carried out.
    #[error("the user data of machine {name} was not delivered")]
    UserData {
        /// Whose.
        name: MachineName,
        /// The place and the rule.
        #[source]
        source: cloud_config::Error,
    },
    /// There is none of that name.
    #[error("there is no machine {name} on this host")]
    NotFound {
        /// The name.
        name: MachineName,
    },
    /// The machine is there, and nothing runs in it.
    #[error("machine {name} does not run; start it first")]
    NotRunning {
        /// The name.
        name: MachineName,
    },
    /// Another machine has the name.
    #[error(
        "machine {name} is there already, with the id {found}; delete it first, or choose another name"
    )]
    AnotherMachine {
        /// The name.
        name: MachineName,
        /// Who has it.
        found: MachineId,
    },
    /// The machine is there, and is asked to be otherwise.
    #[error(
        "machine {name} is there already and differs from what is asked; machines do not change: delete it first"
    )]
    Differs {
        /// The name.
        name: MachineName,
    },
    /// Another machine has the address.
    #[error("the address {address} of machine {name} is taken by machine {holder}")]
    AddressTaken {
        /// Who asks.
        name: MachineName,
        /// For what.
        address: std::net::Ipv4Addr,
        /// Who has it.
        holder: MachineName,
    },
    /// An address of a service is not one of the bridge, or is the host's.
    #[error(
        "the address {address} cannot be given to machine {name} for a service: use one of {range} that is not the host's or the range's own"
    )]
    ServiceAddress {
        /// Who should have it.
        name: MachineName,
        /// The address.
        address: std::net::Ipv4Addr,
        /// All addresses of the bridge.
        range: ipnet::Ipv4Net,
    },
    /// The pod network cannot be.
    #[error("the pod network of machine {name} was not set")]
    PodNetwork {
        /// Whose.
        name: MachineName,
        /// Why not.
        #[source]
        source: PodNetworkError,
    },
    /// The record of a machine is not readable.
    #[error("the record {} is not valid; delete the machine, for it cannot be started", path.display())]
    Record {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The command cannot be run.
    #[error("{0:?} is no command to run in a machine: name a program first")]
    Command(Vec<String>),
    /// A file or directory could not be made, read or removed.
    #[error("could not {doing} {}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// The kernel's words.
        #[source]
        source: io::Error,
    },
    /// `runc` failed.
    #[error("could not {doing} machine {name}")]
    Runc {
        /// What was being done.
        doing: &'static str,
        /// To which machine.
        name: MachineName,
        /// In its own words.
        #[source]
        source: Failure,
    },
    /// The kernel does not end the first process.
    #[error(
        "machine {name} was killed and does not end: look at /proc/{pid}/stack for what it waits for"
    )]
    WillNotEnd {
        /// Which machine.
        name: MachineName,
        /// Its first process.
        pid: u32,
    },
    /// `runc` could not say what there is.
    #[error("could not ask runc for its machines")]
    List(#[source] Failure),
    /// The network is not as wished.
    #[error("could not {doing}")]
    Network {
        /// What was being done.
        doing: String,
        /// Why not.
        #[source]
        source: NetworkError,
    },
    /// A setting of the kernel is not as machines need it, or not as it was.
    #[error("could not change the kernel's settings")]
    Sysctl(#[from] SysctlError),
    /// A control group stays because something lives in it.
    #[error("the control group {} is still in use; end the processes in its cgroup.procs", path.display())]
    ControlGroup {
        /// Where it is.
        path: PathBuf,
        /// The kernel's words.
        #[source]
        source: io::Error,
    },
}

/// Says what was being done to which file.
pub(super) trait FileContext<T> {
    fn file(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T, Error>;
}

impl<T> FileContext<T> for io::Result<T> {
    fn file(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T, Error> {
        self.map_err(|source| Error::File {
            doing,
            path: path.into(),
            source,
        })
    }
}
