//! The side of the API server: HTTP CONNECT, then the bytes of the connection.

use std::{convert::Infallible, path::Path, path::PathBuf, sync::Arc, time::Duration};

use http::{Method, Request, Response};
use hyper::{body::Incoming, ext::ReasonPhrase, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::UnixListener,
    sync::OwnedSemaphorePermit,
};

use super::{ServerError, Shared, agents::TunnelStream};
use crate::{
    destination::Destination,
    failure::{Failure, TunnelError},
    protocol,
    pump::pump,
};

/// How long a new connection may take to say where it wants to go.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Only the group that both containers share may connect.
const SOCKET_MODE: u32 = 0o660;

/// A socket in the file system, removed at the end.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    pub(super) listener: UnixListener,
}

impl Socket {
    /// Opens the socket; one that an earlier process left is replaced.
    pub(super) fn bind(path: &Path) -> Result<Self, ServerError> {
        use std::os::unix::fs::PermissionsExt as _;
        let failed = |source| ServerError::Socket {
            path: path.display().to_string(),
            source,
        };
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let mode = std::fs::Permissions::from_mode(SOCKET_MODE);
        std::fs::set_permissions(path, mode).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            listener,
        })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The next start replaces what cannot be removed now.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Answers one connection of the API server.
pub(super) async fn serve<Io>(shared: Arc<Shared>, io: Io)
where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(answer(&shared, request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades();
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection of the API server ended early");
    }
}

async fn answer(shared: &Arc<Shared>, request: Request<Incoming>) -> Response<String> {
    match open(shared, &request).await {
        Ok((stream, permit)) => {
            carry(shared, request, stream, permit);
            Response::new(String::new())
        }
        Err(error) => {
            shared.metrics.failed(error.failure);
            tracing::debug!(
                destination = %request.uri(),
                reason = error.failure.word(),
                %error,
                "a connection could not be made"
            );
            refusal(&error)
        }
    }
}

async fn open(
    shared: &Arc<Shared>,
    request: &Request<Incoming>,
) -> Result<(TunnelStream, OwnedSemaphorePermit), TunnelError> {
    if request.method() != Method::CONNECT {
        let message = "this is a tunnel: send CONNECT host:port";
        return Err(TunnelError::new(Failure::BadRequest, message));
    }
    let destination: Destination = request
        .uri()
        .to_string()
        .parse()
        .map_err(|error| TunnelError::new(Failure::BadRequest, format!("{error}")))?;
    let permit = Arc::clone(&shared.room).try_acquire_owned();
    let permit = permit.map_err(|_| {
        let most = shared.settings.max_streams;
        let message =
            format!("{most} streams are open, which is the most that --max-streams allows");
        TunnelError::new(Failure::Overloaded, message)
    })?;
    let stream = shared.agents.open(&destination).await?;
    Ok((stream, permit))
}

/// Carries the bytes of a connection, as soon as the API server has its answer.
fn carry(
    shared: &Arc<Shared>,
    request: Request<Incoming>,
    stream: TunnelStream,
    permit: OwnedSemaphorePermit,
) {
    let metrics = shared.metrics.clone();
    shared.streams.spawn("tunnel-stream", async move {
        let _permit = permit;
        let _open = metrics.streaming();
        let destination = request.uri().clone();
        let upgraded = match hyper::upgrade::on(request).await {
            Ok(upgraded) => upgraded,
            Err(error) => {
                tracing::debug!(%destination, %error, "the API server left before its connection was made");
                return;
            }
        };
        let TunnelStream {
            send,
            receive,
            ended,
            place: _place,
        } = stream;
        let mut local = TokioIo::new(upgraded);
        if let Err(error) = pump(&mut local, send, receive, &ended, &metrics).await {
            tracing::debug!(%destination, %error, "a stream ended early");
        }
    });
}

/// The API server shows its user the status line, and nothing else: what went wrong goes there.
fn refusal(error: &TunnelError) -> Response<String> {
    let mut response = Response::new(format!("{error}\n"));
    *response.status_mut() = error.failure.status();
    let words = protocol::words(&error.message);
    if let Ok(phrase) = ReasonPhrase::try_from(words.as_bytes()) {
        response.extensions_mut().insert(phrase);
    }
    response
}
