//! Whether the other end of a connection is still there.

use std::time::Duration;

use h2::{Ping, PingPong};

/// How often the other end is asked, and how long its answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// The time between an answer and the next question.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(15),
            timeout: Duration::from_secs(10),
        }
    }
}

impl KeepAlive {
    /// Returns when the other end has not answered in time; until then it never does.
    pub(crate) async fn watch(self, ping_pong: Option<PingPong>) {
        let Some(mut ping_pong) = ping_pong else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(self.interval).await;
            let answer = ping_pong.ping(Ping::opaque());
            if !matches!(tokio::time::timeout(self.timeout, answer).await, Ok(Ok(_))) {
                return;
            }
        }
    }
}
