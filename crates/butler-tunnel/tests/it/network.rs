//! The API server's side over the network, by TLS with certificates on both sides.

use std::{net::SocketAddr, sync::Arc};

use butler_tunnel::{
    authentication::CertificatePolicy,
    server::ProxySettings,
    tls::{ClientCertificates, IdentityFiles, ServerTls},
};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::kit::{self, LOCALHOST, Office, any_port, ask, echo};

async fn handshake(
    office: &Office,
    address: SocketAddr,
    identity: &IdentityFiles,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(office.authority()).unwrap())
        .unwrap();
    let chain = CertificateDer::from_pem_file(&identity.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&identity.key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![chain], key)
        .unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::from(LOCALHOST);
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

#[tokio::test]
async fn the_api_server_and_nobody_else_uses_the_tunnel_over_the_network() {
    let office = Office::new();
    let stranger = Office::new();
    let mut settings = office.server_settings();
    settings.proxy = Some(ProxySettings {
        address: any_port(),
        tls: ServerTls::new(
            office.server(),
            ClientCertificates::Required(office.authority()),
        ),
        client: CertificatePolicy {
            common_name: Some("kube-apiserver".to_owned()),
            organization: None,
        },
    });
    let server = kit::serve(settings).await;
    let _agent = kit::join(office.agent_settings(server.agent_address));
    server.process.is_connected_to(1).await;
    let address = server.proxy_address.expect("a port");
    let echo = echo().await;

    let identity = office.client("kube-apiserver", "system:masters");
    let mut stream = handshake(&office, address, &identity).await.unwrap();
    ask(&mut stream, echo).await.unwrap();
    stream.write_all(b"through TLS").await.unwrap();
    let mut answer = [0; 11];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"through TLS");

    // A kubelet has a certificate of the same authority, and no business here.
    for (issuer, name) in [
        (&office, "system:node:worker"),
        (&stranger, "kube-apiserver"),
    ] {
        let identity = issuer.client(name, "system:nodes");
        // With TLS 1.3 a client learns with its first answer that it was refused.
        if let Ok(mut stream) = handshake(&office, address, &identity).await {
            let _ = stream
                .write_all(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n")
                .await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert_eq!(answer, b"", "{name} was answered");
        }
    }
    server.process.has_refused(2).await;
}
