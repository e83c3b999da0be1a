//! A cluster of the real Cluster API on machines of Butler. Only the provider is played: it writes the status of requests.

use std::time::Duration;

use butler_api::{
    butler::{machine_request::MachineRequest, provider_config::ProviderConfig},
    cluster_api::{butler_cluster::ButlerCluster, butler_machine::ButlerMachine},
    keys::{finalizers, labels, names},
};
use butler_controller::{
    butler_cluster::ButlerClusterReconciler, butler_machine::ButlerMachineReconciler,
    provider_config::ProviderConfigReconciler, run::COMPONENT,
};
use butler_runtime::{
    client::Component,
    controller::ControllerSettings,
    manager::{Manager, ManagerOptions},
    object::Kind,
    shutdown::Shutdown,
    task,
};
use butler_testkit::{ApiServer, eventually, eventually_gone};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{manager, scene};
use crate::{
    platform::create,
    scene::{SYSTEM, TEAM, namespace, object, provider, secret_kind, system},
};

const PATIENCE: Duration = Duration::from_mins(1);

/// Runs our controllers beside the test.
fn run_controllers(server: &ApiServer) -> Shutdown {
    let shutdown = Shutdown::new();
    let component = Component::new(COMPONENT, "test").unwrap();
    let mut manager = Manager::new(server.client_as(COMPONENT), component);
    let settings = ControllerSettings::default;
    manager.add(ProviderConfigReconciler::default(), settings());
    manager.add(ButlerClusterReconciler, settings());
    manager.add(ButlerMachineReconciler, settings());
    let running = shutdown.clone();
    task::spawn(COMPONENT, manager.run(ManagerOptions::default(), running));
    shutdown
}

/// Objects of a kind of Cluster API.
fn foreign(client: &Client, kind: &Kind) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), TEAM, &kind.api_resource())
}

async fn create_foreign(client: &Client, kind: &Kind, body: Value) {
    let body: DynamicObject = serde_json::from_value(body).unwrap();
    let api = foreign(client, kind);
    api.create(&PostParams::default(), &body).await.unwrap();
}

/// Waits until Cluster API says that the infrastructure of an object is provisioned.
async fn provisioned(client: &Client, kind: &Kind, name: &str) -> Value {
    let what = "has its infrastructure";
    let api = foreign(client, kind);
    let found = eventually(&api, name, what, PATIENCE, |found| {
        let pointer = "/status/initialization/infrastructureProvisioned";
        found.and_then(|found| found.data.pointer(pointer)) == Some(&json!(true))
    });
    found.await.data
}

/// A cluster named `shop` with a provider that is ready and one machine with bootstrap data.
async fn make_cluster(client: &Client) {
    let namespaces = Api::<Namespace>::all(client.clone());
    for name in [SYSTEM, TEAM] {
        create(&namespaces, namespace(name)).await;
    }
    let providers = Api::<ProviderConfig>::namespaced(client.clone(), SYSTEM);
    let rack = provider(&system("rack"), json!({ "provider": "local" }));
    create(&providers, rack).await;
    let secrets = Api::<Secret>::namespaced(client.clone(), TEAM);
    let data =
        json!({ "stringData": { "value": "#cloud-config" }, "type": "cluster.x-k8s.io/secret" });
    create(
        &secrets,
        object(&secret_kind(), &scene::here("shop-1-data"), data),
    )
    .await;
    create_foreign(client, &scene::cluster_kind(), scene::cluster()).await;
    let clusters = Api::<ButlerCluster>::namespaced(client.clone(), TEAM);
    create(&clusters, scene::butler_cluster(&system("rack"))).await;
    let machine = scene::machine("shop-1", Some("shop-1-data"));
    create_foreign(client, &scene::machine_kind(), machine).await;
    let machines = Api::<ButlerMachine>::namespaced(client.clone(), TEAM);
    create(&machines, scene::butler_machine("shop-1")).await;
}

async fn patch<K>(api: &Api<K>, name: &str, body: Value, status: bool)
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let parameters = PatchParams::default();
    let patch = Patch::Merge(body);
    let patched = if status {
        api.patch_status(name, &parameters, &patch).await
    } else {
        api.patch(name, &parameters, &patch).await
    };
    patched.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_of_the_real_cluster_api_is_made_by_butler_and_goes_without_a_trace() {
    let server = manager::start().await;
    let shutdown = run_controllers(&server);
    let client = server.client_as("tenant");
    make_cluster(&client).await;

    // The infrastructure is ready as soon as the provider is, and the request follows.
    let requests = Api::<MachineRequest>::namespaced(client.clone(), TEAM);
    let request = eventually(&requests, "shop-1", "is asked for", PATIENCE, |found| {
        found.is_some()
    })
    .await;
    assert_eq!(request.labels()[labels::CLUSTER_API_CLUSTER], "shop");
    let data = request.spec.user_data_secret_ref.as_ref().unwrap();
    assert_eq!(
        (data.name.as_str(), data.key.as_deref()),
        ("shop-1-data", Some("value"))
    );
    assert_eq!(request.spec.provider_ref.as_ref().unwrap().name, "rack");
    assert_eq!(
        request
            .spec
            .provider_ref
            .as_ref()
            .unwrap()
            .namespace
            .as_deref(),
        Some(names::SYSTEM_NAMESPACE)
    );
    provisioned(&client, &scene::cluster_kind(), "shop").await;

    // The provider makes the machine.
    let held = json!({ "metadata": { "finalizers": [finalizers::MACHINE_REQUEST] } });
    patch(&requests, "shop-1", held, false).await;
    let running = json!({ "status": { "phase": "Running", "ipAddress": "172.30.0.7" } });
    patch(&requests, "shop-1", running, true).await;

    // Cluster API takes it for what it is.
    let found = provisioned(&client, &scene::machine_kind(), "shop-1").await;
    let identity = format!("butler-local://{}", request.uid().unwrap());
    assert_eq!(found["spec"]["providerID"], identity);
    assert_eq!(
        found["status"]["addresses"],
        json!([
            { "type": "InternalIP", "address": "172.30.0.7" },
            { "type": "Hostname", "address": "shop-1" },
        ])
    );
    let conditions = found["status"]["conditions"].as_array().unwrap();
    let mut infrastructure = conditions
        .iter()
        .filter(|condition| condition["type"] == "InfrastructureReady");
    assert_eq!(
        infrastructure.next().unwrap()["status"],
        "True",
        "{found:#}"
    );

    // Deleted with its cluster, the machine goes first, and only when the provider has let go.
    let clusters = foreign(&client, &scene::cluster_kind());
    clusters
        .delete("shop", &DeleteParams::default())
        .await
        .unwrap();
    eventually(&requests, "shop-1", "is being deleted", PATIENCE, |found| {
        found.is_some_and(|request| request.metadata.deletion_timestamp.is_some())
    })
    .await;
    let infrastructure = Api::<ButlerCluster>::namespaced(client.clone(), TEAM);
    assert!(infrastructure.get_opt("shop").await.unwrap().is_some());
    patch(
        &requests,
        "shop-1",
        json!({ "metadata": { "finalizers": null } }),
        false,
    )
    .await;
    eventually_gone(&requests, "shop-1", PATIENCE).await;
    eventually_gone(&infrastructure, "shop", PATIENCE).await;
    let machines = Api::<ButlerMachine>::namespaced(client.clone(), TEAM);
    assert!(
        machines
            .list(&kube::api::ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    eventually_gone(&clusters, "shop", PATIENCE).await;
    shutdown.begin();
}
