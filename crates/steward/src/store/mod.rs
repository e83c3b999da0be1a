//! Data stores, as control planes use them.
//!
//! Owns the port to them ([`StorePort`]), how a `DataStore`'s references become access to it, and how a control plane's part
//! of it is set up. [`Patient`] keeps a store that does not answer from holding up the control planes of others. Which names one
//! may have there, and every database's language, are those of `steward-datastore`, which [`Drivers`] puts behind the port.

mod access;
mod drivers;
mod patient;
mod setup;
mod transfer;

use std::fmt;

use butler_api::steward::data_store::DataStoreDriver;
use butler_pki::SecretText;
use futures::future::BoxFuture;

pub use access::{Resolver, Shows, StoreFacts};
pub use drivers::Drivers;
pub(crate) use drivers::{clear, copy, open, seal};
pub use patient::Patient;
pub use setup::{DiscardOrder, StoreOrder, discard, ensure, setup_fingerprint};
pub use transfer::{ErrandOrder, job};

/// Keys of the Secret with the settings of a connection.
pub mod config_keys {
    /// `host:port` of the first member; empty for etcd.
    pub const CONNECTION: &str = "DB_CONNECTION_STRING";
    /// The database, or the prefix of the keys.
    pub const SCHEMA: &str = "DB_SCHEMA";
    /// The user.
    pub const USER: &str = "DB_USER";
    /// The user's password.
    pub const PASSWORD: &str = "DB_PASSWORD";
    /// All of it in one URL, as kine reads it.
    pub const ENDPOINT: &str = "DB_ENDPOINT";
}

/// Access to a store for those who administer it.
#[derive(Clone, Debug)]
pub struct StoreAccess {
    /// The name of its `DataStore`.
    pub name: String,
    /// What it speaks.
    pub driver: DataStoreDriver,
    /// Its members, as `host:port`.
    pub endpoints: Vec<String>,
    /// The authority of its servers, if the connection is encrypted.
    pub authority_pem: Option<String>,
    /// The key of that authority, where clients get their certificates from it.
    pub authority_key: Option<SecretText>,
    /// The certificate that administrators show, and its key.
    pub client: Option<(String, SecretText)>,
    /// The user that administers it.
    pub username: Option<SecretText>,
    /// That user's password.
    pub password: Option<SecretText>,
}

/// What one control plane may have of a store.
#[derive(Clone, Debug)]
pub struct StoreGrant {
    /// The UID of the control plane.
    pub uid: String,
    /// The database, or the prefix of the keys without slashes.
    pub schema: String,
    /// The user, who may do anything there and nothing elsewhere.
    pub user: String,
    /// The user's password, where users have one.
    pub password: Option<SecretText>,
    /// Whether it was set up before, and that is on record: what has these names is then the control plane's.
    pub established: bool,
}

/// What kind of failure a store answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// It does not answer.
    Unreachable,
    /// It does not accept the credentials, or refuses what was asked.
    Refused,
    /// Somebody else has what was asked for.
    Taken,
    /// It answers, and could not do what was asked.
    Failed,
    /// This program cannot speak to such a store, or not of such a name.
    Unsupported,
}

/// A store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct StoreError {
    /// What kind of failure.
    pub kind: StoreErrorKind,
    /// What was being done, what went wrong, what to do; without credentials.
    pub message: String,
}

impl fmt::Display for StoreError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// The answer of a store.
pub type StoreAnswer<'a> = BoxFuture<'a, Result<(), StoreError>>;

/// A way to data stores. Everything may be called twice, and may have been cut off half-way before.
pub trait StorePort: Send + Sync + 'static {
    /// Whether the store answers and accepts the credentials.
    fn check<'a>(&'a self, store: &'a StoreAccess) -> StoreAnswer<'a>;

    /// Sees to it that a control plane has its part of the store: schema, user, password and rights, and no other rights.
    fn ensure<'a>(&'a self, store: &'a StoreAccess, grant: &'a StoreGrant) -> StoreAnswer<'a>;

    /// Takes a control plane's part away: first the rights, then the data, then the user. What is not there is fine; what
    /// belongs to another UID stays.
    fn discard<'a>(&'a self, store: &'a StoreAccess, grant: &'a StoreGrant) -> StoreAnswer<'a>;
}
