//! A cluster on which somebody installs Kamaji: its kubeconfigs and statuses reach Cluster API.

use std::time::Duration;

use butler_api::{
    cluster_api::steward_control_plane::StewardControlPlane,
    keys::{labels, values},
};
use butler_controller::{
    kamaji::{
        KamajiKubeconfigReconciler, KamajiStatusReconciler,
        tenant_control_plane::KamajiTenantControlPlane,
    },
    run::COMPONENT,
};
use butler_runtime::{
    client::Component,
    controller::ControllerSettings,
    manager::{Manager, ManagerOptions},
    object::Kind,
    shutdown::Shutdown,
    task,
    watch::WatchSettings,
};
use butler_testkit::{ApiServer, Options, eventually};
use k8s_openapi::{
    api::core::v1::{Namespace, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    runtime::{conditions::is_crd_established, wait::Condition},
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    platform::{PATIENCE, create},
    scene::{TEAM, definition, namespace},
};

fn run_controllers(server: &ApiServer) -> Shutdown {
    let shutdown = Shutdown::new();
    let component = Component::new(COMPONENT, "test").unwrap();
    let mut manager = Manager::new(server.client_as(COMPONENT), component);
    // What comes later is seen to later.
    let one_by_one = || ControllerSettings {
        workers: 1,
        ..ControllerSettings::default()
    };
    manager.add(KamajiKubeconfigReconciler, one_by_one());
    manager.add(KamajiStatusReconciler, one_by_one());
    let options = ManagerOptions {
        watches: WatchSettings {
            absent_kinds: Duration::from_millis(50),
        },
        ..ManagerOptions::default()
    };
    task::spawn(COMPONENT, manager.run(options, shutdown.clone()));
    shutdown
}

/// The control plane of Kamaji's own provider for Cluster API.
fn provider_kind() -> Kind {
    Kind {
        group: "controlplane.cluster.x-k8s.io".to_owned(),
        version: "v1alpha1".to_owned(),
        kind: "KamajiControlPlane".to_owned(),
        plural: "kamajicontrolplanes".to_owned(),
        namespaced: true,
    }
}

/// As little of Kamaji as it takes: of its own status anything, of its provider's the fields of the older contract.
async fn install_kamaji(client: &Client) {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let mut fields = json!({});
    for number in [
        "replicas",
        "readyReplicas",
        "updatedReplicas",
        "unavailableReplicas",
    ] {
        fields[number] = json!({ "type": "integer", "format": "int32" });
    }
    for flag in ["ready", "initialized", "externalManagedControlPlane"] {
        fields[flag] = json!({ "type": "boolean" });
    }
    for text in ["selector", "version"] {
        fields[text] = json!({ "type": "string" });
    }
    let contract = json!({ "type": "object", "properties": fields });
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    for body in [
        definition(&Kind::of::<KamajiTenantControlPlane>(), &anything),
        definition(&provider_kind(), &contract),
    ] {
        let made = create(&definitions, body).await;
        let name = made.name_any();
        eventually(&definitions, &name, "is served", PATIENCE, |found| {
            is_crd_established().matches_object(found)
        })
        .await;
    }
}

fn api(client: &Client, kind: &Kind) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), TEAM, &kind.api_resource())
}

async fn make(client: &Client, kind: &Kind, name: &str, metadata: Value) -> DynamicObject {
    let mut body = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": { "name": name, "namespace": TEAM }, "spec": {},
    });
    if let Value::Object(metadata) = metadata {
        body["metadata"].as_object_mut().unwrap().extend(metadata);
    }
    let body = serde_json::from_value(body).unwrap();
    let (api, parameters) = (api(client, kind), PostParams::default());
    api.create(&parameters, &body).await.unwrap()
}

/// Kamaji's Secret with the kubeconfigs of a control plane.
fn kubeconfigs(name: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": format!("{name}-admin-kubeconfig"),
            "labels": { "kamaji.clastix.io/component": "admin-kubeconfig", "kamaji.clastix.io/name": name },
        },
        "stringData": { "admin.conf": text, "super-admin.conf": "more" },
    })
}

fn holds(secret: Option<&Secret>, text: &str) -> bool {
    let data = secret.and_then(|secret| secret.data.as_ref());
    data.is_some_and(|data| {
        let value = data.get("value");
        value.is_some_and(|value| value.0 == text.as_bytes())
    })
}

/// Has Kamaji say how a control plane is.
async fn say(client: &Client, name: &str, word: &str, ready: i32) {
    let deployment = json!({ "replicas": 2, "readyReplicas": ready, "updatedReplicas": 2 });
    let status = json!({ "status": { "kubernetesResources": {
        "version": { "version": "v1.36.3", "status": word }, "deployment": deployment,
    } } });
    let control_planes = api(client, &Kind::of::<KamajiTenantControlPlane>());
    control_planes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

fn owned_by(kind: &Kind, name: &str, uid: &str) -> Value {
    json!([{ "apiVersion": kind.api_version(), "kind": kind.kind, "name": name, "uid": uid }])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubeconfigs_and_statuses_of_kamaji_reach_cluster_api() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let client = server.client_as("platform-engineer");
    create(&Api::<Namespace>::all(client.clone()), namespace(TEAM)).await;
    // The controllers run before there is anything to be looked at.
    let controllers = run_controllers(&server);
    install_kamaji(&client).await;
    let tenant_kind = Kind::of::<KamajiTenantControlPlane>();
    let provider = make(&client, &provider_kind(), "shop", json!({})).await;
    let uid = provider.uid().unwrap();
    let metadata = json!({
        "ownerReferences": owned_by(&provider_kind(), "shop", &uid),
        "labels": { "cluster.x-k8s.io/cluster-name": "shop" },
    });
    let tenant = make(&client, &tenant_kind, "shop-cp", metadata).await;

    // The kubeconfig, and the one after it.
    let secrets = Api::<Secret>::namespaced(client.clone(), TEAM);
    create(&secrets, kubeconfigs("shop-cp", "one")).await;
    let name = "shop-kubeconfig";
    let made = eventually(&secrets, name, "has the kubeconfig", PATIENCE, |found| {
        holds(found, "one")
    })
    .await;
    assert_eq!(made.type_.as_deref(), Some(values::SECRET_KIND_CLUSTER_API));
    assert_eq!(made.labels()[labels::CLUSTER_API_CLUSTER], "shop");
    let owners: Vec<_> = made
        .owner_references()
        .iter()
        .map(|owner| &owner.uid)
        .collect();
    assert_eq!(owners, [&tenant.uid().unwrap()]);
    let renewed = json!({ "stringData": { "admin.conf": "two" } });
    secrets
        .patch(
            "shop-cp-admin-kubeconfig",
            &PatchParams::default(),
            &Patch::Merge(renewed),
        )
        .await
        .unwrap();
    eventually(
        &secrets,
        name,
        "has the new kubeconfig",
        PATIENCE,
        |found| holds(found, "two"),
    )
    .await;

    // The status, for better and for worse.
    let providers = api(&client, &provider_kind());
    let shows = async |ready: bool, replicas: i32| {
        let what = format!("shows {replicas} ready replicas");
        let found = eventually(&providers, "shop", &what, PATIENCE, |found| {
            let status = found.map(|found| &found.data["status"]);
            status.is_some_and(|status| {
                status["ready"] == ready && status["readyReplicas"] == replicas
            })
        });
        found.await.data["status"].clone()
    };
    say(&client, "shop-cp", "Provisioning", 0).await;
    assert_eq!(shows(false, 0).await["initialized"], false);
    say(&client, "shop-cp", "Ready", 2).await;
    let status = shows(true, 2).await;
    assert_eq!(status["version"], "v1.36.3");
    assert_eq!(status["externalManagedControlPlane"], true);
    say(&client, "shop-cp", "NotReady", 0).await;
    assert_eq!(shows(false, 0).await["initialized"], true);

    // A control plane of our own kind has the newer fields too.
    let steward_kind = Kind::of::<StewardControlPlane>();
    let body = json!({
        "apiVersion": steward_kind.api_version(), "kind": steward_kind.kind,
        "metadata": { "name": "store" }, "spec": { "version": "v1.36.3" },
    });
    let stewards = Api::<StewardControlPlane>::namespaced(client.clone(), TEAM);
    let uid = create(&stewards, body).await.uid().unwrap();
    let owners = owned_by(&steward_kind, "store", &uid);
    make(
        &client,
        &tenant_kind,
        "store",
        json!({ "ownerReferences": owners }),
    )
    .await;
    say(&client, "store", "Ready", 2).await;
    let ready = eventually(&stewards, "store", "is ready", PATIENCE, |found| {
        let status = found.and_then(|found| found.status.as_ref());
        status.is_some_and(|status| status.ready)
    })
    .await;
    let status = ready.status.unwrap();
    let initialization = status.initialization.unwrap();
    assert_eq!(initialization.control_plane_initialized, Some(true));
    assert_eq!(status.up_to_date_replicas, Some(2));

    // What somebody else wrote stays as it is.
    let mine = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "web-kubeconfig" }, "stringData": { "value": "mine" },
    });
    create(&secrets, mine).await;
    for name in ["web", "sentinel"] {
        create(&secrets, kubeconfigs(name, "theirs")).await;
        make(&client, &tenant_kind, name, json!({})).await;
    }
    eventually(
        &secrets,
        "sentinel-kubeconfig",
        "is made",
        PATIENCE,
        |found| holds(found, "theirs"),
    )
    .await;
    let left = secrets.get("web-kubeconfig").await.unwrap();
    assert!(holds(Some(&left), "mine"));
    let writes = server
        .audit()
        .all()
        .by_user_agent(COMPONENT)
        .writes()
        .for_resource("tenantcontrolplanes");
    assert!(writes.is_empty(), "{writes}");
    controllers.begin();
}
