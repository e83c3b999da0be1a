//! A control plane that is really hosted, on real servers: Steward with its real drivers and its real way into tenants, an etcd
//! that knows its clients by their certificates, and an API server that is started exactly as the Deployment says.

use std::{sync::Arc, time::Duration};

use butler_api::{
    conditions::types,
    steward::{
        data_store::{DataStore, DataStoreDriver},
        tenant_control_plane::TenantControlPlane,
    },
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
    apps::v1::{DaemonSet, Deployment},
    core::v1::{ConfigMap, Namespace, Secret, Service},
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use steward::{
    run::{self, COMPONENT, Surroundings},
    settings::Settings,
    store::Drivers,
    tenants::{TenantAccess, Tenants},
};
use steward_datastore::{Standing, Store as _, Tenant};

use crate::{
    etcd::Etcd,
    kubelet::Kubelet,
    real::create,
    scene::{self, SYSTEM, TEAM, here},
};

/// Servers start in it on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);
/// What everybody can reach in this world.
pub(crate) const LOOPBACK: &str = "127.0.0.1";

pub(crate) fn run_steward(server: &ApiServer, settings: &Settings) -> Shutdown {
    let shutdown = Shutdown::new();
    let component = Component::new(COMPONENT, "test").unwrap();
    let mut manager = Manager::new(server.client_as(COMPONENT), component.clone());
    let bell = Bell::default();
    let metrics = manager.metrics().clone();
    let tenants = Tenants::new(
        component,
        metrics,
        bell.clone(),
        TenantAccess::Endpoint,
        settings.clone(),
    );
    let surroundings = Surroundings {
        stores: Arc::new(Drivers),
        tenants: Some(Arc::new(tenants)),
        bell,
    };
    run::add(&mut manager, settings, surroundings, 2);
    task::spawn(
        COMPONENT,
        manager.run(ManagerOptions::default(), shutdown.clone()),
    );
    shutdown
}

/// Makes a `DataStore` of a real etcd.
pub(crate) async fn create_store(client: &Client, name: &str, etcd: &Etcd) {
    let secrets = Api::<Secret>::namespaced(client.clone(), SYSTEM);
    create(&secrets, etcd.certificates(name)).await;
    let mut store = scene::store(name);
    store["spec"]["endpoints"] = json!([etcd.endpoint()]);
    create(&Api::<DataStore>::all(client.clone()), store).await;
}

pub(crate) async fn until_store_is_ready(client: &Client, name: &str) {
    let stores = Api::<DataStore>::all(client.clone());
    eventually(&stores, name, "is ready", PATIENCE, |found| {
        let status = found.and_then(|found| found.status.as_ref());
        status.is_some_and(|status| holds(&status.conditions, types::READY))
    })
    .await;
}

/// Gives the Service of a control plane an address, as a cloud would.
pub(crate) async fn balance(client: &Client, name: &str) {
    let services = Api::<Service>::namespaced(client.clone(), TEAM);
    eventually(&services, name, "exists", PATIENCE, |found| found.is_some()).await;
    let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": LOOPBACK }] } } });
    services
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

/// Says that all pods of a Deployment serve, as kubelets and the Deployment's controller would.
pub(crate) async fn rolled_out(client: &Client, deployment: &Deployment) {
    let deployments = Api::<Deployment>::namespaced(client.clone(), TEAM);
    let status = json!({ "status": {
        "observedGeneration": deployment.metadata.generation,
        "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
    } });
    let name = deployment.metadata.name.as_deref().unwrap();
    deployments
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

/// The administrator of the tenant, by the kubeconfig that people are given.
pub(crate) async fn administrator(client: &Client, name: &str) -> Client {
    let secrets = Api::<Secret>::namespaced(client.clone(), TEAM);
    let secret = secrets
        .get(&format!("{name}-admin-kubeconfig"))
        .await
        .unwrap();
    let text = String::from_utf8(secret.data.unwrap()["admin.conf"].0.clone()).unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

pub(crate) async fn until(
    client: &Client,
    name: &str,
    condition: &'static str,
) -> TenantControlPlane {
    let control_planes = Api::<TenantControlPlane>::namespaced(client.clone(), TEAM);
    eventually(&control_planes, name, condition, PATIENCE, |found| {
        let status = found.and_then(|found| found.status.as_ref());
        status.is_some_and(|status| holds(&status.conditions, condition))
    })
    .await
}

/// The part of the store that a control plane says it has.
pub(crate) fn part(control_plane: &TenantControlPlane) -> Tenant {
    let storage = control_plane
        .status
        .as_ref()
        .and_then(|status| status.storage.clone());
    let setup = storage.and_then(|storage| storage.setup).unwrap();
    Tenant {
        owner: control_plane
            .metadata
            .uid
            .as_deref()
            .unwrap()
            .parse()
            .unwrap(),
        schema: setup.schema.unwrap().parse().unwrap(),
        user: setup.user.unwrap().parse().unwrap(),
        password: None,
        standing: Standing::Established,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_lives_and_leaves_nothing_behind() {
    let etcd = Etcd::start().await;
    let options = Options {
        controllers: Controllers::Housekeeping,
        ..Options::default()
    };
    let server = ApiServer::start(options).await.unwrap();
    let client = server.client_as("story");
    let namespaces = Api::<Namespace>::all(client.clone());
    for name in [SYSTEM, TEAM] {
        create(&namespaces, scene::namespace(name)).await;
    }
    create_store(&client, "default", &etcd).await;
    let settings = Settings {
        tunnel_image: Some("example.com/butler:test".to_owned()),
        ..Settings::default()
    };
    let steward = run_steward(&server, &settings);
    until_store_is_ready(&client, "default").await;

    // Somebody asks for a control plane; a cloud gives its Service an address.
    let mut kubelet = Kubelet::new();
    let control_planes = Api::<TenantControlPlane>::namespaced(client.clone(), TEAM);
    let parts = json!({
        "networkProfile": { "port": kubelet.port },
        "addons": { "coreDNS": {}, "kubeProxy": {}, "konnectivity": {} },
    });
    create(&control_planes, scene::control_plane(&here("shop"), parts)).await;
    balance(&client, "shop").await;
    let deployments = Api::<Deployment>::namespaced(client.clone(), TEAM);
    let deployment = eventually(&deployments, "shop", "exists", PATIENCE, |found| {
        found.is_some()
    })
    .await;

    // Its API server runs as the Deployment says.
    kubelet.run_api_server(&client, TEAM, &deployment).await;
    rolled_out(&client, &deployment).await;
    until(&client, "shop", types::READY).await;
    let ready = until(&client, "shop", types::TENANT_CONFIGURED).await;

    // Its administrator finds what nodes need.
    let tenant = administrator(&client, "shop").await;
    let config_maps = Api::<ConfigMap>::namespaced(tenant.clone(), "kube-system");
    let configuration = config_maps
        .get("kubeadm-config")
        .await
        .unwrap()
        .data
        .unwrap();
    let address = format!("controlPlaneEndpoint: {LOOPBACK}:{}", kubelet.port);
    assert!(
        configuration["ClusterConfiguration"].contains(&address),
        "{configuration:#?}"
    );
    let in_tenant = Api::<Deployment>::namespaced(tenant.clone(), "kube-system");
    in_tenant.get("coredns").await.unwrap();
    let on_nodes = Api::<DaemonSet>::namespaced(tenant.clone(), "kube-system");
    on_nodes.get("kube-proxy").await.unwrap();
    on_nodes.get("butler-tunnel-agent").await.unwrap();

    // Its state is in its part of the store, and nowhere else.
    let (part, admin) = (part(&ready), etcd.store());
    assert!(admin.tenant_state(&part).await.unwrap().is_complete());
    assert!(
        admin.count(&part).await.unwrap() > 50,
        "an API server keeps its own objects"
    );
    assert_eq!(admin.driver(), DataStoreDriver::Etcd);

    // With it goes its state, although its API server still runs.
    assert!(kubelet.is_running());
    control_planes
        .delete("shop", &DeleteParams::default())
        .await
        .unwrap();
    eventually_gone(&control_planes, "shop", PATIENCE).await;
    assert!(admin.tenant_state(&part).await.unwrap().is_gone());
    assert_eq!(admin.count(&part).await.unwrap(), 0);
    steward.begin();
}
