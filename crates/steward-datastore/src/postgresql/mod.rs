//! Tenants in a PostgreSQL server: for each a role that may log in, and a database that it owns and nobody else may enter.
//!
//! That the role owns the database is also the mark of ownership: a database of another owner is somebody else's. Whose the
//! role is, its comment says.

mod session;
mod statements;
mod table;
mod tenants;

use std::sync::Arc;

use butler_api::steward::data_store::DataStoreDriver;
use butler_pki::SecretText;
use rustls::ClientConfig;
use tokio_postgres::error::SqlState;

use crate::connection::Connection;
use crate::error::Error;
use crate::quote::QuoteError;
use crate::store::{Copied, Store, Tenant, TenantState, within};
use crate::tls;
use session::{Login, Session, cell, failure, is_login_refused};
use tenants::{database, ensure_database, ensure_role, is_ours, lock, role};

/// The database every server has, from which others are made.
const MAINTENANCE: &str = "postgres";

/// A PostgreSQL server.
#[derive(Debug)]
pub struct PostgreSqlStore {
    connection: Connection,
    tls: Option<Arc<ClientConfig>>,
}

impl PostgreSqlStore {
    /// The store of these settings.
    pub fn new(connection: Connection) -> Result<Self, Error> {
        let tls = match &connection.tls {
            Some(tls) => Some(Arc::new(tls::client_config(tls)?)),
            None => None,
        };
        Ok(Self { connection, tls })
    }

    async fn open(&self, database: &str) -> Result<Session, Error> {
        let administrator = self.connection.administrator.as_ref();
        let login = Login {
            user: administrator.map(|account| account.user.as_str()),
            password: administrator.map(|account| account.password.expose()),
            database,
        };
        Session::open(&self.connection, self.tls.as_ref(), &login)
            .await
            .map_err(|error| {
                let place = self.connection.place();
                let source = error.into();
                if is_login_refused_by(&source) {
                    Error::LoginRefused { place, source }
                } else {
                    Error::Unreachable { place, source }
                }
            })
    }

    /// A connection that is alone at work on the tenant: the server refuses statements that meet others.
    async fn open_alone(&self, tenant: &Tenant) -> Result<Session, Error> {
        let session = self.open(MAINTENANCE).await?;
        session
            .ask(
                "wait for others at work on the tenant",
                statements::LOCK,
                &[&tenant.schema.as_str()],
            )
            .await?;
        Ok(session)
    }

    /// Logs in as the tenant; nothing if the password is wrong.
    async fn open_as(&self, tenant: &Tenant) -> Result<Option<Session>, Error> {
        let login = Login {
            user: Some(tenant.user.as_str()),
            password: Some(password(tenant)?.expose()),
            database: tenant.schema.as_str(),
        };
        match Session::open(&self.connection, self.tls.as_ref(), &login).await {
            Ok(session) => Ok(Some(session)),
            Err(error) if error.code() == Some(&SqlState::INVALID_PASSWORD) => Ok(None),
            Err(error) => Err(failure(
                format!("log in as the tenant's account \"{}\"", tenant.user),
                error,
            )),
        }
    }

    async fn enter(&self, tenant: &Tenant) -> Result<Session, Error> {
        self.open_as(tenant).await?.ok_or_else(|| Error::Request {
            action: format!("log in as the tenant's account \"{}\"", tenant.user),
            source: "the password is not the account's".into(),
        })
    }
}

impl Store for PostgreSqlStore {
    fn driver(&self) -> DataStoreDriver {
        DataStoreDriver::PostgreSql
    }

    fn place(&self) -> String {
        self.connection.place()
    }

    async fn identity(&self, _tenant: &Tenant) -> Result<Option<String>, Error> {
        within("say which server it is", async {
            let session = self.open(MAINTENANCE).await?;
            let found = session
                .row("read the server's identity", statements::IDENTITY, &[])
                .await?;
            found.as_ref().map(|row| cell(row, 0)).transpose()
        })
        .await
    }

    async fn check(&self) -> Result<(), Error> {
        within("answer", async {
            let session = self.open(MAINTENANCE).await?;
            let account = session
                .row("read Steward's own account", statements::ADMINISTRATOR, &[])
                .await?;
            let allowed = match &account {
                Some(row) => cell::<bool>(row, 0)? || cell::<bool>(row, 1)?,
                None => false,
            };
            if allowed {
                return Ok(());
            }
            Err(Error::NotAllowed {
                what: "create databases and roles",
                advice: "ALTER ROLE it with CREATEDB CREATEROLE",
            })
        })
        .await
    }

    async fn tenant_state(&self, tenant: &Tenant) -> Result<TenantState, Error> {
        within("show the tenant", async {
            let session = self.open(MAINTENANCE).await?;
            let role = role(&session, tenant).await?;
            let database = database(&session, tenant).await?;
            let mut state = TenantState {
                user: role.is_some_and(|role| role.may_log_in),
                schema: database.is_some(),
                granted: database.is_some_and(|database| database.is_settled(tenant)),
                password: false,
            };
            if state.user && state.granted {
                let entered = self.open_as(tenant).await?;
                state.password = entered.is_some();
                if let Some(session) = entered {
                    state.granted = !table::is_frozen(&session).await?;
                }
            }
            Ok(state)
        })
        .await
    }

    async fn ensure_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        within("make the tenant", async {
            statements::require_possible(&tenant.schema, &tenant.user)?;
            let session = self.open_alone(tenant).await?;
            ensure_role(&session, tenant).await?;
            let adopted = ensure_database(&session, tenant).await?;
            if adopted {
                self.give_table(tenant).await?;
            }
            if let Some(entered) = self.open_as(tenant).await? {
                table::thaw(&entered).await
            } else {
                let statement = statements::set_password(&tenant.user, &verifier(tenant)?)?;
                session
                    .run(
                        format!("set the password of the role \"{}\"", tenant.user),
                        &statement,
                        &[],
                    )
                    .await?;
                table::thaw(&self.enter(tenant).await?).await
            }
        })
        .await
    }

    async fn freeze(&self, tenant: &Tenant) -> Result<(), Error> {
        within("stop the tenant's writes", async {
            // As the tenant: what is in its database is its own, and must not run with our rights.
            table::freeze(&self.enter(tenant).await?).await
        })
        .await
    }

    async fn is_frozen(&self, tenant: &Tenant) -> Result<bool, Error> {
        within("show the tenant's rights", async {
            table::is_frozen(&self.enter(tenant).await?).await
        })
        .await
    }

    async fn revoke(&self, tenant: &Tenant) -> Result<(), Error> {
        within("revoke the tenant's access", async {
            let session = self.open_alone(tenant).await?;
            if !is_ours(&session, tenant).await? {
                return Ok(());
            }
            if let Some(database) = database(&session, tenant).await?
                && database.belongs_to(tenant)
                && role(&session, tenant).await?.is_some()
            {
                let statement = statements::revoke(&tenant.schema, &tenant.user)?;
                session
                    .run(
                        "revoke the tenant's grants",
                        &statement,
                        &[SqlState::UNDEFINED_OBJECT],
                    )
                    .await?;
            }
            lock(&session, tenant).await.map(drop)
        })
        .await
    }

    async fn drop_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        within("remove the tenant", async {
            let session = self.open_alone(tenant).await?;
            if !is_ours(&session, tenant).await? {
                return Ok(());
            }
            let owned = lock(&session, tenant).await?;
            if let Some(database) = database(&session, tenant).await?
                && database.belongs_to(tenant)
            {
                let statement = statements::drop_database(&tenant.schema)?;
                session
                    .run(
                        format!("drop the database \"{}\"", tenant.schema),
                        &statement,
                        &[],
                    )
                    .await?;
            }
            if owned {
                let statement = statements::drop_role(&tenant.user)?;
                session
                    .run(
                        format!("drop the role \"{}\"", tenant.user),
                        &statement,
                        &[],
                    )
                    .await?;
            }
            Ok(())
        })
        .await
    }

    async fn count(&self, tenant: &Tenant) -> Result<u64, Error> {
        within("count the tenant's rows", async {
            let administrator = self.open(MAINTENANCE).await?;
            if database(&administrator, tenant).await?.is_none() {
                return Ok(0);
            }
            // As the tenant: what is in its database is its own, and must not run with our rights.
            table::count(&self.enter(tenant).await?).await
        })
        .await
    }

    async fn copy_to(&self, tenant: &Tenant, target: &Self) -> Result<Copied, Error> {
        table::copy(&self.enter(tenant).await?, &target.enter(tenant).await?).await
    }
}

impl PostgreSqlStore {
    /// A database that was made for another owner may have a table of that owner.
    async fn give_table(&self, tenant: &Tenant) -> Result<(), Error> {
        let session = self.open(tenant.schema.as_str()).await?;
        let owner = session
            .row(
                "read the owner of kine's table",
                statements::TABLE_OWNER,
                &[],
            )
            .await?;
        let given = match &owner {
            Some(row) => cell::<String>(row, 0)? == tenant.user.as_str(),
            None => true,
        };
        if given {
            return Ok(());
        }
        let statement = statements::give_table(&tenant.user)?;
        session
            .run("give kine's table to the tenant", &statement, &[])
            .await
    }
}

fn password(tenant: &Tenant) -> Result<&SecretText, Error> {
    tenant.password.as_ref().ok_or(Error::NoPassword {
        driver: DataStoreDriver::PostgreSql,
    })
}

/// What the server keeps of the password, so that the password itself is in no statement and in no log of the server.
fn verifier(tenant: &Tenant) -> Result<String, Error> {
    let password = password(tenant)?.expose();
    if password.contains('\0') {
        return Err(Error::Name(QuoteError::Character {
            name: String::new(),
        }));
    }
    Ok(postgres_protocol::password::scram_sha_256(
        password.as_bytes(),
    ))
}

fn is_login_refused_by(error: &crate::error::Cause) -> bool {
    error
        .downcast_ref::<tokio_postgres::Error>()
        .is_some_and(is_login_refused)
}
