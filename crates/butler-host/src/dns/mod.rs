//! Answers machines' questions for names, by asking the host's own servers.
//!
//! Owns: passing one question on and one answer back, over UDP and TCP, a bounded number at a time. A question that nobody
//! answers is answered with a failure, so that who asked does not wait.
//!
//! Must not: remember answers, or pass on anything but questions.

mod message;
mod resolvers;

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use message::{Refusal, Verdict};
pub use resolvers::{RESOLVER_FILE, resolvers};
use thiserror::Error;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// What a message's length is told in.
const LONGEST_MESSAGE: usize = 65_535;
/// A host without free descriptors has some again after a moment.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// How much is done at once, and how long anything may take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Questions over UDP.
    questions: usize,
    /// Connections over TCP.
    connections: usize,
    /// For one server to answer.
    attempt: Duration,
    /// For all of them.
    answer: Duration,
    /// Without a question on a connection.
    idle: Duration,
}

const LIMITS: Limits = Limits {
    questions: 512,
    connections: 64,
    attempt: Duration::from_secs(2),
    // Clients ask again after five seconds.
    answer: Duration::from_millis(4500),
    idle: Duration::from_secs(10),
};

/// Why names are not answered.
#[derive(Debug, Error)]
pub enum DnsError {
    /// Somebody else is there, or the address is not the host's.
    #[error(
        "could not listen for questions about names on {address}; end what listens there, and bring the bridge up first"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The kernel's words.
        #[source]
        source: io::Error,
    },
    /// The socket broke.
    #[error("could not receive questions about names")]
    Receive(#[source] io::Error),
}

/// Listens for questions.
#[derive(Debug)]
pub struct Forwarder {
    address: SocketAddr,
    udp: Arc<UdpSocket>,
    tcp: TcpListener,
    upstream: Arc<Upstream>,
}

/// The servers that are asked, in this order.
#[derive(Debug)]
struct Upstream {
    servers: Vec<SocketAddr>,
    limits: Limits,
}

impl Forwarder {
    /// Listens on an address of the host, over UDP and TCP. The servers are asked in their order; without any, every
    /// question fails at once.
    pub async fn bind(address: SocketAddr, servers: Vec<SocketAddr>) -> Result<Self, DnsError> {
        Self::bind_with(address, servers, LIMITS).await
    }

    async fn bind_with(
        address: SocketAddr,
        mut servers: Vec<SocketAddr>,
        limits: Limits,
    ) -> Result<Self, DnsError> {
        let failed = |source| DnsError::Listen { address, source };
        let udp = UdpSocket::bind(address).await.map_err(failed)?;
        // The one that was given, where any was asked for.
        let address = udp.local_addr().map_err(failed)?;
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        // A host that names itself would ask itself for ever.
        servers.retain(|server| *server != address);
        Ok(Self {
            address,
            udp: Arc::new(udp),
            tcp,
            upstream: Arc::new(Upstream { servers, limits }),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until it is cancelled.
    pub async fn serve(self, cancelled: CancellationToken) -> Result<(), DnsError> {
        let limits = self.upstream.limits;
        let questions = Arc::new(Semaphore::new(limits.questions));
        let connections = Arc::new(Semaphore::new(limits.connections));
        let mut tasks = JoinSet::new();
        let mut buffer = vec![0; LONGEST_MESSAGE];
        loop {
            tokio::select! {
                () = cancelled.cancelled() => return Ok(()),
                Some(_) = tasks.join_next() => {}
                received = self.udp.recv_from(&mut buffer) => {
                    let (length, client) = received.map_err(DnsError::Receive)?;
                    let query = buffer[..length].to_vec();
                    match Arc::clone(&questions).try_acquire_owned() {
                        Ok(permit) => {
                            tasks.spawn(self.datagram(query, client, permit));
                        }
                        Err(_) => self.say_no(&query, client),
                    }
                }
                accepted = self.tcp.accept() => match accepted {
                    Ok((connection, _)) => {
                        // More than that are closed, and the client asks again.
                        if let Ok(permit) = Arc::clone(&connections).try_acquire_owned() {
                            let upstream = Arc::clone(&self.upstream);
                            tasks.spawn(async move {
                                // One that the client broke off concerns nobody else.
                                let _ = upstream.converse(connection).await;
                                drop(permit);
                            });
                        }
                    }
                    Err(_) => tokio::time::sleep(PAUSE_AFTER_FAILURE).await,
                },
            }
        }
    }

    fn datagram(
        &self,
        query: Vec<u8>,
        client: SocketAddr,
        permit: OwnedSemaphorePermit,
    ) -> impl Future<Output = ()> + use<> {
        let upstream = Arc::clone(&self.upstream);
        let socket = Arc::clone(&self.udp);
        async move {
            if let Some(answer) = upstream.answer(&query, Transport::Datagram).await {
                // One that cannot be sent is lost like any datagram.
                let _ = socket.send_to(&answer, client).await;
            }
            drop(permit);
        }
    }

    /// Without waiting for anything.
    fn say_no(&self, query: &[u8], client: SocketAddr) {
        if message::judge(query) != Verdict::Ignore {
            let answer = message::refuse(query, Refusal::ServerFailure);
            let _ = self.udp.try_send_to(&answer, client);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Transport {
    Datagram,
    Stream,
}

impl Upstream {
    /// Nothing for what is no question.
    async fn answer(&self, query: &[u8], transport: Transport) -> Option<Vec<u8>> {
        match message::judge(query) {
            Verdict::Ignore => None,
            Verdict::Refuse(refusal) => Some(message::refuse(query, refusal)),
            Verdict::Forward => {
                let answer = timeout(self.limits.answer, self.ask(query, transport)).await;
                let failure = || message::refuse(query, Refusal::ServerFailure);
                Some(answer.ok().flatten().unwrap_or_else(failure))
            }
        }
    }

    /// The first good answer, or the last bad one.
    async fn ask(&self, query: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let mut last = None;
        for server in &self.servers {
            let asked = async {
                match transport {
                    Transport::Datagram => ask_by_datagram(*server, query).await,
                    Transport::Stream => ask_by_stream(*server, query).await,
                }
            };
            if let Ok(Ok(answer)) = timeout(self.limits.attempt, asked).await {
                if !message::is_failure(&answer) {
                    return Some(answer);
                }
                last = Some(answer);
            }
        }
        last
    }

    /// Answers a connection's questions one after the other.
    async fn converse(&self, mut connection: TcpStream) -> io::Result<()> {
        loop {
            let query = timeout(self.limits.idle, read_message(&mut connection)).await??;
            let Some(answer) = self.answer(&query, Transport::Stream).await else {
                return Ok(());
            };
            timeout(self.limits.idle, write_message(&mut connection, &answer)).await??;
        }
    }
}

/// From a port of its own for each question: a forged answer has to guess it.
async fn ask_by_datagram(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let local: SocketAddr = if server.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let socket = UdpSocket::bind(local).await?;
    socket.connect(server).await?;
    socket.send(query).await?;
    let mut buffer = vec![0; LONGEST_MESSAGE];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if message::answers(&buffer[..length], query) {
            buffer.truncate(length);
            return Ok(buffer);
        }
    }
}

async fn ask_by_stream(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let mut connection = TcpStream::connect(server).await?;
    write_message(&mut connection, query).await?;
    let answer = read_message(&mut connection).await?;
    if message::answers(&answer, query) {
        Ok(answer)
    } else {
        Err(io::Error::other("the answer is to another question"))
    }
}

async fn read_message(connection: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = connection.read_u16().await?;
    let mut message = vec![0; length.into()];
    connection.read_exact(&mut message).await?;
    Ok(message)
}

async fn write_message(connection: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    let bytes = [&length.to_be_bytes(), message].concat();
    connection.write_all(&bytes).await
}

#[cfg(test)]
#[path = "forwarder_tests.rs"]
mod tests;
