//! A real API server, with the pools of the platform: what is written is accepted, and at rest nothing is.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use butler_api::butler::{
    ip_allocation::IPAllocation,
    load_balancer_request::LoadBalancerRequest,
    machine_request::{MachinePhase, MachineRequest, MachineRequestStatus},
    network_pool::NetworkPool,
    provider_config::ProviderConfig,
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
use butler_testkit::{ApiServer, Options, eventually, eventually_gone};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(1);

async fn create<K>(api: &Api<K>, body: Value) -> K
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let mut body = body;
    body["apiVersion"] = K::api_version(&()).into();
    body["kind"] = K::kind(&()).into();
    let object = serde_json::from_value(body).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap()
}

fn status(found: Option<&MachineRequest>) -> Option<&MachineRequestStatus> {
    found.and_then(|request| request.status.as_ref())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_served_with_addresses_of_a_pool() {
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
    let changes = run::add(&mut manager, &provider);
    let mut platform = Manager::new(
        server.client_as("butler-controller"),
        Component::new("butler-controller", "test").unwrap(),
    );
    platform.add(
        NetworkPoolReconciler::new(&Arc::default()),
        ControllerSettings::default(),
    );
    platform.add(
        IPAllocationReconciler::default(),
        ControllerSettings::default(),
    );
    let shutdown = Shutdown::new();
    let processes = [
        task::spawn(
            "provider",
            manager.run(ManagerOptions::default(), shutdown.clone()),
        ),
        task::spawn(
            "platform",
            platform.run(ManagerOptions::default(), shutdown.clone()),
        ),
    ];
    let changes = task::spawn("changes", changes);

    let pools: Api<NetworkPool> = namespace.api(client.clone());
    let configurations: Api<ProviderConfig> = namespace.api(client.clone());
    let secrets: Api<Secret> = namespace.api(client.clone());
    let requests: Api<MachineRequest> = namespace.api(client.clone());
    let balancers: Api<LoadBalancerRequest> = namespace.api(client.clone());
    let allocations: Api<IPAllocation> = namespace.api(client.clone());
    create(
        &pools,
        json!({ "metadata": { "name": "rack" }, "spec": { "cidr": "10.213.73.0/24" } }),
    )
    .await;
    create(
        &configurations,
        json!({ "metadata": { "name": "cloud" }, "spec": {
            "provider": "nutanix",
            "credentialsRef": { "name": "login" },
            "nutanix": { "endpoint": "https://prism.example", "clusterUUID": "c", "subnetUUID": "s" },
            "network": { "mode": "ipam", "poolRefs": [{ "name": "rack" }] },
        } }),
    )
    .await;
    let secret = |name: &str, key: &str, value: &str| Secret {
        metadata: kube::core::ObjectMeta {
            name: Some(name.to_owned()),
            ..Default::default()
        },
        data: Some(BTreeMap::from([(
            key.to_owned(),
            ByteString(value.as_bytes().to_vec()),
        )])),
        ..Secret::default()
    };
    let post = PostParams::default();
    let login = secret("login", "password", PASSWORD);
    secrets.create(&post, &login).await.unwrap();

    // The machine is made at once, and told what to do when that is known.
    create(
        &requests,
        json!({ "metadata": { "name": "worker-0" }, "spec": {
            "providerRef": { "name": "cloud" },
            "role": "worker", "cpu": 1, "memoryMB": 1024, "diskGB": 10,
            "userDataSecretRef": { "name": "worker-0-bootstrap" },
        } }),
    )
    .await;
    eventually(&requests, "worker-0", "runs", PATIENCE, |found| {
        status(found).is_some_and(|status| status.phase == Some(MachinePhase::Running))
    })
    .await;
    let bootstrap = secret("worker-0-bootstrap", "value", "#cloud-config\n");
    secrets.create(&post, &bootstrap).await.unwrap();
    let request = eventually(&requests, "worker-0", "is told", PATIENCE, |found| {
        let conditions = status(found).map(|status| status.conditions.as_slice());
        conditions.is_some_and(|conditions| {
            conditions
                .iter()
                .any(|one| one.type_ == "Progressing" && one.status == "False")
        })
    })
    .await;
    let machine = cloud.machines().remove(0);
    assert_eq!(Some(machine.uid), request.uid());
    assert!(machine.user_data.is_some());
    let shown = request.status.unwrap();
    assert_eq!(shown.ip_address, Some(machine.address.to_string()));
    let granted = allocations
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    assert_eq!(granted.len(), 1);

    create(
        &balancers,
        json!({ "metadata": { "name": "demo" }, "spec": {
            "clusterName": "demo", "providerConfigRef": { "name": "cloud" },
        } }),
    )
    .await;
    let is_ready = |targets: i32| {
        move |found: Option<&LoadBalancerRequest>| {
            let status = found.and_then(|found| found.status.as_ref());
            status.is_some_and(|status| {
                status.endpoint.is_some() && status.registered_targets == Some(targets)
            })
        }
    };
    eventually(&balancers, "demo", "has an endpoint", PATIENCE, is_ready(0)).await;
    let targets = json!({ "spec": { "targets": [{ "ip": machine.address.to_string() }] } });
    let patch = Patch::Merge(&targets);
    let parameters = PatchParams::default();
    balancers.patch("demo", &parameters, &patch).await.unwrap();
    eventually(&balancers, "demo", "has its target", PATIENCE, is_ready(1)).await;

    // Another look at everything: an annotation that nobody reads wakes the controllers.
    let mark = server.audit().mark();
    let look = json!({ "metadata": { "annotations": { "story": "look" } } });
    requests
        .patch("worker-0", &parameters, &Patch::Merge(&look))
        .await
        .unwrap();
    create(
        &requests,
        json!({ "metadata": { "name": "other" }, "spec": {
            "providerRef": { "name": "cloud" },
            "role": "worker", "cpu": 1, "memoryMB": 1024, "diskGB": 10,
        } }),
    )
    .await;
    eventually(&requests, "other", "runs", PATIENCE, |found| {
        status(found).is_some_and(|status| status.phase == Some(MachinePhase::Running))
    })
    .await;
    let writes = server
        .audit()
        .since(mark)
        .by_user_agent(&component)
        .writes();
    let of_first = writes.filter(|request| request.name == "worker-0");
    assert!(of_first.is_empty(), "{of_first}");

    for name in ["worker-0", "other"] {
        let delete = DeleteParams::default();
        requests.delete(name, &delete).await.unwrap();
        eventually_gone(&requests, name, PATIENCE).await;
    }
    balancers
        .delete("demo", &DeleteParams::default())
        .await
        .unwrap();
    eventually_gone(&balancers, "demo", PATIENCE).await;
    assert_eq!(cloud.machines(), []);
    assert_eq!(cloud.load_balancers(), []);
    for allocation in granted {
        eventually_gone(&allocations, &allocation.name_any(), PATIENCE).await;
    }
    shutdown.begin();
    for process in processes {
        process.await.unwrap().unwrap();
    }
    changes.abort();
}
