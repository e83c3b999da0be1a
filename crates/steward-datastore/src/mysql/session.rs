//! One connection to a MySQL or `MariaDB` server.

use std::time::Duration;

use mysql_async::prelude::{FromRow, Queryable as _, StatementLike};
use mysql_async::{ClientIdentity, Conn, Opts, OptsBuilder, Params, SslOpts};

use crate::connection::{Connection, Endpoint, Tls};
use crate::error::{Cause, Error};
use crate::quote::mysql::SESSION_MODE;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// The password is wrong, or there is no such account.
pub(super) const ACCESS_DENIED: u16 = 1045;
/// The account may not use the database.
const DATABASE_ACCESS_DENIED: u16 = 1044;
/// The account is locked, as MySQL and as `MariaDB` say it.
pub(super) const ACCOUNT_LOCKED: [u16; 2] = [3118, 4151];
/// There is no grant to revoke.
pub(super) const NO_SUCH_GRANT: u16 = 1141;
/// The connection to be ended has ended.
pub(super) const NO_SUCH_THREAD: u16 = 1094;

/// Who connects.
pub(super) struct Login<'a> {
    pub(super) user: Option<&'a str>,
    pub(super) password: Option<&'a str>,
    pub(super) database: Option<&'a str>,
}

/// A connection.
pub(super) struct Session(Conn);

/// Why there is no connection.
pub(super) enum Refused {
    /// The server answered with this number.
    Server(u16, Cause),
    /// No server answered.
    Unreachable(Cause),
}

impl Session {
    /// Connects to the first member that answers.
    pub(super) async fn open(connection: &Connection, login: &Login<'_>) -> Result<Self, Refused> {
        let mut failures = Vec::new();
        for endpoint in &connection.endpoints {
            let opts = opts(connection, endpoint, login);
            match tokio::time::timeout(CONNECT_WITHIN, Conn::new(opts)).await {
                Ok(Ok(conn)) => return Ok(Self(conn)),
                Ok(Err(mysql_async::Error::Server(error))) => {
                    return Err(Refused::Server(error.code, error.into()));
                }
                Ok(Err(error)) => failures.push(format!("{endpoint}: {error}")),
                Err(_elapsed) => failures.push(format!("{endpoint}: no answer")),
            }
        }
        Err(Refused::Unreachable(failures.join("; ").into()))
    }

    /// Says goodbye, so that the server does not count a lost connection.
    pub(super) async fn close(self) {
        // It is gone either way.
        let _ = self.0.disconnect().await;
    }

    /// Runs a statement. It is well too if the server answers with one of the given numbers.
    pub(super) async fn run(
        &mut self,
        action: impl Into<String>,
        statement: impl StatementLike,
        parameters: impl Into<Params> + Send,
        needless: &[u16],
    ) -> Result<(), Error> {
        match self.0.exec_drop(statement, parameters).await {
            Err(mysql_async::Error::Server(error)) if needless.contains(&error.code) => Ok(()),
            outcome => outcome.map_err(|error| failure(action, error)),
        }
    }

    /// Runs a statement that has a password in it: the server may quote it in its answer, so that is not passed on.
    pub(super) async fn run_secretly(
        &mut self,
        action: impl Into<String>,
        statement: String,
    ) -> Result<(), Error> {
        self.0
            .exec_drop(statement, ())
            .await
            .map_err(|error| Error::Request {
                action: action.into(),
                source: match error {
                    mysql_async::Error::Server(error) => format!(
                        "the server answers with error {} ({})",
                        error.code, error.state
                    )
                    .into(),
                    other => other.into(),
                },
            })
    }

    /// Asks for rows.
    pub(super) async fn rows<T: FromRow + Send + 'static>(
        &mut self,
        action: impl Into<String>,
        query: impl StatementLike,
        parameters: impl Into<Params> + Send,
    ) -> Result<Vec<T>, Error> {
        self.0
            .exec(query, parameters)
            .await
            .map_err(|error| failure(action, error))
    }
}

/// A statement that failed.
fn failure(action: impl Into<String>, error: mysql_async::Error) -> Error {
    Error::Request {
        action: action.into(),
        source: error.into(),
    }
}

impl Refused {
    /// The failure of Steward's own login.
    pub(super) fn into_error(self, place: String) -> Error {
        match self {
            Self::Server(number, source)
                if matches!(number, ACCESS_DENIED | DATABASE_ACCESS_DENIED)
                    || ACCOUNT_LOCKED.contains(&number) =>
            {
                Error::LoginRefused { place, source }
            }
            Self::Server(_, source) | Self::Unreachable(source) => {
                Error::Unreachable { place, source }
            }
        }
    }
}

fn opts(connection: &Connection, endpoint: &Endpoint, login: &Login<'_>) -> Opts {
    OptsBuilder::default()
        .ip_or_hostname(endpoint.host.clone())
        .tcp_port(endpoint.port)
        .user(login.user)
        .pass(login.password)
        .db_name(login.database)
        .ssl_opts(connection.tls.as_ref().map(ssl_opts))
        // Another socket on this host may be another server.
        .prefer_socket(false)
        .init(vec![SESSION_MODE])
        .into()
}

fn ssl_opts(tls: &Tls) -> SslOpts {
    let pem = |text: &str| text.as_bytes().to_vec().into();
    SslOpts::default()
        .with_root_certs(vec![pem(&tls.authority_pem)])
        .with_disable_built_in_roots(true)
        .with_client_identity(tls.client.as_ref().map(|client| {
            ClientIdentity::new(pem(&client.certificate_pem), pem(client.key_pem.expose()))
        }))
}
