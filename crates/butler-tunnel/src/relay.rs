//! Carries the bytes of one connection over another, both ways, as they are.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf},
    time::timeout,
};

/// How long the second direction may go on when the first has ended. What is carried is TLS, where both ends close soon after
/// one has; a peer that vanished would never do so.
const LAST_WORDS: Duration = Duration::from_mins(2);

/// Carries bytes until both directions have ended. An end of one direction ends that direction alone.
pub(crate) async fn relay<One, Other>(one: One, other: Other) -> io::Result<()>
where
    One: AsyncRead + AsyncWrite,
    Other: AsyncRead + AsyncWrite,
{
    let (one_reader, one_writer) = tokio::io::split(one);
    let (other_reader, other_writer) = tokio::io::split(other);
    let mut forth = std::pin::pin!(carry(one_reader, other_writer));
    let mut back = std::pin::pin!(carry(other_reader, one_writer));
    let rest = tokio::select! {
        ended = &mut forth => {
            ended?;
            timeout(LAST_WORDS, back).await
        }
        ended = &mut back => {
            ended?;
            timeout(LAST_WORDS, forth).await
        }
    };
    rest.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn carry<From: AsyncRead, To: AsyncWrite>(
    mut from: ReadHalf<From>,
    mut to: WriteHalf<To>,
) -> io::Result<()> {
    tokio::io::copy(&mut from, &mut to).await?;
    to.shutdown().await
}
