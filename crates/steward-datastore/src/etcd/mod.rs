//! Tenants in an etcd: a user who is known by a client certificate, and a role, named like the schema, that reaches the keys
//! of [`KeyRange`] and no others.
//!
//! The role is also the mark of ownership: it is made before the first key, and removed after the last. Keys without it are
//! somebody else's.

mod access;
mod keys;
mod session;

use butler_api::steward::data_store::DataStoreDriver;
use butler_proto::etcd::maintenance_client::MaintenanceClient;
use butler_proto::etcd::{Permission, StatusRequest};

use crate::connection::{Connection, SettingsError};
use crate::error::Error;
use crate::key_range::KeyRange;
use crate::names::{Schema, User};
use crate::store::{Copied, Standing, Store, Tenant, TenantState, within};
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

    async fn check(&self) -> Result<(), Error> {
        within("answer", async {
            let session = self.open().await?;
            require_authentication(&session)?;
            // Only who has the role root may ask this.
            access::user(&session, access::ROOT).await?;
            let status = session
                .ask("read the health of a member", |channel| async {
                    MaintenanceClient::new(channel)
                        .status(StatusRequest {})
                        .await
                })
                .await?;
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
                .is_some_and(|permissions| permissions == [own_permission(tenant)]);
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
            ensure_role(&session, tenant).await?;
            ensure_user(&session, tenant).await
        })
        .await
    }

    async fn revoke(&self, tenant: &Tenant) -> Result<(), Error> {
        within("revoke the tenant's access", async {
            let session = self.open().await?;
            access::revoke_role(&session, tenant.user.as_str(), tenant.schema.as_str()).await
        })
        .await
    }

    async fn drop_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        let (schema, user) = (tenant.schema.as_str(), tenant.user.as_str());
        let session = self.open().await?;
        access::revoke_role(&session, user, schema).await?;
        // A user with further roles is not the tenant's alone.
        if access::user(&session, user)
            .await?
            .is_some_and(|roles| roles.is_empty())
        {
            access::delete_user(&session, user).await?;
        }
        let role = access::role(&session, schema).await?;
        let own = own_permission(tenant);
        let marked = role
            .as_deref()
            .is_some_and(|permissions| permissions.contains(&own));
        if marked || tenant.standing == Standing::Established {
            // No deadline but etcd's own for each request: there may be very many keys.
            keys::delete_all(&session, &KeyRange::of(&tenant.schema)).await?;
        }
        match role {
            Some(permissions) if permissions.iter().all(|permission| *permission == own) => {
                access::delete_role(&session, schema).await
            }
            Some(_) => access::revoke_permission(&session, schema, &own).await,
            None => Ok(()),
        }
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
        keys::copy(&self.open().await?, &target.open().await?, &range).await
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

fn own_permission(tenant: &Tenant) -> Permission {
    access::permission(&KeyRange::of(&tenant.schema))
}

/// The role exists and reaches the tenant's keys, and no others.
async fn ensure_role(session: &Session, tenant: &Tenant) -> Result<(), Error> {
    let role = tenant.schema.as_str();
    let own = own_permission(tenant);
    let found = access::role(session, role).await?;
    let permissions = found.as_deref().unwrap_or_default();
    let foreign: Vec<&Permission> = permissions
        .iter()
        .filter(|permission| **permission != own)
        .collect();
    if !foreign.is_empty() && tenant.standing == Standing::New {
        return Err(foreign_role(&tenant.schema));
    }
    for permission in foreign {
        access::revoke_permission(session, role, permission).await?;
    }
    if permissions.contains(&own) {
        return Ok(());
    }
    require_no_keys(session, tenant).await?;
    if found.is_none() {
        access::add_role(session, role).await?;
    }
    access::grant_permission(session, role, &own).await
}

/// The user exists and has the tenant's role, and no other.
async fn ensure_user(session: &Session, tenant: &Tenant) -> Result<(), Error> {
    let (user, role) = (tenant.user.as_str(), tenant.schema.as_str());
    let roles = if let Some(roles) = access::user(session, user).await? {
        roles
    } else {
        access::add_user(session, user).await?;
        Vec::new()
    };
    let foreign: Vec<&String> = roles.iter().filter(|given| *given != role).collect();
    let is_root = roles.iter().any(|given| given == access::ROOT);
    if is_root || (!foreign.is_empty() && tenant.standing == Standing::New) {
        return Err(foreign_user(&tenant.user, &roles));
    }
    for given in foreign {
        access::revoke_role(session, user, given).await?;
    }
    if roles.iter().any(|given| given == role) {
        return Ok(());
    }
    access::grant_role(session, user, role).await
}

/// Keys that are there before the tenant are somebody else's: a control plane that uses this etcd by itself, for one.
async fn require_no_keys(session: &Session, tenant: &Tenant) -> Result<(), Error> {
    if tenant.standing == Standing::Established {
        return Ok(());
    }
    let keys = keys::count(session, &KeyRange::of(&tenant.schema)).await?;
    if keys == 0 {
        return Ok(());
    }
    Err(Error::NotOurs {
        what: format!("the prefix /{}/ of etcd", tenant.schema),
        why: format!("it has {keys} keys, but no role of this name reaches them"),
    })
}

fn foreign_role(schema: &Schema) -> Error {
    Error::NotOurs {
        what: format!("the role \"{schema}\" of etcd"),
        why: format!("it reaches other keys than /{schema}/"),
    }
}

fn foreign_user(user: &User, roles: &[String]) -> Error {
    Error::NotOurs {
        what: format!("the user \"{user}\" of etcd"),
        why: format!("it has the roles {}", roles.join(", ")),
    }
}
