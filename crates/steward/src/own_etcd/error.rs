//! Why the etcd could not be prepared.

use butler_runtime::client::ClientError;

use super::plan::Refusal;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no way to the management cluster.
    #[error("could not connect to the management cluster")]
    Client(#[from] ClientError),
    /// A Secret could not be read or written.
    #[error("could not {doing} the Secret {secret}")]
    Api {
        /// What was tried.
        doing: &'static str,
        /// Which Secret.
        secret: String,
        /// What the API server said.
        source: Box<kube::Error>,
    },
    /// There is no authority to sign with.
    #[error(
        "there is no authority in the Secret {secret}: run \"butler steward-etcd certificates\" first"
    )]
    NoAuthority {
        /// The Secret it should be in.
        secret: String,
    },
    /// What is there must not be written over.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A certificate could not be made or read.
    #[error("could not make the certificate of the Secret {secret}")]
    Certificate {
        /// Which Secret.
        secret: String,
        /// Why.
        source: butler_pki::Error,
    },
    /// The etcd does not do what it is asked for.
    #[error("the etcd cannot be used yet")]
    Store(#[from] steward_datastore::Error),
    /// Somebody ended the process.
    #[error("interrupted; run it again, it goes on where it was")]
    Interrupted,
}

impl Error {
    pub(super) fn api(doing: &'static str, secret: &str, source: kube::Error) -> Self {
        Self::Api {
            doing,
            secret: secret.to_owned(),
            source: Box::new(source),
        }
    }

    /// Whether the same may succeed a moment later. Rights that were given a moment ago may not be known yet.
    pub(super) const fn may_pass(&self) -> bool {
        match self {
            Self::Api { .. } | Self::NoAuthority { .. } | Self::Store(_) => true,
            Self::Client(_) | Self::Refused(_) | Self::Certificate { .. } | Self::Interrupted => {
                false
            }
        }
    }

    /// All that is known, in one line.
    pub(super) fn in_full(&self) -> String {
        let mut words = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            let said = cause.to_string();
            if !words.contains(&said) {
                words = format!("{words}: {said}");
            }
            source = cause.source();
        }
        words
    }
}
