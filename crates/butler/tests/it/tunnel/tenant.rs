//! What runs in the tenant: a webhook, a pod and a kubelet, as far as the API server can tell.

use std::{convert::Infallible, env, net::SocketAddr, sync::Arc};

use http::{Method, Request, Response};
use hyper::{
    body::{Body as _, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::isolated::{NODE, POD, SERVICE};

/// What the webhook says of everything.
pub(crate) const VERDICT: &str = "the tenant says no";
/// What a container has written.
pub(crate) const LOG: &str = "a line of a pod\n";
/// What a pod answers.
pub(crate) const GREETING: &str = "hello from the tenant\n";
/// Where all of them listen.
pub(crate) const PORT: u16 = 10250;

/// Names the files with the certificate and the key.
pub(crate) const CERTIFICATE: &str = "BUTLER_TUNNEL_TEST_CERTIFICATE";
/// See [`CERTIFICATE`].
pub(crate) const KEY: &str = "BUTLER_TUNNEL_TEST_KEY";
/// The name of [`services_of_the_tenant`], which is run as a process of its own.
pub(crate) const TEST: &str = "tunnel::tenant::services_of_the_tenant";

/// Not a test but a program: it does nothing unless it was started as one.
#[tokio::test]
async fn services_of_the_tenant() {
    let (Ok(certificate), Ok(key)) = (env::var(CERTIFICATE), env::var(KEY)) else {
        return;
    };
    let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listeners = [POD, SERVICE, NODE].map(|address| serve(address, acceptor.clone()));
    futures::future::join_all(listeners).await;
}

async fn serve(address: &str, acceptor: TlsAcceptor) {
    let address = SocketAddr::new(address.parse().unwrap(), PORT);
    let listener = TcpListener::bind(address).await.unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let acceptor = acceptor.clone();
        butler_runtime::task::spawn("tenant", async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(async |request| Ok::<_, Infallible>(answer(request).await));
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            let _ = connection.await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Response<String> {
    if request.uri().path().starts_with("/containerLogs/") {
        return Response::new(LOG.to_owned());
    }
    if request.method() != Method::POST {
        return Response::new(GREETING.to_owned());
    }
    let review: Value = serde_json::from_slice(&body(request.into_body()).await).unwrap();
    let verdict = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"],
            "allowed": false,
            "status": { "message": VERDICT },
        },
    });
    let mut response = Response::new(verdict.to_string());
    let json = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    response
}

async fn body(mut body: Incoming) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(frame) =
        std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await
    {
        if let Ok(data) = frame.unwrap().into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    bytes
}
