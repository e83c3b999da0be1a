use butler_testkit::{ApiServer, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, PostParams};
use pretty_assertions::assert_eq;

use crate::{PATIENCE, config_map};

#[tokio::test]
async fn namespaces_of_two_tests_do_not_see_each_other() {
    let server = ApiServer::shared().await;
    let (one, two) = (
        server.namespace("same").await,
        server.namespace("same").await,
    );
    assert_ne!(one.name(), two.name());
    let create = PostParams::default();
    let in_one = one.api::<ConfigMap>(server.client());
    in_one
        .create(&create, &config_map("settings", &[]))
        .await
        .unwrap();
    let in_two = two.api::<ConfigMap>(server.client());
    assert_eq!(
        in_two
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        0
    );
}

#[tokio::test]
async fn namespace_is_deleted_when_its_test_ends() {
    let server = ApiServer::shared().await;
    let name = server.namespace("brief").await.name().to_owned();
    let api = Api::<Namespace>::all(server.client());
    // No controller of Kubernetes runs here to remove it altogether.
    eventually(&api, &name, "is being deleted", PATIENCE, |found| {
        found.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some())
    })
    .await;
}
