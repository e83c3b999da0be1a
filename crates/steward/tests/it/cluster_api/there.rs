//! A control plane that runs in another cluster, and infrastructure of a kind that no cache holds: two real API servers.

use std::{sync::Arc, time::Duration};

use butler_api::{
    cluster_api::{cluster::Cluster, steward_control_plane::StewardControlPlane},
    keys::finalizers,
    steward::tenant_control_plane::TenantControlPlane,
};
use butler_runtime::{
    client::Component,
    manager::{Manager, ManagerOptions},
    object::Kind,
    reconciler::Bell,
    shutdown::Shutdown,
    task,
};
use butler_testkit::{ApiServer, Controllers, Options, eventually, eventually_gone};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use steward::{
    run::{self, COMPONENT},
    steward_control_plane::{ClusterApiSettings, ExternalReferences, elsewhere::OtherPlaces},
};

use super::scene::{self, CLUSTER};
use crate::{
    real::create,
    scene::{TEAM, condition, here, namespace},
};

const PATIENCE: Duration = Duration::from_mins(1);
/// Where the other cluster keeps hosted control planes.
const HOSTED: &str = "hosted";

/// A server that has Butler's definitions and stand-ins for others'.
async fn start(kinds: &[Kind]) -> ApiServer {
    let mut options = Options {
        controllers: Controllers::Housekeeping,
        ..Options::default()
    };
    let kinds = kinds.iter().map(scene::served);
    options.custom_resources.extend(kinds);
    ApiServer::start(options).await.unwrap()
}

/// Runs the provider of Cluster API alone.
fn run_provider(server: &ApiServer, external: ExternalReferences) -> Shutdown {
    let shutdown = Shutdown::new();
    let component = Component::new(COMPONENT, "test").unwrap();
    let client = server.client_as(COMPONENT);
    let mut manager = Manager::new(client.clone(), component.clone());
    let bell = Bell::default();
    let metrics = manager.metrics().clone();
    let elsewhere = OtherPlaces::new(client, component, metrics, bell.clone());
    let settings = ClusterApiSettings {
        external,
        ..ClusterApiSettings::default()
    };
    run::add_cluster_api(&mut manager, settings, Arc::new(elsewhere), bell);
    task::spawn(
        COMPONENT,
        manager.run(ManagerOptions::default(), shutdown.clone()),
    );
    shutdown
}

fn dynamic(client: &Client, kind: &Kind) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), TEAM, &kind.api_resource())
}

/// A Cluster and its control plane, which belongs to it as Cluster API would say.
async fn make_cluster(client: &Client, infrastructure: Option<&Kind>, parts: Value) {
    let namespaces = Api::<Namespace>::all(client.clone());
    create(&namespaces, namespace(TEAM)).await;
    let cluster = scene::cluster(CLUSTER, infrastructure, 6443);
    let cluster: DynamicObject = serde_json::from_value(cluster).unwrap();
    let clusters = dynamic(client, &scene::clusters());
    let cluster = clusters
        .create(&PostParams::default(), &cluster)
        .await
        .unwrap();
    let mut body = scene::control_plane(CLUSTER, parts);
    body["metadata"]["ownerReferences"] = json!([{
        "apiVersion": Kind::of::<Cluster>().api_version(), "kind": "Cluster", "name": CLUSTER, "uid": cluster.uid(),
    }]);
    create(
        &Api::<StewardControlPlane>::namespaced(client.clone(), TEAM),
        body,
    )
    .await;
}

async fn until(client: &Client, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let control_planes = Api::<StewardControlPlane>::namespaced(client.clone(), TEAM);
    let found = eventually(&control_planes, CLUSTER, what, PATIENCE, |found| {
        found.is_some_and(|found| is_so(&json!(found)))
    });
    json!(found.await)
}

/// What Steward of the other cluster would write.
fn served() -> Value {
    let condition = |type_: &str| {
        json!({
            "type": type_, "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    json!({ "status": {
        "controlPlaneEndpoint": "127.0.0.1:40443",
        "conditions": [condition("Available"), condition("Ready")],
        "kubeconfig": { "admin": { "secretName": "admin", "checksum": "1" } },
        "certificates": { "ca": { "secretName": "authority", "checksum": "1" } },
        "kubernetesResources": { "version": { "version": "v1.36.3", "status": "Ready" } },
    } })
}

fn secret(namespace: &str, name: &str, entries: &[(&str, &[u8])]) -> Value {
    let entries = entries.iter();
    let data: std::collections::BTreeMap<_, _> = entries
        .map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec())))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": name, "namespace": namespace }, "data": data,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_runs_in_another_cluster_and_is_removed_there() {
    let home = start(&[scene::clusters()]).await;
    let other = start(&[]).await;
    let client = home.client_as("story");
    let there = other.client_as("story");
    create(&Api::<Namespace>::all(there.clone()), namespace(HOSTED)).await;
    let provider = run_provider(&home, ExternalReferences::SameNamespace);
    let reference = json!({
        "kubeconfigSecretName": "east", "kubeconfigSecretKey": "kubeconfig", "deploymentNamespace": HOSTED,
    });
    let parts = json!({ "deployment": { "externalClusterReference": reference } });
    make_cluster(&client, None, parts).await;
    let found = "FoundExternalReferenceClient";
    until(&client, "misses the kubeconfig", |shown| {
        condition(shown, found) == "False Failed"
    })
    .await;

    // With the kubeconfig, the control plane is made there.
    let secrets = Api::<Secret>::namespaced(client.clone(), TEAM);
    let kubeconfig = std::fs::read(other.kubeconfig()).unwrap();
    create(
        &secrets,
        secret(TEAM, "east", &[("kubeconfig", &kubeconfig)]),
    )
    .await;
    let shown = until(&client, "reaches the other cluster", |shown| {
        condition(shown, found) == "True Succeeded"
    })
    .await;
    let name = format!("kcp-{}", shown["metadata"]["uid"].as_str().unwrap());
    let tenants = Api::<TenantControlPlane>::namespaced(there.clone(), HOSTED);
    eventually(&tenants, &name, "is made there", PATIENCE, |found| {
        found.is_some()
    })
    .await;

    // What it shows there is shown here.
    let sources = Api::<Secret>::namespaced(there.clone(), HOSTED);
    create(
        &sources,
        secret(HOSTED, "admin", &[("admin.conf", b"a kubeconfig")]),
    )
    .await;
    let authority: [(&str, &[u8]); 2] = [("ca.crt", b"certificate"), ("ca.key", b"key")];
    create(&sources, secret(HOSTED, "authority", &authority)).await;
    let parameters = PatchParams::default();
    tenants
        .patch_status(&name, &parameters, &Patch::Merge(served()))
        .await
        .unwrap();
    let shown = until(&client, "is initialized", |shown| {
        shown["status"]["initialization"]["controlPlaneInitialized"] == true
    })
    .await;
    assert_eq!(shown["status"]["version"], "v1.36.3");
    let endpoint = json!({ "host": "127.0.0.1", "port": 40443 });
    assert_eq!(shown["spec"]["controlPlaneEndpoint"], endpoint);
    let copy = secrets.get("shop-kubeconfig").await.unwrap();
    assert_eq!(copy.data.unwrap()["value"].0, b"a kubeconfig");
    let copy = secrets.get("shop-ca").await.unwrap();
    assert_eq!(copy.data.unwrap()["tls.key"].0, b"key");

    // It stays where it is.
    let control_planes = Api::<StewardControlPlane>::namespaced(client.clone(), TEAM);
    let back = json!({ "spec": { "deployment": { "externalClusterReference": null } } });
    let refused = control_planes
        .patch(CLUSTER, &parameters, &Patch::Merge(back))
        .await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("a control plane cannot be moved"),
        "{refused}"
    );

    // What changes here is changed there by one write.
    let mark = other.audit().mark();
    let touch = json!({ "metadata": { "annotations": { "example.com/touched": "once" } } });
    control_planes
        .patch(CLUSTER, &parameters, &Patch::Merge(touch))
        .await
        .unwrap();
    eventually(&tenants, &name, "is annotated too", PATIENCE, |found| {
        found.is_some_and(|found| found.annotations().contains_key("example.com/touched"))
    })
    .await;
    let writes = other.audit().since(mark).by_user_agent(COMPONENT).writes();
    assert_eq!(writes.count(), 1, "{writes}");

    // It goes there first, even if its kubeconfig is gone by now; its own Steward has the last word.
    let held = json!({ "metadata": { "finalizers": [finalizers::TENANT_CONTROL_PLANE] } });
    tenants
        .patch(&name, &parameters, &Patch::Merge(held))
        .await
        .unwrap();
    let gone = DeleteParams::default();
    secrets.delete("east", &gone).await.unwrap();
    control_planes.delete(CLUSTER, &gone).await.unwrap();
    eventually(&tenants, &name, "is being deleted", PATIENCE, |found| {
        found.is_some_and(|found| found.metadata.deletion_timestamp.is_some())
    })
    .await;
    assert!(control_planes.get_opt(CLUSTER).await.unwrap().is_some());
    let free = json!({ "metadata": { "finalizers": null } });
    tenants
        .patch(&name, &parameters, &Patch::Merge(free))
        .await
        .unwrap();
    eventually_gone(&control_planes, CLUSTER, PATIENCE).await;
    provider.begin();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_clusters_are_out_of_reach_unless_the_operator_says_so() {
    let home = start(&[scene::clusters()]).await;
    let client = home.client_as("story");
    let provider = run_provider(&home, ExternalReferences::Off);
    let reference = json!({
        "kubeconfigSecretName": "east", "kubeconfigSecretKey": "kubeconfig", "deploymentNamespace": HOSTED,
    });
    let parts = json!({ "deployment": { "externalClusterReference": reference } });
    make_cluster(&client, None, parts).await;
    let shown = until(&client, "is refused", |shown| {
        condition(shown, "FoundExternalReferenceClient") == "False Failed"
    })
    .await;
    let said = shown["status"]["conditions"].to_string();
    assert!(
        said.contains("--external-cluster-references=same-namespace"),
        "{said}"
    );
    provider.begin();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn infrastructure_known_by_name_alone_is_told_and_watched() {
    let kind = scene::nutanix_clusters();
    let home = start(&[scene::clusters(), kind.clone()]).await;
    let client = home.client_as("story");
    let provider = run_provider(&home, ExternalReferences::Off);
    make_cluster(&client, Some(&kind), json!({})).await;
    let patched = "InfrastructureClusterPatched";
    until(&client, "waits for the infrastructure", |shown| {
        condition(shown, patched) == "False Pending"
    })
    .await;
    let tenants = Api::<TenantControlPlane>::namespaced(client.clone(), TEAM);
    eventually(&tenants, CLUSTER, "is made", PATIENCE, |found| {
        found.is_some()
    })
    .await;
    let parameters = PatchParams::default();
    let mut status = served();
    status["status"]["kubeconfig"] = Value::Null;
    status["status"]["certificates"] = Value::Null;
    tenants
        .patch_status(CLUSTER, &parameters, &Patch::Merge(status))
        .await
        .unwrap();

    // Nothing but the infrastructure itself changes from here on.
    let infrastructure = dynamic(&client, &kind);
    let body: DynamicObject = serde_json::from_value(scene::infrastructure(&kind)).unwrap();
    infrastructure
        .create(&PostParams::default(), &body)
        .await
        .unwrap();
    let told = eventually(&infrastructure, CLUSTER, "is told", PATIENCE, |found| {
        found.is_some_and(|found| found.data["status"]["ready"] == true)
    })
    .await;
    let endpoint = json!({ "host": "127.0.0.1", "port": 40443 });
    assert_eq!(told.data["spec"]["controlPlaneEndpoint"], endpoint);
    until(&client, "is content", |shown| {
        condition(shown, patched) == "True Succeeded"
    })
    .await;
    let spoilt = json!({ "spec": { "controlPlaneEndpoint": { "host": "192.0.2.9" } } });
    infrastructure
        .patch(&here(CLUSTER).name, &parameters, &Patch::Merge(spoilt))
        .await
        .unwrap();
    eventually(
        &infrastructure,
        CLUSTER,
        "is set right",
        PATIENCE,
        |found| found.is_some_and(|found| found.data["spec"]["controlPlaneEndpoint"] == endpoint),
    )
    .await;
    provider.begin();
}
