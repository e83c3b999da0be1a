//! A real PostgreSQL server that wants passwords.

use std::path::PathBuf;

use butler_api::steward::data_store::DataStoreDriver;
use butler_pki::SecretText;
use butler_testkit::skip::Requirement;
use steward_datastore::{AnyStore, Connection, Credentials, Endpoint};
use tokio::sync::OnceCell;

use super::{ADMINISTRATOR, PASSWORD, Server};

/// Where distributions keep the server's programs: outside of the search path, by version.
const DIRECTORIES: &str = "/usr/lib/postgresql";

/// The machine has the server's programs.
pub(crate) fn installed() -> Requirement {
    Requirement::new(
        programs().is_some(),
        "needs PostgreSQL's server (apt-get install postgresql)",
    )
}

fn programs() -> Option<PathBuf> {
    let mut versions: Vec<PathBuf> = std::fs::read_dir(DIRECTORIES)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    versions.sort();
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&on_path)
        .chain(versions)
        .filter(|directory| {
            directory.join("postgres").is_file() && directory.join("initdb").is_file()
        })
        // Newer versions come behind older ones.
        .last()
}

/// A PostgreSQL server.
pub(crate) struct PostgreSql {
    pub(crate) server: Server,
}

impl PostgreSql {
    /// One for all tests that disturb nobody.
    pub(crate) async fn shared() -> &'static Self {
        static SHARED: OnceCell<PostgreSql> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await
    }

    /// Starts one.
    pub(crate) async fn start() -> Self {
        let programs = programs().unwrap();
        let server = Box::pin(super::start(async || {
            let mut server = Server::prepare();
            let password = server.write("password", PASSWORD);
            server.run_once(
                &programs.join("initdb"),
                &[
                    format!("--pgdata={}", server.path("data")),
                    format!("--username={ADMINISTRATOR}"),
                    format!("--pwfile={password}"),
                    "--auth=scram-sha-256".to_owned(),
                    "--encoding=UTF8".to_owned(),
                    "--locale=C".to_owned(),
                    "--no-sync".to_owned(),
                ],
            );
            let setting = |name: &str, value: &str| ["-c".to_owned(), format!("{name}={value}")];
            let mut arguments = vec!["-D".to_owned(), server.path("data")];
            arguments.extend(
                [
                    setting("port", &server.port.to_string()),
                    setting("listen_addresses", "127.0.0.1"),
                    setting("unix_socket_directories", ""),
                    setting("fsync", "off"),
                    setting("ssl", "on"),
                    setting("ssl_cert_file", &server.path("server.crt")),
                    setting("ssl_key_file", &server.path("server.key")),
                    setting("log_statement", "all"),
                ]
                .concat(),
            );
            server.start("postgres", &programs.join("postgres"), &arguments);
            let connection = connection(&server);
            server.ready(&connection).await
        }))
        .await;
        Self { server }
    }

    /// The settings of Steward's account.
    pub(crate) fn connection(&self) -> Connection {
        connection(&self.server)
    }

    /// The settings of another account.
    pub(crate) fn connection_as(&self, user: &str, password: &str) -> Connection {
        Connection {
            administrator: Some(Credentials {
                user: user.to_owned(),
                password: SecretText::new(password),
            }),
            ..self.connection()
        }
    }

    /// The store, as Steward sees it.
    pub(crate) fn store(&self) -> AnyStore {
        AnyStore::new(self.connection()).unwrap()
    }
}

fn connection(server: &Server) -> Connection {
    Connection {
        driver: DataStoreDriver::PostgreSql,
        endpoints: vec![Endpoint {
            host: "127.0.0.1".to_owned(),
            port: server.port,
        }],
        administrator: Some(Credentials {
            user: ADMINISTRATOR.to_owned(),
            password: SecretText::new(PASSWORD),
        }),
        tls: Some(server.tls()),
    }
}
