//! What could not work is refused when it is asked for, with the reason, by the webhooks of a running Steward or by the API
//! server itself.

use std::{net::SocketAddr, sync::Arc};

use butler_api::{
    cluster_api::steward_control_plane::StewardControlPlane,
    steward::{data_store::DataStore, tenant_control_plane::TenantControlPlane},
};
use butler_runtime::{
    admission::Reach,
    client::Component,
    manager::{Manager, ManagerOptions, WebhookOptions},
    reconciler::Bell,
    shutdown::Shutdown,
    task,
};
use butler_testkit::{ApiServer, Options, eventually, process};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Secret},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use steward::{
    run::{self, COMPONENT, Surroundings},
    settings::Settings,
};

use crate::{
    etcd::free_port,
    hosting::{LOOPBACK, PATIENCE},
    real::{Content, create},
    scene::{self, SYSTEM, TEAM, here},
};

/// What the API server said to a request that it refused.
fn refusal<T>(answer: Result<T, kube::Error>) -> String {
    match answer {
        Ok(_) => "accepted".to_owned(),
        Err(kube::Error::Api(status)) => status.message.clone(),
        Err(error) => panic!("{error}"),
    }
}

/// Runs Steward with its webhooks beside the test.
fn run_with_webhooks(server: &ApiServer) -> Shutdown {
    let shutdown = Shutdown::new();
    let component = Component::new(COMPONENT, "test").unwrap();
    let mut manager = Manager::new(server.client_as(COMPONENT), component);
    let surroundings = Surroundings {
        stores: Arc::new(Content),
        tenants: None,
        bell: Bell::default(),
    };
    run::add(&mut manager, &Settings::default(), surroundings, 1);
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let webhooks = WebhookOptions {
        listen: address,
        namespace: SYSTEM.to_owned(),
        reach: Reach::Url(format!("https://{LOOPBACK}:{}", address.port())),
    };
    let options = ManagerOptions {
        webhooks: Some(webhooks),
        ..ManagerOptions::default()
    };
    task::spawn(COMPONENT, manager.run(options, shutdown.clone()));
    shutdown
}

/// Asks for control planes, and is told why not.
struct Customer {
    control_planes: Api<TenantControlPlane>,
}

impl Customer {
    async fn asks(&self, name: &str, parts: Value) -> String {
        let body = scene::control_plane(&here(name), parts);
        let object = serde_json::from_value(body).unwrap();
        let parameters = PostParams::default();
        refusal(self.control_planes.create(&parameters, &object).await)
    }

    async fn changes(&self, name: &str, spec: &Value) -> String {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let parameters = PatchParams::default();
        refusal(self.control_planes.patch(name, &parameters, &patch).await)
    }

    /// The API server may call a new webhook a moment later than it accepted the registration, and learns of those that fill in and of
    /// those that refuse one after the other.
    async fn until_reviewed(&self) {
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let probe = |parts: Value| {
            let body = scene::control_plane(&here("probe"), parts);
            serde_json::from_value::<TenantControlPlane>(body).unwrap()
        };
        let (wrong, right) = (probe(version("v1.99.0")), probe(json!({})));
        let reviewed = process::until(PATIENCE, async || {
            let refused = refusal(self.control_planes.create(&dry_run, &wrong).await);
            let filled_in = self.control_planes.create(&dry_run, &right).await.ok()?;
            let are_called =
                refused.contains("denied the request") && filled_in.spec.data_store.is_some();
            are_called.then_some(())
        });
        assert_eq!(reviewed.await, Some(()));
    }
}

fn version(version: &str) -> Value {
    json!({ "kubernetes": { "version": version, "kubelet": {} } })
}

/// Both that it was refused, and the words by which.
fn assert_says(said: &str, words: &[&str]) {
    for words in words {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
}

/// What only the API server knows to be wrong is refused by its words, when it is asked for and when it is changed, and nothing is
/// made by the question.
async fn pods_that_the_api_server_refuses(customer: &Customer, client: &Client) {
    let deployment = |parts: Value| json!({ "controlPlane": { "deployment": parts } });
    let refused =
        "spec.controlPlane.deployment: the API server would refuse the pods that this makes";
    let container = |parts: Value| {
        let mut container = json!({ "name": "log-shipper", "image": "example.com/shipper:1" });
        container
            .as_object_mut()
            .unwrap()
            .extend(parts.as_object().unwrap().clone());
        deployment(json!({ "additionalContainers": [container] }))
    };
    let two_sources = json!([{ "name": "logs", "emptyDir": {}, "hostPath": { "path": "/logs" } }]);
    for (wrong, words) in [
        (
            container(json!({ "imagePullPolicy": "Sometimes" })),
            "imagePullPolicy",
        ),
        (
            container(json!({ "ports": [{ "containerPort": 80 }, { "containerPort": 80 }] })),
            "containerPort",
        ),
        (
            container(json!({ "livenessProbe": { "httpGet": { "path": "/", "port": 70_000 } } })),
            "livenessProbe",
        ),
        (
            deployment(json!({ "additionalVolumes": two_sources })),
            "may not specify more than 1 volume type",
        ),
        (
            deployment(
                json!({ "additionalInitContainers": [{ "name": "No_Name", "image": "a" }] }),
            ),
            "initContainers[0].name",
        ),
    ] {
        let said = customer.changes("shop", &wrong).await;
        assert_says(&said, &[refused, words]);
    }
    let sound = container(json!({ "ports": [{ "containerPort": 80 }] }));
    assert_eq!(customer.changes("shop", &sound).await, "accepted");
    let mut wrong = container(json!({ "imagePullPolicy": "Sometimes" }));
    wrong["controlPlane"]["service"] = json!({ "serviceType": "ClusterIP" });
    let said = customer.asks("hopeless", wrong).await;
    assert_says(&said, &[refused, "imagePullPolicy"]);
    let deployments = Api::<Deployment>::namespaced(client.clone(), TEAM);
    let made = deployments.list(&ListParams::default()).await.unwrap();
    let tried = made
        .iter()
        .filter(|found| found.name_any().contains("trial"));
    assert_eq!(tried.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_work_is_refused_with_the_reason() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let client = server.client_as("story");
    let namespaces = Api::<Namespace>::all(client.clone());
    for name in [SYSTEM, TEAM] {
        create(&namespaces, scene::namespace(name)).await;
    }
    let secrets = Api::<Secret>::namespaced(client.clone(), SYSTEM);
    create(&secrets, scene::store_certificates("default")).await;
    let stores = Api::<DataStore>::all(client.clone());
    create(&stores, scene::store("default")).await;
    let steward = run_with_webhooks(&server);
    let customer = Customer {
        control_planes: Api::namespaced(client.clone(), TEAM),
    };
    customer.until_reviewed().await;

    // What makes sense is accepted, and filled in.
    assert_eq!(customer.asks("shop", json!({})).await, "accepted");
    let shop = customer.control_planes.get("shop").await.unwrap();
    assert_eq!(shop.spec.data_store.as_deref(), Some("default"));
    assert_eq!(shop.spec.network_profile.dns_service_ips, ["10.96.0.10"]);

    // Additions that take the place of what is there.
    let spec = |deployment: Value| json!({ "controlPlane": { "deployment": deployment } });
    let twice = spec(json!({
        "additionalVolumes": [{ "name": "logs", "emptyDir": {} }],
        "additionalVolumeMounts": { "apiServer": [
            { "name": "logs", "mountPath": "/var/log" }, { "name": "logs", "mountPath": "/var/log" },
        ] },
    }));
    let said = customer.changes("shop", &twice).await;
    let words = ["additionalVolumeMounts.apiServer", "/var/log"];
    assert_says(&said, &words);
    let ours = spec(json!({
        "additionalContainers": [{ "name": "kube-apiserver", "image": "example.com/other:1" }],
    }));
    let said = customer.changes("shop", &ours).await;
    let words = [
        "denied the request: spec.controlPlane.deployment.additionalContainers",
        "the name kube-apiserver is taken",
    ];
    assert_says(&said, &words);

    // Address types that are named twice, or are none.
    let types = |types: Value| json!({ "kubernetes": { "version": "v1.36.3", "kubelet": { "preferredAddressTypes": types } } });
    let said = customer
        .changes(
            "shop",
            &types(json!(["Hostname", "InternalIP", "Hostname"])),
        )
        .await;
    assert_says(&said, &["preferredAddressTypes", "Duplicate value"]);
    let said = customer
        .changes("shop", &types(json!(["Hostname", "Nonsense"])))
        .await;
    assert_says(&said, &["preferredAddressTypes", "Unsupported value"]);

    // Versions that are not hosted, or cannot follow.
    let refused = "denied the request: spec.kubernetes.version";
    let unsupported = "is not hosted by this release: choose a version from v1.29 to v1.36";
    let said = customer.asks("new", version("v1.37.0")).await;
    assert_says(&said, &[refused, "v1.37.0", unsupported]);
    let said = customer.changes("shop", &version("v1.37.0")).await;
    assert_says(&said, &[refused, "v1.37.0", unsupported]);
    let said = customer.changes("shop", &version("v1.35.4")).await;
    assert_says(&said, &[refused, "v1.36.3", "v1.35.4"]);
    assert_eq!(customer.asks("old", version("v1.34.2")).await, "accepted");
    let said = customer.changes("old", &version("v1.36.3")).await;
    assert_says(&said, &[refused, "v1.34.2", "v1.36.3"]);
    assert_eq!(
        customer.changes("old", &version("v1.35.4")).await,
        "accepted",
        "one step at a time"
    );

    // A store that control planes keep their state in.
    eventually(&stores, "default", "is used by both", PATIENCE, |found| {
        let status = found.and_then(|found| found.status.as_ref());
        status.is_some_and(|status| status.used_by == ["payments/old", "payments/shop"])
    })
    .await;
    let said = refusal(stores.delete("default", &DeleteParams::default()).await);
    let words = [
        "payments/old",
        "payments/shop",
        "delete these control planes first",
    ];
    assert_says(&said, &words);
    let kept = stores.get("default").await.unwrap();
    assert_eq!(kept.metadata.deletion_timestamp, None);

    // What that store refers to, and nobody else's Secret.
    let delete = async |name: &str| {
        let parameters = DeleteParams::default();
        refusal(secrets.delete(name, &parameters).await)
    };
    let said = delete("default-certs").await;
    assert_says(
        &said,
        &[
            "denied the request",
            "referred to by DataStores that could not be used without it: default;",
        ],
    );
    create(&secrets, scene::store_certificates("other")).await;
    assert_eq!(delete("other-certs").await, "accepted");

    // Control planes of Cluster API follow the same rules of versions.
    let of_cluster_api = Api::<StewardControlPlane>::namespaced(client.clone(), TEAM);
    let at = |version: &str| {
        let body = json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1", "kind": "StewardControlPlane",
            "metadata": { "name": "desk" }, "spec": { "version": version },
        });
        serde_json::from_value::<StewardControlPlane>(body).unwrap()
    };
    let parameters = PostParams::default();
    let said = refusal(of_cluster_api.create(&parameters, &at("v1.37.0")).await);
    assert_says(
        &said,
        &["denied the request: spec.version", "v1.37.0", unsupported],
    );
    of_cluster_api
        .create(&parameters, &at("v1.34.2"))
        .await
        .unwrap();
    let too_far = Patch::Merge(json!({ "spec": { "version": "v1.36.3" } }));
    let parameters = PatchParams::default();
    let said = refusal(of_cluster_api.patch("desk", &parameters, &too_far).await);
    assert_says(
        &said,
        &[
            "spec.version",
            "v1.34.2",
            "v1.36.3",
            "one minor version at a time",
        ],
    );

    // Pods that could never start, and names that nobody can connect to.
    let missing = spec(json!({
        "additionalVolumeMounts": { "apiServer": [{ "name": "logs", "mountPath": "/var/log" }] },
    }));
    let said = customer.changes("shop", &missing).await;
    assert_says(&said, &["the volume logs does not exist"]);
    pods_that_the_api_server_refuses(&customer, &client).await;
    let wildcard = json!({ "controlPlane": {
        "service": { "serviceType": "ClusterIP" },
        "gateway": { "hostname": "*.k8s.example.com", "parentRefs": [{ "name": "public" }] },
    } });
    let said = customer.asks("wild", wildcard).await;
    assert_says(&said, &["gateway.hostname", "is a wildcard"]);
    steward.begin();
}
