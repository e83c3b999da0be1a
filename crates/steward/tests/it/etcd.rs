//! A real etcd on loopback that knows its clients by their certificates.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, TcpListener},
    path::PathBuf,
    time::Duration,
};

use butler_api::steward::data_store::DataStoreDriver;
use butler_assets::{Asset, Component, Resolver, Settings};
use butler_pki::{Authority, Leaf, LeafRequest, Usage, Validity};
use butler_proto::etcd::{
    AuthEnableRequest, AuthRoleAddRequest, AuthUserAddRequest, AuthUserGrantRoleRequest,
    PutRequest, RangeRequest, UserAddOptions, auth_client::AuthClient, kv_client::KvClient,
};
use butler_testkit::{Process, Supervisor, process::until};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use steward_datastore::{
    AnyStore, ClientCertificate, Connection, Endpoint, Error, Store as _, Tls,
};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

use crate::scene::SYSTEM;

/// How long it may take to come up on a busy machine.
const READY_WITHIN: Duration = Duration::from_mins(1);
/// The user to whom etcd refuses nothing.
const ROOT: &str = "root";

/// Longer than any test runs.
fn day() -> Validity {
    Validity::starting(Timestamp::now(), SignedDuration::from_hours(24))
}

/// A port of loopback that nobody listened on a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// The path of a program.
pub(crate) async fn program(component: Component) -> PathBuf {
    let resolver = Resolver::new(Settings::from_env().unwrap());
    resolver
        .resolve(&Asset::default_of(component))
        .await
        .unwrap()
}

/// An etcd. The server goes when it is dropped.
pub(crate) struct Etcd {
    authority: Authority,
    root: Leaf,
    port: u16,
    process: Process,
    _supervisor: Supervisor,
}

impl Etcd {
    pub(crate) async fn start() -> Self {
        Self::start_under(Authority::new("stores", day()).unwrap()).await
    }

    /// Another one, whose clients show the same certificates.
    pub(crate) async fn start_beside(&self) -> Self {
        let authority = &self.authority;
        let same = Authority::from_pem(authority.certificate_pem(), authority.key_pem());
        Self::start_under(same.unwrap()).await
    }

    async fn start_under(authority: Authority) -> Self {
        let day = day();
        let serving = authority.issue(&LeafRequest {
            common_name: "store".to_owned(),
            ip_addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            ..LeafRequest::new(Usage::Both, day)
        });
        let root = authority.issue(&LeafRequest {
            common_name: ROOT.to_owned(),
            ..LeafRequest::new(Usage::Client, day)
        });
        let (serving, root) = (serving.unwrap(), root.unwrap());
        let mut supervisor = Supervisor::start().unwrap();
        let write =
            |name: &str, text: &str| supervisor.write(name, text).unwrap().display().to_string();
        let (url, nowhere) = (
            format!("https://127.0.0.1:{}", free_port()),
            "http://127.0.0.1:0",
        );
        let arguments = [
            format!(
                "--data-dir={}",
                supervisor.directory().join("data").display()
            ),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={nowhere}"),
            format!("--initial-advertise-peer-urls={nowhere}"),
            format!("--initial-cluster=default={nowhere}"),
            format!(
                "--cert-file={}",
                write("server.crt", &serving.certificate_pem)
            ),
            format!(
                "--key-file={}",
                write("server.key", serving.key_pem.expose())
            ),
            format!(
                "--trusted-ca-file={}",
                write("ca.crt", authority.certificate_pem())
            ),
            "--client-cert-auth".to_owned(),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        let process = supervisor
            .run("etcd", &program(Component::Etcd).await, &arguments)
            .unwrap();
        let port = url.rsplit_once(':').unwrap().1.parse().unwrap();
        let etcd = Self {
            authority,
            root,
            port,
            process,
            _supervisor: supervisor,
        };
        etcd.ready().await;
        etcd.enable_authentication().await;
        etcd
    }

    async fn ready(&self) {
        let store = self.store();
        let answer = until(READY_WITHIN, async || match store.check().await {
            Ok(()) | Err(Error::AuthenticationOff { .. }) => Some(()),
            Err(_) => None,
        });
        assert!(
            answer.await.is_some(),
            "etcd does not come up:\n{}",
            self.process.log_end()
        );
    }

    async fn enable_authentication(&self) {
        let mut access = self.access().await;
        let user = AuthUserAddRequest {
            name: ROOT.to_owned(),
            options: Some(UserAddOptions { no_password: true }),
        };
        access.user_add(user).await.unwrap();
        let role = AuthRoleAddRequest {
            name: ROOT.to_owned(),
        };
        access.role_add(role).await.unwrap();
        let grant = AuthUserGrantRoleRequest {
            user: ROOT.to_owned(),
            role: ROOT.to_owned(),
        };
        access.user_grant_role(grant).await.unwrap();
        access.auth_enable(AuthEnableRequest {}).await.unwrap();
    }

    /// The authority that its clients have their certificates from.
    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// All keys that begin with a text.
    pub(crate) async fn keys(&self, prefix: &str) -> Vec<String> {
        let (first, mut end) = (prefix.as_bytes().to_vec(), prefix.as_bytes().to_vec());
        // No text ends in the greatest byte there is.
        *end.last_mut().unwrap() += 1;
        let request = RangeRequest {
            key: first,
            range_end: end,
            keys_only: true,
            ..RangeRequest::default()
        };
        let found = loop {
            match KvClient::new(self.channel().await)
                .range(request.clone())
                .await
            {
                // Who meets a change of users and roles is told to try again.
                Err(status) if status.message().ends_with("revision of auth store is old") => {}
                found => break found.unwrap().into_inner(),
            }
        };
        let keys = found.kvs.into_iter().map(|found| found.key);
        keys.map(|key| String::from_utf8(key).unwrap()).collect()
    }

    /// Writes a key, as somebody may who may do everything.
    pub(crate) async fn put(&self, key: &str) {
        let request = PutRequest {
            key: key.as_bytes().to_vec(),
            value: b"something".to_vec(),
            lease: 0,
        };
        while let Err(status) = KvClient::new(self.channel().await)
            .put(request.clone())
            .await
        {
            let again = status.message().ends_with("revision of auth store is old");
            assert!(again, "{status}");
        }
    }

    async fn access(&self) -> AuthClient<Channel> {
        AuthClient::new(self.channel().await)
    }

    async fn channel(&self) -> Channel {
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(self.authority.certificate_pem()))
            .identity(Identity::from_pem(
                &self.root.certificate_pem,
                self.root.key_pem.expose(),
            ));
        let channel = Channel::from_shared(format!("https://{}", self.endpoint())).unwrap();
        channel.tls_config(tls).unwrap().connect().await.unwrap()
    }

    /// Where it is.
    pub(crate) fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The Secret that a `DataStore` refers to.
    pub(crate) fn certificates(&self, name: &str) -> Value {
        let encoded = |text: &str| json!(ByteString(text.as_bytes().to_vec()));
        let data = BTreeMap::from([
            ("ca.crt", encoded(self.authority.certificate_pem())),
            ("ca.key", encoded(self.authority.key_pem().expose())),
            ("tls.crt", encoded(&self.root.certificate_pem)),
            ("tls.key", encoded(self.root.key_pem.expose())),
        ]);
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": format!("{name}-certs"), "namespace": SYSTEM }, "data": data,
        })
    }

    /// The store, as its administrator sees it.
    pub(crate) fn store(&self) -> AnyStore {
        let connection = Connection {
            driver: DataStoreDriver::Etcd,
            endpoints: vec![Endpoint {
                host: "127.0.0.1".to_owned(),
                port: self.port,
            }],
            administrator: None,
            tls: Some(Tls {
                authority_pem: self.authority.certificate_pem().to_owned(),
                authority_key_pem: None,
                client: Some(ClientCertificate {
                    certificate_pem: self.root.certificate_pem.clone(),
                    key_pem: self.root.key_pem.clone(),
                }),
            }),
        };
        AnyStore::new(connection).unwrap()
    }
}
