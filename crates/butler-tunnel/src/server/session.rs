//! The connection of one agent: who it is, whether it still is, and until when it stays.

use std::{net::SocketAddr, time::Duration};

use butler_pki::SecretText;
use bytes::Bytes;
use h2::{RecvStream, client::SendRequest};
use http::{Request, Response, StatusCode};
use jiff::Timestamp;
use tokio::{net::TcpStream, sync::OwnedSemaphorePermit};
use tokio_rustls::server::TlsStream;

use super::{
    Shared,
    agents::{AgentName, Membership},
    passage,
};
use crate::{
    authentication::AuthenticationError,
    protocol::{self, LONGEST_TOKEN, headers, paths},
    tls::{Inside, PeerCertificate, TlsError},
};

/// How long a new connection may take for TLS, and how long the agent may take to answer.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an agent that is not let in may take to read why.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why an agent's connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// We cannot speak TLS.
    #[error("agents cannot connect")]
    Tls(#[from] TlsError),
    /// The other side does not speak TLS, or not as we do.
    #[error("the handshake failed")]
    Handshake(#[source] std::io::Error),
    /// It took too long.
    #[error("no answer within {HANDSHAKE_TIMEOUT:?}")]
    Silent,
    /// It is TLS, but not the tunnel's protocol.
    #[error("the other side does not speak the tunnel's protocol of this version")]
    OtherProtocol,
    /// Proxies of the tenant have taken all the room there is for them.
    #[error("as many connections to the API server pass as may")]
    NoRoom,
    /// The connection broke.
    #[error("the connection broke")]
    Broken(#[source] h2::Error),
    /// It answered something that makes no sense.
    #[error("the answer makes no sense: {0}")]
    Nonsense(&'static str),
    /// It is not let in.
    #[error("not let in")]
    Refused(#[source] AuthenticationError),
    /// Its certificate has expired.
    #[error("its certificate has expired")]
    Expired,
    /// It does not answer any more.
    #[error("it no longer answers")]
    Lost,
    /// It has a connection to this server already.
    #[error("it is connected already")]
    Known,
}

/// How a connection went that nothing was wrong with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The agent has left.
    Left,
    /// It was no agent's, and goes on by itself.
    Passed,
}

/// Speaks with an agent until its connection ends. `place` is for those of whom we do not know who they are.
pub(super) async fn serve(
    shared: &Shared,
    stream: TcpStream,
    peer: SocketAddr,
    place: OwnedSemaphorePermit,
) -> Result<Ended, SessionError> {
    // Streams are interactive; if it cannot be set, they are slower.
    let _ = stream.set_nodelay(true);
    let acceptor = shared.settings.agent_tls.acceptor(Inside::Tunnel).await?;
    let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream))
        .await
        .map_err(|_| SessionError::Silent)?
        .map_err(SessionError::Handshake)?;
    let certificate = certificate(&stream);
    match stream.get_ref().1.alpn_protocol() {
        Some(protocol::APPLICATION_PROTOCOL) => {}
        Some(protocol::PASSAGE_PROTOCOL) => return passage::lead(shared, stream),
        _ => return Err(SessionError::OtherProtocol),
    }
    let handshake = protocol::asking().handshake::<_, Bytes>(stream);
    let (sender, mut connection) = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake)
        .await
        .map_err(|_| SessionError::Silent)?
        .map_err(SessionError::Broken)?;
    let alive = shared.settings.keep_alive.watch(connection.ping_pong());
    let session = Session {
        shared,
        sender,
        certificate,
        peer,
    };
    tokio::select! {
        ended = &mut connection => ended.map(|()| Ended::Left).map_err(SessionError::Broken),
        outcome = session.run(place) => outcome.map(|()| Ended::Left),
        () = alive => Err(SessionError::Lost),
    }
}

fn certificate(stream: &TlsStream<TcpStream>) -> Option<PeerCertificate> {
    let chain = stream.get_ref().1.peer_certificates()?;
    PeerCertificate::read(chain.first()?)
}

struct Session<'a> {
    shared: &'a Shared,
    sender: SendRequest<Bytes>,
    certificate: Option<PeerCertificate>,
    peer: SocketAddr,
}

impl Session<'_> {
    async fn run(self, place: OwnedSemaphorePermit) -> Result<(), SessionError> {
        let (name, token) = self.hello().await?;
        let subject = match self.judge(token).await {
            Ok(subject) => subject,
            Err(error) => return Err(self.refuse(error).await),
        };
        drop(place);
        self.ask(protocol::control(paths::WELCOME)).await?;
        tracing::info!(agent = name.name, %subject, peer = %self.peer, "an agent is connected");
        let membership = self.shared.agents.join(name, self.sender.clone());
        self.stay(&membership).await
    }

    /// Asks from time to time whether the agent still is who it was.
    async fn stay(&self, _membership: &Membership) -> Result<(), SessionError> {
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.shared.settings.reauthentication_interval) => {}
                () = self.expiry() => return Err(SessionError::Expired),
            }
            let token = match self.ask(protocol::control(paths::CREDENTIALS)).await {
                Ok(answer) => read_token(answer.into_body()).await?,
                // An agent that is about to leave answers no questions, but finishes its streams.
                Err(SessionError::Broken(error)) if error.is_go_away() && error.is_remote() => {
                    return std::future::pending().await;
                }
                Err(error) => return Err(error),
            };
            match self.judge(token).await {
                Ok(_) => {}
                // The API server may be away; that is no reason to cut it off from its nodes when it is back.
                Err(error @ AuthenticationError::Unavailable(_)) => {
                    tracing::warn!(peer = %self.peer, %error, "an agent stays without having been judged again");
                }
                Err(error) => return Err(self.refuse(error).await),
            }
        }
    }

    /// Returns when the certificate by which the agent was let in is no longer valid.
    async fn expiry(&self) {
        match &self.certificate {
            Some(certificate) if self.shared.settings.authenticator.certificates.is_some() => {
                let left = certificate.not_after.duration_since(Timestamp::now());
                tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
            }
            _ => std::future::pending().await,
        }
    }

    /// Says who we are, and learns who the agent is.
    async fn hello(&self) -> Result<(AgentName, Option<SecretText>), SessionError> {
        let mut request = protocol::control(paths::HELLO);
        let settings = &self.shared.settings;
        let headers = request.headers_mut();
        headers.insert(headers::SERVER, protocol::words(&settings.id));
        headers.insert(headers::SERVER_COUNT, settings.count.into());
        let answer = self.ask(request).await?;
        let text = |name| protocol::text(answer.headers(), name).map(ToOwned::to_owned);
        let name = AgentName {
            name: text(headers::AGENT).ok_or(SessionError::Nonsense("no name"))?,
            instance: text(headers::INSTANCE).ok_or(SessionError::Nonsense("no instance"))?,
        };
        let token = read_token(answer.into_body()).await?;
        Ok((name, token))
    }

    async fn judge(&self, token: Option<SecretText>) -> Result<String, AuthenticationError> {
        let authenticator = &self.shared.settings.authenticator;
        authenticator
            .authenticate(self.certificate.as_ref(), token.as_ref())
            .await
    }

    /// Tells the agent why it is not let in, as far as it listens.
    async fn refuse(&self, error: AuthenticationError) -> SessionError {
        self.shared.metrics.refused();
        let mut request = protocol::control(paths::REFUSED);
        request
            .headers_mut()
            .insert(headers::MESSAGE, protocol::words(&error.to_string()));
        // Whether it has heard us changes nothing.
        let _ = tokio::time::timeout(FAREWELL, self.ask(request)).await;
        SessionError::Refused(error)
    }

    async fn ask(&self, request: Request<()>) -> Result<Response<RecvStream>, SessionError> {
        let asking = async {
            let mut sender = self.sender.clone().ready().await?;
            let (answer, _) = sender.send_request(request, true)?;
            answer.await
        };
        let answer = tokio::time::timeout(HANDSHAKE_TIMEOUT, asking)
            .await
            .map_err(|_| SessionError::Silent)?
            .map_err(SessionError::Broken)?;
        match answer.status() {
            status if status.is_success() => Ok(answer),
            StatusCode::CONFLICT => Err(SessionError::Known),
            _ => Err(SessionError::Nonsense("a question was not understood")),
        }
    }
}

/// Reads a token; none if there is none.
async fn read_token(mut body: RecvStream) -> Result<Option<SecretText>, SessionError> {
    let reading = async {
        let mut bytes = Vec::new();
        while let Some(chunk) = body.data().await {
            let chunk = chunk.map_err(SessionError::Broken)?;
            bytes.extend_from_slice(&chunk);
            if bytes.len() > LONGEST_TOKEN {
                return Err(SessionError::Nonsense("a token without end"));
            }
            body.flow_control()
                .release_capacity(chunk.len())
                .map_err(SessionError::Broken)?;
        }
        String::from_utf8(bytes).map_err(|_| SessionError::Nonsense("a token that is no text"))
    };
    let text = tokio::time::timeout(HANDSHAKE_TIMEOUT, reading)
        .await
        .map_err(|_| SessionError::Silent)??;
    let text = text.trim();
    Ok((!text.is_empty()).then(|| SecretText::new(text)))
}
