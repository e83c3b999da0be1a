//! Writes are refused by the tenant's API server itself, to those who are meant, and the control plane goes on.

use butler_runtime::conditions::Answer;
use butler_testkit::process::until;
use butler_testkit::{Controllers, Identity};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, ServiceAccount};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use pretty_assertions::assert_eq;
use serde_json::json;
use steward_tenant::{FREEZE_POLICY, TenantPart, WRITE_PERMISSIONS_POLICY, writes_are_frozen};

use crate::scene::{PATIENCE, Tenant};

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

async fn create(client: &Client, namespace: &str, name: &str) -> Result<ConfigMap, Error> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), &config_map(name)).await
}

fn is_refusal<T>(outcome: &Result<T, Error>, policy: &str) -> bool {
    matches!(outcome, Err(Error::Api(status)) if status.code == 403 && status.message.contains(policy))
}

#[tokio::test]
async fn a_tenant_over_its_limits_gets_nothing_new_and_lives_on() {
    let mut tenant = Tenant::start(Controllers::None).await;
    tenant.furnish().await;
    let administrator = tenant.administrator();
    create(&administrator, "default", "before").await.unwrap();
    tenant.facts.write_permissions =
        serde_json::from_value(json!({ "blockCreation": true })).unwrap();
    tenant.furnish().await;
    let refused = until(PATIENCE, async || {
        let outcome = create(&administrator, "default", "during").await;
        if outcome.is_ok() {
            let api: Api<ConfigMap> = Api::namespaced(administrator.clone(), "default");
            api.delete("during", &DeleteParams::default())
                .await
                .unwrap();
        }
        is_refusal(&outcome, WRITE_PERMISSIONS_POLICY).then_some(outcome)
    })
    .await;
    let error = refused.expect("creation is refused").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("switched off writes of this kind"),
        "{error}"
    );

    // Other kinds of writes, the system's namespace and the control plane go on.
    let api: Api<ConfigMap> = Api::namespaced(administrator.clone(), "default");
    let patch = Patch::Merge(json!({ "data": { "a": "b" } }));
    api.patch("before", &PatchParams::default(), &patch)
        .await
        .unwrap();
    create(&administrator, "kube-system", "during")
        .await
        .unwrap();
    let manager = tenant.server.client_of(
        &Identity::user("system:kube-controller-manager"),
        "kube-controller-manager",
    );
    let accounts: Api<ServiceAccount> = Api::namespaced(manager, "default");
    let account = serde_json::from_value(json!({ "metadata": { "name": "builder" } })).unwrap();
    accounts
        .create(&PostParams::default(), &account)
        .await
        .unwrap();

    // A node that has joined writes; one that has not is new.
    let node = Identity::user("system:node:one")
        .in_group("system:nodes")
        .in_group("system:masters");
    let node = tenant.server.client_of(&node, "kubelet");
    create(&node, "default", "of-a-node").await.unwrap();
    let nodes: Api<Node> = Api::all(node);
    let joining = serde_json::from_value(json!({ "metadata": { "name": "one" } })).unwrap();
    assert!(is_refusal(
        &nodes.create(&PostParams::default(), &joining).await,
        WRITE_PERMISSIONS_POLICY
    ));

    // And all is well again.
    tenant.facts.write_permissions = serde_json::from_value(json!({})).unwrap();
    tenant.furnish().await;
    let accepted = until(PATIENCE, async || {
        create(&administrator, "default", "after").await.ok()
    });
    assert!(accepted.await.is_some());
}

#[tokio::test]
async fn a_frozen_tenant_takes_no_write_from_anybody() {
    let mut tenant = Tenant::start(Controllers::None).await;
    tenant.furnish().await;
    let steward = tenant.steward();
    let leases: Api<Lease> = Api::namespaced(steward.clone(), "kube-system");
    let lease: Lease = serde_json::from_value(json!({ "metadata": { "name": "leader" } })).unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();
    assert!(!writes_are_frozen(&steward).await.unwrap());

    tenant.facts.frozen = true;
    let (report, _) = tenant.reconcile().await;
    assert_eq!(report.parts[&TenantPart::Freeze].answer, Answer::True);
    assert_eq!(report.parts[&TenantPart::CoreDns].answer, Answer::Unknown);
    let frozen = until(PATIENCE, async || {
        writes_are_frozen(&steward).await.unwrap().then_some(())
    });
    assert!(frozen.await.is_some());
    for client in [&steward, &tenant.administrator()] {
        for namespace in ["default", "kube-system"] {
            assert!(
                is_refusal(&create(client, namespace, "lost").await, FREEZE_POLICY),
                "{namespace}"
            );
        }
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
        let patch = Patch::Merge(json!({ "data": { "a": "b" } }));
        let changed = api.patch("coredns", &PatchParams::default(), &patch).await;
        assert!(is_refusal(&changed, FREEZE_POLICY));
        assert!(is_refusal(
            &api.delete("coredns", &DeleteParams::default()).await,
            FREEZE_POLICY
        ));
    }
    let renewal = Patch::Merge(json!({ "spec": { "leaseTransitions": 1 } }));
    leases
        .patch("leader", &PatchParams::default(), &renewal)
        .await
        .unwrap();
    let (_, requests) = tenant.reconcile().await;
    let writes = requests.writes();
    assert!(writes.is_empty(), "{writes}");

    tenant.facts.frozen = false;
    let report = tenant.furnish().await;
    assert!(report.is_complete());
    let thawed = until(PATIENCE, async || {
        (!writes_are_frozen(&steward).await.unwrap()).then_some(())
    });
    assert!(thawed.await.is_some());
}
