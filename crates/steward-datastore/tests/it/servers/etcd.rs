//! A real etcd that knows its clients by their certificates.

use butler_api::steward::data_store::DataStoreDriver;
use butler_assets::Component;
use butler_proto::etcd::auth_client::AuthClient;
use butler_proto::etcd::kv_client::KvClient;
use butler_proto::etcd::{
    AuthEnableRequest, AuthRoleAddRequest, AuthUserAddRequest, AuthUserGrantRoleRequest,
    DeleteRangeRequest, UserAddOptions,
};
use steward_datastore::{AnyStore, Connection, Endpoint};
use tokio::sync::OnceCell;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

use super::Server;

/// The user to whom etcd refuses nothing.
const ROOT: &str = "root";

/// An etcd. The server goes when it is dropped.
pub(crate) struct Etcd {
    pub(crate) server: Server,
}

impl Etcd {
    /// One for all tests that disturb nobody.
    pub(crate) async fn shared() -> &'static Self {
        static SHARED: OnceCell<Etcd> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await
    }

    /// One with users and roles.
    pub(crate) async fn start() -> Self {
        let etcd = Self::start_open().await;
        etcd.enable_authentication().await;
        etcd
    }

    /// One that lets everybody do everything.
    pub(crate) async fn start_open() -> Self {
        Self::start_with(&[]).await
    }

    /// One with further flags that lets everybody do everything.
    pub(crate) async fn start_with(flags: &[&str]) -> Self {
        let program = super::asset(Component::Etcd).await;
        let server = Box::pin(super::start(async || {
            let mut server = Server::prepare();
            let copy = server.program(&program);
            let url = format!("https://127.0.0.1:{}", server.port);
            let nowhere = "http://127.0.0.1:0";
            let mut arguments = vec![
                format!("--data-dir={}", server.path("data")),
                format!("--listen-client-urls={url}"),
                format!("--advertise-client-urls={url}"),
                format!("--listen-peer-urls={nowhere}"),
                format!("--initial-advertise-peer-urls={nowhere}"),
                format!("--initial-cluster=default={nowhere}"),
                format!("--cert-file={}", server.path("server.crt")),
                format!("--key-file={}", server.path("server.key")),
                format!("--trusted-ca-file={}", server.path("ca.crt")),
                "--client-cert-auth".to_owned(),
                "--unsafe-no-fsync".to_owned(),
                "--log-level=warn".to_owned(),
            ];
            arguments.extend(flags.iter().copied().map(str::to_owned));
            server.start("etcd", &copy, &arguments);
            let connection = connection(&server, ROOT);
            server.ready(&connection).await
        }))
        .await;
        Self { server }
    }

    /// Makes the user root and turns authentication on.
    pub(crate) async fn enable_authentication(&self) {
        let mut auth = AuthClient::new(self.channel_as(ROOT).await);
        auth.user_add(AuthUserAddRequest {
            name: ROOT.to_owned(),
            options: Some(UserAddOptions { no_password: true }),
        })
        .await
        .unwrap();
        auth.role_add(AuthRoleAddRequest {
            name: ROOT.to_owned(),
        })
        .await
        .unwrap();
        auth.user_grant_role(AuthUserGrantRoleRequest {
            user: ROOT.to_owned(),
            role: ROOT.to_owned(),
        })
        .await
        .unwrap();
        auth.auth_enable(AuthEnableRequest {}).await.unwrap();
    }

    /// Takes a key away.
    pub(crate) async fn delete(&self, key: Vec<u8>) {
        let request = DeleteRangeRequest {
            key,
            ..DeleteRangeRequest::default()
        };
        let mut kv = KvClient::new(self.channel_as(ROOT).await);
        kv.delete_range(request).await.unwrap();
    }

    /// The settings of a client with a certificate of this common name.
    pub(crate) fn connection_as(&self, common_name: &str) -> Connection {
        connection(&self.server, common_name)
    }

    /// The store, as Steward sees it.
    pub(crate) fn store(&self) -> AnyStore {
        AnyStore::new(self.connection_as(ROOT)).unwrap()
    }

    /// The protocol, as a client with a certificate of this common name.
    pub(crate) async fn channel_as(&self, common_name: &str) -> Channel {
        let tls = self.server.tls_as(common_name);
        let client = tls.client.unwrap();
        Channel::from_shared(format!("https://127.0.0.1:{}", self.server.port))
            .unwrap()
            .tls_config(
                ClientTlsConfig::new()
                    .ca_certificate(Certificate::from_pem(tls.authority_pem))
                    .identity(Identity::from_pem(
                        client.certificate_pem,
                        client.key_pem.expose(),
                    )),
            )
            .unwrap()
            .connect()
            .await
            .unwrap()
    }
}

fn connection(server: &Server, common_name: &str) -> Connection {
    Connection {
        driver: DataStoreDriver::Etcd,
        endpoints: vec![Endpoint {
            host: "127.0.0.1".to_owned(),
            port: server.port,
        }],
        administrator: None,
        tls: Some(server.tls_as(common_name)),
    }
}
