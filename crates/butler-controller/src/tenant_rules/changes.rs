//! Changes that are forbidden whatever else holds, and deletions that somebody forbade.

use butler_api::{
    butler::tenant_cluster::TenantCluster,
    conditions::{reasons, types},
    keys::{annotations, labels, values},
    net::AddressRange,
    normalize::tenant_cluster::{LoadBalancerAddresses, network},
    version::rules,
};
use butler_runtime::conditions::holds;
use kube::ResourceExt;

use super::{Breach, Case, choice_of};

const INVALID: (&str, &str) = (types::READY, reasons::VALIDATION_FAILED);

/// What must not become of a cluster that was like `old`.
pub(crate) fn forbidden_changes(case: &Case<'_>, old: &TenantCluster) -> Vec<Breach> {
    let found = [
        environment(case.cluster, old),
        creator(case.cluster, old),
        version(case.cluster, old),
        provider(case, old),
        load_balancer_pool(case.cluster, old),
    ];
    found.into_iter().flatten().collect()
}

/// A cluster stays in its environment, but for migrations. One that had none may get one.
fn environment(cluster: &TenantCluster, old: &TenantCluster) -> Option<Breach> {
    let before = old.labels().get(labels::ENVIRONMENT)?;
    let migrates = is_set(cluster, annotations::MIGRATION_OPERATION);
    let rule = format!(
        "cannot be changed from {before}: limits were counted for it; to migrate the cluster, set the annotation {} to \
         \"true\" in the same change",
        annotations::MIGRATION_OPERATION
    );
    let field = format!("metadata.labels[{}]", labels::ENVIRONMENT);
    let stays = cluster.labels().get(labels::ENVIRONMENT) == Some(before);
    let kind = (types::PROVIDER_ACCESS_GRANTED, reasons::TENANCY_VIOLATION);
    (!stays && !migrates).then(|| Breach::new(kind, field, rule))
}

/// Who made a cluster does not change; who owns it may.
fn creator(cluster: &TenantCluster, old: &TenantCluster) -> Option<Breach> {
    let before = old.annotations().get(annotations::CREATOR_EMAIL)?;
    let stays = cluster.annotations().get(annotations::CREATOR_EMAIL) == Some(before);
    let rule = format!(
        "cannot be changed: it says who made the cluster; to give it to somebody else, set the annotation {}",
        annotations::OWNER
    );
    let field = format!("metadata.annotations[{}]", annotations::CREATOR_EMAIL);
    (!stays).then(|| Breach::new(INVALID, field, rule))
}

/// Before the control plane has told its version, the one that was asked for counts as running: it may be, any moment.
fn version(cluster: &TenantCluster, old: &TenantCluster) -> Option<Breach> {
    let status = cluster.status.as_ref();
    let told = status.and_then(|status| status.versions.as_ref()?.control_plane.as_ref());
    if told.is_some() || !is_begun(cluster) {
        return None;
    }
    let before = Some(old.spec.kubernetes_version.as_str());
    let refusal = rules::check(before, &cluster.spec.kubernetes_version).err()?;
    let kind = (types::READY, reasons::VERSION_SKEW);
    Some(Breach::new(
        kind,
        "spec.kubernetesVersion",
        refusal.to_string(),
    ))
}

/// Before the provider is settled in the status, the one that was asked for counts, if anything was begun.
fn provider(case: &Case<'_>, old: &TenantCluster) -> Option<Breach> {
    let status = case.cluster.status.as_ref();
    let settled = status.is_some_and(|status| status.provider_config_ref.is_some());
    if settled || !is_begun(case.cluster) {
        return None;
    }
    let asked = case.choice().key;
    let before = choice_of(old, &case.voices()).key;
    let rule = format!(
        "cannot be changed to {asked}: the cluster is being made on {before}; create a new cluster instead"
    );
    (asked != before).then(|| Breach::new(INVALID, "spec.providerConfigRef", rule))
}

/// Addresses that are granted do not change under the Services that use them. A range that was refused may be exchanged for
/// another, and one that is not named any more is kept: further addresses are added to it.
fn load_balancer_pool(cluster: &TenantCluster, old: &TenantCluster) -> Option<Breach> {
    let status = cluster.status.as_ref()?;
    status.lb_allocation_ref.as_ref()?;
    let asked = named_range(cluster)?;
    let before = named_range(old);
    let is_granted = holds(&status.conditions, types::NETWORK_READY);
    let rule = match before {
        Some(before) => format!("cannot be changed from {before} to {asked}"),
        None => format!("cannot be set to {asked} now"),
    };
    let rule = format!(
        "{rule}: Services of the cluster use the addresses that it was granted; to add addresses, leave loadBalancerPool out and set \
         lbPoolSize to how many there shall be in all, or create a new cluster with this range"
    );
    let kind = (types::NETWORK_READY, reasons::VALIDATION_FAILED);
    let changes = before != Some(asked) && is_granted;
    changes.then(|| Breach::new(kind, "spec.networking.loadBalancerPool", rule))
}

/// The range that a cluster names for its Services. What is no range is refused elsewhere.
fn named_range(cluster: &TenantCluster) -> Option<AddressRange> {
    match network(cluster.spec.networking.as_ref()).load_balancer_addresses {
        LoadBalancerAddresses::Range(pool) => AddressRange::from_texts(&pool.start, &pool.end).ok(),
        LoadBalancerAddresses::Allocated(_) => None,
    }
}

/// Whether anything was made for the cluster.
fn is_begun(cluster: &TenantCluster) -> bool {
    let status = cluster.status.as_ref();
    status.is_some_and(|status| status.tenant_namespace.is_some())
}

/// Why the cluster cannot be deleted, if somebody protected it.
pub(crate) fn deletion(cluster: &TenantCluster) -> Option<Breach> {
    let rule = format!(
        "the cluster is protected from deletion: remove the annotation first, with kubectl annotate tenantcluster {} -n {} \
         {}-",
        cluster.name_any(),
        cluster.namespace().unwrap_or_default(),
        annotations::DELETION_PROTECTION
    );
    let field = format!("metadata.annotations[{}]", annotations::DELETION_PROTECTION);
    let kind = (types::READY, reasons::DELETION_PROTECTED);
    is_set(cluster, annotations::DELETION_PROTECTION).then(|| Breach::new(kind, field, rule))
}

fn is_set(cluster: &TenantCluster, annotation: &str) -> bool {
    cluster
        .annotations()
        .get(annotation)
        .is_some_and(|value| value == values::TRUE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tenant_rules::testing::{Scene, cluster};

    const ENVIRONMENT: &str = "butler.butlerlabs.dev/environment";

    fn told(scene: &Scene, old: &TenantCluster) -> String {
        scene.told(|case| forbidden_changes(case, old))
    }

    #[test]
    fn an_environment_changes_only_in_a_migration() {
        let mut scene = Scene::new(cluster(&json!({})));
        let unlabelled = scene.cluster.clone();
        scene.label(ENVIRONMENT, "dev");
        assert_eq!(told(&scene, &unlabelled), "");
        let old = scene.cluster.clone();
        scene.label(ENVIRONMENT, "prod");
        insta::assert_snapshot!(told(&scene, &old), @r#"metadata.labels[butler.butlerlabs.dev/environment]: cannot be changed from dev: limits were counted for it; to migrate the cluster, set the annotation butler.butlerlabs.dev/migration-operation to "true" in the same change"#);
        scene.annotate("butler.butlerlabs.dev/migration-operation", "true");
        assert_eq!(told(&scene, &old), "");
        assert_ne!(told(&Scene::new(unlabelled), &old), "");
    }

    #[test]
    fn who_made_a_cluster_stays_written() {
        let mut scene = Scene::new(cluster(&json!({})));
        scene.annotate("butler.butlerlabs.dev/creator-email", "ada@example.com");
        let old = scene.cluster.clone();
        scene.annotate("butler.butlerlabs.dev/owner", "grace@example.com");
        assert_eq!(told(&scene, &old), "");
        scene.annotate("butler.butlerlabs.dev/creator-email", "grace@example.com");
        insta::assert_snapshot!(told(&scene, &old), @"metadata.annotations[butler.butlerlabs.dev/creator-email]: cannot be changed: it says who made the cluster; to give it to somebody else, set the annotation butler.butlerlabs.dev/owner");
    }

    #[test]
    fn what_was_asked_for_counts_from_the_moment_something_was_made() {
        let spec = |version: &str, provider: &str| {
            cluster(&json!({"kubernetesVersion": version, "providerConfigRef": {"name": provider}}))
        };
        let old = spec("v1.34.2", "local");
        let mut scene = Scene::new(spec("v1.36.3", "nutanix"));
        assert_eq!(told(&scene, &old), "");
        scene.settle(&json!({"tenantNamespace": "production-0a1b2c3d"}));
        insta::assert_snapshot!(told(&scene, &old), @r"
        spec.kubernetesVersion: cannot go from v1.34.2 to v1.36.3 in one step: upgrade one minor version at a time, first to v1.35.x
        spec.providerConfigRef: cannot be changed to butler-system/nutanix: the cluster is being made on butler-system/local; create a new cluster instead
        ");
    }

    #[test]
    fn addresses_that_services_use_are_not_exchanged() {
        let with = |networking: serde_json::Value| cluster(&json!({ "networking": networking }));
        let range = |start: &str, end: &str| {
            with(json!({ "loadBalancerPool": { "start": start, "end": end } }))
        };
        let settled = |ready: &str| {
            json!({
                "lbAllocationRef": { "name": "shop-lb" },
                "conditions": [{
                    "type": "NetworkReady", "status": ready, "reason": "Because", "message": "",
                    "lastTransitionTime": "1970-01-01T00:00:00Z",
                }],
            })
        };
        let old = range("10.40.1.100", "10.40.1.150");
        let mut scene = Scene::new(range("10.40.2.1", "10.40.2.9"));
        assert_eq!(told(&scene, &old), "", "nothing is asked for yet");
        scene.settle(&settled("False"));
        assert_eq!(told(&scene, &old), "", "it was refused");
        scene.settle(&settled("True"));
        insta::assert_snapshot!(told(&scene, &old), @"spec.networking.loadBalancerPool: cannot be changed from 10.40.1.100-10.40.1.150 to 10.40.2.1-10.40.2.9: Services of the cluster use the addresses that it was granted; to add addresses, leave loadBalancerPool out and set lbPoolSize to how many there shall be in all, or create a new cluster with this range");
        let counted = with(json!({ "lbPoolSize": 4 }));
        assert!(told(&scene, &counted).contains("cannot be set to 10.40.2.1-10.40.2.9 now"));
        let is_fine = |new: TenantCluster, old: &TenantCluster| {
            let mut scene = Scene::new(new);
            scene.settle(&settled("True"));
            assert_eq!(told(&scene, old), "");
        };
        // Another spelling of the same, something else, and no range any more.
        let other_spelling = range("fd00:40:0::1", "fd00:40::0009");
        is_fine(range("fd00:40::1", "fd00:40::9"), &other_spelling);
        is_fine(range("10.40.1.100", "10.40.1.150"), &old);
        is_fine(with(json!({ "lbPoolSize": 60 })), &old);
    }

    #[test]
    fn a_protected_cluster_says_how_the_protection_is_taken_off() {
        let mut scene = Scene::new(cluster(&json!({})));
        assert_eq!(deletion(&scene.cluster), None);
        scene.annotate("butler.butlerlabs.dev/deletion-protection", "false");
        assert_eq!(deletion(&scene.cluster), None);
        scene.annotate("butler.butlerlabs.dev/deletion-protection", "true");
        insta::assert_snapshot!(deletion(&scene.cluster).unwrap().message(), @"metadata.annotations[butler.butlerlabs.dev/deletion-protection]: the cluster is protected from deletion: remove the annotation first, with kubectl annotate tenantcluster production -n payments butler.butlerlabs.dev/deletion-protection-");
    }
}
