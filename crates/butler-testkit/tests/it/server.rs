use butler_testkit::{ApiServer, Controllers, Error, Identity, Options, eventually};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{PATIENCE, config_map};

fn gadgets() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "gadgets.testkit.example" },
        "spec": {
            "group": "testkit.example",
            "scope": "Namespaced",
            "names": { "plural": "gadgets", "kind": "Gadget" },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "spec": {
                        "type": "object",
                        "properties": { "size": { "type": "integer", "minimum": 1 } }
                    } }
                } }
            }]
        }
    }))
    .expect("a well-formed definition")
}

#[tokio::test]
async fn shared_server_is_ready_and_the_same_for_all_who_ask() {
    let server = ApiServer::shared().await;
    let request = http::Request::get("/readyz").body(Vec::new()).unwrap();
    assert_eq!(server.client().request_text(request).await.unwrap(), "ok");
    assert_eq!(ApiServer::shared().await.url(), server.url());
}

#[tokio::test]
async fn two_servers_run_side_by_side() {
    let (one, two) = (
        ApiServer::shared().await,
        ApiServer::start(Options::default()).await.unwrap(),
    );
    let namespace = one.namespace("aside").await;
    let on_two = Api::<Namespace>::all(two.client());
    assert!(on_two.get_opt(namespace.name()).await.unwrap().is_none());
}

#[tokio::test]
async fn custom_resources_are_served_and_validated_from_the_start() {
    let options = Options {
        custom_resources: vec![gadgets()],
        ..Options::default()
    };
    let server = ApiServer::start(options).await.unwrap();
    let namespace = server.namespace("gadgets").await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("testkit.example", "v1", "Gadget"));
    let api = Api::<DynamicObject>::namespaced_with(server.client(), namespace.name(), &resource);
    let gadget = |name: &str, size: i32| {
        DynamicObject::new(name, &resource).data(json!({ "spec": { "size": size } }))
    };
    api.create(&PostParams::default(), &gadget("good", 1))
        .await
        .unwrap();
    let refused = api
        .create(&PostParams::default(), &gadget("bad", 0))
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("spec.size"), "{refused}");
    eventually(&api, "good", "exists", PATIENCE, |found| found.is_some()).await;
}

#[tokio::test]
async fn user_without_rights_is_refused_by_rbac() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("rights").await;
    let jane = Identity::user("jane")
        .in_group("gardeners")
        .in_group("readers");
    let api = namespace.api::<ConfigMap>(server.client_of(&jane, "jane-cli"));
    let refused = api
        .create(&PostParams::default(), &config_map("mine", &[]))
        .await
        .unwrap_err();
    let words = refused.to_string();
    assert!(
        words.contains("jane") && words.contains("forbidden"),
        "{words}"
    );
}

#[tokio::test]
async fn group_of_a_user_counts_for_rbac() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("groups").await;
    let jane = Identity::user("jane")
        .in_group("gardeners")
        .in_group("system:masters");
    let api = namespace.api::<ConfigMap>(server.client_of(&jane, "jane-cli"));
    api.create(&PostParams::default(), &config_map("mine", &[]))
        .await
        .unwrap();
}

#[tokio::test]
async fn kubeconfig_file_leads_a_child_process_to_the_server() {
    let server = ApiServer::shared().await;
    let jane = server.kubeconfig_for(&Identity::user("jane"));
    for (file, user) in [
        (server.kubeconfig(), "butler-testkit-admin"),
        (&jane, "jane"),
    ] {
        let kubeconfig = Kubeconfig::read_from(file).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        let reviews = Api::<SelfSubjectReview>::all(Client::try_from(config).unwrap());
        let review = reviews
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await
            .unwrap();
        let username = review.status.and_then(|status| status.user_info?.username);
        assert_eq!(username.as_deref(), Some(user));
    }
}

#[tokio::test]
async fn server_that_cannot_start_says_why() {
    let options = Options {
        apiserver_flags: vec!["--no-such-flag".to_owned()],
        ..Options::default()
    };
    let error = ApiServer::start(options).await.unwrap_err();
    assert!(
        error.to_string().contains("unknown flag: --no-such-flag"),
        "{error}"
    );
}

#[tokio::test]
async fn port_taken_by_others_is_told_from_other_failures() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let options = Options {
        apiserver_flags: vec![format!("--secure-port={port}")],
        ..Options::default()
    };
    let error = ApiServer::start(options).await.unwrap_err();
    assert!(matches!(error, Error::PortTaken { .. }), "{error}");
}

#[tokio::test]
async fn unknown_version_is_refused_by_name() {
    let options = Options {
        kubernetes: Some("0.0.1".to_owned()),
        controllers: Controllers::None,
        ..Options::default()
    };
    let error = ApiServer::start(options).await.unwrap_err();
    assert!(error.to_string().contains("0.0.1"), "{error}");
}
