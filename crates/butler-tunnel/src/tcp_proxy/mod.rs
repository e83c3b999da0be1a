//! The proxy in a tenant that stands in for its hosted API server.
//!
//! Pods reach their API server by the Service `kubernetes`, and expect an address behind it that answers by itself. Behind an
//! Ingress, a Gateway or a load balancer with a name, there is none. A proxy on a node takes these connections and carries them,
//! byte by byte, to where the API server is reached: TLS stays between the pod and the API server, client certificates included,
//! and the proxy holds no key. `endpoints` makes the Service lead to the proxies.
//!
//! Owns: the listener, the way to the API server, and the `EndpointSlice` `default/kubernetes`.
//!
//! Must not: look into what it carries.

mod arguments;
mod endpoints;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use butler_runtime::{
    client::{self, ClientError},
    shutdown::Shutdown,
    task::TaskGroup,
};
use rustls_pki_types::ServerName as TlsName;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::{
    destination::{self, Destination},
    failure::TunnelError,
    relay::relay,
    tls::{ClientTls, TlsError},
};

pub use arguments::{Arguments, ArgumentsError};

/// How long a client may take to begin. TLS clients speak first; who says nothing is a probe, or has lost its way, and is no
/// reason to trouble the API server.
const FIRST_WORD: Duration = Duration::from_secs(10);
/// How long connections are still taken after the end was asked for: nodes hear a moment later that this proxy is leaving. Then
/// all are cut. Clients keep theirs open for good, so that waiting for them would be in vain; they make new ones elsewhere.
const LEAVING: Duration = Duration::from_secs(5);
/// How long it may take to cut them.
const CUTTING: Duration = Duration::from_secs(1);
/// Accepting fails when the process has no file descriptors left; trying at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// How many connections the kernel keeps for us until we accept them.
const BACKLOG: u32 = 1024;

/// Why the proxy ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The flags do not make a proxy.
    #[error("the proxy cannot begin")]
    Arguments(#[from] ArgumentsError),
    /// The port cannot be opened.
    #[error("cannot listen on {address} for the pods of this cluster; choose another address")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The Service `kubernetes` cannot be looked after.
    #[error("the Service kubernetes cannot be made to lead here")]
    Client(#[from] ClientError),
}

/// Where the API server is reached.
#[derive(Debug)]
pub enum Target {
    /// At an address or name where nothing but the API server answers.
    Direct(Destination),
    /// Behind a server of the reverse tunnel.
    ThroughTunnel {
        /// Where the tunnel's servers are.
        server: Destination,
        /// Whom to trust there.
        tls: ClientTls,
    },
}

/// How a proxy works.
#[derive(Debug)]
pub struct TcpProxySettings {
    /// Where pods connect.
    pub address: SocketAddr,
    /// Where they are led to.
    pub target: Target,
    /// How long the target may take to answer.
    pub dial_timeout: Duration,
    /// How many connections may be open.
    pub max_connections: usize,
}

/// Why a connection could not be led on.
#[derive(Debug, thiserror::Error)]
enum LeadError {
    #[error("cannot connect")]
    Dial(#[from] TunnelError),
    #[error("the name of the tunnel's server cannot stand in a certificate: {0:?}")]
    Name(String),
    #[error("cannot speak TLS")]
    Tls(#[from] TlsError),
    #[error(
        "the handshake with the tunnel's server failed; is its certificate for this name, of our authority, \
         and does it lead to the API server?"
    )]
    Handshake(#[source] io::Error),
    #[error("the tunnel's server did not answer within {0:?}")]
    Silent(Duration),
    #[error("the connection broke")]
    Broken(#[source] io::Error),
}

/// A proxy whose port is open.
#[derive(Debug)]
pub struct TcpProxy {
    settings: Arc<TcpProxySettings>,
    listener: TcpListener,
    address: SocketAddr,
}

impl TcpProxy {
    /// Opens the port; port 0 takes a free one.
    pub fn bind(settings: TcpProxySettings) -> Result<Self, RunError> {
        let opened = listen(settings.address).and_then(|listener| {
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        let (listener, address) = opened.map_err(|source| RunError::Bind {
            address: settings.address,
            source,
        })?;
        Ok(Self {
            settings: Arc::new(settings),
            listener,
            address,
        })
    }

    /// Where pods connect, with the port that was taken.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Carries connections until the shutdown, and a moment longer.
    pub async fn run(self, shutdown: Shutdown) {
        tracing::info!(address = %self.address, "pods may connect");
        let ending = shutdown.token();
        let accepting = CancellationToken::new();
        let connections = TaskGroup::new(CancellationToken::new());
        let accept = self.accept(&accepting, &connections);
        let leave = async {
            ending.cancelled().await;
            tokio::time::sleep(LEAVING).await;
            accepting.cancel();
        };
        tokio::join!(accept, leave);
        if let Err(error) = connections.finish(CUTTING).await {
            tracing::debug!(%error, "not everything ended in time");
        }
    }

    async fn accept(&self, stop: &CancellationToken, connections: &TaskGroup) {
        let room = Arc::new(Semaphore::new(
            self.settings.max_connections.min(Semaphore::MAX_PERMITS),
        ));
        loop {
            let next = async {
                let place = Arc::clone(&room).acquire_owned().await;
                (place, self.listener.accept().await)
            };
            let (place, stream, peer) = match stop.run_until_cancelled(next).await {
                Some((Ok(place), Ok((stream, peer)))) => (place, stream, peer),
                Some((_, Err(error))) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
                // The room is never closed.
                Some((Err(_), _)) | None => return,
            };
            let settings = Arc::clone(&self.settings);
            let end = connections.token().clone();
            connections.spawn("tcp-proxy-connection", async move {
                let _place = place;
                match end.run_until_cancelled(lead(&settings, stream)).await {
                    Some(Err(LeadError::Broken(error))) => {
                        tracing::debug!(%peer, %error, "a connection ended early");
                    }
                    Some(Err(error)) => {
                        let cause = std::error::Error::source(&error).map(ToString::to_string);
                        tracing::warn!(%peer, %error, cause, "a pod is not led to the API server");
                    }
                    Some(Ok(())) | None => {}
                }
            });
        }
    }
}

/// Opens the port, on both families where all addresses are meant. Several proxies may have it on one node: there is no moment
/// without one when a new one takes the place of an old one, and a cluster of one node needs no second node for the second.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    if address.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED) {
        let both = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port());
        // Where the kernel has no IPv6, the other family is all there is.
        return listen_on(both).or_else(|_| listen_on(address));
    }
    listen_on(address)
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    // Inherited by what is accepted: a pod that vanished is noticed, if late.
    socket.set_keepalive(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn lead(settings: &TcpProxySettings, stream: TcpStream) -> Result<(), LeadError> {
    // Requests are small; if it cannot be set, they are slower.
    let _ = stream.set_nodelay(true);
    let mut first = [0];
    match timeout(FIRST_WORD, stream.peek(&mut first)).await {
        Ok(Ok(1..)) => {}
        Ok(Ok(0) | Err(_)) | Err(_) => return Ok(()),
    }
    let carried = match &settings.target {
        Target::Direct(destination) => {
            let there = destination::reach(destination, settings.dial_timeout).await?;
            relay(stream, there).await
        }
        Target::ThroughTunnel { server, tls } => {
            let there = timeout(settings.dial_timeout, through(server, tls, settings)).await;
            let there = there.map_err(|_| LeadError::Silent(settings.dial_timeout))??;
            relay(stream, there).await
        }
    };
    carried.map_err(LeadError::Broken)
}

async fn through(
    server: &Destination,
    tls: &ClientTls,
    settings: &TcpProxySettings,
) -> Result<TlsStream<TcpStream>, LeadError> {
    let name = TlsName::try_from(server.host().to_owned())
        .map_err(|_| LeadError::Name(server.host().to_owned()))?;
    let connector = tls.connector().await?;
    let stream = destination::reach(server, settings.dial_timeout).await?;
    let stream = connector.connect(name, stream).await;
    stream.map_err(LeadError::Handshake)
}

/// Runs a proxy until the shutdown.
pub async fn run(arguments: Arguments, version: &str, shutdown: Shutdown) -> Result<(), RunError> {
    client::install_crypto();
    let service = arguments.service()?;
    let reached = match &service {
        Some(_) => Some(arguments.client(version).await?),
        None => None,
    };
    let proxy = TcpProxy::bind(arguments.settings()?)?;
    let port = proxy.address().port();
    let beside = TaskGroup::new(CancellationToken::new());
    if let Some((service, client)) = service.zip(reached) {
        let end = beside.token().clone();
        beside.spawn("tcp-proxy-endpoints", async move {
            let keeping = endpoints::keep(client, service, port);
            Box::pin(end.run_until_cancelled(keeping)).await;
        });
    }
    proxy.run(shutdown).await;
    beside.token().cancel();
    Ok(())
}
