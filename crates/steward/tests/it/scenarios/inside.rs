//! What Steward keeps inside of a tenant, as its administrator sees it: what is taken away comes back at once, and konnectivity's
//! agents are such that a real API server takes them.

use butler_api::{conditions::types, steward::tenant_control_plane::TenantControlPlane};
use butler_runtime::conditions::holds;
use butler_testkit::{Waitable, eventually, eventually_gone};
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    apps::v1::{DaemonSet, Deployment},
    core::v1::PodTemplateSpec,
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use steward_tenant::WRITE_PERMISSIONS_POLICY;

use super::{World, on_loopback};
use crate::{etcd::free_port, hosting::PATIENCE};

impl World {
    /// Waits until the tenant is as the newest wishes say.
    async fn in_step(&self, name: &str) -> TenantControlPlane {
        let what = "is in step";
        self.until(name, what, |status| {
            holds(&status.conditions, types::TENANT_CONFIGURED)
        })
        .await
    }
}

/// Somebody deletes an object; another comes in its place, long before the tenant would be looked at anyway.
async fn comes_back<K: Waitable>(api: &Api<K>, name: &str) {
    let before = api.get(name).await.unwrap();
    api.delete(name, &DeleteParams::default()).await.unwrap();
    eventually(api, name, "is back", PATIENCE, |found| {
        found.is_some_and(|found| {
            let metadata = found.meta();
            metadata.uid != before.meta().uid && metadata.deletion_timestamp.is_none()
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_tenant_takes_away_is_back_at_once() {
    let world = World::start().await;
    let mut parts = on_loopback(free_port());
    parts["addons"] = json!({ "coreDNS": {}, "kubeProxy": {} });
    world.ask("shop", parts).await;
    world.ready("shop").await;
    let tenant = world.administrator("shop").await;
    let deployments = Api::<Deployment>::namespaced(tenant.clone(), "kube-system");
    comes_back(&deployments, "coredns").await;
    let daemon_sets = Api::<DaemonSet>::namespaced(tenant.clone(), "kube-system");
    comes_back(&daemon_sets, "kube-proxy").await;

    // The policy that keeps its administrator from writing cannot be removed by its administrator.
    let limits = json!({ "writePermissions": { "blockCreation": true } });
    world.edit("shop", &limits).await;
    world.in_step("shop").await;
    let policies = Api::<ValidatingAdmissionPolicy>::all(tenant.clone());
    comes_back(&policies, WRITE_PERMISSIONS_POLICY).await;
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(tenant);
    comes_back(&bindings, WRITE_PERMISSIONS_POLICY).await;

    // Nor can it be made harmless.
    let harmless = Patch::Merge(json!({ "spec": { "validationActions": ["Audit"] } }));
    let parameters = PatchParams::default();
    bindings
        .patch(WRITE_PERMISSIONS_POLICY, &parameters, &harmless)
        .await
        .unwrap();
    let what = "denies again";
    eventually(
        &bindings,
        WRITE_PERMISSIONS_POLICY,
        what,
        PATIENCE,
        |found| {
            let spec = found.and_then(|found| found.spec.as_ref());
            let actions = spec.and_then(|spec| spec.validation_actions.as_ref());
            // What somebody added to the set stays theirs, and takes nothing from it.
            actions.is_some_and(|actions| actions.iter().any(|action| action == "Deny"))
        },
    )
    .await;
}

/// The image of the agents, and what they are told.
fn agent(template: PodTemplateSpec) -> (String, Vec<String>) {
    let mut containers = template.spec.unwrap().containers.into_iter();
    let container = containers.next().unwrap();
    (container.image.unwrap(), container.args.unwrap_or_default())
}

fn assert_is_konnectivity(template: PodTemplateSpec) {
    let (image, arguments) = agent(template);
    let expected = "registry.k8s.io/kas-network-proxy/proxy-agent:";
    assert!(image.starts_with(expected), "{image}");
    let server = "--proxy-server-host=127.0.0.1".to_owned();
    assert!(arguments.contains(&server), "{arguments:?}");
}

fn mode(control_plane: TenantControlPlane) -> Option<String> {
    let addons = control_plane.status?.addons?;
    addons.konnectivity?.agent?.mode
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn konnectivitys_own_agents_run_on_every_node_or_as_many_as_are_asked_for() {
    let world = World::start().await;
    let mut parts = on_loopback(free_port());
    parts["addons"] = json!({ "konnectivity": {} });
    world.ask("shop", parts).await;
    let everywhere = world.ready("shop").await;
    assert_eq!(mode(everywhere).as_deref(), Some("DaemonSet"));
    let tenant: Client = world.administrator("shop").await;
    let daemon_sets = Api::<DaemonSet>::namespaced(tenant.clone(), "kube-system");
    let found = daemon_sets.get("konnectivity-agent").await.unwrap();
    assert_is_konnectivity(found.spec.unwrap().template);

    let some = json!({ "mode": "Deployment", "replicas": 2 });
    let addons = json!({ "addons": { "konnectivity": { "agent": some } } });
    world.edit("shop", &addons).await;
    let deployments = Api::<Deployment>::namespaced(tenant, "kube-system");
    let name = "konnectivity-agent";
    let found = eventually(&deployments, name, "exists", PATIENCE, |found| {
        found.is_some()
    })
    .await;
    let spec = found.spec.unwrap();
    assert_eq!(spec.replicas, Some(2));
    assert_is_konnectivity(spec.template);
    eventually_gone(&daemon_sets, name, PATIENCE).await;
    let fewer = world.in_step("shop").await;
    assert_eq!(mode(fewer).as_deref(), Some("Deployment"));
}
