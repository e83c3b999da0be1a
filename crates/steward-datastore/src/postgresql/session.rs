//! One connection to a PostgreSQL server.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::task::JoinSet;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::connection::Connection;
use crate::error::Error;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const APPLICATION: &str = "butler-steward";

/// Who connects.
pub(super) struct Login<'a> {
    pub(super) user: Option<&'a str>,
    pub(super) password: Option<&'a str>,
    pub(super) database: &'a str,
}

/// A connection that ends when it is dropped.
pub(super) struct Session {
    client: Client,
    /// Moves bytes between the client and the socket; it ends with the session.
    _transport: JoinSet<()>,
}

impl Session {
    /// Connects to the first member that takes writes.
    pub(super) async fn open(
        connection: &Connection,
        tls: Option<&Arc<ClientConfig>>,
        login: &Login<'_>,
    ) -> Result<Self, tokio_postgres::Error> {
        let mut config = Config::new();
        for endpoint in &connection.endpoints {
            config.host(endpoint.host.as_str()).port(endpoint.port);
        }
        config
            .application_name(APPLICATION)
            .connect_timeout(CONNECT_WITHIN)
            .dbname(login.database);
        if connection.endpoints.len() > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if let Some(user) = login.user {
            config.user(user);
        }
        if let Some(password) = login.password {
            config.password(password);
        }
        let mut transport = JoinSet::new();
        let client = if let Some(tls) = tls {
            config.ssl_mode(SslMode::Require);
            let connector = MakeRustlsConnect::new(ClientConfig::clone(tls));
            let (client, connection) = config.connect(connector).await?;
            transport.spawn(async move {
                // The client's next request tells of its end.
                let _ = connection.await;
            });
            client
        } else {
            config.ssl_mode(SslMode::Disable);
            let (client, connection) = config.connect(NoTls).await?;
            transport.spawn(async move {
                let _ = connection.await;
            });
            client
        };
        Ok(Self {
            client,
            _transport: transport,
        })
    }

    /// The client, for what is neither a statement nor a question.
    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    /// Runs a statement. It is well too if the server says one of the given things.
    pub(super) async fn run(
        &self,
        action: impl Into<String>,
        statement: &str,
        needless: &[SqlState],
    ) -> Result<(), Error> {
        match self.client.batch_execute(statement).await {
            Err(error) if !error.code().is_some_and(|code| needless.contains(code)) => {
                Err(failure(action, error))
            }
            _ => Ok(()),
        }
    }

    /// Asks for at most one row.
    pub(super) async fn row(
        &self,
        action: impl Into<String>,
        query: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        self.client
            .query_opt(query, parameters)
            .await
            .map_err(|error| failure(action, error))
    }

    /// Asks, for the sake of what the question does.
    pub(super) async fn ask(
        &self,
        action: impl Into<String>,
        query: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<(), Error> {
        self.client
            .query(query, parameters)
            .await
            .map(drop)
            .map_err(|error| failure(action, error))
    }
}

/// A cell of a row.
pub(super) fn cell<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    index: usize,
) -> Result<T, Error> {
    row.try_get(index)
        .map_err(|error| failure("understand the server's answer", error))
}

/// A statement that failed.
pub(super) fn failure(action: impl Into<String>, error: tokio_postgres::Error) -> Error {
    Error::Request {
        action: action.into(),
        source: error.into(),
    }
}

/// Whether the server took the connection but not the account or its password.
pub(super) fn is_login_refused(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::INVALID_PASSWORD
            || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION
    })
}
