use butler_testkit::{ApiServer, Controllers, Options, eventually_gone};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, PostParams};

use crate::{PATIENCE, config_map};

#[tokio::test]
async fn housekeeping_collects_orphans_and_removes_namespaces() {
    let options = Options {
        controllers: Controllers::Housekeeping,
        ..Options::default()
    };
    let server = ApiServer::start(options).await.unwrap();
    let namespace = server.namespace("household").await;
    let api = namespace.api::<ConfigMap>(server.client());
    let create = PostParams::default();
    let owner = api
        .create(&create, &config_map("owner", &[]))
        .await
        .unwrap();
    let mut dependent = config_map("dependent", &[]);
    dependent.owner_references_mut().push(OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap(),
        ..OwnerReference::default()
    });
    api.create(&create, &dependent).await.unwrap();

    api.delete("owner", &DeleteParams::background())
        .await
        .unwrap();
    eventually_gone(&api, "dependent", PATIENCE).await;

    let name = namespace.name().to_owned();
    drop(namespace);
    eventually_gone(&Api::<Namespace>::all(server.client()), &name, PATIENCE).await;
}
