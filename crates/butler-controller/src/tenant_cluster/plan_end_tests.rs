//! The end of a tenant cluster, one step at a time.

use butler_api::keys::annotations;
use butler_runtime::plan::Next;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::{
    tenant_cluster::{
        related::Related,
        scene::{UID, annotated, deleted, lines, ready, says, shop, world},
    },
    testing::at,
};

fn gone() -> TenantCluster {
    deleted(shop(&json!({})))
}

/// When the tests look: a minute after the deletion was asked for.
const SOON: i64 = 660;
/// Much later.
const LATE: i64 = 3600;

/// What is left when the workers are gone.
fn without_workers() -> Related {
    let mut related = ready();
    related.machines.clear();
    related.sets.clear();
    related.deployments.clear();
    related
}

/// What is left when the Cluster is gone.
fn without_cluster() -> Related {
    Related {
        cluster: None,
        control_plane: None,
        infrastructure: None,
        ..without_workers()
    }
}

fn allocation(going: bool) -> (ObjectKey, String, bool) {
    let key = ObjectKey::namespaced("butler-system", "butler-tenants-shop-lb-12345678");
    (key, "uid of IPAllocation".to_owned(), going)
}

#[test]
fn workers_go_first_so_that_their_nodes_are_drained() {
    let plan = plan(&gone(), &world(ready()), at(SOON));
    insta::assert_snapshot!(lines(&plan), @r"
    phase Deleting
    Ready=False Deleting: waiting until its machines are gone: shop-workers-a, shop-workers-b, since 1970-01-01T00:10:00Z
    Running=False Deleting: waiting until its machines are gone: shop-workers-a, shop-workers-b, since 1970-01-01T00:10:00Z
    Deleting=True Deleting: waiting until its machines are gone: shop-workers-a, shop-workers-b, since 1970-01-01T00:10:00Z
    remove MachineDeployment shop-0a1b2c3d/shop-workers (uid of MachineDeployment)
    Normal ClusterDeleting: the cluster is being deleted
    next: After(840s)
    ");
}

#[test]
fn a_machine_that_does_not_go_is_named_with_what_holds_it() {
    let mut related = ready();
    related.deployments.clear();
    related.machines.remove("shop-workers-b");
    let machine = related.machines.get_mut("shop-workers-a").unwrap();
    machine.deleting = true;
    machine.deleted_at = Some(at(630));
    machine.conditions = vec![says("Deleting", "True", "Drain not completed yet")];
    let soon = plan(&gone(), &world(related.clone()), at(SOON));
    insta::assert_snapshot!(lines(&soon), @r"
    phase Deleting
    Ready=False Deleting: waiting until its machines are gone: shop-workers-a (shop-workers-a: Drain not completed yet), since 1970-01-01T00:10:30Z
    Running=False Deleting: waiting until its machines are gone: shop-workers-a (shop-workers-a: Drain not completed yet), since 1970-01-01T00:10:30Z
    Deleting=True Deleting: waiting until its machines are gone: shop-workers-a (shop-workers-a: Drain not completed yet), since 1970-01-01T00:10:30Z
    Normal ClusterDeleting: the cluster is being deleted
    next: After(870s)
    ");
    let words = says(
        "Ready",
        "False",
        "waiting until the MachineRequest shop-workers-a is gone: no answer from the provider",
    );
    related
        .machine_words
        .insert("shop-workers-a".to_owned(), words);
    let late = plan(&gone(), &world(related), at(LATE));
    insta::assert_snapshot!(lines(&late), @r"
    phase Deleting
    Ready=False DeletionBlocked: waiting until its machines are gone: shop-workers-a (shop-workers-a: waiting until the MachineRequest shop-workers-a is gone: no answer from the provider), since 1970-01-01T00:10:30Z; look at the named machine, and at the provider; a machine that is gone there may be let go by removing the finalizers of its Machine
    Running=False DeletionBlocked: waiting until its machines are gone: shop-workers-a (shop-workers-a: waiting until the MachineRequest shop-workers-a is gone: no answer from the provider), since 1970-01-01T00:10:30Z; look at the named machine, and at the provider; a machine that is gone there may be let go by removing the finalizers of its Machine
    Deleting=True DeletionBlocked: waiting until its machines are gone: shop-workers-a (shop-workers-a: waiting until the MachineRequest shop-workers-a is gone: no answer from the provider), since 1970-01-01T00:10:30Z; look at the named machine, and at the provider; a machine that is gone there may be let go by removing the finalizers of its Machine
    Normal ClusterDeleting: the cluster is being deleted
    Warning DeletionBlocked: waiting until its machines are gone: shop-workers-a (shop-workers-a: waiting until the MachineRequest shop-workers-a is gone: no answer from the provider), since 1970-01-01T00:10:30Z; look at the named machine, and at the provider; a machine that is gone there may be let go by removing the finalizers of its Machine
    ");
}

#[test]
fn the_cluster_goes_when_no_worker_is_left() {
    let plan = plan(&gone(), &world(without_workers()), at(SOON));
    insta::assert_snapshot!(lines(&plan), @r"
    phase Deleting
    Ready=False Deleting: waiting until the StewardControlPlane shop is gone, since 1970-01-01T00:10:00Z
    Running=False Deleting: waiting until the StewardControlPlane shop is gone, since 1970-01-01T00:10:00Z
    Deleting=True Deleting: waiting until the StewardControlPlane shop is gone, since 1970-01-01T00:10:00Z
    remove Cluster shop-0a1b2c3d/shop (uid of Cluster)
    Normal ClusterDeleting: the cluster is being deleted
    next: After(840s)
    ");
}

#[test]
fn addresses_are_given_back_when_nobody_can_announce_them() {
    let mut world = world(without_workers());
    world.allocations = vec![allocation(false)];
    let early = plan(&gone(), &world, at(SOON));
    assert!(
        early
            .effects
            .iter()
            .all(|effect| !format!("{effect:?}").contains("IPAllocation"))
    );
    world.related = without_cluster();
    let later = plan(&gone(), &world, at(SOON));
    insta::assert_snapshot!(lines(&later), @r"
    phase Deleting
    Ready=False Deleting: waiting until the namespace shop-0a1b2c3d is gone, since 1970-01-01T00:10:00Z
    Running=False Deleting: waiting until the namespace shop-0a1b2c3d is gone, since 1970-01-01T00:10:00Z
    Deleting=True Deleting: waiting until the namespace shop-0a1b2c3d is gone, since 1970-01-01T00:10:00Z
    remove IPAllocation butler-system/butler-tenants-shop-lb-12345678 (uid of IPAllocation)
    remove Namespace shop-0a1b2c3d (uid of Namespace)
    Normal ClusterDeleting: the cluster is being deleted
    next: After(840s)
    ");
}

#[test]
fn the_finalizer_goes_when_nothing_is_left() {
    let mut world = world(Related::default());
    world.allocations = vec![allocation(true)];
    let waiting = plan(&gone(), &world, at(SOON));
    insta::assert_snapshot!(lines(&waiting), @r"
    phase Deleting
    Ready=False Deleting: waiting until the IPAllocation butler-system/butler-tenants-shop-lb-12345678 is released, since 1970-01-01T00:10:00Z
    Running=False Deleting: waiting until the IPAllocation butler-system/butler-tenants-shop-lb-12345678 is released, since 1970-01-01T00:10:00Z
    Deleting=True Deleting: waiting until the IPAllocation butler-system/butler-tenants-shop-lb-12345678 is released, since 1970-01-01T00:10:00Z
    Normal ClusterDeleting: the cluster is being deleted
    next: After(840s)
    ");
    world.allocations.clear();
    assert_eq!(plan(&gone(), &world, at(SOON)).next, Next::Done);
}

#[test]
fn a_namespace_that_was_never_ours_does_not_hold_the_cluster() {
    let mut related = without_cluster();
    related.namespace.as_mut().unwrap().owner = Some("another".to_owned());
    let plan = plan(&gone(), &world(related), at(SOON));
    assert_eq!(plan.effects, []);
    assert_eq!(plan.next, Next::Done);
}

#[test]
fn a_cluster_whose_cluster_api_is_gone_ends_with_its_namespace() {
    let mut related = ready();
    related.cluster = None;
    related.machines.clear();
    related.sets.clear();
    related.deployments.clear();
    assert_eq!(
        related.namespace.as_ref().unwrap().owner.as_deref(),
        Some(UID)
    );
    let plan = plan(&gone(), &world(related), at(SOON));
    let lines = lines(&plan);
    assert!(
        lines.contains("remove Namespace shop-0a1b2c3d (uid of Namespace)"),
        "{lines}"
    );
}

#[test]
fn a_protected_cluster_stays_until_the_protection_is_taken_away() {
    let cluster = annotated(gone(), annotations::DELETION_PROTECTION, "true");
    let plan = plan(&cluster, &world(ready()), at(SOON));
    insta::assert_snapshot!(lines(&plan), @r"
    phase Deleting
    Ready=False DeletionProtected: the cluster is protected from deletion, since 1970-01-01T00:10:00Z; remove the annotation butler.butlerlabs.dev/deletion-protection to let it go
    Running=False DeletionProtected: the cluster is protected from deletion, since 1970-01-01T00:10:00Z; remove the annotation butler.butlerlabs.dev/deletion-protection to let it go
    Deleting=True DeletionProtected: the cluster is protected from deletion, since 1970-01-01T00:10:00Z; remove the annotation butler.butlerlabs.dev/deletion-protection to let it go
    Normal ClusterDeleting: the cluster is being deleted
    Warning DeletionProtected: the cluster is protected from deletion, since 1970-01-01T00:10:00Z; remove the annotation butler.butlerlabs.dev/deletion-protection to let it go
    ");
}

#[test]
fn a_cluster_that_is_only_looked_at_is_not_taken_down() {
    let cluster = deleted(shop(&json!({ "managementPolicy": { "mode": "Observe" } })));
    let plan = plan(&cluster, &world(ready()), at(SOON));
    assert_eq!(plan.effects, []);
    assert_eq!(plan.next, Next::AwaitChange);
}

#[test]
fn the_end_is_told_in_the_same_words_at_every_look() {
    let first = plan(&gone(), &world(without_workers()), at(SOON));
    let mut cluster = gone();
    cluster.status = Some(first.status.clone());
    let second = plan(&cluster, &world(without_workers()), at(SOON + 60));
    assert_eq!(first.status, second.status);
}
