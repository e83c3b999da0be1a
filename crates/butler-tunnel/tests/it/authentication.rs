//! Who is let in, at both ends.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use butler_pki::{LeafRequest, SecretText, Usage};
use butler_testkit::process::until;
use butler_tunnel::{
    authentication::{AuthenticationError, Authenticator, CertificatePolicy, TokenVerifier},
    server::ServerSettings,
    tls::{ClientCertificates, ClientTls, ServerTls},
};
use futures::{FutureExt as _, future::BoxFuture};

use crate::kit::{self, LOCALHOST, Office, PATIENCE, TOKEN, connect, echo, echoes, validity};

#[tokio::test]
async fn an_agent_does_not_talk_to_a_server_of_another_authority() {
    let office = Office::new();
    let impostor = Office::new();
    let server = kit::serve(impostor.server_settings()).await;
    let agent = kit::join(office.agent_settings(server.agent_address));
    agent.fails_to_connect().await;
    assert_eq!(server.process.metrics.connections(), 0);
}

#[tokio::test]
async fn an_agent_does_not_talk_to_a_server_whose_certificate_is_for_another_name() {
    let office = Office::new();
    let mut settings = office.server_settings();
    let identity = office.issue(&LeafRequest {
        common_name: "kube-apiserver".to_owned(),
        dns_names: vec!["tenant.example".to_owned()],
        ..LeafRequest::new(Usage::Server, validity())
    });
    settings.agent_tls = ServerTls::new(identity, ClientCertificates::NotAsked);
    let server = kit::serve(settings).await;
    let mistaken = kit::join(office.agent_settings(server.agent_address));
    mistaken.fails_to_connect().await;

    let mut settings = office.agent_settings(server.agent_address);
    settings.server_name = Some("tenant.example".to_owned());
    let told = kit::join(settings);
    told.is_connected_to(1).await;
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_the_agent_is_told() {
    let office = Office::new();
    let server = kit::serve(office.server_settings()).await;
    for token in ["the wrong token", "", "  \n"] {
        let mut settings = office.agent_settings(server.agent_address);
        settings.token_file = Some(office.write("wrong", token));
        let agent = kit::join(settings);
        agent.fails_to_connect().await;
        let told = until(PATIENCE, async || {
            (agent.metrics.refusals() > 0).then_some(())
        });
        assert!(told.await.is_some(), "the agent knows that it was refused");
    }
    assert!(server.process.metrics.refusals() >= 3);
    assert_eq!(server.process.metrics.connections(), 0);
}

#[tokio::test]
async fn an_agent_whose_token_was_renewed_is_let_in() {
    let office = Office::new();
    let server = kit::serve(office.server_settings()).await;
    let mut settings = office.agent_settings(server.agent_address);
    settings.token_file = Some(office.write("renewed", "an old token"));
    let agent = kit::join(settings);
    agent.fails_to_connect().await;
    office.write("renewed", TOKEN);
    agent.is_connected_to(1).await;
}

/// Knows no token any more, once it was told.
struct Revocable(Arc<AtomicBool>);

impl TokenVerifier for Revocable {
    fn verify<'a>(
        &'a self,
        _: &'a SecretText,
    ) -> BoxFuture<'a, Result<String, AuthenticationError>> {
        let revoked = self.0.load(Ordering::SeqCst);
        let refused = AuthenticationError::Refused("the service account is gone".to_owned());
        std::future::ready(if revoked {
            Err(refused)
        } else {
            Ok("agent".to_owned())
        })
        .boxed()
    }
}

#[tokio::test]
async fn an_agent_whose_token_is_no_longer_good_is_cut_off() {
    let office = Office::new();
    let revoked = Arc::new(AtomicBool::new(false));
    let mut settings = office.server_settings();
    settings.reauthentication_interval = Duration::from_millis(20);
    settings.authenticator.tokens = Some(Arc::new(Revocable(Arc::clone(&revoked))));
    let server = kit::serve(settings).await;
    let agent = kit::join(office.agent_settings(server.agent_address));
    agent.is_connected_to(1).await;
    let mut stream = connect(&server.socket, echo().await).await.unwrap();
    for _ in 0..20 {
        assert!(echoes(&mut stream, b"while it is good").await);
    }
    revoked.store(true, Ordering::SeqCst);
    server.process.is_connected_to(0).await;
    server.process.has_streams(0).await;
    agent.is_connected_to(0).await;
}

/// Has judged once, and never again.
struct Away(AtomicBool);

impl TokenVerifier for Away {
    fn verify<'a>(
        &'a self,
        _: &'a SecretText,
    ) -> BoxFuture<'a, Result<String, AuthenticationError>> {
        let away = self.0.swap(true, Ordering::SeqCst);
        let unavailable = AuthenticationError::Unavailable("the API server is away".to_owned());
        std::future::ready(if away {
            Err(unavailable)
        } else {
            Ok("agent".to_owned())
        })
        .boxed()
    }
}

#[tokio::test]
async fn an_agent_stays_while_nobody_can_judge_it() {
    let office = Office::new();
    let mut settings = office.server_settings();
    settings.reauthentication_interval = Duration::from_millis(5);
    settings.authenticator.tokens = Some(Arc::new(Away(AtomicBool::new(false))));
    let server = kit::serve(settings).await;
    let agent = kit::join(office.agent_settings(server.agent_address));
    agent.is_connected_to(1).await;
    let mut stream = connect(&server.socket, echo().await).await.unwrap();
    for _ in 0..200 {
        assert!(echoes(&mut stream, b"it is judged in vain meanwhile").await);
    }
    let newcomer = kit::join(office.agent_settings(server.agent_address));
    newcomer.fails_to_connect().await;
    assert!(echoes(&mut stream, b"the old one is still there").await);
}

fn by_certificate(office: &Office) -> ServerSettings {
    let mut settings = office.server_settings();
    let required = ClientCertificates::Required(office.authority());
    settings.agent_tls = ServerTls::new(office.server(), required);
    settings.authenticator = Authenticator {
        certificates: Some(CertificatePolicy {
            common_name: Some("agent".to_owned()),
            organization: Some("agents".to_owned()),
        }),
        tokens: None,
    };
    settings
}

fn with_certificate(
    office: &Office,
    issuer: &Office,
    server: SocketAddr,
    (common_name, organization): (&str, &str),
) -> kit::Process {
    let identity = issuer.client(common_name, organization);
    let mut settings = office.agent_settings(server);
    settings.token_file = None;
    settings.tls = ClientTls::new(office.authority(), Some(identity));
    kit::join(settings)
}

#[tokio::test]
async fn an_agent_may_be_known_by_its_certificate() {
    let office = Office::new();
    let server = kit::serve(by_certificate(&office)).await;
    let agent = with_certificate(&office, &office, server.agent_address, ("agent", "agents"));
    agent.is_connected_to(1).await;
    let mut stream = connect(&server.socket, echo().await).await.unwrap();
    assert!(echoes(&mut stream, b"by certificate").await);
}

#[tokio::test]
async fn a_wrong_certificate_is_refused() {
    let office = Office::new();
    let stranger = Office::new();
    let server = kit::serve(by_certificate(&office)).await;
    for (issuer, name) in [
        (&stranger, ("agent", "agents")),
        (&office, ("kubelet", "agents")),
        (&office, ("agent", "system:nodes")),
    ] {
        let agent = with_certificate(&office, issuer, server.agent_address, name);
        agent.fails_to_connect().await;
    }
    let without = kit::join(office.agent_settings(server.agent_address));
    without.fails_to_connect().await;
    assert_eq!(server.process.metrics.connections(), 0);
}

#[tokio::test]
async fn an_expired_certificate_ends_the_connection() {
    let office = Office::new();
    let server = kit::serve(by_certificate(&office)).await;
    let now = jiff::Timestamp::now();
    let identity = office.issue(&LeafRequest {
        common_name: "agent".to_owned(),
        organizations: vec!["agents".to_owned()],
        ip_addresses: vec![LOCALHOST],
        ..LeafRequest::new(
            Usage::Client,
            butler_pki::Validity {
                not_before: now - jiff::SignedDuration::from_mins(5),
                not_after: now + jiff::SignedDuration::from_secs(4),
            },
        )
    });
    let mut settings = office.agent_settings(server.agent_address);
    settings.token_file = None;
    settings.tls = ClientTls::new(office.authority(), Some(identity));
    let agent = kit::join(settings);
    agent.is_connected_to(1).await;
    server.process.is_connected_to(0).await;
}

#[tokio::test]
async fn a_new_server_certificate_is_used_without_a_restart() {
    let office = Office::new();
    let mut settings = office.server_settings();
    let identity = office.issue(&LeafRequest {
        common_name: "kube-apiserver".to_owned(),
        dns_names: vec!["old.example".to_owned()],
        ..LeafRequest::new(Usage::Server, validity())
    });
    settings.agent_tls = ServerTls::new(identity.clone(), ClientCertificates::NotAsked);
    let server = kit::serve(settings).await;
    let agent = kit::join(office.agent_settings(server.agent_address));
    agent.fails_to_connect().await;
    let fitting = office.server();
    std::fs::copy(&fitting.key, &identity.key).unwrap();
    std::fs::copy(&fitting.certificate, &identity.certificate).unwrap();
    agent.is_connected_to(1).await;
}
