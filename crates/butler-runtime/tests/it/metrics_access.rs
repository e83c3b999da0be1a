//! Who may read `/metrics`, as a real API server decides it.

use std::net::SocketAddr;

use butler_runtime::metrics::Metrics;
use butler_runtime::metrics_access::MetricsAccess;
use butler_runtime::serve::{Listener, metrics_router};
use butler_runtime::task;
use butler_testkit::{ApiServer, Identity, TestNamespace};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::http::{PATIENCE, any_port, get, get_as};

/// How the numbers end, even if there are none yet.
const NUMBERS: &str = "# EOF";

/// A component that serves its numbers to those who may read them.
struct Component {
    address: SocketAddr,
    shutdown: CancellationToken,
}

impl Component {
    async fn that_asks(client: Client) -> Self {
        let listener = Listener::bind("metrics", any_port()).await.unwrap();
        let address = listener.address();
        let shutdown = CancellationToken::new();
        let router = MetricsAccess::new(client).guard(metrics_router(Metrics::new()));
        task::spawn("metrics", listener.serve(router, shutdown.clone()));
        Self { address, shutdown }
    }

    /// The answer to somebody with this token.
    async fn answer(&self, token: &str) -> String {
        get_as(self.address, "/metrics", &format!("Bearer {token}")).await
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// A token of a new service account.
async fn token(server: &ApiServer, namespace: &TestNamespace, account: &str) -> String {
    let accounts = namespace.api::<ServiceAccount>(server.client());
    let made = json!({ "metadata": { "name": account } });
    let made = serde_json::from_value(made).unwrap();
    accounts
        .create(&PostParams::default(), &made)
        .await
        .unwrap();
    let request = TokenRequest {
        spec: TokenRequestSpec::default(),
        ..TokenRequest::default()
    };
    let issued = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .unwrap();
    issued.status.unwrap().token
}

/// Binds an account to a role that may read metrics, as the chart's does.
async fn let_read(server: &ApiServer, namespace: &TestNamespace, account: &str) {
    let name = format!("{}-reader", namespace.name());
    let role = json!({
        "metadata": { "name": name },
        "rules": [{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }],
    });
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": namespace.name() }],
    });
    let roles = Api::<ClusterRole>::all(server.client());
    let bindings = Api::<ClusterRoleBinding>::all(server.client());
    let parameters = PostParams::default();
    let role = serde_json::from_value(role).unwrap();
    roles.create(&parameters, &role).await.unwrap();
    let binding = serde_json::from_value(binding).unwrap();
    bindings.create(&parameters, &binding).await.unwrap();
    let user = format!("system:serviceaccount:{}:{account}", namespace.name());
    let known = timeout(PATIENCE, async { while !may_read(server, &user).await {} });
    known.await.expect("the API server knows of the binding");
}

/// Whether the API server knows already of a new binding: it learns of it by a watch of its own, a moment later.
async fn may_read(server: &ApiServer, user: &str) -> bool {
    let question = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some("/metrics".to_owned()),
                verb: Some("get".to_owned()),
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews = Api::<SubjectAccessReview>::all(server.client());
    let answer = reviews.create(&PostParams::default(), &question).await;
    answer.unwrap().status.unwrap().allowed
}

#[tokio::test]
async fn numbers_are_for_those_whom_the_api_server_lets_read_them() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("readers").await;
    let component = Component::that_asks(server.client_as("readers-component")).await;

    let nobody = get(component.address, "/metrics").await;
    assert!(nobody.starts_with("HTTP/1.0 401"), "{nobody}");
    assert!(nobody.contains("www-authenticate: Bearer"), "{nobody}");
    let password = get_as(component.address, "/metrics", "Basic YTpi").await;
    assert!(password.starts_with("HTTP/1.0 401"), "{password}");
    let asked = server.audit().all().by_user_agent("readers-component");
    assert!(asked.is_empty(), "there was nothing to ask\n{asked}");

    let invented = component.answer("invented").await;
    assert!(invented.starts_with("HTTP/1.0 401"), "{invented}");
    let other = token(server, &namespace, "other").await;
    let other = component.answer(&other).await;
    assert!(other.starts_with("HTTP/1.0 403"), "{other}");
    assert!(other.contains("butler-metrics-reader"), "{other}");
    for refused in [nobody, password, invented, other] {
        assert!(!refused.contains(NUMBERS), "{refused}");
    }

    let reader = token(server, &namespace, "reader").await;
    let_read(server, &namespace, "reader").await;
    let numbers = component.answer(&reader).await;
    assert!(numbers.starts_with("HTTP/1.0 200"), "{numbers}");
    assert!(numbers.contains(NUMBERS), "{numbers}");
}

#[tokio::test]
async fn who_reads_again_is_not_asked_about_again_and_no_question_counts_as_a_write() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("scrapes").await;
    let component = Component::that_asks(server.client_as("scrapes-component")).await;
    let token = token(server, &namespace, "prometheus").await;
    for _ in 0..20 {
        component.answer(&token).await;
    }
    let asked = server.audit().all().by_user_agent("scrapes-component");
    assert_eq!(
        asked.count(),
        2,
        "whose the token is, what they may\n{asked}"
    );
    assert!(asked.clone().writes().is_empty(), "{asked}");
}

#[tokio::test]
async fn nobody_reads_while_the_api_server_cannot_be_asked() {
    let server = ApiServer::shared().await;
    let identity = Identity::user("metrics-without-rights");
    let powerless = server.client_of(&identity, "powerless-component");
    let component = Component::that_asks(powerless).await;
    let answer = component.answer("anything").await;
    assert!(answer.starts_with("HTTP/1.0 503"), "{answer}");
    assert!(!answer.contains(NUMBERS), "{answer}");
}
