//! What every store can do for Steward.

use std::future::Future;
use std::time::Duration;

use butler_api::steward::data_store::DataStoreDriver;
use butler_pki::SecretText;

use crate::error::Error;
use crate::names::{Schema, TenantUid, User};

/// How long one call may take, apart from copies: longer than a slow server needs, shorter than a pass of a controller.
const PATIENCE: Duration = Duration::from_secs(20);

/// A tenant as a store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// The control plane whose tenancy it is. Names may be chosen twice; this is given out once.
    pub owner: TenantUid,
    /// What keeps its state.
    pub schema: Schema,
    /// Its account.
    pub user: User,
    /// The password of the account, where accounts have one: not in etcd, where a client certificate with the account's
    /// name as common name takes its place, and not in NATS.
    pub password: Option<SecretText>,
    /// Whether what has its names is known to be its own.
    pub standing: Standing,
}

/// Whether what has a tenant's names in a store is known to be the tenant's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing was set up yet that we know of. What is found under the names and was not left by an earlier attempt is
    /// somebody else's, and not touched.
    New,
    /// It was set up, and that is on record. What is found under the names is the tenant's, and is put right or removed, unless
    /// it is marked as another control plane's.
    Established,
}

/// What a store has of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
pub struct TenantState {
    /// Its account exists and may log in.
    pub user: bool,
    /// What keeps its state exists.
    pub schema: bool,
    /// The account may use that, and nothing else.
    pub granted: bool,
    /// The account's password is the one given; true where accounts have none.
    pub password: bool,
}

impl TenantState {
    /// Whether nothing is left to be done.
    pub const fn is_complete(self) -> bool {
        self.user && self.schema && self.granted && self.password
    }

    /// Whether nothing is left.
    pub const fn is_gone(self) -> bool {
        !self.user && !self.schema
    }
}

/// How much was copied from one store to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// All entries.
    pub entries: u64,
    /// Those among them that vanish by themselves after a while.
    pub perishable: u64,
    /// How far the revisions of the new store are behind those that clients of the old one may know; 0 if they are not. Who
    /// watches from a revision that a store has not reached yet hears nothing until it has.
    pub behind: u64,
}

/// A database that keeps the state of control planes apart from each other.
///
/// Every call connects, does its work and closes the connection: nothing is held for a fleet at rest. Every call may be cut
/// off anywhere and made again, and two may run at once: all of them lead to the state they are named after and change
/// nothing if it is there.
pub trait Store: Send + Sync {
    /// Which protocol it speaks.
    fn driver(&self) -> DataStoreDriver;

    /// Where it is, in words.
    fn place(&self) -> String;

    /// What no other store has, whatever address this one is reached by; nothing if there is no such thing. Changes nothing.
    fn identity(
        &self,
        tenant: &Tenant,
    ) -> impl Future<Output = Result<Option<String>, Error>> + Send;

    /// Whether the store answers, lets us in and lets us do our work. Changes nothing.
    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// What the store has of the tenant. Changes nothing.
    fn tenant_state(
        &self,
        tenant: &Tenant,
    ) -> impl Future<Output = Result<TenantState, Error>> + Send;

    /// Makes the tenant's account and what keeps its state, and lets the account use that and nothing else.
    fn ensure_tenant(&self, tenant: &Tenant) -> impl Future<Output = Result<(), Error>> + Send;

    /// From when this is done, the account can change nothing, and nothing that it began before is under way. It may read on.
    /// Where a store can tell them from the rest, leases of the API server are left out: they are renewed all the time, and
    /// tell nothing but that somebody is alive. [`Store::ensure_tenant`] undoes it.
    fn freeze(&self, tenant: &Tenant) -> impl Future<Output = Result<(), Error>> + Send;

    /// Whether [`Store::freeze`] holds. Changes nothing.
    fn is_frozen(&self, tenant: &Tenant) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Takes away what the account may do, at once. The state stays. [`Store::ensure_tenant`] gives it back.
    fn revoke(&self, tenant: &Tenant) -> impl Future<Output = Result<(), Error>> + Send;

    /// Removes the tenant's state and account, and nothing of anybody else.
    fn drop_tenant(&self, tenant: &Tenant) -> impl Future<Output = Result<(), Error>> + Send;

    /// How many entries the tenant's state has; 0 if there is none.
    fn count(&self, tenant: &Tenant) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Copies the tenant's state, which is frozen, to another store of the same kind, where the tenant
    /// exists and its state is empty.
    fn copy_to(
        &self,
        tenant: &Tenant,
        target: &Self,
    ) -> impl Future<Output = Result<Copied, Error>> + Send;
}

/// Waits for a call no longer than is good for whoever waits.
pub(crate) async fn within<T>(
    action: &'static str,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(PATIENCE, call)
        .await
        .unwrap_or(Err(Error::TookTooLong {
            action,
            after: PATIENCE,
        }))
}
