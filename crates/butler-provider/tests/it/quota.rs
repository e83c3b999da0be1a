//! Machines of a tenant cluster count for it: one too many waits, says so, and is made when there is room.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use butler_api::butler::{
    ip_allocation::IPAllocation,
    machine_request::{MachinePhase, MachineRequest},
    network_pool::NetworkPool,
    provider_config::ProviderConfig,
    tenant_cluster::TenantCluster,
};
use butler_controller::{
    ip_allocation::IPAllocationReconciler, network_pool::NetworkPoolReconciler,
};
use butler_provider::{
    fake::{CAPABILITIES, Cloud, FakeProvider, PASSWORD},
    run,
};
use butler_runtime::{
    client::Component,
    controller::ControllerSettings,
    manager::{Manager, ManagerOptions},
    shutdown::Shutdown,
    task,
};
use butler_testkit::{ApiServer, Options, eventually};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Resource,
    api::{DeleteParams, ListParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(1);

async fn create<K>(api: &Api<K>, mut body: Value)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    body["apiVersion"] = K::api_version(&()).into();
    body["kind"] = K::kind(&()).into();
    let object = serde_json::from_value(body).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// A worker of the cluster `shop`, as its infrastructure asks for it.
fn worker(name: &str, namespace: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": {
        "providerRef": { "name": "cloud" },
        "role": "worker", "cpu": 1, "memoryMB": 1024, "diskGB": 10,
        "labels": {
            "butler.butlerlabs.dev/tenant": "shop",
            "butler.butlerlabs.dev/source-namespace": namespace,
        },
    } })
}

fn runs(found: Option<&MachineRequest>) -> bool {
    let status = found.and_then(|request| request.status.as_ref());
    status.is_some_and(|status| status.phase == Some(MachinePhase::Running))
}

/// What a request says about why it is not ready.
fn words(request: &MachineRequest) -> String {
    let status = request.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    let ready = conditions.find(|condition| condition.type_ == "Ready");
    ready.map_or_else(String::new, |ready| {
        format!("{}: {}", ready.reason, ready.message)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_too_many_for_its_tenant_says_so_and_is_made_when_another_goes() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let namespace = server.namespace("machines").await;
    let client = server.client_as("story");
    let cloud = Arc::new(Cloud::default());
    let provider = Arc::new(FakeProvider::new(Arc::clone(&cloud), CAPABILITIES));
    let component = run::component::<FakeProvider>();
    let mut manager = Manager::new(
        server.client_as(&component),
        Component::new(&component, "test").unwrap(),
    );
    let changes = task::spawn("changes", run::add(&mut manager, &provider));
    let mut platform = Manager::new(
        server.client_as("butler-controller"),
        Component::new("butler-controller", "test").unwrap(),
    );
    let pools = NetworkPoolReconciler::new(&Arc::default());
    platform.add(pools, ControllerSettings::default());
    platform.add(
        IPAllocationReconciler::default(),
        ControllerSettings::default(),
    );
    let shutdown = Shutdown::new();
    let processes = [("provider", manager), ("platform", platform)].map(|(name, manager)| {
        task::spawn(
            name,
            manager.run(ManagerOptions::default(), shutdown.clone()),
        )
    });

    let secrets: Api<Secret> = namespace.api(client.clone());
    let login = Secret {
        metadata: kube::core::ObjectMeta {
            name: Some("login".to_owned()),
            ..Default::default()
        },
        data: Some(BTreeMap::from([(
            "password".to_owned(),
            ByteString(PASSWORD.as_bytes().to_vec()),
        )])),
        ..Secret::default()
    };
    secrets
        .create(&PostParams::default(), &login)
        .await
        .unwrap();
    let pools: Api<NetworkPool> = namespace.api(client.clone());
    let pool = json!({ "metadata": { "name": "rack" }, "spec": { "cidr": "10.213.73.0/24" } });
    create(&pools, pool).await;
    let configurations: Api<ProviderConfig> = namespace.api(client.clone());
    create(
        &configurations,
        json!({ "metadata": { "name": "cloud" }, "spec": {
            "provider": "nutanix",
            "credentialsRef": { "name": "login" },
            "nutanix": { "endpoint": "https://prism.example", "clusterUUID": "c", "subnetUUID": "s" },
            "network": {
                "mode": "ipam", "poolRefs": [{ "name": "rack" }],
                "quotaPerTenant": { "maxNodeIPs": 1 },
            },
        } }),
    )
    .await;
    let clusters: Api<TenantCluster> = namespace.api(client.clone());
    create(
        &clusters,
        json!({ "metadata": { "name": "shop" }, "spec": {
            "kubernetesVersion": "v1.35.4", "workers": { "replicas": 2 },
            "providerConfigRef": { "name": "cloud", "namespace": namespace.name() },
        } }),
    )
    .await;

    let requests: Api<MachineRequest> = namespace.api(client.clone());
    create(&requests, worker("worker-0", namespace.name())).await;
    eventually(&requests, "worker-0", "runs", PATIENCE, runs).await;
    create(&requests, worker("worker-1", namespace.name())).await;
    let told = eventually(&requests, "worker-1", "is told", PATIENCE, |found| {
        found.is_some_and(|request| words(request).starts_with("QuotaExceeded: "))
    })
    .await;
    let expected = format!(
        "QuotaExceeded: spec.count: TenantCluster {}/shop may have 1 nodes addresses and has 1; 1 more is too many; ask for less, or \
         raise network.quotaPerTenant.maxNodeIPs of the ProviderConfig",
        namespace.name()
    );
    assert_eq!(words(&told), expected);
    assert_eq!(cloud.machines().len(), 1);
    // Machines of nobody count for nobody.
    let mut foreign = worker("foreign", namespace.name());
    foreign["spec"]["labels"] = json!({});
    create(&requests, foreign).await;
    eventually(&requests, "foreign", "runs", PATIENCE, runs).await;

    let delete = DeleteParams::default();
    requests.delete("worker-0", &delete).await.unwrap();
    eventually(&requests, "worker-1", "runs", PATIENCE, runs).await;
    let allocations: Api<IPAllocation> = namespace.api(client);
    let of_shop = ListParams::default().labels("butler.butlerlabs.dev/source-name=shop");
    let found = allocations.list(&of_shop).await.unwrap();
    let owners = found
        .iter()
        .filter_map(|found| found.spec.owner_ref.clone());
    let owners: Vec<_> = owners.map(|owner| owner.name).collect();
    assert!(owners.contains(&"worker-1".to_owned()), "{owners:?}");
    shutdown.begin();
    for process in processes {
        process.await.unwrap().unwrap();
    }
    changes.abort();
}
