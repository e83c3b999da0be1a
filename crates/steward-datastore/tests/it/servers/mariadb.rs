//! A real `MariaDB` server that wants passwords.

use std::path::{Path, PathBuf};

use butler_api::steward::data_store::DataStoreDriver;
use butler_pki::SecretText;
use butler_testkit::skip::Requirement;
use steward_datastore::{AnyStore, Connection, Credentials, Endpoint};
use tokio::sync::OnceCell;

use super::{ADMINISTRATOR, PASSWORD, Server};

/// Where the programs are: not all accounts have the first on their search path.
const SERVER: &str = "/usr/sbin/mariadbd";
const INSTALLER: &str = "/usr/bin/mariadb-install-db";
/// What the installer runs.
const PRINTER: &str = "/usr/bin/my_print_defaults";

/// The machine has the server's programs.
pub(crate) fn installed() -> Requirement {
    Requirement::new(
        [SERVER, INSTALLER, PRINTER]
            .iter()
            .all(|program| Path::new(program).is_file()),
        "needs MariaDB's server (apt-get install mariadb-server-core mariadb-client-core)",
    )
}

/// A `MariaDB` server.
pub(crate) struct MariaDb {
    pub(crate) server: Server,
}

impl MariaDb {
    /// One for all tests that disturb nobody.
    pub(crate) async fn shared() -> &'static Self {
        static SHARED: OnceCell<MariaDb> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await
    }

    /// Starts one.
    pub(crate) async fn start() -> Self {
        let server = Box::pin(super::start(async || {
            let mut server = Server::prepare();
            server.run_once(
                &PathBuf::from(INSTALLER),
                &[
                    "--no-defaults".to_owned(),
                    format!("--datadir={}", server.path("data")),
                    "--auth-root-authentication-method=normal".to_owned(),
                    "--skip-test-db".to_owned(),
                    "--skip-name-resolve".to_owned(),
                ],
            );
            let password = PASSWORD.replace('\\', "\\\\").replace('\'', "''");
            let first = server.write(
                "first.sql",
                &format!(
                    "CREATE USER '{ADMINISTRATOR}'@'%' IDENTIFIED BY '{password}';\n\
                     GRANT ALL PRIVILEGES ON *.* TO '{ADMINISTRATOR}'@'%' WITH GRANT OPTION;\n"
                ),
            );
            let arguments = [
                "--no-defaults".to_owned(),
                format!("--datadir={}", server.path("data")),
                format!("--socket={}", server.path("socket")),
                format!("--pid-file={}", server.path("pid")),
                format!("--port={}", server.port),
                "--bind-address=127.0.0.1".to_owned(),
                "--skip-name-resolve".to_owned(),
                format!("--init-file={first}"),
                format!("--ssl-ca={}", server.path("ca.crt")),
                format!("--ssl-cert={}", server.path("server.crt")),
                format!("--ssl-key={}", server.path("server.key")),
                "--innodb-flush-log-at-trx-commit=0".to_owned(),
                "--innodb-buffer-pool-size=32M".to_owned(),
            ];
            server.start("mariadbd", Path::new(SERVER), &arguments);
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
        driver: DataStoreDriver::MySql,
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
