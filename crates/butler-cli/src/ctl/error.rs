//! What can go wrong, and what the reader can do about it.

use std::{io, path::PathBuf, time::Duration};

/// Why a command did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(
        "there is no cluster {name} in the namespace {namespace}; \"butlerctl cluster list -A\" shows all"
    )]
    NoCluster { name: String, namespace: String },
    #[error(
        "there is a cluster {name} in the namespace {namespace} already; \"butlerctl cluster get {name} -n {namespace}\" shows it"
    )]
    Exists { name: String, namespace: String },
    #[error(
        "this platform does not know tenant clusters; is this the kubeconfig of a management cluster?"
    )]
    NoPlatform,
    /// Nothing more comes of waiting: a person must act.
    #[error("{name} {how}: {why}")]
    Stuck {
        name: String,
        how: &'static str,
        why: String,
    },
    #[error("{name} was deleted meanwhile")]
    Gone { name: String },
    #[error(
        "{what} took longer than {}s; it goes on without us, and \"butlerctl cluster why {call}\" says what it waits for. {last}",
        patience.as_secs()
    )]
    Patience {
        what: String,
        /// How the cluster is named on a command line.
        call: String,
        patience: Duration,
        last: String,
    },
    #[error("{0}")]
    Usage(String),
    #[error(
        "{name} has no kubeconfig yet; \"butlerctl cluster why {call}\" says what it waits for"
    )]
    NoKubeconfig { name: String, call: String },
    #[error("the kubeconfig of {name} cannot be used: {problem}")]
    Kubeconfig { name: String, problem: String },
    #[error("could not {doing} {path}", path = path.display())]
    File {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{what} cannot be understood: {problem}")]
    Document { what: String, problem: String },
    /// The API server's own words are enough: its whole answer would say the same thing three times.
    #[error("could not {doing}: {message}")]
    Answered { doing: String, message: String },
    #[error("could not {doing}")]
    Api {
        doing: String,
        #[source]
        source: Box<kube::Error>,
    },
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

    /// How the process ends.
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Patience { .. } => 3,
            _ => 1,
        }
    }
}
