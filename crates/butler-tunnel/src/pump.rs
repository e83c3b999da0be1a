//! Carries the bytes of one connection over one stream of the tunnel, both ways.
//!
//! Nothing is read before there is room for it: what the other end's reader does not take is left with whoever writes it.
//! An end of one direction ends that direction alone; anything else that goes wrong ends the stream.

use std::{
    future::poll_fn,
    io,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use h2::{Reason, RecvStream, SendStream};
use prometheus_client::metrics::counter::Counter;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf,
};
use tokio_util::sync::CancellationToken;

use crate::{
    metrics::{Direction, TunnelMetrics},
    protocol::CHUNK,
};

/// How long a stream that has ended one way may be silent the other way. Most peers close both ways at once, but a socket
/// cannot tell us; a stream whose other side never answers its end would stay forever.
const HALF_CLOSED_SILENCE: Duration = Duration::from_mins(2);

/// Why a stream ended before both sides had ended it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PumpError {
    /// The connection of this host broke.
    #[error("the connection broke")]
    Local(#[source] io::Error),
    /// The other end ended the stream, or the tunnel broke.
    #[error("the stream through the tunnel broke")]
    Tunnel(#[source] h2::Error),
    /// The other end gave the stream up.
    #[error("the other end gave up the stream: {0}")]
    Reset(Reason),
    /// The connection between the ends of the tunnel is gone.
    #[error("the tunnel ended")]
    Ended,
    /// One side had ended it, and the other stayed silent.
    #[error(
        "one side had ended the connection, and the other was silent for {HALF_CLOSED_SILENCE:?}"
    )]
    Silent,
}

/// How far a stream is.
struct Progress {
    carried: AtomicU64,
    sent: CancellationToken,
    received: CancellationToken,
}

impl Progress {
    fn carry(&self, counter: &Counter, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        counter.inc_by(count);
        self.carried.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns when one direction has ended and the other has been silent for long.
    async fn silence(&self) {
        tokio::select! {
            () = self.sent.cancelled() => {}
            () = self.received.cancelled() => {}
        }
        loop {
            let before = self.carried.load(Ordering::Relaxed);
            tokio::time::sleep(HALF_CLOSED_SILENCE).await;
            if self.carried.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }
}

/// Carries bytes until both directions have ended. `ended` says that the tunnel is gone.
pub(crate) async fn pump<Local>(
    local: &mut Local,
    mut send: SendStream<Bytes>,
    receive: RecvStream,
    ended: &CancellationToken,
    metrics: &TunnelMetrics,
) -> Result<(), PumpError>
where
    Local: AsyncRead + AsyncWrite + Unpin,
{
    let (reader, writer) = tokio::io::split(local);
    let progress = Progress {
        carried: AtomicU64::new(0),
        sent: CancellationToken::new(),
        received: CancellationToken::new(),
    };
    let into = metrics.bytes_counter(Direction::IntoTunnel);
    let out = metrics.bytes_counter(Direction::OutOfTunnel);
    let outcome = tokio::select! {
        outcome = async {
            tokio::try_join!(
                carry_in(reader, &mut send, &progress, &into),
                carry_out(writer, receive, &progress, &out),
            )
        } => outcome.map(|_| ()),
        () = ended.cancelled() => Err(PumpError::Ended),
        () = progress.silence() => Err(PumpError::Silent),
    };
    if outcome.is_err() {
        send.send_reset(Reason::CONNECT_ERROR);
    }
    outcome
}

async fn carry_in<Local: AsyncRead>(
    mut reader: ReadHalf<Local>,
    send: &mut SendStream<Bytes>,
    progress: &Progress,
    counter: &Counter,
) -> Result<(), PumpError> {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(CHUNK);
        let read = tokio::select! {
            read = reader.read_buf(&mut buffer) => read.map_err(PumpError::Local)?,
            reset = poll_fn(|context| send.poll_reset(context)) => return Err(broken(reset)),
        };
        if read == 0 {
            break;
        }
        progress.carry(counter, read);
        send_all(send, buffer.split().freeze()).await?;
    }
    send.send_data(Bytes::new(), true)
        .map_err(PumpError::Tunnel)?;
    progress.sent.cancel();
    // The other direction may wait for a reader of this host, and would not see a reset.
    tokio::select! {
        reset = poll_fn(|context| send.poll_reset(context)) => Err(broken(reset)),
        () = progress.received.cancelled() => Ok(()),
    }
}

/// Sends as much at a time as the other end has room for.
async fn send_all(send: &mut SendStream<Bytes>, mut chunk: Bytes) -> Result<(), PumpError> {
    while !chunk.is_empty() {
        send.reserve_capacity(chunk.len());
        let capacity = poll_fn(|context| send.poll_capacity(context)).await;
        let capacity = capacity
            .ok_or(PumpError::Ended)?
            .map_err(PumpError::Tunnel)?;
        let now = chunk.split_to(capacity.min(chunk.len()));
        send.send_data(now, false).map_err(PumpError::Tunnel)?;
    }
    Ok(())
}

async fn carry_out<Local: AsyncWrite>(
    mut writer: WriteHalf<Local>,
    mut receive: RecvStream,
    progress: &Progress,
    counter: &Counter,
) -> Result<(), PumpError> {
    while let Some(chunk) = receive.data().await {
        let chunk = chunk.map_err(PumpError::Tunnel)?;
        writer.write_all(&chunk).await.map_err(PumpError::Local)?;
        progress.carry(counter, chunk.len());
        // Only now may the other end send more.
        receive
            .flow_control()
            .release_capacity(chunk.len())
            .map_err(PumpError::Tunnel)?;
    }
    match writer.shutdown().await {
        // Who has closed both ways needs no end of one.
        Err(error) if error.kind() != io::ErrorKind::NotConnected => {
            return Err(PumpError::Local(error));
        }
        _ => {}
    }
    progress.received.cancel();
    Ok(())
}

fn broken(reset: Result<Reason, h2::Error>) -> PumpError {
    match reset {
        Ok(reason) => PumpError::Reset(reason),
        Err(error) => PumpError::Tunnel(error),
    }
}

#[cfg(test)]
#[path = "pump_tests.rs"]
mod tests;
