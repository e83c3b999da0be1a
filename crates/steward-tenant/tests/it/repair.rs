//! A real API server takes everything; what is changed is put right, what is others' stays, and at rest nothing is written.

use butler_runtime::conditions::Answer;
use butler_testkit::Controllers;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use steward_tenant::{ImageOverride, TenantPart};

use crate::scene::Tenant;

async fn merge<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + kube::Resource,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_tenant_is_furnished_once_and_rests() {
    let mut tenant = Tenant::start(Controllers::All).await;
    tenant.facts.write_permissions =
        serde_json::from_value(json!({ "blockDeletion": true })).unwrap();
    let report = tenant.furnish().await;
    assert!(report.checksums.contains_key(&TenantPart::CoreDns));
    tenant.assert_at_rest("right after").await;
    // A status, a revision, a token: controllers of the tenant have written to our objects by then.
    let deployments: Api<Deployment> = Api::namespaced(tenant.server.client(), "kube-system");
    butler_testkit::eventually(
        &deployments,
        "coredns",
        "was seen by its controller",
        crate::scene::PATIENCE,
        |found| {
            found
                .and_then(|deployment| deployment.status.as_ref())
                .is_some_and(|status| status.observed_generation.is_some())
        },
    )
    .await;
    tenant.assert_at_rest("after the controllers").await;
    let (_, requests) = tenant.reconcile().await;
    assert_eq!(
        requests.count(),
        14,
        "one list for each kind and place:\n{requests}"
    );
}

#[tokio::test]
async fn what_is_changed_or_deleted_is_put_right() {
    let mut tenant = Tenant::start(Controllers::None).await;
    tenant.furnish().await;
    let user = tenant.server.client_as("kubectl");
    let config_maps: Api<ConfigMap> = Api::namespaced(user.clone(), "kube-system");
    let daemon_sets: Api<DaemonSet> = Api::namespaced(user.clone(), "kube-system");
    let roles: Api<ClusterRole> = Api::all(user.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(user.clone());

    merge(
        &config_maps,
        "coredns",
        json!({ "data": { "Corefile": ". {}" } }),
    )
    .await;
    merge(
        &config_maps,
        "kubelet-config",
        json!({ "metadata": { "labels": null } }),
    )
    .await;
    merge(&roles, "kubeadm:get-nodes", json!({ "rules": [] })).await;
    let gone = DeleteParams::default();
    daemon_sets.delete("kube-proxy", &gone).await.unwrap();
    // What cannot be changed back must be made anew.
    let mut binding = bindings.get("kubeadm:cluster-admins").await.unwrap();
    bindings
        .delete("kubeadm:cluster-admins", &gone)
        .await
        .unwrap();
    binding.metadata.resource_version = None;
    binding.metadata.uid = None;
    binding.role_ref.name = "view".to_owned();
    bindings
        .create(&PostParams::default(), &binding)
        .await
        .unwrap();

    let (report, _) = tenant.reconcile().await;
    let mut applied: Vec<String> = report.applied.iter().map(ToString::to_string).collect();
    applied.sort();
    assert_eq!(
        applied,
        [
            "ClusterRole kubeadm:get-nodes",
            "ClusterRoleBinding kubeadm:cluster-admins",
            "ConfigMap kube-system/coredns",
            "ConfigMap kube-system/kubelet-config",
            "DaemonSet kube-system/kube-proxy",
        ]
    );
    assert!(report.is_complete(), "{:#?}", report.parts);
    let corefile = config_maps.get("coredns").await.unwrap().data.unwrap();
    assert!(corefile["Corefile"].contains("kubernetes cluster.local"));
    let binding = bindings.get("kubeadm:cluster-admins").await.unwrap();
    assert_eq!(binding.role_ref.name, "cluster-admin");
    tenant.assert_at_rest("after the repair").await;
}

#[tokio::test]
async fn what_others_set_or_made_stays() {
    let mut tenant = Tenant::start(Controllers::None).await;
    let user = tenant.server.client_as("kubectl");
    let deployments: Api<Deployment> = Api::namespaced(user.clone(), "kube-system");
    let config_maps: Api<ConfigMap> = Api::namespaced(user.clone(), "kube-system");
    tenant.furnish().await;

    // Fields of others in our objects.
    merge(
        &deployments,
        "coredns",
        json!({ "spec": { "replicas": 3, "minReadySeconds": 7 } }),
    )
    .await;
    merge(
        &config_maps,
        "coredns",
        json!({ "data": { "hosts": "10.0.0.1 db" } }),
    )
    .await;
    tenant.assert_at_rest("when others have set fields").await;
    tenant.facts.core_dns = Some(ImageOverride {
        repository: None,
        tag: Some("v9".to_owned()),
    });
    tenant.reconcile().await;
    let deployment = deployments.get("coredns").await.unwrap().spec.unwrap();
    assert_eq!(
        (deployment.replicas, deployment.min_ready_seconds),
        (Some(3), Some(7))
    );
    tenant.assert_at_rest("after an upgrade").await;

    // Objects of others beside ours: a copy with our labels, and one that Steward made for another purpose.
    let mut copy = config_maps.get("coredns").await.unwrap();
    copy.metadata =
        serde_json::from_value(json!({ "name": "copy", "labels": copy.metadata.labels })).unwrap();
    config_maps
        .create(&PostParams::default(), &copy)
        .await
        .unwrap();
    let agent: ConfigMap =
        serde_json::from_value(json!({ "metadata": { "name": "agent", "labels": {
        "steward.butlerlabs.dev/project": "steward", "steward.butlerlabs.dev/component": "tunnel",
    } } }))
        .unwrap();
    config_maps
        .create(&PostParams::default(), &agent)
        .await
        .unwrap();

    // Switched off, ours go and theirs stay.
    tenant.facts.core_dns = None;
    let (report, _) = tenant.reconcile().await;
    assert_eq!(report.deleted.len(), 6, "{:?}", report.deleted);
    assert!(deployments.get_opt("coredns").await.unwrap().is_none());
    for name in ["copy", "agent"] {
        assert!(
            config_maps.get_opt(name).await.unwrap().is_some(),
            "{name} stays"
        );
    }
    tenant.assert_at_rest("after the addon went").await;

    // An addon of the tenant's own in the place of ours.
    let services: Api<Service> = Api::namespaced(user, "kube-system");
    let theirs: Service = serde_json::from_value(json!({
        "metadata": { "name": "kube-dns" },
        "spec": { "ports": [{ "port": 53, "protocol": "UDP" }] },
    }))
    .unwrap();
    services
        .create(&PostParams::default(), &theirs)
        .await
        .unwrap();
    tenant.facts.core_dns = Some(ImageOverride::default());
    let (report, _) = tenant.reconcile().await;
    let finding = &report.parts[&TenantPart::CoreDns];
    assert_eq!(
        (finding.answer, finding.reason),
        (Answer::False, "NameTaken")
    );
    assert!(
        finding.message.contains("Service kube-system/kube-dns"),
        "{}",
        finding.message
    );
    let service = services.get("kube-dns").await.unwrap();
    assert!(service.metadata.labels.is_none(), "it is left alone");
    let (_, requests) = tenant.reconcile().await;
    let writes = requests.writes();
    assert!(writes.is_empty(), "{writes}");
}

#[tokio::test]
async fn a_cluster_that_kubeadm_or_an_older_release_furnished_is_taken_over() {
    let mut tenant = Tenant::start(Controllers::None).await;
    let user = tenant.server.client_as("kubeadm");
    let config_maps: Api<ConfigMap> = Api::namespaced(user.clone(), "kube-system");
    let services: Api<Service> = Api::namespaced(user, "kube-system");
    let old: ConfigMap = serde_json::from_value(json!({
        "metadata": { "name": "kubeadm-config" }, "data": { "ClusterConfiguration": "kind: ClusterConfiguration\n" },
    }))
    .unwrap();
    let created = butler_testkit::process::until(crate::scene::PATIENCE, async || {
        config_maps.create(&PostParams::default(), &old).await.ok()
    });
    created.await.expect("the namespace comes with the server");
    let old: Service = serde_json::from_value(json!({
        "metadata": { "name": "kube-dns", "labels": { "steward.butlerlabs.dev/project": "steward" } },
        "spec": { "ports": [{ "name": "dns", "port": 53, "protocol": "UDP" }] },
    }))
    .unwrap();
    let created = butler_testkit::process::until(crate::scene::PATIENCE, async || {
        services.create(&PostParams::default(), &old).await.ok()
    });
    let before = created
        .await
        .expect("the range of addresses comes with the server");

    tenant.furnish().await;
    let after = services.get("kube-dns").await.unwrap();
    assert_ne!(
        after.metadata.uid, before.metadata.uid,
        "an address cannot be changed"
    );
    assert_eq!(
        after.spec.unwrap().cluster_ip.as_deref(),
        Some("10.96.0.10")
    );
    let config = config_maps
        .get("kubeadm-config")
        .await
        .unwrap()
        .data
        .unwrap();
    assert!(config["ClusterConfiguration"].contains("clusterName: blue"));
    tenant.assert_at_rest("after the takeover").await;
}
