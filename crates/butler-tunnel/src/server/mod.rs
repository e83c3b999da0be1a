//! The end beside the API server.
//!
//! Owns: the socket where the API server asks for connections, the port where agents dial in, the choice of the agent that
//! carries a connection, and the passage of the tenant's proxies to the API server.
//!
//! Must not: connect anywhere by itself but to that API server. What no agent can reach is not reached.

mod agents;
mod arguments;
mod passage;
mod proxy;
mod session;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use butler_runtime::{
    shutdown::{GRACE, Shutdown},
    task::TaskGroup,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

use self::{
    agents::Agents,
    passage::MOST_PASSAGES,
    proxy::Socket,
    session::{Ended, SessionError},
};
use crate::{
    authentication::{Authenticator, CertificatePolicy},
    destination::Destination,
    keep_alive::KeepAlive,
    metrics::TunnelMetrics,
    tls::{Inside, PeerCertificate, ServerTls},
};

pub use arguments::{Arguments, ArgumentsError};

/// Accepting fails when the process has no file descriptors left; trying at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// How many connections may be there of which nobody knows yet whose they are.
const MOST_NEWCOMERS: usize = 256;
/// How long the API server may take for a TLS handshake.
const PROXY_HANDSHAKE: Duration = Duration::from_secs(10);

/// The server cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The socket cannot be opened.
    #[error("cannot listen on the socket {path} for the API server")]
    Socket {
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A port cannot be opened.
    #[error("cannot listen on {address} for {purpose}; choose another address")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// For whom.
        purpose: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// How a server works.
pub struct ServerSettings {
    /// Which server this is. Every start is to have another, so that agents never take a new process for an old one.
    pub id: String,
    /// How many servers there are; agents connect to all of them.
    pub count: usize,
    /// Where agents dial in.
    pub agent_address: SocketAddr,
    /// What is shown to agents, and asked of them.
    pub agent_tls: ServerTls,
    /// Who may be an agent.
    pub authenticator: Authenticator,
    /// Where the API server asks for connections, on this host.
    pub socket: Option<PathBuf>,
    /// Where the API server asks for connections, over the network.
    pub proxy: Option<ProxySettings>,
    /// The API server that proxies in the tenant are led to; without it they are not let in.
    pub api_server: Option<Destination>,
    /// Whether agents are still there.
    pub keep_alive: KeepAlive,
    /// How often agents show their credentials again.
    pub reauthentication_interval: Duration,
    /// How many streams may be open.
    pub max_streams: usize,
    /// How long connections are still made after the end was asked for: the API server beside us ends later.
    pub shutdown_delay: Duration,
}

/// How the API server reaches us over the network.
pub struct ProxySettings {
    /// Where it connects.
    pub address: SocketAddr,
    /// What is shown to it; it must show a certificate.
    pub tls: ServerTls,
    /// Whom its certificate names.
    pub client: CertificatePolicy,
}

/// What all connections of a server share.
struct Shared {
    settings: ServerSettings,
    agents: Agents,
    metrics: TunnelMetrics,
    room: Arc<Semaphore>,
    /// Room of its own: whoever is in the tenant must not use up what the API server needs.
    passages: Arc<Semaphore>,
    streams: TaskGroup,
}

/// A server whose ports are open.
pub struct Server {
    shared: Arc<Shared>,
    agents: TcpListener,
    agent_address: SocketAddr,
    socket: Option<Socket>,
    proxy: Option<(TcpListener, SocketAddr)>,
}

impl Server {
    /// Opens all ports; port 0 takes a free one.
    pub async fn bind(
        settings: ServerSettings,
        metrics: TunnelMetrics,
    ) -> Result<Self, ServerError> {
        let (agents, agent_address) = listen(settings.agent_address, "agents").await?;
        let socket = settings.socket.as_deref().map(Socket::bind).transpose()?;
        let proxy = match &settings.proxy {
            Some(proxy) => Some(listen(proxy.address, "the API server").await?),
            None => None,
        };
        Ok(Self {
            shared: Arc::new(Shared {
                agents: Agents::new(metrics.clone()),
                metrics,
                room: Arc::new(Semaphore::new(
                    settings.max_streams.min(Semaphore::MAX_PERMITS),
                )),
                passages: Arc::new(Semaphore::new(MOST_PASSAGES)),
                streams: TaskGroup::new(CancellationToken::new()),
                settings,
            }),
            agents,
            agent_address,
            socket,
            proxy,
        })
    }

    /// Where agents dial in, with the port that was taken.
    pub const fn agent_address(&self) -> SocketAddr {
        self.agent_address
    }

    /// Where the API server connects over the network, with the port that was taken.
    pub fn proxy_address(&self) -> Option<SocketAddr> {
        self.proxy.as_ref().map(|(_, address)| *address)
    }

    /// Works until the shutdown; then finishes the streams that are open, as far as the time reaches.
    pub async fn run(self, shutdown: Shutdown) {
        let Self {
            shared,
            agents,
            socket,
            proxy,
            agent_address,
        } = self;
        tracing::info!(address = %agent_address, id = shared.settings.id, "agents may connect");
        let front = TaskGroup::new(CancellationToken::new());
        let back = TaskGroup::new(CancellationToken::new());
        if let Some(socket) = socket {
            let (shared, stop) = (Arc::clone(&shared), front.token().clone());
            front.spawn("tunnel-socket", accept_from_socket(shared, socket, stop));
        }
        if let Some((listener, _)) = proxy {
            let (shared, stop) = (Arc::clone(&shared), front.token().clone());
            front.spawn("tunnel-proxy", accept_from_network(shared, listener, stop));
        }
        let ending = shutdown.token();
        let sessions = accept_agents(Arc::clone(&shared), agents, ending.clone(), back.clone());
        back.spawn("tunnel-agents", sessions);

        ending.cancelled().await;
        tokio::time::sleep(shared.settings.shutdown_delay).await;
        front.token().cancel();
        let left = GRACE.saturating_sub(shared.settings.shutdown_delay);
        if let Err(error) = shared.streams.finish(left).await {
            tracing::warn!(%error, "streams are cut off");
        }
        back.token().cancel();
        for group in [&front, &back] {
            if let Err(error) = group.finish(ACCEPT_PAUSE).await {
                tracing::debug!(%error, "not everything ended in time");
            }
        }
    }
}

async fn listen(
    address: SocketAddr,
    purpose: &'static str,
) -> Result<(TcpListener, SocketAddr), ServerError> {
    let opened = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    opened.await.map_err(|source| ServerError::Bind {
        address,
        purpose,
        source,
    })
}

async fn accept_agents(
    shared: Arc<Shared>,
    listener: TcpListener,
    stop: CancellationToken,
    sessions: TaskGroup,
) {
    let newcomers = Arc::new(Semaphore::new(MOST_NEWCOMERS));
    while let Ok(place) = Arc::clone(&newcomers).acquire_owned().await {
        let Some((stream, peer)) = next(&stop, || listener.accept()).await else {
            return;
        };
        let shared = Arc::clone(&shared);
        let end = sessions.token().clone();
        sessions.spawn("tunnel-agent", async move {
            let session = session::serve(&shared, stream, peer, place);
            match end.run_until_cancelled(session).await {
                Some(Err(error @ SessionError::Known)) => {
                    tracing::debug!(%peer, %error, "an agent looked for other servers");
                }
                Some(Err(error)) => {
                    shared.metrics.not_connected();
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::warn!(%peer, %error, cause, "the connection of an agent ended");
                }
                Some(Ok(Ended::Left)) => tracing::info!(%peer, "an agent has left"),
                Some(Ok(Ended::Passed)) | None => {}
            }
        });
    }
}

async fn accept_from_socket(shared: Arc<Shared>, socket: Socket, stop: CancellationToken) {
    while let Some((stream, _)) = next(&stop, || socket.listener.accept()).await {
        let connection = proxy::serve(Arc::clone(&shared), stream);
        butler_runtime::task::spawn("tunnel-request", connection);
    }
}

async fn accept_from_network(shared: Arc<Shared>, listener: TcpListener, stop: CancellationToken) {
    while let Some((stream, peer)) = next(&stop, || listener.accept()).await {
        let shared = Arc::clone(&shared);
        butler_runtime::task::spawn("tunnel-request", async move {
            let Some(settings) = &shared.settings.proxy else {
                return;
            };
            match admit(settings, stream).await {
                Ok(stream) => proxy::serve(Arc::clone(&shared), stream).await,
                Err(problem) => {
                    shared.metrics.refused();
                    tracing::warn!(%peer, problem, "somebody else wanted to use the tunnel");
                }
            }
        });
    }
}

/// Lets the API server in, and nobody else whom its authority knows.
async fn admit(
    settings: &ProxySettings,
    stream: TcpStream,
) -> Result<tokio_rustls::server::TlsStream<TcpStream>, String> {
    // Streams are interactive; if it cannot be set, they are slower.
    let _ = stream.set_nodelay(true);
    let acceptor = settings.tls.acceptor(Inside::Proxy).await;
    let acceptor = acceptor.map_err(|error| error.to_string())?;
    let stream = tokio::time::timeout(PROXY_HANDSHAKE, acceptor.accept(stream))
        .await
        .map_err(|_| "no handshake in time".to_owned())?
        .map_err(|error| error.to_string())?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let certificate = chain.first().and_then(PeerCertificate::read);
    let certificate = certificate.ok_or("it has shown no certificate")?;
    let named = settings.client.judge(&certificate);
    named.map_err(|error| error.to_string())?;
    Ok(stream)
}

/// The next connection; none when it is time to stop.
async fn next<T, Accept, Accepted>(stop: &CancellationToken, accept: Accept) -> Option<T>
where
    Accept: Fn() -> Accepted,
    Accepted: Future<Output = std::io::Result<T>>,
{
    loop {
        match stop.run_until_cancelled(accept()).await? {
            Ok(accepted) => return Some(accepted),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
