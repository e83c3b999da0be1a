//! Butler's charts on a real API server: installed, upgraded, removed.

use std::time::Duration;

use butler_helm::{Release, ReleasePhase, Upgrade};
use butler_testkit::{ApiServer, Controllers, Options, eventually, eventually_all};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, Secret},
    rbac::v1::ClusterRole,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::ListParams};
use serde_json::json;

use crate::support::{
    PATIENCE, SYSTEM, Workshop, accept, name, objects, ours, restricted_namespace, value_sets,
};

const TIMEOUT: Duration = Duration::from_mins(1);

/// A server without anything of Butler's.
async fn bare_server(controllers: Controllers) -> ApiServer {
    let options = Options {
        controllers,
        custom_resources: Vec::new(),
        ..Options::default()
    };
    ApiServer::start(options).await.unwrap()
}

#[tokio::test]
async fn butler_is_installed_upgraded_and_removed_by_its_charts() {
    let server = bare_server(Controllers::None).await;
    let workshop = Workshop::on(&server).await;
    let helm = &workshop.helm;
    let upgrade = Upgrade::without_waiting(TIMEOUT);

    let definitions = ours("butler-crds", json!({}));
    let waiting = Upgrade::waiting(TIMEOUT);
    let report = helm.upgrade(&definitions, &waiting).await.unwrap();
    assert_eq!((report.revision, report.phase), (1, ReleasePhase::Deployed));
    let kinds = Api::<CustomResourceDefinition>::all(server.client());
    let kinds = kinds.list(&ListParams::default()).await.unwrap();
    assert!(kinds.items.len() > 20, "{}", kinds.items.len());

    // Nothing is changed by asking what would be.
    let butler = |values| ours("butler", values);
    let planned = helm.dry_run(&butler(json!({}))).await.unwrap();
    assert!(planned.contains("kind: Deployment"), "{planned}");
    assert_eq!(helm.status(&name(SYSTEM, "butler")).await.unwrap(), None);

    let report = helm.upgrade(&butler(json!({})), &upgrade).await.unwrap();
    assert_eq!((report.revision, report.phase), (1, ReleasePhase::Deployed));
    assert!(report.notes.contains("butler-system"), "{}", report.notes);
    let changed = butler(json!({ "controller": { "replicas": 3 } }));
    let report = helm.upgrade(&changed, &upgrade).await.unwrap();
    assert_eq!((report.revision, report.phase), (2, ReleasePhase::Deployed));
    let deployments = Api::<Deployment>::namespaced(server.client(), SYSTEM);
    let controller = deployments.get("butler-controller").await.unwrap();
    assert_eq!(controller.spec.unwrap().replicas, Some(3));

    let status = helm.status(&name(SYSTEM, "butler")).await.unwrap();
    assert_eq!(status, Some(report));
    let listed = helm.list(Some(&SYSTEM.parse().unwrap())).await.unwrap();
    let listed: Vec<_> = listed
        .iter()
        .map(|release| (release.name.as_str(), release.revision))
        .collect();
    assert_eq!(listed, [("butler", 2), ("butler-crds", 1)]);
    assert_eq!(
        helm.list(Some(&"default".parse().unwrap())).await.unwrap(),
        []
    );

    for _ in ["once", "and again: it is gone already"] {
        helm.uninstall(&name(SYSTEM, "butler"), TIMEOUT)
            .await
            .unwrap();
    }
    let left = deployments.list(&ListParams::default()).await.unwrap();
    assert!(left.items.is_empty(), "{left:?}");
    let roles = Api::<ClusterRole>::all(server.client());
    assert!(roles.get_opt("butler-controller").await.unwrap().is_none());
}

#[tokio::test]
async fn every_object_is_accepted_as_it_is_written() {
    let server = bare_server(Controllers::None).await;
    let workshop = Workshop::on(&server).await;
    let client = server.client();
    restricted_namespace(&client).await;
    let releases: Vec<Release> = std::iter::once(ours("butler-crds", json!({})))
        .chain(value_sets().map(|(_, values)| ours("butler", values)))
        .collect();
    for release in releases {
        for object in objects(&workshop.helm.template(&release).await.unwrap()) {
            accept(&client, object).await;
        }
    }
}

#[tokio::test]
async fn pods_start_where_only_restricted_ones_may_and_the_host_gets_its_token() {
    let server = bare_server(Controllers::All).await;
    let workshop = Workshop::on(&server).await;
    restricted_namespace(&server.client()).await;
    let values = json!({ "local": { "enabled": true }, "providers": { "harvester": {} } });
    let upgrade = Upgrade::without_waiting(TIMEOUT);
    workshop
        .helm
        .upgrade(&ours("butler", values), &upgrade)
        .await
        .unwrap();

    let pods = Api::<Pod>::namespaced(server.client(), SYSTEM);
    let selector = "app.kubernetes.io/part-of=butler";
    eventually_all(
        &pods,
        selector,
        "two controllers, two Stewards and a provider",
        PATIENCE,
        |found| found.len() == 5,
    )
    .await;
    let secrets = Api::<Secret>::namespaced(server.client(), SYSTEM);
    let token = "butler-provider-local-token";
    eventually(&secrets, token, "has a token", PATIENCE, |secret| {
        let data = secret.and_then(|secret| secret.data.as_ref());
        data.is_some_and(|data| data.contains_key("token") && data.contains_key("ca.crt"))
    })
    .await;
}
