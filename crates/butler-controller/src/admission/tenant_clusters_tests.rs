//! What whoever writes a tenant cluster is told.

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::tenant_rules::testing::{Scene, cluster};

fn told(
    operation: Operation,
    object: &TenantCluster,
    old: Option<&TenantCluster>,
    surroundings: &Surroundings,
) -> String {
    let review = Review {
        operation,
        object,
        old,
        user: "ada@example.com",
        groups: &[],
        dry_run: false,
        now: Timestamp::UNIX_EPOCH,
    };
    if is_settled(&review) {
        return "fine".to_owned();
    }
    match judge(&review, surroundings) {
        Ok(_) => "fine".to_owned(),
        Err(denials) => denials
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

fn on_local() -> Surroundings {
    Surroundings {
        provider: Scene::new(cluster(&json!({}))).provider,
        ..Surroundings::default()
    }
}

#[test]
fn a_cluster_on_a_provider_that_exists_is_taken() {
    let object = cluster(&json!({}));
    assert_eq!(told(Operation::Create, &object, None, &on_local()), "fine");
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let object = cluster(&json!({
        "kubernetesVersion": "v1.20.0",
        "providerConfigRef": {"name": "nowhere"},
        "networking": {"loadBalancerPool": {"start": "fd00::9", "end": "fd00::1"}},
    }));
    insta::assert_snapshot!(told(Operation::Create, &object, None, &Surroundings::default()), @r#"
    spec.providerConfigRef: the ProviderConfig butler-system/nowhere does not exist: create it, or name another
    spec.kubernetesVersion: v1.20.0 is not hosted by this release: choose a version from v1.29 to v1.36
    spec.networking.loadBalancerPool: address range "fd00::9-fd00::1" is not valid: the start must not come after the end
    "#);
}

#[test]
fn a_cluster_that_an_older_release_let_through_can_still_be_changed() {
    let before = cluster(&json!({"kubernetesVersion": "v1.20.0"}));
    let mut object = before.clone();
    object.spec.workers.replicas = 5;
    assert_eq!(
        told(Operation::Update, &object, Some(&before), &on_local()),
        "fine"
    );
    // Its provider is gone, and it is left to end in peace.
    assert_eq!(
        told(
            Operation::Update,
            &object,
            Some(&before),
            &Surroundings::default()
        ),
        "fine"
    );
    let mut going = before.clone();
    going.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    assert_eq!(
        told(
            Operation::Update,
            &going,
            Some(&object),
            &Surroundings::default()
        ),
        "fine"
    );
}

#[test]
fn a_downgrade_of_what_runs_is_refused() {
    let mut scene = Scene::new(cluster(&json!({"kubernetesVersion": "v1.36.3"})));
    scene.settle(&json!({"versions": {"controlPlane": "v1.36.3"}}));
    let before = scene.cluster.clone();
    scene.cluster.spec.kubernetes_version = "v1.35.4".to_owned();
    insta::assert_snapshot!(told(Operation::Update, &scene.cluster, Some(&before), &on_local()), @"spec.kubernetesVersion: cannot go from v1.36.3 back to v1.35.4: Kubernetes does not support going back to an older minor version");
}

#[test]
fn a_protected_cluster_is_not_deleted() {
    let mut scene = Scene::new(cluster(&json!({})));
    assert_eq!(
        told(
            Operation::Delete,
            &scene.cluster,
            None,
            &Surroundings::default()
        ),
        "fine"
    );
    scene.annotate("butler.butlerlabs.dev/deletion-protection", "true");
    insta::assert_snapshot!(told(Operation::Delete, &scene.cluster, None, &Surroundings::default()), @"metadata.annotations[butler.butlerlabs.dev/deletion-protection]: the cluster is protected from deletion: remove the annotation first, with kubectl annotate tenantcluster production -n payments butler.butlerlabs.dev/deletion-protection-");
}
