//! The TLS server of admission: accepts connections, shows the current certificate, hands requests
//! to the router. A new certificate is shown to the next connection; nothing is restarted.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::AdmissionError;
use crate::serve::Listener;
use crate::shutdown::GRACE;
use crate::task::TaskGroup;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Accepting fails when the process has no file descriptors left; trying at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// The certificate that is shown now, if there is one yet.
#[derive(Debug, Default)]
pub(super) struct CurrentCertificate(RwLock<Option<Arc<CertifiedKey>>>);

impl CurrentCertificate {
    pub(super) fn set(&self, certificate: CertifiedKey) {
        let certificate = Some(Arc::new(certificate));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = certificate;
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Answers until `shutdown`, then finishes the requests that are under way.
pub(super) async fn serve(
    listener: Listener,
    router: Router,
    certificate: Arc<CurrentCertificate>,
    shutdown: CancellationToken,
) -> Result<(), AdmissionError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(AdmissionError::Tls)?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    tracing::info!(address = %listener.address(), purpose = "admission", "listening");
    let listener = listener.into_inner();
    let connections = TaskGroup::new(shutdown.child_token());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = Connection {
                    stream,
                    acceptor: acceptor.clone(),
                    router: router.clone(),
                    finish: connections.token().clone(),
                };
                connections.spawn("admission-connection", connection.serve());
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for admission");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    if let Err(error) = connections.finish(GRACE).await {
        tracing::warn!(%error, "admission did not finish");
    }
    Ok(())
}

struct Connection {
    stream: TcpStream,
    acceptor: TlsAcceptor,
    router: Router,
    finish: CancellationToken,
}

impl Connection {
    async fn serve(self) {
        let Self {
            stream,
            acceptor,
            router,
            finish,
        } = self;
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
        let stream = match finish.run_until_cancelled(handshake).await {
            Some(Ok(Ok(stream))) => stream,
            Some(Ok(Err(error))) => {
                tracing::debug!(%error, "a TLS handshake for admission failed");
                return;
            }
            Some(Err(_)) | None => return,
        };
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = finish.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection for admission broke");
        }
    }
}
