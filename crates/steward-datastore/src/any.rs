//! A store of the kind that its settings name.

use butler_api::steward::data_store::DataStoreDriver;

use crate::connection::{Connection, SettingsError};
use crate::error::Error;
use crate::etcd::EtcdStore;
use crate::mysql::MySqlStore;
use crate::nats::NatsStore;
use crate::postgresql::PostgreSqlStore;
use crate::store::{Copied, Store, Tenant, TenantState};

/// Any of the stores.
#[derive(Debug)]
pub enum AnyStore {
    /// etcd.
    Etcd(EtcdStore),
    /// MySQL or `MariaDB`.
    MySql(MySqlStore),
    /// PostgreSQL.
    PostgreSql(PostgreSqlStore),
    /// NATS.
    Nats(NatsStore),
}

impl AnyStore {
    /// The store of these settings. Does not connect; settings that cannot be used are refused here.
    pub fn new(connection: Connection) -> Result<Self, Error> {
        if connection.endpoints.is_empty() {
            return Err(SettingsError::NoEndpoints.into());
        }
        Ok(match connection.driver {
            DataStoreDriver::Etcd => Self::Etcd(EtcdStore::new(connection)?),
            DataStoreDriver::MySql => Self::MySql(MySqlStore::new(connection)?),
            DataStoreDriver::PostgreSql => Self::PostgreSql(PostgreSqlStore::new(connection)?),
            DataStoreDriver::Nats => Self::Nats(NatsStore::new(connection)?),
        })
    }
}

/// The same expression for whichever store it is. Futures are boxed: whoever waits for one would otherwise hold room for
/// the largest of all drivers.
macro_rules! each {
    ($this:expr, $store:ident => $call:expr) => {
        match $this {
            Self::Etcd($store) => $call,
            Self::MySql($store) => $call,
            Self::PostgreSql($store) => $call,
            Self::Nats($store) => $call,
        }
    };
}

impl Store for AnyStore {
    fn driver(&self) -> DataStoreDriver {
        each!(self, store => store.driver())
    }

    fn place(&self) -> String {
        each!(self, store => store.place())
    }

    async fn identity(&self, tenant: &Tenant) -> Result<Option<String>, Error> {
        each!(self, store => Box::pin(store.identity(tenant)).await)
    }

    async fn check(&self) -> Result<(), Error> {
        each!(self, store => Box::pin(store.check()).await)
    }

    async fn tenant_state(&self, tenant: &Tenant) -> Result<TenantState, Error> {
        each!(self, store => Box::pin(store.tenant_state(tenant)).await)
    }

    async fn ensure_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        each!(self, store => Box::pin(store.ensure_tenant(tenant)).await)
    }

    async fn freeze(&self, tenant: &Tenant) -> Result<(), Error> {
        each!(self, store => Box::pin(store.freeze(tenant)).await)
    }

    async fn is_frozen(&self, tenant: &Tenant) -> Result<bool, Error> {
        each!(self, store => Box::pin(store.is_frozen(tenant)).await)
    }

    async fn revoke(&self, tenant: &Tenant) -> Result<(), Error> {
        each!(self, store => Box::pin(store.revoke(tenant)).await)
    }

    async fn drop_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        each!(self, store => Box::pin(store.drop_tenant(tenant)).await)
    }

    async fn count(&self, tenant: &Tenant) -> Result<u64, Error> {
        each!(self, store => Box::pin(store.count(tenant)).await)
    }

    async fn copy_to(&self, tenant: &Tenant, target: &Self) -> Result<Copied, Error> {
        match (self, target) {
            (Self::Etcd(source), Self::Etcd(target)) => {
                Box::pin(source.copy_to(tenant, target)).await
            }
            (Self::MySql(source), Self::MySql(target)) => {
                Box::pin(source.copy_to(tenant, target)).await
            }
            (Self::PostgreSql(source), Self::PostgreSql(target)) => {
                Box::pin(source.copy_to(tenant, target)).await
            }
            (Self::Nats(source), Self::Nats(target)) => {
                Box::pin(source.copy_to(tenant, target)).await
            }
            _ => Err(Error::DifferentDrivers {
                from: self.driver(),
                to: target.driver(),
            }),
        }
    }
}
