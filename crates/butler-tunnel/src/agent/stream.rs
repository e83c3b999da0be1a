//! One connection that the API server wants: dialled, then carried.

use std::{future::poll_fn, sync::Arc};

use bytes::Bytes;
use h2::{RecvStream, server::SendResponse};
use http::{Request, Response};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::{
    destination::{self, Destination},
    failure::{Failure, TunnelError},
    protocol,
    pump::pump,
};

/// Connects to the destination of the request and carries bytes until both sides have ended.
pub(super) async fn carry(
    shared: Arc<Shared>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    ended: CancellationToken,
) {
    let asked = request.uri().to_string();
    let dialled = tokio::select! {
        dialled = dial(&shared, &asked) => dialled,
        // The API server does not wait any more.
        _ = poll_fn(|context| respond.poll_reset(context)) => return,
        () = ended.cancelled() => return,
    };
    let mut local = match dialled {
        Ok(local) => local,
        Err(error) => return refuse(&shared, &mut respond, &asked, &error),
    };
    let _open = shared.metrics.streaming();
    let send = match respond.send_response(Response::new(()), false) {
        Ok(send) => send,
        Err(error) => {
            tracing::debug!(destination = asked, %error, "the server left before its connection was made");
            return;
        }
    };
    let receive = request.into_body();
    if let Err(error) = pump(&mut local, send, receive, &ended, &shared.metrics).await {
        tracing::debug!(destination = asked, %error, "a stream ended early");
        // An end in the middle must not look like the end of what was to be said. A socket that is gone already needs none.
        let _ = local.set_zero_linger();
    }
}

async fn dial(shared: &Shared, asked: &str) -> Result<TcpStream, TunnelError> {
    let destination: Destination = asked
        .parse()
        .map_err(|error| TunnelError::new(Failure::BadRequest, format!("{error}")))?;
    let settings = &shared.settings;
    destination::dial(&destination, &settings.policy, settings.dial_timeout).await
}

fn refuse(shared: &Shared, respond: &mut SendResponse<Bytes>, asked: &str, error: &TunnelError) {
    shared.metrics.failed(error.failure);
    tracing::debug!(
        destination = asked,
        reason = error.failure.word(),
        %error,
        "a connection could not be made"
    );
    let mut response = Response::new(());
    *response.status_mut() = error.failure.status();
    protocol::write_failure(error, response.headers_mut());
    // A server that is gone has no use for the reason.
    let _ = respond.send_response(response, true);
}
