//! A real NATS server with `JetStream` and one account.

use butler_api::steward::data_store::DataStoreDriver;
use butler_assets::Component;
use butler_pki::SecretText;
use steward_datastore::{AnyStore, Connection, Credentials, Endpoint};

use super::{ADMINISTRATOR, Server};

/// Without quotes: it is written into the server's configuration.
const PASSWORD: &str = "nats-secret";

/// A NATS server.
pub(crate) struct Nats {
    pub(crate) server: Server,
    encrypted: bool,
}

impl Nats {
    /// Starts one.
    pub(crate) async fn start() -> Self {
        Self::start_as(true).await
    }

    /// Starts one that speaks openly.
    pub(crate) async fn start_unencrypted() -> Self {
        Self::start_as(false).await
    }

    async fn start_as(encrypted: bool) -> Self {
        let program = super::asset(Component::NatsServer).await;
        let server = Box::pin(super::start(async || {
            let mut server = Server::prepare();
            let copy = server.program(&program);
            let encryption = if encrypted {
                let (certificate, key) = (server.path("server.crt"), server.path("server.key"));
                format!("tls {{ cert_file: \"{certificate}\", key_file: \"{key}\" }}\n")
            } else {
                String::new()
            };
            let configuration = format!(
                "listen: \"127.0.0.1:{}\"\n\
                 jetstream {{ store_dir: \"{}\" }}\n\
                 authorization {{ user: {ADMINISTRATOR}, password: {PASSWORD} }}\n\
                 {encryption}",
                server.port,
                server.path("data"),
            );
            let configuration = server.write("nats.conf", &configuration);
            server.start("nats-server", &copy, &["-c".to_owned(), configuration]);
            let connection = connection(&server, PASSWORD, encrypted);
            server.ready(&connection).await
        }))
        .await;
        Self { server, encrypted }
    }

    /// The settings of Steward's account with this password, or the right one.
    pub(crate) fn connection(&self, password: Option<&str>) -> Connection {
        connection(&self.server, password.unwrap_or(PASSWORD), self.encrypted)
    }

    /// The store, as Steward sees it.
    pub(crate) fn store(&self) -> AnyStore {
        AnyStore::new(self.connection(None)).unwrap()
    }
}

fn connection(server: &Server, password: &str, encrypted: bool) -> Connection {
    Connection {
        driver: DataStoreDriver::Nats,
        endpoints: vec![Endpoint {
            host: "127.0.0.1".to_owned(),
            port: server.port,
        }],
        administrator: Some(Credentials {
            user: ADMINISTRATOR.to_owned(),
            password: SecretText::new(password),
        }),
        tls: encrypted.then(|| server.tls()),
    }
}
