//! A cluster that is only looked at: what it is made of is reported, and nothing of it is changed. Judged by what the API server
//! was asked for, not by what the controllers say of themselves.

use std::time::Duration;

use butler_api::{
    butler::{
        butler_config::ButlerConfig, network_pool::NetworkPool, provider_config::ProviderConfig,
        tenant_cluster::TenantCluster,
    },
    cluster_api::{
        cluster::Cluster,
        kubeadm_control_plane::KubeadmControlPlane,
        machine::Machine,
        machine_group::{MachineDeployment, MachineSet},
    },
    conditions::{reasons, types},
    keys::{finalizers, groups, names},
};
use butler_controller::run::{self, Arguments, COMPONENT};
use butler_runtime::{
    object::{Kind, ObjectKey},
    shutdown::Shutdown,
    task,
};
use butler_testkit::{ApiServer, Controllers, Options, eventually, eventually_gone};
use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    platform::create,
    scene::{
        SYSTEM, cluster_kind, config, definition, namespace, object, pool_kind, provider, system,
        typed,
    },
};

pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// Where clusters without a team are.
pub(crate) const TENANTS: &str = names::DEFAULT_TENANT_NAMESPACE;
/// What the people of this story are to the API server.
pub(crate) const USER_AGENT: &str = "platform-engineer";
/// What the controllers write beside the objects that they look after: who leads, what is worth telling, how many clusters there are.
const OWN_AFFAIRS: [&str; 3] = ["leases", "events", "butlerconfigs/status"];

fn foreign(group: &str, version: &str, name: &str) -> Kind {
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: name.to_owned(),
        plural: format!("{}s", name.to_lowercase()),
        namespaced: true,
    }
}

fn health_checks() -> Kind {
    let (group, version) = (groups::CLUSTER_API, groups::CLUSTER_API_VERSION);
    foreign(group, version, "MachineHealthCheck")
}

fn bootstrap_templates() -> Kind {
    let (group, version) = (groups::BOOTSTRAP, groups::BOOTSTRAP_VERSION);
    foreign(group, version, "KubeadmConfigTemplate")
}

/// The kinds of Cluster API that a cluster is made of. Nobody works on them here: what becomes of them is what our controllers and
/// the people of the story do.
pub(crate) fn cluster_api() -> Vec<CustomResourceDefinition> {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let kinds = [
        Kind::of::<Cluster>(),
        Kind::of::<MachineDeployment>(),
        Kind::of::<MachineSet>(),
        Kind::of::<Machine>(),
        Kind::of::<KubeadmControlPlane>(),
        health_checks(),
        bootstrap_templates(),
    ];
    let definitions = kinds.iter();
    definitions
        .map(|kind| typed(definition(kind, &anything)))
        .collect()
}

/// All controllers, as the process runs them. One cluster at a time, so that what comes later is seen to later.
pub(crate) fn run_controllers(server: &ApiServer) -> Shutdown {
    let shutdown = Shutdown::new();
    let arguments = Arguments {
        kubeconfig: Some(server.kubeconfig().to_owned()),
        metrics_bind_address: "0".parse().unwrap(),
        metrics_require_authorization: false,
        health_probe_bind_address: "0".parse().unwrap(),
        leader_elect: false,
        leader_election_namespace: SYSTEM.to_owned(),
        ip_orphan_grace_period: Duration::from_mins(10),
        max_concurrent_tc_reconciles: 1,
        enable_kamaji_controllers: false,
        enable_webhooks: false,
        webhook_port: 0,
        webhook_url: None,
    };
    task::spawn(COMPONENT, run::run(arguments, "test", shutdown.clone()));
    shutdown
}

/// A platform with machines of its own host, and a pool of addresses.
pub(crate) async fn furnish(client: &Client) {
    let namespaces = Api::<Namespace>::all(client.clone());
    for name in [SYSTEM, TENANTS] {
        create(&namespaces, namespace(name)).await;
    }
    let block = json!({ "spec": { "cidr": "10.40.0.0/24" } });
    let pools = Api::<NetworkPool>::namespaced(client.clone(), SYSTEM);
    create(&pools, object(&pool_kind(), &system("lan"), block)).await;
    let spec = json!({
        "provider": "local", "network": { "mode": "ipam", "poolRefs": [{ "name": "lan" }] },
    });
    let providers = Api::<ProviderConfig>::namespaced(client.clone(), SYSTEM);
    create(&providers, provider(&system("local"), spec)).await;
    let spec = json!({
        "multiTenancy": { "mode": "Optional" }, "defaultNamespace": TENANTS,
        "defaultProviderConfigRef": { "name": "local" },
    });
    create(&Api::<ButlerConfig>::all(client.clone()), config(spec)).await;
}

pub(crate) fn wish(name: &str, mode: &str) -> Value {
    let spec = json!({
        "kubernetesVersion": "v1.35.4", "workers": { "replicas": 2 },
        "managementPolicy": { "mode": mode },
    });
    let key = ObjectKey::namespaced(TENANTS, name);
    object(&cluster_kind(), &key, json!({ "spec": spec }))
}

/// What a cluster says of itself.
pub(crate) fn condition<'a>(
    cluster: Option<&'a TenantCluster>,
    type_: &str,
) -> Option<&'a Condition> {
    let conditions = &cluster?.status.as_ref()?.conditions;
    conditions.iter().find(|found| found.type_ == type_)
}

fn says(cluster: Option<&TenantCluster>, type_: &str, words: &str) -> bool {
    let found = condition(cluster, type_);
    found.is_some_and(|found| found.message.contains(words))
}

async fn change(clusters: &Api<TenantCluster>, name: &str, spec: Value) {
    let patch = Patch::Merge(json!({ "spec": spec }));
    clusters
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// When this is reported, all that happened before was seen as well.
async fn controllers_have_caught_up(clusters: &Api<TenantCluster>, name: &str) {
    create(clusters, wish(name, "Observe")).await;
    let what = "is reported as only observed";
    let found = eventually(clusters, name, what, PATIENCE, |found| {
        condition(found, types::READY).is_some_and(|found| found.reason == reasons::OBSERVE_ONLY)
    });
    assert_eq!(found.await.finalizers(), [""; 0], "nothing holds it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_cluster_that_is_only_observed_nothing_but_its_status_is_written() {
    let mut options = Options {
        controllers: Controllers::Housekeeping,
        ..Options::default()
    };
    options.custom_resources.extend(cluster_api());
    let server = ApiServer::start(options).await.unwrap();
    let shutdown = run_controllers(&server);
    let client = server.client_as(USER_AGENT);
    furnish(&client).await;
    let clusters = Api::<TenantCluster>::namespaced(client.clone(), TENANTS);

    // It is made, with all that belongs to it.
    create(&clusters, wish("shop", "Active")).await;
    let shop = eventually(
        &clusters,
        "shop",
        "is made, with addresses",
        PATIENCE,
        |found| condition(found, types::NETWORK_READY).is_some_and(|found| found.status == "True"),
    )
    .await;
    assert_eq!(shop.finalizers(), [finalizers::TENANT_CLUSTER]);
    let place = shop.status.unwrap().tenant_namespace.unwrap();
    let deployments = Api::<MachineDeployment>::namespaced(client.clone(), &place);
    assert_eq!(
        deployments.get("shop-workers").await.unwrap().spec.replicas,
        Some(2)
    );

    // From now on it is only looked at, and by the same hand it shall be another.
    let mark = server.audit().mark();
    let spec = json!({
        "managementPolicy": { "mode": "Observe" },
        "kubernetesVersion": "v1.36.3", "workers": { "replicas": 5 },
    });
    change(&clusters, "shop", spec).await;
    let what = "is measured by what was asked for";
    eventually(&clusters, "shop", what, PATIENCE, |found| {
        says(found, types::WORKERS_READY, "0 of 5 workers are ready")
    })
    .await;

    // Somebody else does with it what he likes: nothing is set back, and what happens is reported.
    let parameters = PatchParams::default();
    let more = Patch::Merge(json!({ "spec": { "replicas": 7 } }));
    let scaled = deployments.patch("shop-workers", &parameters, &more).await;
    scaled.unwrap();
    let kind = health_checks().api_resource();
    let checks = Api::<DynamicObject>::namespaced_with(client.clone(), &place, &kind);
    let away = DeleteParams::default();
    checks.delete("shop-workers", &away).await.unwrap();
    let one = Patch::Merge(json!({ "status": { "replicas": 7, "readyReplicas": 1 } }));
    let grown = deployments.patch_status("shop-workers", &parameters, &one);
    grown.await.unwrap();
    eventually(&clusters, "shop", "is looked at", PATIENCE, |found| {
        says(found, types::WORKERS_READY, "1 of 5 workers are ready")
    })
    .await;

    // Not even its deletion takes anything away. It says what it waits for.
    clusters
        .delete("shop", &DeleteParams::default())
        .await
        .unwrap();
    let what = "says that nothing is deleted";
    eventually(&clusters, "shop", what, PATIENCE, |found| {
        condition(found, types::DELETING).is_some_and(|found| found.reason == reasons::OBSERVE_ONLY)
    })
    .await;
    // A cluster that never was anything else can go as it came.
    controllers_have_caught_up(&clusters, "visitor").await;
    clusters
        .delete("visitor", &DeleteParams::default())
        .await
        .unwrap();
    eventually_gone(&clusters, "visitor", PATIENCE).await;
    controllers_have_caught_up(&clusters, "last").await;

    let written = server.audit().since(mark).by_user_agent(COMPONENT).writes();
    let (status, other) = written
        .filter(|request| !OWN_AFFAIRS.contains(&request.resource.as_str()))
        .partition(|request| request.resource == "tenantclusters/status");
    assert!(
        !status.is_empty(),
        "the controllers are at work, and report"
    );
    assert!(other.is_empty(), "nothing else is written:\n{other}");
    let scaled = deployments.get("shop-workers").await.unwrap();
    assert_eq!(scaled.spec.replicas, Some(7), "somebody's wish stays");

    // It is looked after again: what was held back is done.
    let mark = server.audit().mark();
    let spec = json!({ "managementPolicy": { "mode": "Active" } });
    change(&clusters, "shop", spec).await;
    eventually_gone(&clusters, "shop", PATIENCE).await;
    let removed = server.audit().since(mark).by_user_agent(COMPONENT);
    let removed = removed.for_resource("namespaces").with_verbs(&["delete"]);
    assert_eq!(removed.count(), 1, "its namespace went with it");
    shutdown.begin();
}
