//! A real etcd on loopback that knows its clients by their certificates, as those of control planes do.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, TcpListener},
    path::PathBuf,
    time::Duration,
};

use anyhow::Context;
use butler_api::{
    keys::{groups, names},
    steward::data_store::DataStore,
};
use butler_assets::{Asset, Component, Resolver, Settings};
use butler_pki::{Authority, Leaf, LeafRequest, Usage, Validity};
use butler_proto::etcd::{
    AuthEnableRequest, AuthRoleAddRequest, AuthUserAddRequest, AuthUserGrantRoleRequest,
    UserAddOptions, auth_client::AuthClient,
};
use butler_testkit::{Process, Supervisor, process::until};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use serde_json::json;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

/// How long it may take to come up on a busy machine.
const READY_WITHIN: Duration = Duration::from_mins(1);
/// The user to whom etcd refuses nothing.
const ROOT: &str = "root";
/// The Secret with its certificates.
const CERTIFICATES: &str = "store-certificates";
/// As long as the authorities that Steward makes.
const TEN_YEARS: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

/// A port of loopback that nobody listened on a moment ago.
pub(super) fn free_port() -> anyhow::Result<u16> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("could not find a free port")?;
    Ok(listener.local_addr()?.port())
}

/// From now on, longer than any run.
pub(super) fn validity() -> Validity {
    Validity::starting(Timestamp::now(), TEN_YEARS)
}

/// The path of a program.
pub(super) async fn program(component: Component) -> anyhow::Result<PathBuf> {
    let resolver = Resolver::new(Settings::from_env()?);
    Ok(resolver.resolve(&Asset::default_of(component)).await?)
}

/// The etcd. It goes when this is dropped, and with this process.
pub(super) struct Store {
    authority: Authority,
    root: Leaf,
    port: u16,
    process: Process,
    supervisor: Supervisor,
}

impl Store {
    /// Starts it. What it is told it keeps on the disk before it says so, like any other.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let authority = Authority::new("stores", validity())?;
        let serving = authority.issue(&LeafRequest {
            common_name: "store".to_owned(),
            ip_addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            ..LeafRequest::new(Usage::Both, validity())
        })?;
        let root = authority.issue(&LeafRequest {
            common_name: ROOT.to_owned(),
            ..LeafRequest::new(Usage::Client, validity())
        })?;
        let program = program(Component::Etcd).await?;
        let mut supervisor = Supervisor::start()?;
        let write = |name: &str, text: &str| {
            let path = supervisor.write(name, text)?;
            anyhow::Ok(path.display().to_string())
        };
        let (port, nowhere) = (free_port()?, "http://127.0.0.1:0");
        let url = format!("https://127.0.0.1:{port}");
        let data = supervisor.directory().join("data");
        write("root.crt", &root.certificate_pem)?;
        write("root.key", root.key_pem.expose())?;
        let arguments = [
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={nowhere}"),
            format!("--initial-advertise-peer-urls={nowhere}"),
            format!("--initial-cluster=default={nowhere}"),
            format!(
                "--cert-file={}",
                write("server.crt", &serving.certificate_pem)?
            ),
            format!(
                "--key-file={}",
                write("server.key", serving.key_pem.expose())?
            ),
            format!(
                "--trusted-ca-file={}",
                write("ca.crt", authority.certificate_pem())?
            ),
            "--client-cert-auth".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        let process = supervisor.run("etcd", &program, &arguments)?;
        let store = Self {
            authority,
            root,
            port,
            process,
            supervisor,
        };
        store.enable_authentication().await?;
        Ok(store)
    }

    /// Flags of a kube-apiserver that keeps its state here, at this prefix and as root.
    pub(super) fn flags(&self, prefix: &str) -> Vec<String> {
        let file = |name: &str| self.supervisor.directory().join(name).display().to_string();
        vec![
            format!("--etcd-servers=https://127.0.0.1:{}", self.port),
            format!("--etcd-prefix={prefix}"),
            format!("--etcd-cafile={}", file("ca.crt")),
            format!("--etcd-certfile={}", file("root.crt")),
            format!("--etcd-keyfile={}", file("root.key")),
            // As in the pods of Steward.
            "--etcd-compaction-interval=0".to_owned(),
        ]
    }

    /// The default `DataStore`, and the Secret that it refers to.
    pub(super) fn objects(&self, namespace: &str) -> anyhow::Result<(Secret, DataStore)> {
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        let data = BTreeMap::from([
            ("ca.crt", bytes(self.authority.certificate_pem())),
            ("ca.key", bytes(self.authority.key_pem().expose())),
            ("tls.crt", bytes(&self.root.certificate_pem)),
            ("tls.key", bytes(self.root.key_pem.expose())),
        ]);
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": CERTIFICATES },
            "data": data,
        });
        let in_secret = |key: &str| {
            json!({ "secretReference": {
                "name": CERTIFICATES, "namespace": namespace, "keyPath": key,
            } })
        };
        let store = json!({
            "apiVersion": groups::STEWARD_API_VERSION,
            "kind": "DataStore",
            "metadata": { "name": names::DEFAULT_DATA_STORE },
            "spec": {
                "driver": "etcd",
                "endpoints": [format!("127.0.0.1:{}", self.port)],
                "tlsConfig": {
                    "certificateAuthority": {
                        "certificate": in_secret("ca.crt"), "privateKey": in_secret("ca.key"),
                    },
                    "clientCertificate": {
                        "certificate": in_secret("tls.crt"), "privateKey": in_secret("tls.key"),
                    },
                },
            },
        });
        Ok((
            serde_json::from_value(secret)?,
            serde_json::from_value(store)?,
        ))
    }

    async fn enable_authentication(&self) -> anyhow::Result<()> {
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(self.authority.certificate_pem()))
            .identity(Identity::from_pem(
                &self.root.certificate_pem,
                self.root.key_pem.expose(),
            ));
        let endpoint = Channel::from_shared(format!("https://127.0.0.1:{}", self.port))?;
        let endpoint = endpoint.tls_config(tls)?;
        let channel = until(READY_WITHIN, async || endpoint.connect().await.ok()).await;
        let channel = channel.with_context(|| {
            format!(
                "etcd does not come up; its log ends with:\n{}",
                self.process.log_end()
            )
        })?;
        let mut access = AuthClient::new(channel);
        let user = AuthUserAddRequest {
            name: ROOT.to_owned(),
            options: Some(UserAddOptions { no_password: true }),
        };
        access.user_add(user).await?;
        let role = AuthRoleAddRequest {
            name: ROOT.to_owned(),
        };
        access.role_add(role).await?;
        let grant = AuthUserGrantRoleRequest {
            user: ROOT.to_owned(),
            role: ROOT.to_owned(),
        };
        access.user_grant_role(grant).await?;
        access.auth_enable(AuthEnableRequest {}).await?;
        Ok(())
    }
}
