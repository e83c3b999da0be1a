//! The users and roles of tenants, and whose they are.

use butler_proto::etcd::Permission;
use butler_proto::etcd::permission::Type;

use crate::error::Error;
use crate::etcd::session::Session;
use crate::etcd::{access, keys, owners};
use crate::key_range::KeyRange;
use crate::names::{Schema, User};
use crate::store::{Standing, Tenant};

/// Keys that the API server writes all the time to show that somebody is alive: leases of nodes and leaders, and its own.
const SIGNS_OF_LIFE: [&str; 2] = ["leases", "masterleases"];

/// What a tenant's role may do: read and write all keys.
pub(super) fn open(schema: &Schema) -> Permission {
    access::permission(Type::Readwrite, &KeyRange::of(schema))
}

/// What is left of that while nobody may change the state.
fn frozen(schema: &Schema) -> Vec<Permission> {
    let range = KeyRange::of(schema);
    let signs = SIGNS_OF_LIFE.map(|name| access::permission(Type::Readwrite, &range.below(name)));
    // etcd has them in this order too.
    std::iter::once(access::permission(Type::Read, &range))
        .chain(signs)
        .collect()
}

/// What we never gave to the tenant's role.
fn foreign<'a>(
    schema: &Schema,
    permissions: &'a [Permission],
) -> impl Iterator<Item = &'a Permission> {
    let ours: Vec<Permission> = frozen(schema).into_iter().chain([open(schema)]).collect();
    permissions
        .iter()
        .filter(move |permission| !ours.contains(permission))
}

/// The user exists and has the tenant's role, and no other; the role reaches the tenant's keys, and no others.
pub(super) async fn ensure(session: &Session, tenant: &Tenant) -> Result<(), Error> {
    let role = tenant.schema.as_str();
    let found = access::role(session, role).await?;
    let roles = access::user(session, tenant.user.as_str()).await?;
    refuse_foreign_user(tenant, roles.as_deref().unwrap_or_default())?;
    match tenant.standing {
        Standing::New => admit(session, tenant, found.as_deref()).await?,
        // What older releases made bears no mark yet.
        Standing::Established => owners::claim(session, tenant).await?,
    }
    if found.is_none() {
        access::add_role(session, role).await?;
    }
    ensure_user(session, tenant, roles).await?;
    // The keys come last: whoever has some has the mark of ownership.
    let open = open(&tenant.schema);
    let permissions = found.unwrap_or_default();
    for other in permissions.iter().filter(|found| !same_keys(found, &open)) {
        access::revoke_permission(session, role, other).await?;
    }
    if permissions.contains(&open) {
        return Ok(());
    }
    access::grant_permission(session, role, &open).await
}

/// The schema is the tenant's from now on, and touches nobody else's.
async fn admit(
    session: &Session,
    tenant: &Tenant,
    role: Option<&[Permission]>,
) -> Result<(), Error> {
    refuse_what_is_not_ours(session, tenant, role).await?;
    owners::refuse_neighbours(session, tenant).await?;
    owners::claim(session, tenant).await?;
    owners::yield_to_earlier(session, tenant).await
}

async fn ensure_user(
    session: &Session,
    tenant: &Tenant,
    roles: Option<Vec<String>>,
) -> Result<(), Error> {
    let (user, role) = (tenant.user.as_str(), tenant.schema.as_str());
    if roles.is_none() {
        access::add_user(session, user).await?;
    }
    let roles = roles.unwrap_or_default();
    for other in roles.iter().filter(|given| *given != role) {
        access::revoke_role(session, user, other).await?;
    }
    if roles.iter().any(|given| given == role) {
        return Ok(());
    }
    access::grant_role(session, user, role).await
}

/// The role reads all keys of the tenant, and writes none that matter. etcd looks at rights when it does what was asked, in the
/// order of its log: no write comes after this.
pub(super) async fn freeze(session: &Session, tenant: &Tenant) -> Result<(), Error> {
    let role = tenant.schema.as_str();
    let Some(permissions) = access::role(session, role).await? else {
        return Err(Error::Request {
            action: "stop the tenant's writes".to_owned(),
            source: format!("there is no role \"{role}\"").into(),
        });
    };
    let wanted = frozen(&tenant.schema);
    let missing = wanted.iter().filter(|wanted| !permissions.contains(wanted));
    // A permission for the same keys takes the place of the one before. The signs of life come first, and are not missed.
    for permission in missing.rev() {
        access::grant_permission(session, role, permission).await?;
    }
    for other in foreign(&tenant.schema, &permissions) {
        access::revoke_permission(session, role, other).await?;
    }
    Ok(())
}

pub(super) async fn is_frozen(session: &Session, tenant: &Tenant) -> Result<bool, Error> {
    let permissions = access::role(session, tenant.schema.as_str()).await?;
    Ok(permissions.is_some_and(|permissions| permissions == frozen(&tenant.schema)))
}

/// The role reaches no key any more. The user keeps it: whose the keys are stays known.
pub(super) async fn revoke(session: &Session, tenant: &Tenant) -> Result<(), Error> {
    let role = tenant.schema.as_str();
    let roles = access::user(session, tenant.user.as_str()).await?;
    let has_it = roles.is_some_and(|roles| roles.iter().any(|given| given == role));
    if !has_it || is_marked(session, tenant).await? == Some(false) {
        return Ok(());
    }
    let permissions = access::role(session, role).await?.unwrap_or_default();
    close(session, tenant, &permissions).await
}

/// Removes keys, user and role, in an order in which the keys that are left are always known to be the tenant's.
pub(super) async fn remove(session: &Session, tenant: &Tenant) -> Result<(), Error> {
    let (schema, user) = (tenant.schema.as_str(), tenant.user.as_str());
    let role = access::role(session, schema).await?;
    let is_ours = match tenant.standing {
        Standing::Established => is_marked(session, tenant).await? != Some(false),
        // Who was never let in has nothing here, and what somebody else makes in a moment must not go.
        Standing::New if is_marked(session, tenant).await? != Some(true) => false,
        Standing::New => match refuse_what_is_not_ours(session, tenant, role.as_deref()).await {
            Ok(()) => true,
            Err(Error::NotOurs { .. }) => false,
            Err(error) => return Err(error),
        },
    };
    if is_ours {
        let permissions = role.as_deref().unwrap_or_default();
        close(session, tenant, permissions).await?;
        keys::delete_all(session, &KeyRange::of(&tenant.schema)).await?;
        // A user with further roles is not the tenant's alone.
        let roles = access::user(session, user).await?;
        if roles.is_some_and(|roles| roles.iter().all(|given| given == schema)) {
            access::delete_user(session, user).await?;
        }
        let is_made_by_us = foreign(&tenant.schema, permissions).next().is_none();
        match &role {
            None => {}
            Some(_) if is_made_by_us => access::delete_role(session, schema).await?,
            Some(_) => access::revoke_role(session, user, schema).await?,
        }
    }
    owners::release(session, tenant).await
}

/// Whether the schema bears the tenant's mark, if it bears any.
async fn is_marked(session: &Session, tenant: &Tenant) -> Result<Option<bool>, Error> {
    match owners::is_marked(session, tenant).await {
        Ok(marked) => Ok(marked.then_some(true)),
        Err(Error::NotOurs { .. }) => Ok(Some(false)),
        Err(error) => Err(error),
    }
}

/// Takes from the role what we gave to it.
async fn close(
    session: &Session,
    tenant: &Tenant,
    permissions: &[Permission],
) -> Result<(), Error> {
    let others: Vec<&Permission> = foreign(&tenant.schema, permissions).collect();
    for permission in permissions.iter().filter(|found| !others.contains(found)) {
        access::revoke_permission(session, tenant.schema.as_str(), permission).await?;
    }
    Ok(())
}

/// What is there before the tenant, and was not left by an earlier attempt, is somebody else's: a control plane's that uses
/// this etcd by itself, for one, or that of a Steward in another cluster. An earlier attempt left its mark before all else.
async fn refuse_what_is_not_ours(
    session: &Session,
    tenant: &Tenant,
    role: Option<&[Permission]>,
) -> Result<(), Error> {
    let is_marked = owners::is_marked(session, tenant).await?;
    let Some(permissions) = role else {
        return require_no_keys(session, tenant, "no role of this name reaches them").await;
    };
    if foreign(&tenant.schema, permissions).next().is_some() {
        let why = format!("it reaches other keys than /{}/", tenant.schema);
        return Err(foreign_role(&tenant.schema, why));
    }
    let holders = access::holders(session, tenant.schema.as_str()).await?;
    let is_ours = |holder: &String| holder == tenant.user.as_str();
    if let Some(other) = holders.iter().find(|holder| !is_ours(holder)) {
        let why = format!("it is that of the user \"{other}\"");
        return Err(foreign_role(&tenant.schema, why));
    }
    if holders.is_empty() {
        return require_no_keys(session, tenant, "nobody has the role of this name").await;
    }
    if !is_marked {
        let key = owners::mark(&tenant.schema);
        let why = format!(
            "the user \"{}\" has it, and no key {key} says whose both are",
            tenant.user
        );
        return Err(foreign_role(&tenant.schema, why));
    }
    Ok(())
}

async fn require_no_keys(session: &Session, tenant: &Tenant, but: &str) -> Result<(), Error> {
    let keys = keys::count(session, &KeyRange::of(&tenant.schema)).await?;
    if keys == 0 {
        return Ok(());
    }
    Err(Error::NotOurs {
        what: format!("the prefix /{}/ of etcd", tenant.schema),
        why: format!("it has {keys} keys, but {but}"),
    })
}

/// Whoever has the role root is no tenant's, whatever is on record.
fn refuse_foreign_user(tenant: &Tenant, roles: &[String]) -> Result<(), Error> {
    let is_root = roles.iter().any(|given| given == access::ROOT);
    let has_others = roles.iter().any(|given| given != tenant.schema.as_str());
    if is_root || (has_others && tenant.standing == Standing::New) {
        return Err(foreign_user(&tenant.user, roles));
    }
    Ok(())
}

fn foreign_role(schema: &Schema, why: String) -> Error {
    Error::NotOurs {
        what: format!("the role \"{schema}\" of etcd"),
        why,
    }
}

fn foreign_user(user: &User, roles: &[String]) -> Error {
    Error::NotOurs {
        what: format!("the user \"{user}\" of etcd"),
        why: format!("it has the roles {}", roles.join(", ")),
    }
}

/// Whether two permissions are about the same keys: a role has at most one for them.
fn same_keys(one: &Permission, other: &Permission) -> bool {
    one.key == other.key && one.range_end == other.range_end
}
