//! Owns the plain HTTP listeners of a process: `/healthz`, `/readyz` and `/metrics`. It knows no
//! controller; what is ready is said by the checks that others register, and who may read the numbers
//! by [`crate::metrics_access`].

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::{self, Metrics};
use crate::metrics_access;

/// A listener cannot be opened or stopped to work.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be used.
    #[error("cannot listen on {address} for {purpose}; choose another address")]
    Bind {
        /// What the listener is for.
        purpose: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The listener broke.
    #[error("the listener for {purpose} on {address} stopped")]
    Serve {
        /// What the listener is for.
        purpose: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What must be true before the process is ready. A clone is the same list.
#[derive(Clone, Default)]
pub struct ReadyChecks {
    checks: Arc<RwLock<Vec<(String, Check)>>>,
}

impl std::fmt::Debug for ReadyChecks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let checks = self.checks.read().unwrap_or_else(PoisonError::into_inner);
        formatter
            .debug_list()
            .entries(checks.iter().map(|(name, _)| name))
            .finish()
    }
}

impl ReadyChecks {
    /// A list without a check, which is always ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check. It must answer at once, from memory; the error is the reason why not.
    pub fn register(
        &self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        let mut checks = self.checks.write().unwrap_or_else(PoisonError::into_inner);
        checks.push((name.into(), Box::new(check)));
    }

    /// Asks all checks: whether all say yes, and a line for each.
    pub fn report(&self) -> (bool, String) {
        let checks = self.checks.read().unwrap_or_else(PoisonError::into_inner);
        let mut ready = true;
        let mut lines = String::new();
        for (name, check) in checks.iter() {
            // Writing to a String cannot fail.
            let _ = match check() {
                Ok(()) => writeln!(lines, "[+]{name} ok"),
                Err(reason) => {
                    ready = false;
                    writeln!(lines, "[-]{name} {reason}")
                }
            };
        }
        lines.push_str(if ready { "ready\n" } else { "not ready\n" });
        (ready, lines)
    }
}

/// Answers `/healthz` and `/readyz`.
pub fn health_router(checks: ReadyChecks) -> Router {
    async fn alive() -> &'static str {
        "ok\n"
    }
    async fn ready(State(checks): State<ReadyChecks>) -> (StatusCode, String) {
        let (ready, lines) = checks.report();
        (
            if ready {
                StatusCode::OK
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            },
            lines,
        )
    }
    Router::new()
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .with_state(checks)
}

/// Answers `/metrics`, to everybody.
pub fn metrics_router(metrics: Metrics) -> Router {
    async fn numbers(State(metrics): State<Metrics>) -> Response {
        match metrics.encode() {
            Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
            Err(error) => {
                tracing::error!(%error, "cannot encode the metrics");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
    Router::new()
        .route(metrics_access::PATH, get(numbers))
        .with_state(metrics)
}

/// An open listener.
#[derive(Debug)]
pub struct Listener {
    purpose: &'static str,
    address: SocketAddr,
    socket: TcpListener,
}

impl Listener {
    /// Opens a listener; port 0 takes a free port.
    pub async fn bind(purpose: &'static str, address: SocketAddr) -> Result<Self, ServeError> {
        let opened = async {
            let socket = TcpListener::bind(address).await?;
            let address = socket.local_addr()?;
            Ok((address, socket))
        };
        match opened.await {
            Ok((address, socket)) => Ok(Self {
                purpose,
                address,
                socket,
            }),
            Err(source) => Err(ServeError::Bind {
                purpose,
                address,
                source,
            }),
        }
    }

    /// The address, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The open socket.
    pub(crate) fn into_inner(self) -> TcpListener {
        self.socket
    }

    /// Answers requests until `shutdown`, then finishes those that are under way.
    pub async fn serve(
        self,
        router: Router,
        shutdown: CancellationToken,
    ) -> Result<(), ServeError> {
        let Self {
            purpose,
            address,
            socket,
        } = self;
        tracing::info!(%address, purpose, "listening");
        axum::serve(socket, router)
            .with_graceful_shutdown(shutdown.cancelled_owned())
            .await
            .map_err(|source| ServeError::Serve {
                purpose,
                address,
                source,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_lists_each_check_and_why_not() {
        let checks = ReadyChecks::new();
        checks.register("caches", || Ok(()));
        assert_eq!(checks.report(), (true, "[+]caches ok\nready\n".to_owned()));
        checks.register("webhooks", || Err("no certificate yet".to_owned()));
        let expected = "[+]caches ok\n[-]webhooks no certificate yet\nnot ready\n";
        assert_eq!(checks.report(), (false, expected.to_owned()));
    }

    #[tokio::test]
    async fn a_taken_address_is_named() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let first = Listener::bind("health", any).await.expect("a free port");
        let taken = first.address();
        let error = Listener::bind("metrics", taken)
            .await
            .expect_err("the port is taken");
        let expected = format!("cannot listen on {taken} for metrics; choose another address");
        assert_eq!(error.to_string(), expected);
    }
}
