//! On a real API server: what Steward writes is accepted, a second look writes nothing, and a whole life takes few writes.

use std::{sync::Arc, time::Duration};

use butler_api::{
    conditions::types,
    steward::{data_store::DataStore, tenant_control_plane::TenantControlPlane},
};
use butler_runtime::{
    client::Component,
    conditions::holds,
    manager::{Manager, ManagerOptions},
    reconciler::Bell,
    shutdown::Shutdown,
    task,
};
use butler_testkit::{ApiServer, Controllers, Options, eventually, eventually_gone};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Secret, Service},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use steward::{
    run::{self, COMPONENT, Surroundings},
    settings::Settings,
    steward_control_plane::{ClusterApiSettings, elsewhere::Nowhere},
    store::{StoreAccess, StoreAnswer, StoreGrant, StorePort},
};

use crate::scene::{self, SYSTEM, TEAM, here};

/// What takes longer than this has failed.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// As many writes a control plane may take from its creation until it serves.
const FEW: usize = 30;

/// A store that is always content.
pub(crate) struct Content;

impl StorePort for Content {
    fn check<'a>(&'a self, _: &'a StoreAccess) -> StoreAnswer<'a> {
        Box::pin(async { Ok(()) })
    }

    fn ensure<'a>(&'a self, _: &'a StoreAccess, _: &'a StoreGrant) -> StoreAnswer<'a> {
        Box::pin(async { Ok(()) })
    }

    fn discard<'a>(&'a self, _: &'a StoreAccess, _: &'a StoreGrant) -> StoreAnswer<'a> {
        Box::pin(async { Ok(()) })
    }
}

/// Runs Steward beside the test, over one control plane at a time: what comes later is seen to later.
pub(crate) fn run_steward(server: &ApiServer) -> Shutdown {
    run_steward_with(server, &Settings::default())
}

/// The same, as an operator set it up.
pub(crate) fn run_steward_with(server: &ApiServer, settings: &Settings) -> Shutdown {
    let shutdown = Shutdown::new();
    let component = Component::new(COMPONENT, "test").unwrap();
    let mut manager = Manager::new(server.client_as(COMPONENT), component);
    let surroundings = Surroundings {
        stores: Arc::new(Content),
        tenants: None,
        bell: Bell::default(),
    };
    run::add(&mut manager, settings, surroundings, 1);
    let settings = ClusterApiSettings::default();
    run::add_cluster_api(&mut manager, settings, Arc::new(Nowhere), Bell::default());
    task::spawn(
        COMPONENT,
        manager.run(ManagerOptions::default(), shutdown.clone()),
    );
    shutdown
}

pub(crate) async fn create<K>(api: &Api<K>, body: Value) -> K
where
    K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let object = serde_json::from_value(body).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap()
}

/// The namespaces, the default store and its certificates.
pub(crate) async fn set_the_scene(client: &Client) {
    let namespaces = Api::<Namespace>::all(client.clone());
    for name in [SYSTEM, TEAM] {
        create(&namespaces, scene::namespace(name)).await;
    }
    let secrets = Api::<Secret>::namespaced(client.clone(), SYSTEM);
    create(&secrets, scene::store_certificates("default")).await;
    create(
        &Api::<DataStore>::all(client.clone()),
        scene::store("default"),
    )
    .await;
}

/// Does what a cloud and kubelets would, at an address that nobody has.
pub(crate) async fn serve(client: &Client, name: &str) {
    serve_at(client, name, "192.0.2.4").await;
}

/// Does what a cloud and kubelets would: gives the Service an address, and says that the pods serve.
pub(crate) async fn serve_at(client: &Client, name: &str, address: &str) {
    let (parameters, services) = (
        PatchParams::default(),
        Api::<Service>::namespaced(client.clone(), TEAM),
    );
    let service = eventually(&services, name, "exists", PATIENCE, |found| found.is_some()).await;
    let kind = service.spec.and_then(|spec| spec.type_);
    if kind.as_deref() == Some("LoadBalancer") {
        let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": address }] } } });
        services
            .patch_status(name, &parameters, &Patch::Merge(status))
            .await
            .unwrap();
    }
    let deployments = Api::<Deployment>::namespaced(client.clone(), TEAM);
    let found = eventually(&deployments, name, "exists", PATIENCE, |found| {
        found.is_some()
    })
    .await;
    let replicas = found.spec.and_then(|spec| spec.replicas);
    let status = json!({ "status": {
        "observedGeneration": found.metadata.generation,
        "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas,
        "availableReplicas": replicas,
    } });
    deployments
        .patch_status(name, &parameters, &Patch::Merge(status))
        .await
        .unwrap();
}

pub(crate) async fn until_ready(client: &Client, name: &str) -> TenantControlPlane {
    let control_planes = Api::<TenantControlPlane>::namespaced(client.clone(), TEAM);
    eventually(&control_planes, name, "is ready", PATIENCE, |found| {
        let status = found.and_then(|found| found.status.as_ref());
        status.is_some_and(|status| holds(&status.conditions, types::READY))
    })
    .await
}

/// Waits until Steward has seen to everything that came before.
pub(crate) async fn until_seen(client: &Client, sentinel: &str) {
    let control_planes = Api::<TenantControlPlane>::namespaced(client.clone(), SYSTEM);
    let key = butler_runtime::object::ObjectKey::namespaced(SYSTEM, sentinel);
    create(&control_planes, scene::control_plane(&key, json!({}))).await;
    eventually(&control_planes, sentinel, "is seen", PATIENCE, |found| {
        found.is_some_and(|found| found.status.is_some())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_takes_few_writes_and_then_none() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let client = server.client_as("story");
    set_the_scene(&client).await;
    let steward = run_steward(&server);
    let control_planes = Api::<TenantControlPlane>::namespaced(client.clone(), TEAM);
    create(
        &control_planes,
        scene::control_plane(&here("shop"), json!({})),
    )
    .await;
    serve(&client, "shop").await;
    let ready = until_ready(&client, "shop").await;
    let status = ready.status.unwrap();
    assert_eq!(
        status.control_plane_endpoint.as_deref(),
        Some("192.0.2.4:6443")
    );
    assert_eq!(status.observed_generation, ready.metadata.generation);
    let writes = server
        .audit()
        .all()
        .by_user_agent(COMPONENT)
        .writes()
        .in_namespace(TEAM);
    assert!(writes.count() <= FEW, "{writes}");

    // Another look, at the same process and at a new one.
    let mark = server.audit().mark();
    let touch = |value: &str| {
        Patch::Merge(json!({ "metadata": { "annotations": { "example.com/touched": value } } }))
    };
    control_planes
        .patch("shop", &PatchParams::default(), &touch("once"))
        .await
        .unwrap();
    until_seen(&client, "first").await;
    steward.begin();
    let steward = run_steward(&server);
    control_planes
        .patch("shop", &PatchParams::default(), &touch("twice"))
        .await
        .unwrap();
    until_seen(&client, "second").await;
    let writes = server
        .audit()
        .since(mark)
        .by_user_agent(COMPONENT)
        .writes()
        .in_namespace(TEAM);
    assert!(writes.is_empty(), "{writes}");
    steward.begin();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_control_plane_is_accepted_as_it_is_built() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let client = server.client_as("story");
    set_the_scene(&client).await;
    let stores = Api::<DataStore>::all(client.clone());
    let inline =
        |text: &str| json!({ "content": k8s_openapi::ByteString(text.as_bytes().to_vec()) });
    for driver in ["PostgreSQL", "MySQL"] {
        let login = json!({ "username": inline("root"), "password": inline("hunter2") });
        let spec =
            json!({ "driver": driver, "endpoints": ["db.example.com:5432"], "basicAuth": login });
        let body = json!({
            "apiVersion": "steward.butlerlabs.dev/v1alpha1", "kind": "DataStore",
            "metadata": { "name": driver.to_lowercase() }, "spec": spec,
        });
        create(&stores, body).await;
    }
    let steward = run_steward(&server);
    let ingress = |controller: &str| {
        json!({
            "service": { "serviceType": "ClusterIP" },
            "ingress": {
                "hostname": format!("{controller}.k8s.example.com"), "controllerType": controller,
                "ingressClassName": "public",
            },
        })
    };
    let everything = json!({
        "service": { "serviceType": "LoadBalancer", "additionalPorts": [{ "name": "metrics", "port": 9000, "targetPort": 9000 }] },
        "deployment": {
            "replicas": 3,
            "extraArgs": { "apiServer": ["--audit-log-path=-", "--audit-log-path=/x"] },
            "additionalContainers": [{ "name": "audit", "image": "example.com/audit:1" }],
            "additionalInitContainers": [{ "name": "wait", "image": "example.com/wait:1" }],
            "additionalVolumes": [{ "name": "logs", "emptyDir": {} }],
            "additionalVolumeMounts": { "apiServer": [{ "name": "logs", "mountPath": "/var/log" }] },
            "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway" }],
        },
    });
    let variants = [
        (
            "haproxy",
            json!({ "controlPlane": ingress("haproxy"), "addons": { "konnectivity": {} } }),
        ),
        (
            "nginx",
            json!({ "controlPlane": ingress("nginx"), "addons": { "tcpProxy": {} } }),
        ),
        ("generic", json!({ "controlPlane": ingress("generic") })),
        ("postgresql", json!({ "dataStore": "postgresql" })),
        (
            "mysql",
            json!({ "dataStore": "mysql", "addons": { "konnectivity": {} } }),
        ),
        ("everything", json!({ "controlPlane": everything })),
        (
            "nodeport",
            json!({
                "controlPlane": { "service": { "serviceType": "NodePort" } },
                "networkProfile": { "port": 30443, "address": "192.0.2.9", "allowAddressAsExternalIP": true },
            }),
        ),
    ];
    let control_planes = Api::<TenantControlPlane>::namespaced(client.clone(), TEAM);
    for (name, parts) in &variants {
        create(
            &control_planes,
            scene::control_plane(&here(name), parts.clone()),
        )
        .await;
    }
    for (name, _) in &variants {
        serve(&client, name).await;
        let ready = until_ready(&client, name).await;
        let reconciled = holds(&ready.status.unwrap().conditions, types::RECONCILED);
        assert!(reconciled, "{name}");
    }
    let ingresses =
        Api::<k8s_openapi::api::networking::v1::Ingress>::namespaced(client.clone(), TEAM);
    assert_eq!(
        ingresses
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        3
    );

    // A second look over all of them writes nothing: what the API server filled in is not fought over.
    let mark = server.audit().mark();
    steward.begin();
    let steward = run_steward(&server);
    until_seen(&client, "sentinel").await;
    let writes = server
        .audit()
        .since(mark)
        .by_user_agent(COMPONENT)
        .writes()
        .in_namespace(TEAM);
    assert!(writes.is_empty(), "{writes}");
    steward.begin();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_control_plane_takes_everything_with_it() {
    let options = Options {
        controllers: Controllers::Housekeeping,
        ..Options::default()
    };
    let server = ApiServer::start(options).await.unwrap();
    let client = server.client_as("story");
    set_the_scene(&client).await;
    let steward = run_steward(&server);
    let control_planes = Api::<TenantControlPlane>::namespaced(client.clone(), TEAM);
    create(
        &control_planes,
        scene::control_plane(&here("shop"), json!({})),
    )
    .await;
    serve(&client, "shop").await;
    until_ready(&client, "shop").await;
    control_planes
        .delete("shop", &DeleteParams::default())
        .await
        .unwrap();
    eventually_gone(&control_planes, "shop", PATIENCE).await;
    let secrets = Api::<Secret>::namespaced(client.clone(), TEAM);
    eventually_gone(&secrets, "shop-ca", PATIENCE).await;
    let deployments = Api::<Deployment>::namespaced(client.clone(), TEAM);
    eventually_gone(&deployments, "shop", PATIENCE).await;
    steward.begin();
}
