//! Servers and agents to test with, certificates for them, and somebody who speaks as the API server does.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use butler_pki::{Authority, LeafRequest, SecretText, Usage, Validity};
use butler_runtime::{backoff::Backoff, shutdown::Shutdown};
use butler_testkit::process::until;
use butler_tunnel::{
    KeepAlive, TunnelMetrics,
    agent::{Agent, AgentSettings},
    authentication::{AuthenticationError, Authenticator, TokenVerifier},
    destination::DestinationPolicy,
    server::{Server, ServerSettings},
    tls::{ClientCertificates, ClientTls, IdentityFiles, ServerTls},
};
use futures::{FutureExt as _, future::BoxFuture};
use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, UnixStream},
    runtime::Runtime,
};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// The token that the verifier of these tests knows.
pub(crate) const TOKEN: &str = "the right token";
pub(crate) const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A port of this host that the kernel chooses.
pub(crate) fn any_port() -> SocketAddr {
    SocketAddr::new(LOCALHOST, 0)
}

/// A directory with an authority and what it issues.
pub(crate) struct Office {
    directory: TempDir,
    authority: Authority,
    issued: AtomicU32,
}

impl Office {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new("tenant-ca", validity()).unwrap();
        std::fs::write(directory.path().join("ca.crt"), authority.certificate_pem()).unwrap();
        Self {
            directory,
            authority,
            issued: AtomicU32::new(0),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn authority(&self) -> PathBuf {
        self.path("ca.crt")
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// A certificate for this host.
    pub(crate) fn server(&self) -> IdentityFiles {
        self.issue(&LeafRequest {
            common_name: "kube-apiserver".to_owned(),
            ip_addresses: vec![LOCALHOST],
            ..LeafRequest::new(Usage::Server, validity())
        })
    }

    /// A certificate of somebody who connects.
    pub(crate) fn client(&self, common_name: &str, organization: &str) -> IdentityFiles {
        self.issue(&LeafRequest {
            common_name: common_name.to_owned(),
            organizations: vec![organization.to_owned()],
            ..LeafRequest::new(Usage::Client, validity())
        })
    }

    pub(crate) fn issue(&self, request: &LeafRequest) -> IdentityFiles {
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        let leaf = self.authority.issue(request).unwrap();
        IdentityFiles {
            certificate: self.write(&format!("{number}.crt"), &leaf.certificate_pem),
            key: self.write(&format!("{number}.key"), leaf.key_pem.expose()),
        }
    }

    /// The settings of a server that knows [`TOKEN`], with a socket of its own.
    pub(crate) fn server_settings(&self) -> ServerSettings {
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        ServerSettings {
            id: format!("server-{number}"),
            count: 1,
            agent_address: any_port(),
            agent_tls: ServerTls::new(self.server(), ClientCertificates::NotAsked),
            authenticator: Authenticator {
                certificates: None,
                tokens: Some(Arc::new(OneToken)),
            },
            socket: Some(self.path(&format!("{number}.sock"))),
            proxy: None,
            api_server: None,
            keep_alive: KeepAlive::default(),
            reauthentication_interval: Duration::from_mins(10),
            max_streams: 4096,
            shutdown_delay: Duration::ZERO,
        }
    }

    /// The settings of an agent that shows [`TOKEN`] and connects to this very host.
    pub(crate) fn agent_settings(&self, server: SocketAddr) -> AgentSettings {
        AgentSettings {
            server: server.to_string().parse().unwrap(),
            server_name: None,
            tls: ClientTls::new(self.authority(), None),
            token_file: Some(self.write("token", TOKEN)),
            name: "agent".to_owned(),
            policy: DestinationPolicy {
                allowed: vec!["127.0.0.0/8".parse().unwrap()],
            },
            dial_timeout: Duration::from_secs(5),
            max_streams: 1024,
            keep_alive: KeepAlive::default(),
            discovery_interval: Duration::from_mins(10),
            backoff: Backoff {
                shortest: Duration::from_millis(10),
                longest: Duration::from_millis(100),
            },
        }
    }
}

pub(crate) fn validity() -> Validity {
    Validity::starting(Timestamp::now(), SignedDuration::from_hours(1))
}

/// Knows one token.
pub(crate) struct OneToken;

impl TokenVerifier for OneToken {
    fn verify<'a>(
        &'a self,
        token: &'a SecretText,
    ) -> BoxFuture<'a, Result<String, AuthenticationError>> {
        let known = token.expose() == TOKEN;
        let refused = || AuthenticationError::Refused("an unknown token".to_owned());
        std::future::ready(known.then(|| "agent".to_owned()).ok_or_else(refused)).boxed()
    }
}

/// A server or an agent with threads of its own, so that it can be killed as a process is: without a last word.
pub(crate) struct Process {
    runtime: Option<Runtime>,
    pub(crate) metrics: TunnelMetrics,
    pub(crate) shutdown: Shutdown,
    ended: tokio::sync::watch::Receiver<bool>,
}

impl Process {
    fn start<Work: Future<Output = ()> + Send + 'static>(
        metrics: TunnelMetrics,
        work: impl FnOnce(Shutdown) -> Work,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let shutdown = Shutdown::new();
        let (ending, ended) = tokio::sync::watch::channel(false);
        let work = work(shutdown.clone());
        runtime.spawn(async move {
            work.await;
            ending.send_replace(true);
        });
        Self {
            runtime: Some(runtime),
            metrics,
            shutdown,
            ended,
        }
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    pub(crate) async fn has_ended(&mut self) {
        let ended = self.ended.wait_for(|ended| *ended);
        let ended = tokio::time::timeout(PATIENCE, ended).await;
        ended.expect("it ends in time").unwrap();
    }

    pub(crate) async fn is_connected_to(&self, count: i64) {
        let connected = until(PATIENCE, async || {
            (self.metrics.connections() == count).then_some(())
        });
        let now = || self.metrics.connections();
        assert!(
            connected.await.is_some(),
            "{} of {count} connections",
            now()
        );
    }

    /// Who is refused hears of it a moment before it is counted.
    pub(crate) async fn has_refused(&self, count: u64) {
        let refused = until(PATIENCE, async || {
            (self.metrics.refusals() == count).then_some(())
        });
        let now = || self.metrics.refusals();
        assert!(refused.await.is_some(), "{} of {count} refusals", now());
    }

    pub(crate) async fn has_streams(&self, count: i64) {
        let open = until(PATIENCE, async || {
            (self.metrics.streams_open() == count).then_some(())
        });
        let now = || self.metrics.streams_open();
        assert!(open.await.is_some(), "{} of {count} streams", now());
    }

    /// Waits until a connection was tried in vain.
    pub(crate) async fn fails_to_connect(&self) {
        let failed = until(PATIENCE, async || {
            (self.metrics.connection_failures() > 0).then_some(())
        });
        assert!(failed.await.is_some(), "it was let in, or never tried");
        assert_eq!(self.metrics.connections(), 0);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server that runs.
pub(crate) struct RunningServer {
    pub(crate) process: Process,
    pub(crate) agent_address: SocketAddr,
    pub(crate) proxy_address: Option<SocketAddr>,
    pub(crate) socket: PathBuf,
}

/// Starts a server.
pub(crate) async fn serve(settings: ServerSettings) -> RunningServer {
    let metrics = TunnelMetrics::default();
    let socket = settings.socket.clone().unwrap_or_default();
    let (bound, addresses) = tokio::sync::oneshot::channel();
    let numbers = metrics.clone();
    let process = Process::start(metrics, |shutdown| async move {
        let server = Server::bind(settings, numbers).await.unwrap();
        let _ = bound.send((server.agent_address(), server.proxy_address()));
        server.run(shutdown).await;
    });
    let (agent_address, proxy_address) = addresses.await.expect("the server begins");
    RunningServer {
        process,
        agent_address,
        proxy_address,
        socket,
    }
}

/// Starts an agent.
pub(crate) fn join(settings: AgentSettings) -> Process {
    static SEED: AtomicU32 = AtomicU32::new(0);
    let seed = SEED.fetch_add(1, Ordering::Relaxed).into();
    let metrics = TunnelMetrics::default();
    let agent = Agent::new(settings, metrics.clone(), seed);
    Process::start(metrics, |shutdown| agent.run(shutdown))
}

/// A server and an agent that is connected to it.
pub(crate) async fn tunnel(office: &Office) -> (RunningServer, Process) {
    let server = serve(office.server_settings()).await;
    let agent = join(office.agent_settings(server.agent_address));
    server.process.is_connected_to(1).await;
    agent.is_connected_to(1).await;
    (server, agent)
}

/// Asks for a connection as the API server does; else the status line.
pub(crate) async fn connect(
    socket: &Path,
    destination: impl std::fmt::Display,
) -> Result<UnixStream, String> {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    ask(&mut stream, destination).await?;
    Ok(stream)
}

/// Asks for a connection over one that is there.
pub(crate) async fn ask<Io: AsyncRead + AsyncWrite + Unpin>(
    io: &mut Io,
    destination: impl std::fmt::Display,
) -> Result<(), String> {
    let request = format!("CONNECT {destination} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    io.write_all(request.as_bytes()).await.unwrap();
    let head = read_head(io).await;
    let line = head.lines().next().unwrap_or_default();
    if line.starts_with("HTTP/1.1 200 ") {
        Ok(())
    } else {
        Err(line.to_owned())
    }
}

/// Reads to the end of an answer's head, and no byte beyond it.
pub(crate) async fn read_head<Io: AsyncRead + Unpin>(io: &mut Io) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(io.read_u8().await.expect("an answer"));
    }
    String::from_utf8(head).unwrap()
}

/// Somebody who sends back what they get.
pub(crate) async fn echo() -> SocketAddr {
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    butler_runtime::task::spawn("echo", async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            butler_runtime::task::spawn("echoing", async move {
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.shutdown().await;
            });
        }
    });
    address
}

/// Whether bytes come back through a connection.
pub(crate) async fn echoes(stream: &mut UnixStream, word: &[u8]) -> bool {
    let mut answer = vec![0; word.len()];
    stream.write_all(word).await.is_ok()
        && stream.read_exact(&mut answer).await.is_ok()
        && answer == word
}
