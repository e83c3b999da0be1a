//! What can go wrong with an installation, and what the reader can do about it.

use std::{io, path::PathBuf, time::Duration};

use butler_api::name::{ClusterName, MachineName, NameError};
use butler_host::network::InterfaceNameError;
use ipnet::Ipv4Net;

/// Why an installation is not as wished.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{name:?} does not make a name for a machine; choose a shorter --name")]
    Name {
        name: String,
        #[source]
        source: NameError,
    },
    #[error(
        "the bridge of {name} would have too long a name; choose a --name of at most 12 characters"
    )]
    BridgeName {
        name: ClusterName,
        #[source]
        source: InterfaceNameError,
    },
    #[error(
        "{range} is too small or no range at all; give --range at least 16 addresses, such as 172.30.0.0/20"
    )]
    Range { range: Ipv4Net },
    #[error("could not {doing} {path}", path = path.display())]
    File {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} cannot be understood; if nothing of it is needed any more, remove it", path = path.display())]
    Record {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error(
        "{name} was made with {what} {before}, and it cannot become {wished}; run \"butleradm down\" first, or leave the flag out"
    )]
    Fixed {
        name: ClusterName,
        what: &'static str,
        before: String,
        wished: String,
    },
    #[error("there is no installation {name}; make one with \"butleradm up\"")]
    NotInstalled { name: ClusterName },
    #[error(
        "only root can do this, for it needs namespaces, mounts and control groups: run it as root, for example with sudo"
    )]
    NotRoot,
    #[error(
        "{what} {wished} is more than this host has ({there}); ask for less, or leave {flag} out"
    )]
    TooLarge {
        what: &'static str,
        wished: String,
        there: String,
        flag: &'static str,
    },
    #[error("{waited_for} did not come within {}s; {advice}", patience.as_secs())]
    Patience {
        waited_for: String,
        patience: Duration,
        advice: String,
    },
    #[error(
        "machine {machine} did not become a node: its user data failed. The end of its console:\n{console}"
    )]
    UserData {
        machine: MachineName,
        console: String,
    },
    /// The API server's own words are enough: its whole answer would say the same thing three times.
    #[error("could not {doing}: {message}")]
    Answered { doing: String, message: String },
    #[error("could not {doing}")]
    Api {
        doing: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("the API server does not know {kind} of {api_version}")]
    UnknownKind { api_version: String, kind: String },
    #[error("{what} cannot be understood: {problem}")]
    Document { what: String, problem: String },
    #[error("the host process ended at once; the end of its log:\n{log}")]
    HostProcess { log: String },
    #[error("this host is not ready:\n{report}")]
    Unfit { report: String },
    #[error("{program} was not found beside butleradm; build it (make build), or name it with --butler-binary", program = program.display())]
    NoBinary { program: PathBuf },
}

impl Error {
    /// A request that failed.
    pub(crate) fn api(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let doing = doing.into();
        move |source| match source {
            kube::Error::Api(status) => Self::Answered {
                doing,
                message: status.message.trim().to_owned(),
            },
            source => Self::Api {
                doing,
                source: Box::new(source),
            },
        }
    }
}
