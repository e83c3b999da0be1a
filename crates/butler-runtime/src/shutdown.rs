//! Owns the end of the process: the first SIGTERM or SIGINT asks everything to finish, the second
//! one ends the process at once.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::task;

/// How long work may take to finish after the first signal. Kubernetes kills a pod 30 seconds
/// after it asked it to stop; a lease is to be released before that.
pub const GRACE: Duration = Duration::from_secs(25);

/// Signals cannot be received.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for {signal}, by which this process is asked to stop")]
pub struct ShutdownError {
    signal: &'static str,
    #[source]
    source: std::io::Error,
}

/// The wish that the process ends.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    token: CancellationToken,
}

impl Shutdown {
    /// A shutdown that comes only by [`Self::begin`].
    pub fn new() -> Self {
        Self::default()
    }

    /// A shutdown that also comes by SIGTERM and SIGINT.
    pub fn on_signals() -> Result<Self, ShutdownError> {
        let shutdown = Self::new();
        let mut signals = Signals {
            terminate: listen("SIGTERM", SignalKind::terminate())?,
            interrupt: listen("SIGINT", SignalKind::interrupt())?,
        };
        let begun = shutdown.clone();
        task::spawn("signals", async move {
            let first = signals.next().await;
            tracing::info!(
                signal = first.name,
                "finishing; a second signal ends at once"
            );
            begun.begin();
            let second = signals.next().await;
            tracing::warn!(
                signal = second.name,
                "second signal: ending without finishing"
            );
            // The user asked twice, so nothing is waited for.
            std::process::exit(second.exit_code);
        });
        Ok(shutdown)
    }

    /// Asks everything to finish.
    pub fn begin(&self) {
        self.token.cancel();
    }

    /// Whether the end was asked for.
    pub fn has_begun(&self) -> bool {
        self.token.is_cancelled()
    }

    /// A token that is cancelled when the end is asked for.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }
}

fn listen(name: &'static str, kind: SignalKind) -> Result<Signal, ShutdownError> {
    signal(kind).map_err(|source| ShutdownError {
        signal: name,
        source,
    })
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

struct Received {
    name: &'static str,
    /// What a shell reports for a process ended by this signal: 128 and the signal's number.
    exit_code: i32,
}

impl Signals {
    async fn next(&mut self) -> Received {
        tokio::select! {
            _ = self.terminate.recv() => Received { name: "SIGTERM", exit_code: 143 },
            _ = self.interrupt.recv() => Received { name: "SIGINT", exit_code: 130 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_holders_of_the_token_hear_the_end() {
        let shutdown = Shutdown::new();
        let token = shutdown.token();
        assert!(!shutdown.has_begun());
        shutdown.clone().begin();
        token.cancelled().await;
        assert!(shutdown.has_begun());
    }
}
