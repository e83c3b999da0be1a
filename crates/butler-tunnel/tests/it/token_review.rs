//! Tokens of agents, judged by a real API server.

use std::{sync::Arc, time::Duration};

use butler_pki::SecretText;
use butler_testkit::{ApiServer, Identity, TestNamespace};
use butler_tunnel::{
    authentication::{AuthenticationError, TokenReviewer, TokenVerifier as _},
    manifests::{self, AgentMode, AgentSpec, names},
};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, PostParams},
};

use crate::kit::{self, Office, connect, echo, echoes};

async fn account(server: &ApiServer, namespace: &TestNamespace, name: &str) -> Api<ServiceAccount> {
    let accounts = namespace.api::<ServiceAccount>(server.client());
    let account = ServiceAccount {
        metadata: kube::api::ObjectMeta {
            name: Some(name.to_owned()),
            ..kube::api::ObjectMeta::default()
        },
        ..ServiceAccount::default()
    };
    accounts
        .create(&PostParams::default(), &account)
        .await
        .unwrap();
    accounts
}

async fn token(accounts: &Api<ServiceAccount>, name: &str, audience: &str) -> String {
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: vec![audience.to_owned()],
            expiration_seconds: Some(600),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let issued = accounts
        .create_token_request(name, &PostParams::default(), &request)
        .await
        .unwrap();
    issued.status.unwrap().token
}

/// The rights the server has in a tenant, given to its user.
async fn grant(server: &ApiServer) {
    let objects = manifests::agent_objects(&AgentSpec {
        image: "butler".to_owned(),
        image_pull_policy: None,
        server: "192.0.2.1:8132".parse().unwrap(),
        server_name: None,
        server_user: names::SERVER_USER.to_owned(),
        mode: AgentMode::DaemonSet,
        host_network: false,
        host_aliases: Vec::new(),
        tolerations: Vec::new(),
        resources: None,
        extra_arguments: Vec::new(),
    });
    let parameters = PostParams::default();
    for outcome in [
        Api::all(server.client())
            .create(&parameters, &objects.cluster_role)
            .await
            .err(),
        Api::all(server.client())
            .create(&parameters, &objects.cluster_role_binding)
            .await
            .err(),
    ] {
        match outcome {
            None => {}
            Some(kube::Error::Api(status)) if status.code == 409 => {}
            Some(error) => panic!("{error}"),
        }
    }
}

fn reviewer(server: &ApiServer, namespace: &TestNamespace) -> TokenReviewer {
    let client = server.client_of(&Identity::user(names::SERVER_USER), "butler-tunnel-server");
    let user = format!("system:serviceaccount:{}:agent", namespace.name());
    TokenReviewer::new(client, names::AUDIENCE, user)
}

fn refusal(outcome: Result<String, AuthenticationError>) -> String {
    match outcome {
        Err(AuthenticationError::Refused(reason)) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn only_the_token_of_an_agent_for_the_tunnel_is_good() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("tunnel").await;
    grant(server).await;
    let reviewer = reviewer(server, &namespace);
    let agent = account(server, &namespace, "agent").await;
    let other = account(server, &namespace, "other").await;

    let right = SecretText::new(token(&agent, "agent", names::AUDIENCE).await);
    let user = reviewer.verify(&right).await.unwrap();
    assert_eq!(
        user,
        format!("system:serviceaccount:{}:agent", namespace.name())
    );

    let elsewhere = token(&agent, "agent", "https://kubernetes.default.svc").await;
    let reason = refusal(reviewer.verify(&SecretText::new(elsewhere)).await);
    assert!(reason.contains("audience butler-tunnel"), "{reason}");

    let stranger = token(&other, "other", names::AUDIENCE).await;
    let reason = refusal(reviewer.verify(&SecretText::new(stranger)).await);
    assert!(reason.contains(":other"), "{reason}");

    let garbage = SecretText::new("no token at all");
    refusal(reviewer.verify(&garbage).await);
    assert!(right.expose().len() < 64 * 1024);
}

#[tokio::test]
async fn an_agent_is_cut_off_when_its_service_account_is_deleted() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("tunnel").await;
    grant(api).await;
    let accounts = account(api, &namespace, "agent").await;
    let office = Office::new();
    let mut settings = office.server_settings();
    settings.reauthentication_interval = Duration::from_millis(100);
    settings.authenticator.tokens = Some(Arc::new(reviewer(api, &namespace)));
    let server = kit::serve(settings).await;
    let mut settings = office.agent_settings(server.agent_address);
    let shown = token(&accounts, "agent", names::AUDIENCE).await;
    settings.token_file = Some(office.write("real", &shown));
    let agent = kit::join(settings);
    agent.is_connected_to(1).await;
    let mut stream = connect(&server.socket, echo().await).await.unwrap();
    assert!(echoes(&mut stream, b"with a real token").await);

    let parameters = DeleteParams::default();
    let deleted = accounts.delete("agent", &parameters).await.unwrap();
    assert!(
        deleted
            .left()
            .is_none_or(|account| account.name_any() == "agent")
    );
    server.process.is_connected_to(0).await;
}

#[tokio::test]
async fn without_rights_nobody_is_judged() {
    let server = ApiServer::shared().await;
    let client = server.client_of(&Identity::user("nobody"), "butler-tunnel-server");
    let reviewer = TokenReviewer::new(client, names::AUDIENCE, "agent");
    let outcome = reviewer.verify(&SecretText::new("any")).await;
    assert!(
        matches!(outcome, Err(AuthenticationError::Unavailable(_))),
        "{outcome:?}"
    );
}
