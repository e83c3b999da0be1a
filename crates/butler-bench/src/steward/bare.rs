//! kube-apiserver alone: processes of this host without pods, on a store that is there already.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use anyhow::Context;
use butler_assets::Component;
use butler_pki::{Authority, Kubeconfig, LeafRequest, ServiceAccountKey, Usage};
use butler_testkit::{Process, Supervisor};
use futures::future::try_join_all;

use super::{
    bars,
    readiness::Door,
    store::{Store, free_port, program, validity},
};

/// Names of the processes and of their logs; there are no more of them at once.
const PROGRAMS: [&str; bars::AT_ONCE] = [
    "kube-apiserver-0",
    "kube-apiserver-1",
    "kube-apiserver-2",
    "kube-apiserver-3",
    "kube-apiserver-4",
    "kube-apiserver-5",
    "kube-apiserver-6",
    "kube-apiserver-7",
];
const ADMINISTRATOR: &str = "administrator";
/// The group to which an API server refuses nothing.
const MASTERS: &str = "system:masters";

/// One process that has yet to start.
struct Server {
    program: &'static str,
    port: u16,
    arguments: Vec<String>,
    door: Door,
}

/// API servers whose certificates and files are at hand. They go when this is dropped, and with this process.
pub(super) struct BareServers {
    authority: Authority,
    servers: Vec<Server>,
    supervisor: Supervisor,
}

impl BareServers {
    /// Makes all that they need. Their state is below a prefix of its own for each, at which nothing may have been yet.
    pub(super) async fn prepare(store: &Store, prefix: &str, count: usize) -> anyhow::Result<Self> {
        let authority = Authority::new("kubernetes", validity())?;
        let serving = authority.issue(&LeafRequest {
            common_name: "kube-apiserver".to_owned(),
            ip_addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            ..LeafRequest::new(Usage::Server, validity())
        })?;
        let client = authority.issue(&LeafRequest {
            common_name: ADMINISTRATOR.to_owned(),
            organizations: vec![MASTERS.to_owned()],
            ..LeafRequest::new(Usage::Client, validity())
        })?;
        let accounts = ServiceAccountKey::generate()?;
        let supervisor = Supervisor::start()?;
        let write = |name: &str, text: &str| {
            let path = supervisor.write(name, text)?;
            anyhow::Ok(path.display().to_string())
        };
        let authority_file = write("ca.crt", authority.certificate_pem())?;
        let files = [
            format!("--client-ca-file={authority_file}"),
            format!(
                "--tls-cert-file={}",
                write("server.crt", &serving.certificate_pem)?
            ),
            format!(
                "--tls-private-key-file={}",
                write("server.key", serving.key_pem.expose())?
            ),
            format!(
                "--service-account-key-file={}",
                write("sa.pub", &accounts.public_pem)?
            ),
            format!(
                "--service-account-signing-key-file={}",
                write("sa.key", accounts.private_pem.expose())?
            ),
        ];
        let mut servers = Vec::new();
        for (number, program) in PROGRAMS.into_iter().enumerate().take(count) {
            let port = free_port()?;
            let kubeconfig = Kubeconfig {
                cluster: program,
                user: ADMINISTRATOR,
                server: &format!("https://127.0.0.1:{port}"),
                authority_pem: authority.certificate_pem(),
                client: &client,
            };
            let mut arguments = store.flags(&format!("/{prefix}-{number}"));
            arguments.extend(files.clone());
            arguments.extend(settings(port));
            servers.push(Server {
                program,
                port,
                arguments,
                door: Door::of(kubeconfig.render()?.expose()).await?,
            });
        }
        Ok(Self {
            authority,
            servers,
            supervisor,
        })
    }

    /// Starts all of them at once, and tells how long it took until the last was ready.
    pub(super) async fn start(&mut self) -> anyhow::Result<Duration> {
        let path = program(Component::KubeApiserver).await?;
        let (servers, supervisor) = (&self.servers, &mut self.supervisor);
        let began = Instant::now();
        let mut processes = Vec::new();
        for server in servers {
            processes.push(supervisor.run(server.program, &path, &server.arguments)?);
        }
        let opening = servers.iter().zip(&processes).map(opens);
        let opened = try_join_all(opening).await?;
        let last = opened.into_iter().max().unwrap_or(began);
        Ok(last.duration_since(began))
    }

    /// The authority that signed their certificates, and whose clients they trust.
    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Where the first of them listens, on loopback.
    pub(super) fn port(&self) -> anyhow::Result<u16> {
        let first = self.servers.first().map(|server| server.port);
        first.context("there is no API server")
    }
}

async fn opens((server, process): (&Server, &Process)) -> anyhow::Result<Instant> {
    server
        .door
        .opens()
        .await
        .with_context(|| format!("its log ends with:\n{}", process.log_end()))
}

/// What the pods of control planes are told as well.
fn settings(port: u16) -> Vec<String> {
    vec![
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--enable-bootstrap-token-auth=true".to_owned(),
        // A loopback address is no valid endpoint of the Service "kubernetes".
        "--endpoint-reconciler-type=none".to_owned(),
    ]
}
