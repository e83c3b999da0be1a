//! What can go wrong with a store, in words for the person who runs it.

use std::time::Duration;

use butler_api::steward::data_store::DataStoreDriver;

use crate::connection::SettingsError;
use crate::names::Schema;
use crate::quote::QuoteError;

/// What a server or a library said, as the source of an [`Error`].
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A failure of a store. Never contains a password or a key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings cannot be used.
    #[error("cannot use the settings of the data store")]
    Settings(#[from] SettingsError),
    /// No member answers.
    #[error(
        "cannot reach the data store at {place}: check spec.endpoints, the network and the servers"
    )]
    Unreachable {
        /// Its members.
        place: String,
        /// What was tried and how it ended.
        #[source]
        source: Cause,
    },
    /// The store answers but does not let us in.
    #[error(
        "the data store at {place} refuses Steward's credentials: check basicAuth and tlsConfig.clientCertificate"
    )]
    LoginRefused {
        /// Its members.
        place: String,
        /// What the server said.
        #[source]
        source: Cause,
    },
    /// Steward's account may not do its work.
    #[error("Steward's account at the data store may not {what}: {advice}")]
    NotAllowed {
        /// What it must be able to do.
        what: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// etcd lets everybody do everything.
    #[error(
        "authentication is not enabled at the etcd of {place}, so every tenant could read every other: \
         add the user and role root, then run `etcdctl auth enable`"
    )]
    AuthenticationOff {
        /// Its members.
        place: String,
    },
    /// The store runs but cannot be used as it is.
    #[error("the data store at {place} is not healthy: {problem}")]
    Unhealthy {
        /// Its members.
        place: String,
        /// What it says about itself.
        problem: String,
    },
    /// A request failed.
    #[error("cannot {action}")]
    Request {
        /// What was tried.
        action: String,
        /// What the server said.
        #[source]
        source: Cause,
    },
    /// A request was not answered in time.
    #[error("the data store did not {action} within {} s", after.as_secs())]
    TookTooLong {
        /// What was tried.
        action: &'static str,
        /// How long it had.
        after: Duration,
    },
    /// Something of the tenant's name exists already and is somebody else's.
    #[error(
        "{what} exists already and does not belong to this control plane: {why}; choose another name, or remove it"
    )]
    NotOurs {
        /// What is there.
        what: String,
        /// How that is seen.
        why: String,
    },
    /// A name cannot be written in the store's language.
    #[error("cannot name it in the data store")]
    Name(#[from] QuoteError),
    /// A tenant of this store needs a password, and has none.
    #[error("a tenant of a {driver:?} store logs in with a password, and none was given")]
    NoPassword {
        /// Which store.
        driver: DataStoreDriver,
    },
    /// State is copied between stores of one kind only.
    #[error(
        "the state of a control plane cannot be moved from a {from:?} to a {to:?} store: \
         name a DataStore with the same driver"
    )]
    DifferentDrivers {
        /// Where the state is.
        from: DataStoreDriver,
        /// Where it should go.
        to: DataStoreDriver,
    },
    /// Both are the same store.
    #[error(
        "the state of a control plane cannot be moved to where it is: the data stores at {from} and at {to} are the same"
    )]
    SameStore {
        /// The members of one.
        from: String,
        /// The members of the other.
        to: String,
    },
    /// The place to which state should be copied holds something.
    #[error(
        "\"{schema}\" at the target data store holds {entries} entries already: \
         remove them, or allow their removal, and move again"
    )]
    TargetInUse {
        /// Where.
        schema: Schema,
        /// How much.
        entries: u64,
    },
    /// The copy is not the original.
    #[error(
        "{copied} of {expected} entries arrived at the target data store; the source is as it was, and the copy was removed"
    )]
    CopyIncomplete {
        /// How many should be there.
        expected: u64,
        /// How many are there.
        copied: u64,
    },
    /// Entries went from the source while leftovers were removed from the target.
    #[error(
        "the source data store had {before} entries, and {after} after leftovers were removed from the target; nothing more is \
         removed: make sure that the two DataStores are not the same server"
    )]
    SourceShrank {
        /// How many there were.
        before: u64,
        /// How many there are.
        after: u64,
    },
    /// The tenant got its rights back while its state was copied.
    #[error(
        "the control plane could write to the data store at {place} while its state was copied; the copy was removed"
    )]
    SourceOpened {
        /// The members of the source.
        place: String,
    },
}

impl Error {
    /// The reason in one word, for conditions and metrics.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Settings(error) => error.reason(),
            Self::Unreachable { .. } => "DataStoreUnreachable",
            Self::LoginRefused { .. } => "DataStoreLoginRefused",
            Self::NotAllowed { .. } => "DataStoreAccessDenied",
            Self::AuthenticationOff { .. } => "DataStoreAuthenticationOff",
            Self::Unhealthy { .. } => "DataStoreUnhealthy",
            Self::Request { .. } => "DataStoreRequestFailed",
            Self::TookTooLong { .. } => "DataStoreTimeout",
            Self::NotOurs { .. } => "DataStoreNameTaken",
            Self::Name(_) => "InvalidDataStoreName",
            Self::NoPassword { .. } => "PasswordMissing",
            Self::DifferentDrivers { .. } => "DifferentDrivers",
            Self::SameStore { .. } => "SameDataStore",
            Self::TargetInUse { .. } => "TargetInUse",
            Self::CopyIncomplete { .. } => "CopyIncomplete",
            Self::SourceShrank { .. } => "SourceShrank",
            Self::SourceOpened { .. } => "SourceOpened",
        }
    }

    /// Whether the same call may succeed later although nobody changed anything.
    pub const fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Unhealthy { .. }
                | Self::Request { .. }
                | Self::TookTooLong { .. }
                | Self::CopyIncomplete { .. }
                | Self::SourceShrank { .. }
                | Self::SourceOpened { .. }
        )
    }

    /// The message with all its causes, on one line, for a condition.
    pub fn in_full(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            let said = cause.to_string();
            if !text.ends_with(&said) {
                text = format!("{text}: {said}");
            }
            source = cause.source();
        }
        text
    }
}
