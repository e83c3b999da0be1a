//! The roles and databases of tenants, and whose they are.

use tokio_postgres::error::SqlState;

use crate::error::Error;
use crate::postgresql::session::{Session, cell};
use crate::postgresql::{statements, verifier};
use crate::store::{Standing, Tenant};

/// What the server knows of a tenant's account.
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
pub(super) struct Role {
    /// It may more than a tenant's account can.
    privileged: bool,
    pub(super) may_log_in: bool,
    /// It is Steward's own.
    administrator: bool,
    /// It has things outside of the tenant's database.
    foreign_objects: bool,
    /// What is written down about it.
    comment: Option<String>,
}

/// What the comment of a tenant's account begins with; the UID of the control plane follows.
const MARK: &str = "control plane of Steward, UID ";

fn mark(tenant: &Tenant) -> String {
    format!("{MARK}{}", tenant.owner)
}

impl Role {
    /// Whether it can be a tenant's at all.
    const fn is_plain(&self) -> bool {
        !self.privileged && !self.administrator
    }

    fn is_marked(&self, tenant: &Tenant) -> bool {
        self.comment.as_deref() == Some(mark(tenant).as_str())
    }

    /// Why the account is not the tenant's although it has the tenant's name; nothing if it may be. Names alone do not tell:
    /// two `DataStore`s, or two Stewards, may lead to one server.
    fn why_foreign(&self, tenant: &Tenant, database: Option<&Database>) -> Option<String> {
        if self.is_marked(tenant) {
            return None;
        }
        if let Some(comment) = &self.comment
            && comment.starts_with(MARK)
        {
            return Some(format!("its comment is \"{comment}\""));
        }
        // What older releases made bears no mark; an account that has nothing yet is nobody's loss.
        let has_state = database.is_some_and(|database| database.owner == tenant.user.as_str());
        (has_state && tenant.standing == Standing::New).then(|| {
            let schema = &tenant.schema;
            format!("it has the database \"{schema}\", and no comment says for whom")
        })
    }
}

/// What the server knows of a tenant's database.
pub(super) struct Database {
    owner: String,
    owned_by_administrator: bool,
    open_to_everybody: bool,
    /// The tenant's account may use it.
    granted: bool,
}

impl Database {
    pub(super) fn belongs_to(&self, tenant: &Tenant) -> bool {
        self.owner == tenant.user.as_str()
            || (tenant.standing == Standing::Established && self.owned_by_administrator)
    }

    pub(super) fn is_settled(&self, tenant: &Tenant) -> bool {
        self.owner == tenant.user.as_str() && self.granted && !self.open_to_everybody
    }
}

/// The tenant's account, if it is there.
pub(super) async fn role(session: &Session, tenant: &Tenant) -> Result<Option<Role>, Error> {
    let (user, schema) = (tenant.user.as_str(), tenant.schema.as_str());
    let action = format!("read the role \"{user}\"");
    let Some(row) = session.row(&action, statements::ROLE, &[&user]).await? else {
        return Ok(None);
    };
    let objects = session
        .row(&action, statements::FOREIGN_OBJECTS, &[&user, &schema])
        .await?;
    let foreign_objects = match &objects {
        Some(row) => cell::<i64>(row, 0)? > 0,
        None => false,
    };
    Ok(Some(Role {
        privileged: cell(&row, 0)?,
        may_log_in: cell(&row, 1)?,
        administrator: cell(&row, 2)?,
        foreign_objects,
        comment: cell(&row, 3)?,
    }))
}

/// The tenant's database, if it is there.
pub(super) async fn database(
    session: &Session,
    tenant: &Tenant,
) -> Result<Option<Database>, Error> {
    let (user, schema) = (tenant.user.as_str(), tenant.schema.as_str());
    let found = session
        .row(
            format!("read the database \"{schema}\""),
            statements::DATABASE,
            &[&schema, &user],
        )
        .await?;
    let Some(row) = found else {
        return Ok(None);
    };
    Ok(Some(Database {
        owner: cell(&row, 0)?,
        owned_by_administrator: cell(&row, 1)?,
        open_to_everybody: cell(&row, 2)?,
        granted: cell(&row, 3)?,
    }))
}

/// The account exists, is a tenant's, and may log in.
pub(super) async fn ensure_role(session: &Session, tenant: &Tenant) -> Result<(), Error> {
    let Some(role) = role(session, tenant).await? else {
        let verifier = verifier(tenant)?;
        let statement = statements::create_role(&tenant.user, &verifier, &mark(tenant))?;
        let action = format!("create the role \"{}\"", tenant.user);
        // Who is at work on the tenant is alone: a role that is there all the same is another's.
        return session.run(action, &statement, &[]).await;
    };
    let foreign = |why: String| Error::NotOurs {
        what: format!("the role \"{}\" of PostgreSQL", tenant.user),
        why,
    };
    if !role.is_plain() {
        return Err(foreign("it may do more than a tenant".to_owned()));
    }
    if role.foreign_objects && tenant.standing == Standing::New {
        return Err(foreign("it owns or may use other things".to_owned()));
    }
    let database = database(session, tenant).await?;
    if let Some(why) = role.why_foreign(tenant, database.as_ref()) {
        return Err(foreign(why));
    }
    if !role.is_marked(tenant) {
        let statement = statements::comment_on_role(&tenant.user, &mark(tenant))?;
        let action = format!("mark the role \"{}\" as the tenant's", tenant.user);
        // Who may not do this did not make the role: an administrator of old did.
        session
            .run(action, &statement, &[SqlState::INSUFFICIENT_PRIVILEGE])
            .await?;
    }
    if role.may_log_in {
        return Ok(());
    }
    let statement = statements::allow_login(&tenant.user, true)?;
    session
        .run(
            format!("let the role \"{}\" log in", tenant.user),
            &statement,
            &[],
        )
        .await
}

/// The database exists, is the tenant's and closed to others. True if it was somebody else's before.
pub(super) async fn ensure_database(session: &Session, tenant: &Tenant) -> Result<bool, Error> {
    let action = |verb: &str| format!("{verb} the database \"{}\"", tenant.schema);
    let existing = database(session, tenant).await?;
    let adopted = match &existing {
        None => {
            join_role(session, tenant).await?;
            let statement = statements::create_database(&tenant.schema, &tenant.user)?;
            session
                .run(
                    action("create"),
                    &statement,
                    &[SqlState::DUPLICATE_DATABASE, SqlState::UNIQUE_VIOLATION],
                )
                .await?;
            false
        }
        Some(database) if !database.belongs_to(tenant) => {
            return Err(Error::NotOurs {
                what: format!("the database \"{}\" of PostgreSQL", tenant.schema),
                why: format!("its owner is {}", database.owner),
            });
        }
        Some(database) if database.owner != tenant.user.as_str() => {
            join_role(session, tenant).await?;
            let statement = statements::give_database(&tenant.schema, &tenant.user)?;
            session.run(action("give away"), &statement, &[]).await?;
            true
        }
        Some(_) => false,
    };
    if existing.is_some_and(|database| database.is_settled(tenant)) {
        return Ok(adopted);
    }
    let statement = statements::close_database(&tenant.schema)?;
    session.run(action("close"), &statement, &[]).await?;
    let statement = statements::grant(&tenant.schema, &tenant.user)?;
    session.run(action("grant"), &statement, &[]).await?;
    Ok(adopted)
}

/// A superuser needs no membership to give something to a role.
async fn join_role(session: &Session, tenant: &Tenant) -> Result<(), Error> {
    let account = session
        .row("read Steward's own account", statements::ADMINISTRATOR, &[])
        .await?;
    if let Some(row) = &account
        && cell::<bool>(row, 0)?
    {
        return Ok(());
    }
    let statement = statements::join_role(&tenant.user)?;
    session
        .run(
            format!("act for the role \"{}\"", tenant.user),
            &statement,
            &[],
        )
        .await
}

/// Whether what has the tenant's names is, or may be, the tenant's.
pub(super) async fn is_ours(session: &Session, tenant: &Tenant) -> Result<bool, Error> {
    let database = database(session, tenant).await?;
    let role = role(session, tenant).await?;
    Ok(role.is_none_or(|role| role.why_foreign(tenant, database.as_ref()).is_none()))
}

/// The tenant's account can no longer log in, and is logged out. False if there is none, or it is not the tenant's alone.
pub(super) async fn lock(session: &Session, tenant: &Tenant) -> Result<bool, Error> {
    let Some(role) = role(session, tenant).await? else {
        return Ok(false);
    };
    if !role.is_plain() || role.foreign_objects {
        return Ok(false);
    }
    if role.may_log_in {
        let statement = statements::allow_login(&tenant.user, false)?;
        session
            .run(
                format!("lock the role \"{}\"", tenant.user),
                &statement,
                &[SqlState::UNDEFINED_OBJECT],
            )
            .await?;
    }
    session
        .ask(
            "end the tenant's connections",
            statements::END_SESSIONS,
            &[&tenant.user.as_str()],
        )
        .await?;
    Ok(true)
}
