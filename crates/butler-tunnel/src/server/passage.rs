//! The passage of the tenant's proxies to the API server, for tenants that have no other way there.
//!
//! Behind an Ingress or a Gateway, connections are told apart by the name that a client asks for, and pods ask for none of the
//! API server's public names. A proxy in the tenant asks for the tunnel's name instead, and its connection is carried on to the
//! API server byte by byte: what is inside of it is TLS between pod and API server, of which nobody else holds a key.
//!
//! Nobody is asked who they are. It leads where the public name leads, and there the API server judges everybody.

use std::{sync::Arc, time::Duration};

use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::{
    Shared,
    session::{Ended, SessionError},
};
use crate::{destination, relay::relay};

/// How many connections may pass at a time.
pub(super) const MOST_PASSAGES: usize = 4096;
/// How long the API server may take to accept a connection: it is in the same pod.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Leads a connection on to the API server. It is a stream as others are: the end of this process waits for it.
pub(super) fn lead(shared: &Shared, stream: TlsStream<TcpStream>) -> Result<Ended, SessionError> {
    let api_server = shared.settings.api_server.clone();
    let api_server = api_server.ok_or(SessionError::OtherProtocol)?;
    let room = Arc::clone(&shared.passages).try_acquire_owned();
    let room = room.map_err(|_| SessionError::NoRoom)?;
    let metrics = shared.metrics.clone();
    shared.streams.spawn("tunnel-passage", async move {
        let _room = room;
        let local = match destination::reach(&api_server, DIAL_TIMEOUT).await {
            Ok(local) => local,
            Err(error) => {
                metrics.failed(error.failure);
                tracing::warn!(%error, "a proxy of the tenant is not led to the API server");
                return;
            }
        };
        let _open = metrics.streaming();
        if let Err(error) = relay(stream, local).await {
            tracing::debug!(%error, "a passage to the API server ended early");
        }
    });
    Ok(Ended::Passed)
}
