//! A cluster that is paused, on a real API server: what is said to Cluster API, and what stays of it.

use butler_api::{
    butler::tenant_cluster::TenantCluster, cluster_api::cluster::Cluster, conditions::types,
    keys::annotations,
};
use butler_runtime::object::Kind;
use butler_testkit::{ApiServer, Controllers, Options, eventually};
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{
    observed::{
        PATIENCE, TENANTS, USER_AGENT, cluster_api, condition, furnish, run_controllers, wish,
    },
    platform::create,
};

async fn annotate(clusters: &Api<TenantCluster>, paused: Option<&str>) {
    let patch = json!({ "metadata": { "annotations": { annotations::PAUSED: paused } } });
    let patch = Patch::Merge(patch);
    let patched = clusters
        .patch("shop", &PatchParams::default(), &patch)
        .await;
    patched.unwrap();
}

/// Waits until the Cluster says this of its pause.
async fn until(clusters: &Api<DynamicObject>, paused: Option<bool>) -> Cluster {
    let what = format!("says paused: {paused:?}");
    let found = eventually(clusters, "shop", &what, PATIENCE, |found| {
        found.is_some_and(|found| found.data["spec"]["paused"].as_bool() == paused)
    });
    serde_json::from_value(json!(found.await)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_api_rests_with_a_paused_cluster_and_goes_on_with_it() {
    let mut options = Options {
        controllers: Controllers::Housekeeping,
        ..Options::default()
    };
    options.custom_resources.extend(cluster_api());
    let server = ApiServer::start(options).await.unwrap();
    let shutdown = run_controllers(&server);
    let client = server.client_as(USER_AGENT);
    furnish(&client).await;
    let tenants = Api::<TenantCluster>::namespaced(client.clone(), TENANTS);
    create(&tenants, wish("shop", "Active")).await;
    let shop = eventually(&tenants, "shop", "is made", PATIENCE, |found| {
        condition(found, types::NETWORK_READY).is_some_and(|found| found.status == "True")
    });
    let place = shop.await.status.unwrap().tenant_namespace.unwrap();
    let kind = Kind::of::<Cluster>().api_resource();
    let clusters = Api::<DynamicObject>::namespaced_with(client.clone(), &place, &kind);
    let made = until(&clusters, None).await;

    annotate(&tenants, Some("true")).await;
    let resting = until(&clusters, Some(true)).await;
    assert!(resting.rests_with_its_tenant());
    assert_eq!(
        resting.spec.infrastructure_ref,
        made.spec.infrastructure_ref
    );
    eventually(
        &tenants,
        "shop",
        "says that it is paused",
        PATIENCE,
        |found| condition(found, types::PAUSED).is_some_and(|found| found.status == "True"),
    )
    .await;

    // Whoever takes the pause from the Cluster alone sees it set again.
    let awake = Patch::Merge(json!({ "spec": { "paused": false } }));
    let parameters = PatchParams::default();
    clusters.patch("shop", &parameters, &awake).await.unwrap();
    until(&clusters, Some(true)).await;

    annotate(&tenants, None).await;
    let awake = until(&clusters, None).await;
    assert!(!awake.rests_with_its_tenant());
    assert_eq!(awake.spec, made.spec);
    eventually(&tenants, "shop", "goes on", PATIENCE, |found| {
        condition(found, types::PAUSED).is_some_and(|found| found.status == "False")
    })
    .await;
    shutdown.begin();
}
