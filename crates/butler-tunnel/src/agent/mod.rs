//! The end in the tenant: dials out, and connects to what the API server wants to reach.
//!
//! Owns: the connections to all servers of a control plane, and the rules of what may be reached.
//!
//! Must not: listen for anybody but probes. The tenant opens no port for its control plane.

mod arguments;
mod servers;
mod session;
mod stream;

use std::{path::PathBuf, sync::Arc, time::Duration};

use butler_runtime::{
    backoff::Backoff,
    failure::Class,
    shutdown::{GRACE, Shutdown},
    task::TaskGroup,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use rustls_pki_types::ServerName as TlsName;
use tokio::{
    net::{TcpStream, lookup_host},
    sync::{oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use self::{
    servers::Servers,
    session::{JoinError, Joined},
};
use crate::{
    destination::{Destination, DestinationPolicy},
    keep_alive::KeepAlive,
    metrics::TunnelMetrics,
    tls::{ClientTls, TlsError},
};

pub use arguments::{Arguments, ArgumentsError};
pub use servers::Standing;

/// How long a connection may take until we are let in: TLS, a few words, and the review of a token.
const JOIN_TIMEOUT: Duration = Duration::from_secs(25);

/// A connection that lasted this long was a good one.
const SETTLED: Duration = Duration::from_secs(10);

/// How an agent works.
pub struct AgentSettings {
    /// Where the servers are; one address for all of them.
    pub server: Destination,
    /// The name in the servers' certificate, if it is not the host.
    pub server_name: Option<String>,
    /// Whom we trust, and what we show.
    pub tls: ClientTls,
    /// The token we show; read anew for each connection.
    pub token_file: Option<PathBuf>,
    /// What we are called, for people.
    pub name: String,
    /// What may be reached.
    pub policy: DestinationPolicy,
    /// How long a destination may take to answer.
    pub dial_timeout: Duration,
    /// How many streams each server may open.
    pub max_streams: usize,
    /// Whether servers are still there.
    pub keep_alive: KeepAlive,
    /// How often an agent that has all servers looks for another: one that was started after it.
    pub discovery_interval: Duration,
    /// How long to wait after a failure.
    pub backoff: Backoff,
}

/// What all connections of an agent share.
struct Shared {
    settings: AgentSettings,
    /// Tells this run of the agent from others.
    instance: String,
    servers: Servers,
    metrics: TunnelMetrics,
    streams: TaskGroup,
    leaving: CancellationToken,
}

impl Shared {
    async fn token(&self) -> Result<Option<String>, JoinError> {
        let Some(path) = &self.settings.token_file else {
            return Ok(None);
        };
        let read = tokio::fs::read_to_string(path).await;
        read.map(Some).map_err(|source| JoinError::Token {
            path: path.display().to_string(),
            source,
        })
    }
}

/// Why a server could not be connected to.
#[derive(Debug, thiserror::Error)]
enum DialError {
    #[error("the name of the server cannot stand in a certificate: {0:?}")]
    Name(String),
    #[error("cannot speak TLS")]
    Tls(#[from] TlsError),
    #[error("cannot connect")]
    Connect(#[source] std::io::Error),
    #[error(
        "the handshake failed; is the server's certificate for this name, and of our authority?"
    )]
    Handshake(#[source] std::io::Error),
    #[error("we were not let in")]
    Join(#[source] JoinError),
    #[error("no answer within {JOIN_TIMEOUT:?}")]
    Silent,
}

/// An agent.
pub struct Agent {
    shared: Arc<Shared>,
    random: StdRng,
    attempts: usize,
}

impl Agent {
    /// An agent; `seed` makes its jitter, and its name for this run.
    pub fn new(settings: AgentSettings, metrics: TunnelMetrics, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let instance = format!("{:032x}", random.random::<u128>());
        Self {
            shared: Arc::new(Shared {
                settings,
                instance,
                servers: Servers::default(),
                metrics,
                streams: TaskGroup::new(CancellationToken::new()),
                leaving: CancellationToken::new(),
            }),
            random,
            attempts: 0,
        }
    }

    /// How many servers the agent has, now and whenever it changes.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.shared.servers.standing()
    }

    /// Keeps connections to all servers until the shutdown; then finishes the streams that are open, as far as the time
    /// reaches.
    pub async fn run(mut self, shutdown: Shutdown) {
        let ending = shutdown.token();
        let sessions = TaskGroup::new(CancellationToken::new());
        ending
            .run_until_cancelled(self.keep_connected(&sessions))
            .await;
        // Servers hear that we leave, and send new streams to others.
        self.shared.leaving.cancel();
        if let Err(error) = self.shared.streams.finish(GRACE).await {
            tracing::warn!(%error, "streams are cut off");
        }
        if let Err(error) = sessions.finish(Duration::from_secs(1)).await {
            tracing::debug!(%error, "a server did not end its connection");
        }
    }

    async fn keep_connected(&mut self, sessions: &TaskGroup) {
        let mut failures = 0;
        let mut last_joined = Instant::now();
        loop {
            let outcome = self.dial(sessions).await;
            let mut standing = self.shared.servers.standing();
            let short = standing.borrow_and_update().is_short();
            match outcome {
                Ok(Joined::Welcome) => last_joined = Instant::now(),
                // Chance decides which server answers: the next try may find another.
                Ok(Joined::Known) => failures += u32::from(short),
                Err(error) => {
                    failures += 1;
                    self.shared.metrics.not_connected();
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    let server = &self.shared.settings.server;
                    tracing::warn!(%server, %error, cause, failures, "not connected to a server");
                }
            }
            if !short {
                let interval = self.shared.settings.discovery_interval;
                let interval = interval.mul_f64(0.5 + self.random.random::<f64>());
                let lost = standing.wait_for(|standing| standing.is_short());
                if tokio::time::timeout(interval, lost).await.is_err() {
                    failures = 0;
                    continue;
                }
                let was_short_lived = last_joined.elapsed() < SETTLED;
                failures = if was_short_lived { failures + 1 } else { 1 };
            }
            if failures > 0 {
                let backoff = self.shared.settings.backoff;
                let jitter = self.random.random();
                tokio::time::sleep(backoff.after(failures, Class::Retry, jitter)).await;
            }
        }
    }

    /// Connects to one of the servers, whichever answers.
    async fn dial(&mut self, sessions: &TaskGroup) -> Result<Joined, DialError> {
        self.attempts = self.attempts.wrapping_add(1);
        let abort = sessions.token().child_token();
        let attempt = self.join(sessions, abort.clone());
        let joined = tokio::time::timeout(JOIN_TIMEOUT, attempt).await;
        joined.unwrap_or_else(|_| {
            abort.cancel();
            Err(DialError::Silent)
        })
    }

    async fn join(
        &self,
        sessions: &TaskGroup,
        abort: CancellationToken,
    ) -> Result<Joined, DialError> {
        let settings = &self.shared.settings;
        let host = settings.server_name.as_deref();
        let host = host.unwrap_or_else(|| settings.server.host());
        let name =
            TlsName::try_from(host.to_owned()).map_err(|_| DialError::Name(host.to_owned()))?;
        let connector = settings.tls.connector().await?;
        let stream = self.connect().await.map_err(DialError::Connect)?;
        let stream = connector
            .connect(name, stream)
            .await
            .map_err(DialError::Handshake)?;
        let (sender, joined) = oneshot::channel();
        let session = session::serve(Arc::clone(&self.shared), stream, sender, abort);
        sessions.spawn("tunnel-server", session);
        let joined = joined.await.unwrap_or(Err(JoinError::Ended));
        joined.map_err(DialError::Join)
    }

    /// Connects to one of the addresses, another one each time.
    async fn connect(&self) -> std::io::Result<TcpStream> {
        let server = &self.shared.settings.server;
        let addresses: Vec<_> = lookup_host((server.host(), server.port())).await?.collect();
        let first = self.attempts.checked_rem(addresses.len()).unwrap_or(0);
        let mut last = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
        for address in addresses.iter().cycle().skip(first).take(addresses.len()) {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    // Streams are interactive; if it cannot be set, they are slower.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}
