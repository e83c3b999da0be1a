//! Tenants in a MySQL or `MariaDB` server: for each an account that may log in from anywhere, and a database in which it, and
//! nobody else, may keep kine's table.

mod logout;
mod session;
mod statements;
mod survey;
mod table;

use butler_api::steward::data_store::DataStoreDriver;
use butler_pki::SecretText;

use crate::connection::Connection;
use crate::error::Error;
use crate::store::{Copied, Standing, Store, Tenant, TenantState, within};
use crate::tls;
use logout::{end_sessions, lock};
use session::{ACCESS_DENIED, ACCOUNT_LOCKED, Login, NO_SUCH_GRANT, Refused, Session};
use survey::Survey;

/// A MySQL or `MariaDB` server.
#[derive(Debug)]
pub struct MySqlStore {
    connection: Connection,
}

/// What became of a login as the tenant.
enum Entrance {
    Open(Session),
    WrongPassword,
    Locked,
}

impl MySqlStore {
    /// The store of these settings.
    pub fn new(connection: Connection) -> Result<Self, Error> {
        if let Some(tls) = &connection.tls {
            tls::client_config(tls)?;
        }
        Ok(Self { connection })
    }

    async fn open(&self) -> Result<Session, Error> {
        let administrator = self.connection.administrator.as_ref();
        let login = Login {
            user: administrator.map(|account| account.user.as_str()),
            password: administrator.map(|account| account.password.expose()),
            database: None,
        };
        Session::open(&self.connection, &login)
            .await
            .map_err(|refused| refused.into_error(self.connection.place()))
    }

    /// A connection that is alone at work on the tenant.
    async fn open_alone(&self, tenant: &Tenant) -> Result<Session, Error> {
        const ACTION: &str = "wait for others at work on the tenant";
        let mut session = self.open().await?;
        let held: Vec<Option<u8>> = session
            .rows(ACTION, statements::LOCK, (tenant.schema.as_str(),))
            .await?;
        if held.first() == Some(&Some(1)) {
            return Ok(session);
        }
        Err(Error::Request {
            action: ACTION.to_owned(),
            source: "they are not done yet".into(),
        })
    }

    async fn try_enter(&self, tenant: &Tenant, database: Option<&str>) -> Result<Entrance, Error> {
        let login = Login {
            user: Some(tenant.user.as_str()),
            password: Some(password(tenant)?.expose()),
            database,
        };
        match Session::open(&self.connection, &login).await {
            Ok(session) => Ok(Entrance::Open(session)),
            Err(Refused::Server(ACCESS_DENIED, _)) => Ok(Entrance::WrongPassword),
            Err(Refused::Server(number, _)) if ACCOUNT_LOCKED.contains(&number) => {
                Ok(Entrance::Locked)
            }
            Err(Refused::Server(_, source)) => Err(Error::Request {
                action: format!("log in as the tenant's account \"{}\"", tenant.user),
                source,
            }),
            Err(Refused::Unreachable(source)) => Err(Error::Unreachable {
                place: self.connection.place(),
                source,
            }),
        }
    }

    async fn enter(&self, tenant: &Tenant) -> Result<Session, Error> {
        let problem = match self.try_enter(tenant, Some(tenant.schema.as_str())).await? {
            Entrance::Open(session) => return Ok(session),
            Entrance::WrongPassword => "the password is not the account's",
            Entrance::Locked => "the account is locked",
        };
        Err(Error::Request {
            action: format!("log in as the tenant's account \"{}\"", tenant.user),
            source: problem.into(),
        })
    }
}

impl Store for MySqlStore {
    fn driver(&self) -> DataStoreDriver {
        DataStoreDriver::MySql
    }

    fn place(&self) -> String {
        self.connection.place()
    }

    async fn identity(&self, _tenant: &Tenant) -> Result<Option<String>, Error> {
        within("say which server it is", async {
            let mut session = self.open().await?;
            let found: Vec<(String, String)> = session
                .rows("read the server's identity", statements::IDENTITY, ())
                .await?;
            session.close().await;
            Ok(found.into_iter().map(|(_, identity)| identity).next())
        })
        .await
    }

    async fn check(&self) -> Result<(), Error> {
        within("answer", async {
            let mut session = self.open().await?;
            let found: Vec<u64> = session
                .rows("read Steward's own account", statements::ADMINISTRATOR, ())
                .await?;
            session.close().await;
            if found.first().is_some_and(|accounts| *accounts > 0) {
                return Ok(());
            }
            Err(Error::NotAllowed {
                what: "create databases and users",
                advice: "GRANT ALL PRIVILEGES ON *.* TO it WITH GRANT OPTION",
            })
        })
        .await
    }

    async fn tenant_state(&self, tenant: &Tenant) -> Result<TenantState, Error> {
        within("show the tenant", async {
            let mut session = self.open().await?;
            let survey = Survey::make(&mut session, tenant).await?;
            session.close().await;
            let mut state = TenantState {
                user: survey.user_exists,
                schema: survey.database_exists,
                granted: survey.is_granted() && !survey.has_foreign_grants,
                password: false,
            };
            if survey.user_exists {
                match self.try_enter(tenant, None).await? {
                    Entrance::Open(session) => {
                        session.close().await;
                        state.password = true;
                    }
                    Entrance::WrongPassword => {}
                    Entrance::Locked => state.user = false,
                }
            }
            Ok(state)
        })
        .await
    }

    async fn ensure_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        within("make the tenant", async {
            let password = password(tenant)?.expose();
            statements::require_possible(&tenant.schema, &tenant.user)?;
            let mut session = self.open_alone(tenant).await?;
            let survey = Survey::make(&mut session, tenant).await?;
            survey.refuse_what_is_not_ours(tenant)?;
            if !survey.user_exists {
                let statement = statements::create_user(&tenant.user, password)?;
                session
                    .run_secretly(format!("create the account \"{}\"", tenant.user), statement)
                    .await?;
            }
            if !survey.database_exists {
                let statement = statements::create_database(&tenant.schema)?;
                session
                    .run(
                        format!("create the database \"{}\"", tenant.schema),
                        statement,
                        (),
                        &[],
                    )
                    .await?;
            }
            if !survey.is_marked {
                let statement = statements::create_mark(&tenant.schema, &tenant.owner)?;
                session
                    .run(
                        format!("mark the database \"{}\" as the tenant's", tenant.schema),
                        statement,
                        (),
                        &[],
                    )
                    .await?;
            }
            if survey.has_foreign_grants {
                let statement = statements::revoke_everything(&tenant.user)?;
                session
                    .run(
                        "revoke what the tenant must not have",
                        statement,
                        (),
                        &[NO_SUCH_GRANT],
                    )
                    .await?;
            }
            if survey.has_foreign_grants || !survey.is_granted() {
                let statement = statements::grant(&tenant.schema, &tenant.user, survey.wildcards)?;
                session
                    .run(
                        format!("grant the database \"{}\"", tenant.schema),
                        statement,
                        (),
                        &[],
                    )
                    .await?;
            }
            if survey.is_frozen() {
                // Connections keep the rights they began with.
                end_sessions(&mut session, tenant).await?;
            }
            if let Entrance::Open(entered) = self.try_enter(tenant, None).await? {
                entered.close().await;
            } else {
                let statement = statements::set_password(&tenant.user, password)?;
                session
                    .run_secretly(
                        format!("set the password of the account \"{}\"", tenant.user),
                        statement,
                    )
                    .await?;
            }
            session.close().await;
            Ok(())
        })
        .await
    }

    async fn freeze(&self, tenant: &Tenant) -> Result<(), Error> {
        within("stop the tenant's writes", async {
            let mut session = self.open_alone(tenant).await?;
            let survey = Survey::make(&mut session, tenant).await?;
            if !survey.is_frozen() {
                let statement = statements::freeze(&tenant.schema, &tenant.user, survey.wildcards)?;
                session
                    .run("revoke the tenant's writes", statement, (), &[])
                    .await?;
            }
            // Connections keep the rights they began with.
            end_sessions(&mut session, tenant).await?;
            session.close().await;
            Ok(())
        })
        .await
    }

    async fn is_frozen(&self, tenant: &Tenant) -> Result<bool, Error> {
        within("show the tenant's rights", async {
            let mut session = self.open().await?;
            let survey = Survey::make(&mut session, tenant).await?;
            session.close().await;
            Ok(survey.is_frozen())
        })
        .await
    }

    async fn revoke(&self, tenant: &Tenant) -> Result<(), Error> {
        within("revoke the tenant's access", async {
            let mut session = self.open_alone(tenant).await?;
            let survey = Survey::make(&mut session, tenant).await?;
            if survey.user_exists && !survey.is_anothers() {
                let statement = statements::revoke(&tenant.schema, &tenant.user, survey.wildcards)?;
                session
                    .run(
                        "revoke the tenant's grants",
                        statement,
                        (),
                        &[NO_SUCH_GRANT],
                    )
                    .await?;
                lock(&mut session, tenant, &survey).await?;
            }
            session.close().await;
            Ok(())
        })
        .await
    }

    async fn drop_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        within("remove the tenant", async {
            let mut session = self.open_alone(tenant).await?;
            let survey = Survey::make(&mut session, tenant).await?;
            lock(&mut session, tenant, &survey).await?;
            if survey.database_exists && survey.database_is_ours(tenant) {
                let statement = statements::drop_database(&tenant.schema)?;
                session
                    .run(
                        format!("drop the database \"{}\"", tenant.schema),
                        statement,
                        (),
                        &[],
                    )
                    .await?;
            }
            if survey.account_is_ours(tenant) {
                let statement = statements::drop_user(&tenant.user)?;
                session
                    .run(
                        format!("drop the account \"{}\"", tenant.user),
                        statement,
                        (),
                        &[],
                    )
                    .await?;
            }
            session.close().await;
            Ok(())
        })
        .await
    }

    async fn count(&self, tenant: &Tenant) -> Result<u64, Error> {
        within("count the tenant's rows", async {
            let mut session = self.open().await?;
            let exists = survey::database_exists(&mut session, tenant).await?;
            session.close().await;
            if !exists {
                return Ok(0);
            }
            let mut session = self.enter(tenant).await?;
            let rows = table::count(&mut session).await?;
            session.close().await;
            Ok(rows)
        })
        .await
    }

    async fn copy_to(&self, tenant: &Tenant, target: &Self) -> Result<Copied, Error> {
        let (mut from, mut to) = (self.enter(tenant).await?, target.enter(tenant).await?);
        let copied = table::copy(&mut from, &mut to).await?;
        from.close().await;
        to.close().await;
        Ok(copied)
    }
}

fn password(tenant: &Tenant) -> Result<&SecretText, Error> {
    tenant.password.as_ref().ok_or(Error::NoPassword {
        driver: DataStoreDriver::MySql,
    })
}

/// Whether what is found under the tenant's names may be taken as the tenant's.
const fn is_established(tenant: &Tenant) -> bool {
    matches!(tenant.standing, Standing::Established)
}
