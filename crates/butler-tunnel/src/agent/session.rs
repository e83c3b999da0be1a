//! A connection to one server: its questions are answered, its streams carried.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use h2::{RecvStream, server::Connection, server::SendResponse};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::{net::TcpStream, sync::oneshot};
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use super::{
    Shared,
    servers::{Membership, ServerName},
    stream,
};
use crate::{
    metrics::Counted,
    protocol::{self, headers, paths},
};

/// How long a server may take to end a connection that came to nothing.
const FAREWELL: Duration = Duration::from_secs(5);

/// How the first words with a server ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// We are let in.
    Welcome,
    /// We are connected to that server already.
    Known,
}

/// Why we are not connected to a server.
#[derive(Debug, thiserror::Error)]
pub(super) enum JoinError {
    /// It does not let us in.
    #[error("the server does not let us in: {0}")]
    Refused(String),
    /// We cannot show who we are.
    #[error("cannot read the token {path}; is it mounted?")]
    Token {
        /// Where it should be.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("the connection broke")]
    Broken(#[source] h2::Error),
    /// The connection ended before we were let in.
    #[error("the server ended the connection before it had let us in")]
    Ended,
    /// The server spoke of itself in a way we do not understand.
    #[error("the server did not say which of how many it is")]
    Nonsense,
}

/// Answers a server until the connection ends. `joined` is told once how the first words ended.
pub(super) async fn serve(
    shared: Arc<Shared>,
    stream: TlsStream<TcpStream>,
    joined: oneshot::Sender<Result<Joined, JoinError>>,
    abort: CancellationToken,
) {
    let mut session = Session {
        shared,
        joined: Some(joined),
        server: None,
        membership: None,
        connected: None,
        ended: CancellationToken::new(),
    };
    let outcome = abort.run_until_cancelled(session.run(stream)).await;
    // Streams of this connection have lost their way.
    session.ended.cancel();
    let error = match outcome {
        Some(Err(error)) => error,
        Some(Ok(())) | None => JoinError::Ended,
    };
    if session.membership.take().is_some() {
        tracing::info!(%error, "the connection to a server ended");
    }
    session.report(Err(error));
}

struct Session {
    shared: Arc<Shared>,
    joined: Option<oneshot::Sender<Result<Joined, JoinError>>>,
    /// Which server it is, once it has said so.
    server: Option<ServerName>,
    membership: Option<Membership>,
    connected: Option<Counted>,
    ended: CancellationToken,
}

impl Session {
    async fn run(&mut self, stream: TlsStream<TcpStream>) -> Result<(), JoinError> {
        let settings = &self.shared.settings;
        let keep_alive = settings.keep_alive;
        let handshake = protocol::answering(settings.max_streams).handshake::<_, Bytes>(stream);
        let mut connection = handshake.await.map_err(JoinError::Broken)?;
        let alive = keep_alive.watch(connection.ping_pong());
        tokio::select! {
            outcome = self.answer(&mut connection) => outcome,
            () = alive => Err(JoinError::Ended),
        }
    }

    async fn answer(
        &mut self,
        connection: &mut Connection<TlsStream<TcpStream>, Bytes>,
    ) -> Result<(), JoinError> {
        let leaving = self.shared.leaving.clone();
        let mut asked_to_leave = false;
        loop {
            let accepted = tokio::select! {
                accepted = connection.accept() => accepted,
                () = leaving.cancelled(), if !asked_to_leave => {
                    // The server opens no more streams here, and we finish those that are open.
                    connection.graceful_shutdown();
                    asked_to_leave = true;
                    continue;
                }
                () = tokio::time::sleep(FAREWELL), if self.is_in_vain() => return Ok(()),
            };
            let Some(accepted) = accepted else {
                return Ok(());
            };
            let (request, respond) = accepted.map_err(JoinError::Broken)?;
            if request.method() == Method::CONNECT {
                let shared = Arc::clone(&self.shared);
                let carried = stream::carry(shared, request, respond, self.ended.clone());
                self.shared.streams.spawn("tunnel-stream", carried);
            } else {
                self.question(&request, respond).await?;
            }
        }
    }

    async fn question(
        &mut self,
        request: &Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), JoinError> {
        match request.uri().path() {
            paths::HELLO => self.hello(request.headers(), respond).await,
            paths::WELCOME => self.welcome(&mut respond),
            paths::REFUSED => {
                status(&mut respond, StatusCode::NO_CONTENT)?;
                let reason = protocol::text(request.headers(), headers::MESSAGE);
                let reason = reason.unwrap_or("it gave no reason").to_owned();
                tracing::warn!(reason, "the server does not let us in");
                self.shared.metrics.refused();
                // The server closes the connection; what it says then is no news.
                self.report(Err(JoinError::Refused(reason)));
                Ok(())
            }
            paths::CREDENTIALS => {
                let token = self.shared.token().await?;
                answer_with(&mut respond, HeaderMap::new(), token)
            }
            _ => status(&mut respond, StatusCode::NOT_FOUND),
        }
    }

    /// Learns which server it is, and says who we are if we are not connected to it already.
    async fn hello(
        &mut self,
        asked: &HeaderMap,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), JoinError> {
        let id = protocol::text(asked, headers::SERVER);
        let count = protocol::text(asked, headers::SERVER_COUNT).and_then(|text| text.parse().ok());
        let (Some(id), Some(count)) = (id, count) else {
            return Err(JoinError::Nonsense);
        };
        let server = ServerName {
            id: id.to_owned(),
            count,
        };
        if self.shared.servers.need_not(&server) {
            self.report(Ok(Joined::Known));
            return status(&mut respond, StatusCode::CONFLICT);
        }
        let token = self.shared.token().await?;
        let settings = &self.shared.settings;
        let mut answer = HeaderMap::new();
        answer.insert(headers::AGENT, protocol::words(&settings.name));
        answer.insert(headers::INSTANCE, protocol::words(&self.shared.instance));
        answer_with(&mut respond, answer, token)?;
        self.server = Some(server);
        Ok(())
    }

    /// Counts the server as one we have.
    fn welcome(&mut self, respond: &mut SendResponse<Bytes>) -> Result<(), JoinError> {
        let server = self.server.take().ok_or(JoinError::Nonsense)?;
        let Some(membership) = self.shared.servers.join(&server) else {
            self.report(Ok(Joined::Known));
            return status(respond, StatusCode::CONFLICT);
        };
        tracing::info!(
            server = server.id,
            count = server.count,
            "connected to a server"
        );
        self.membership = Some(membership);
        self.connected = Some(self.shared.metrics.connected());
        status(respond, StatusCode::NO_CONTENT)?;
        self.report(Ok(Joined::Welcome));
        Ok(())
    }

    /// Whether all has been said, and we are not let in.
    const fn is_in_vain(&self) -> bool {
        self.joined.is_none() && self.membership.is_none()
    }

    fn report(&mut self, outcome: Result<Joined, JoinError>) {
        if let Some(joined) = self.joined.take() {
            // Who no longer waits needs no answer.
            let _ = joined.send(outcome);
        }
    }
}

fn status(respond: &mut SendResponse<Bytes>, status: StatusCode) -> Result<(), JoinError> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    respond
        .send_response(response, true)
        .map(drop)
        .map_err(JoinError::Broken)
}

fn answer_with(
    respond: &mut SendResponse<Bytes>,
    headers: HeaderMap,
    body: Option<String>,
) -> Result<(), JoinError> {
    let mut response = Response::new(());
    *response.headers_mut() = headers;
    let mut send = respond
        .send_response(response, false)
        .map_err(JoinError::Broken)?;
    let body = Bytes::from(body.unwrap_or_default());
    send.send_data(body, true).map_err(JoinError::Broken)
}
