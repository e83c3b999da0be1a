//! The databases of hosted control planes.
//!
//! Owns: what a tenant has in a store (an account and a schema that no other tenant's account reaches), in etcd, PostgreSQL,
//! MySQL or `MariaDB`, and NATS: making, granting, checking, revoking, dropping, counting and copying it; which names a
//! tenant may have; how kine is told where its database is.
//!
//! Must not: read or write Kubernetes objects (settings come in as bytes), decide when something is done, or keep
//! connections. `docs/architecture/data-stores.md` tells the whole.
//!
//! ```
//! use steward_datastore::{Claim, Schema, User, decide};
//! use butler_api::steward::data_store::DataStoreDriver;
//!
//! let uid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427".parse()?;
//! let mine = Claim { tenant: "team/blue".to_owned(), schema: Schema::of(&uid), user: User::of(&uid) };
//! let other = Claim { tenant: "team/red".to_owned(), schema: "red".parse()?, user: "red".parse()? };
//! decide(DataStoreDriver::Etcd, &mine, None, [&other])?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod any;
pub mod claim;
pub mod connection;
mod error;
mod etcd;
mod key_range;
pub mod kine;
mod migrate;
mod mysql;
pub mod names;
mod nats;
mod postgresql;
pub mod quote;
mod store;
mod tls;

pub use any::AnyStore;
pub use claim::{Claim, Refusal, decide, is_shareable};
pub use connection::{ClientCertificate, Connection, Credentials, Endpoint, SettingsError, Tls};
pub use error::Error;
pub use etcd::EtcdStore;
pub use key_range::{KeyRange, etcd_prefix};
pub use migrate::{Leftovers, migrate};
pub use mysql::MySqlStore;
pub use names::{Schema, TenantUid, User};
pub use nats::NatsStore;
pub use postgresql::PostgreSqlStore;
pub use quote::QuoteError;
pub use store::{Copied, Standing, Store, Tenant, TenantState};
