//! Tenants in an etcd: a user who is known by a client certificate, and a role, named like the schema, that reaches the keys
//! of [`KeyRange`] and no others.
//!
//! Whose a schema is, a key says that no tenant reaches ([`owners`]). That the user has the role is a mark, too: it is given
//! before the first key, and taken after the last. Keys without it are somebody else's.

mod access;
mod keys;
mod owners;
mod revisions;
mod session;
mod tenants;

use butler_api::steward::data_store::DataStoreDriver;

use crate::connection::{Connection, SettingsError};
use crate::error::Error;
use crate::key_range::KeyRange;
use crate::store::{Copied, Store, Tenant, TenantState, within};
use crate::tls;
use session::Session;

/// An etcd.
#[derive(Debug)]
pub struct EtcdStore {
    connection: Connection,
}

impl EtcdStore {
    /// The store of these settings, which must have a client certificate.
    pub fn new(connection: Connection) -> Result<Self, Error> {
        let tls = connection.tls.as_ref();
        let tls = tls
            .filter(|tls| tls.client.is_some())
            .ok_or(SettingsError::NoClientCertificate)?;
        tls::client_config(tls)?;
        Ok(Self { connection })
    }

    async fn open(&self) -> Result<Session, Error> {
        Session::open(&self.connection).await
    }

    /// Turns authentication on where it is off, with the user and the role root. Says whether it had to be. For an etcd that
    /// is ours alone: whoever uses it without a name is shut out.
    pub async fn require_login(&self) -> Result<bool, Error> {
        within("turn authentication on", async {
            let session = self.open().await?;
            if session.asks_who_we_are() {
                return Ok(false);
            }
            access::add_role(&session, access::ROOT).await?;
            access::add_user(&session, access::ROOT).await?;
            access::grant_role(&session, access::ROOT, access::ROOT).await?;
            access::enable(&session).await?;
            Ok(true)
        })
        .await
    }
}

impl Store for EtcdStore {
    fn driver(&self) -> DataStoreDriver {
        DataStoreDriver::Etcd
    }

    fn place(&self) -> String {
        self.connection.place()
    }

    async fn identity(&self, _tenant: &Tenant) -> Result<Option<String>, Error> {
        // The ID of a cluster is made of the addresses by which its members know each other, so that clusters that were
        // started alike, such as those of one member at localhost, all have the same.
        Ok(None)
    }

    async fn check(&self) -> Result<(), Error> {
        within("answer", async {
            let session = self.open().await?;
            require_authentication(&session)?;
            // Only who has the role root may ask this.
            access::user(&session, access::ROOT).await?;
            let status = session.status().await?;
            if status.errors.is_empty() {
                return Ok(());
            }
            Err(Error::Unhealthy {
                place: session.place(),
                problem: status.errors.join("; "),
            })
        })
        .await
    }

    async fn tenant_state(&self, tenant: &Tenant) -> Result<TenantState, Error> {
        within("show the tenant", async {
            let session = self.open().await?;
            let role = access::role(&session, tenant.schema.as_str()).await?;
            let roles = access::user(&session, tenant.user.as_str()).await?;
            let reaches_its_keys = role
                .as_deref()
                .is_some_and(|permissions| permissions == [tenants::open(&tenant.schema)]);
            let has_its_role = roles
                .as_deref()
                .is_some_and(|roles| roles == [tenant.schema.as_str()]);
            Ok(TenantState {
                user: roles.is_some(),
                schema: role.is_some(),
                granted: reaches_its_keys && has_its_role,
                password: true,
            })
        })
        .await
    }

    async fn ensure_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        within("make the tenant", async {
            let session = self.open().await?;
            require_authentication(&session)?;
            tenants::ensure(&session, tenant).await
        })
        .await
    }

    async fn freeze(&self, tenant: &Tenant) -> Result<(), Error> {
        within("stop the tenant's writes", async {
            let session = self.open().await?;
            require_authentication(&session)?;
            tenants::freeze(&session, tenant).await
        })
        .await
    }

    async fn is_frozen(&self, tenant: &Tenant) -> Result<bool, Error> {
        within("show the tenant's rights", async {
            let session = self.open().await?;
            tenants::is_frozen(&session, tenant).await
        })
        .await
    }

    async fn revoke(&self, tenant: &Tenant) -> Result<(), Error> {
        within("revoke the tenant's access", async {
            let session = self.open().await?;
            tenants::revoke(&session, tenant).await
        })
        .await
    }

    async fn drop_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        // No deadline but etcd's own for each request: there may be very many keys.
        let session = self.open().await?;
        tenants::remove(&session, tenant).await
    }

    async fn count(&self, tenant: &Tenant) -> Result<u64, Error> {
        within("count the tenant's keys", async {
            let session = self.open().await?;
            keys::count(&session, &KeyRange::of(&tenant.schema)).await
        })
        .await
    }

    async fn copy_to(&self, tenant: &Tenant, target: &Self) -> Result<Copied, Error> {
        let range = KeyRange::of(&tenant.schema);
        let (source, target) = (self.open().await?, target.open().await?);
        let copied = keys::copy(&source, &target, &range).await?;
        let behind = revisions::catch_up(&source, &target, &range).await?;
        Ok(Copied { behind, ..copied })
    }
}

fn require_authentication(session: &Session) -> Result<(), Error> {
    if session.asks_who_we_are() {
        return Ok(());
    }
    Err(Error::AuthenticationOff {
        place: session.place(),
    })
}
