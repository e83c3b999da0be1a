//! A tenant cluster from its request to its day 2, one stage at a time.

use butler_api::{butler::tenant_cluster::TenantClusterPhase, keys::annotations};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::{
    cluster_api::MachineFacts,
    tenant_cluster::{
        related::{Related, Seen},
        scene::{
            after, annotated, begun, condition, control_plane, deployment, lines, node, ready,
            says, serving, shop, shown, templates, world,
        },
    },
    testing::at,
};

pub(super) fn plain() -> TenantCluster {
    shop(&json!({}))
}

/// A cluster that was ready.
pub(super) fn was_ready(parts: &Value) -> TenantCluster {
    let cluster = shop(parts);
    let plan = plan(&plain(), &world(ready()), at(100));
    assert_eq!(plan.status.phase, Some(TenantClusterPhase::Ready));
    after(cluster, &plan)
}

pub(super) fn applied<'a>(
    plan: &'a Plan<TenantClusterStatus, Effect>,
    kind: &str,
) -> Vec<&'a Value> {
    let manifests = plan
        .apply
        .iter()
        .filter(|manifest| manifest.kind.kind == kind);
    manifests.map(|manifest| &manifest.body).collect()
}

#[test]
fn everything_is_made_in_one_pass() {
    let plan = plan(&plain(), &world(Related::default()), at(1));
    insta::assert_snapshot!(lines(&plan), @r"
    phase Provisioning
    ProviderAccessGranted=True Ready: machines come from the ProviderConfig butler-system/default, because nobody names one and it is called default
    QuotaSatisfied=True WithinQuota
    NetworkReady=True NotRequired: the infrastructure gives out addresses
    ImageReady=True NotRequired
    InfrastructureReady=False InfrastructureProvisioning: the objects of Cluster API are being made
    ControlPlaneReady=False ControlPlaneProvisioning: the control plane is being made
    WorkersReady=False WorkersProvisioning: 0 of 2 workers are ready
    AddonsReady=True NotRequired: nothing has to be installed
    RollingOut=False Ready
    Ready=False InfrastructureProvisioning: the objects of Cluster API are being made
    Running=False InfrastructureProvisioning: the objects of Cluster API are being made
    apply Namespace shop-0a1b2c3d
    apply ButlerCluster shop-0a1b2c3d/shop
    apply StewardControlPlane shop-0a1b2c3d/shop
    apply Cluster shop-0a1b2c3d/shop
    apply ButlerMachineTemplate shop-0a1b2c3d/shop-worker-6c04f842
    apply KubeadmConfigTemplate shop-0a1b2c3d/shop-worker-90ad24a5
    apply MachineDeployment shop-0a1b2c3d/shop-workers
    apply MachineHealthCheck shop-0a1b2c3d/shop-workers
    prune but
    Normal ClusterProvisioning: the cluster is being made
    ");
}

#[test]
fn each_part_says_what_it_waits_for() {
    let plan = plan(&plain(), &world(begun()), at(2));
    insta::assert_snapshot!(lines(&plan), @r"
    phase Provisioning
    ProviderAccessGranted=True Ready: machines come from the ProviderConfig butler-system/default, because nobody names one and it is called default
    QuotaSatisfied=True WithinQuota
    NetworkReady=True NotRequired: the infrastructure gives out addresses
    ImageReady=True NotRequired
    InfrastructureReady=False InfrastructureProvisioning: ButlerCluster: waiting for the control plane to write it
    ControlPlaneReady=False ControlPlaneProvisioning: StewardControlPlane: the DataStore default does not exist; create it
    WorkersReady=False WorkersProvisioning: 0 of 2 workers are ready
    AddonsReady=True NotRequired: nothing has to be installed
    RollingOut=False Ready
    Ready=False InfrastructureProvisioning: ButlerCluster: waiting for the control plane to write it
    Running=False InfrastructureProvisioning: ButlerCluster: waiting for the control plane to write it
    apply Namespace shop-0a1b2c3d
    apply ButlerCluster shop-0a1b2c3d/shop
    apply StewardControlPlane shop-0a1b2c3d/shop
    apply Cluster shop-0a1b2c3d/shop
    apply ButlerMachineTemplate shop-0a1b2c3d/shop-worker-6c04f842
    apply KubeadmConfigTemplate shop-0a1b2c3d/shop-worker-90ad24a5
    apply MachineDeployment shop-0a1b2c3d/shop-workers
    apply MachineHealthCheck shop-0a1b2c3d/shop-workers
    prune but
    Normal ClusterProvisioning: the cluster is being made
    ");
}

#[test]
fn machines_that_boot_are_named_with_the_words_of_their_provider() {
    let plan = plan(&plain(), &world(serving()), at(3));
    assert_eq!(
        condition(&plan, "WorkersReady"),
        "False WorkersProvisioning: 0 of 2 workers are ready, and shop-workers-a is not: the provider is making the machine"
    );
    assert_eq!(plan.status.phase, Some(TenantClusterPhase::Provisioning));
}

#[test]
fn a_ready_cluster_shows_how_to_reach_it_and_how_long_it_took() {
    let first = plan(&plain(), &world(Related::default()), at(1));
    let second = plan(&after(plain(), &first), &world(serving()), at(5));
    let third = plan(&after(plain(), &second), &world(ready()), at(9));
    insta::assert_snapshot!(lines(&third), @r"
    phase Ready
    ProviderAccessGranted=True Ready: machines come from the ProviderConfig butler-system/default, because nobody names one and it is called default
    QuotaSatisfied=True WithinQuota
    NetworkReady=True NotRequired: the infrastructure gives out addresses
    ImageReady=True NotRequired
    InfrastructureReady=True InfrastructureReady
    ControlPlaneReady=True ControlPlaneReady
    WorkersReady=True WorkersReady
    AddonsReady=True NotRequired: nothing has to be installed
    RollingOut=False Ready
    Ready=True Ready
    Running=True Ready
    apply Namespace shop-0a1b2c3d
    apply ButlerCluster shop-0a1b2c3d/shop
    apply StewardControlPlane shop-0a1b2c3d/shop
    apply Cluster shop-0a1b2c3d/shop
    apply ButlerMachineTemplate shop-0a1b2c3d/shop-worker-6c04f842
    apply KubeadmConfigTemplate shop-0a1b2c3d/shop-worker-90ad24a5
    apply MachineDeployment shop-0a1b2c3d/shop-workers
    apply MachineHealthCheck shop-0a1b2c3d/shop-workers
    prune but KubeadmConfigTemplate shop-worker-11111111, ButlerMachineTemplate shop-worker-11111111
    Normal ClusterReady: the cluster is ready
    ");
    insta::assert_snapshot!(shown(&third), @r#"
    controlPlaneEndpoint: "192.0.2.10:6443"
    kubeconfigSecretRef: {"name":"shop-admin-kubeconfig"}
    lastTransitionTime: "1970-01-01T00:00:09Z"
    nodePools: [{"desired":2,"name":"workers","ready":2,"updated":2,"version":"v1.36.3"}]
    observedState: {"kubernetesVersion":"v1.36.3","workers":{"desired":2,"nodes":["node","node"],"ready":2}}
    phase: "Ready"
    providerConfigRef: {"name":"default","namespace":"butler-system"}
    stages: [{"finishedAt":"1970-01-01T00:00:01Z","name":"Preparation","startedAt":"1970-01-01T00:00:01Z"},{"finishedAt":"1970-01-01T00:00:05Z","name":"Infrastructure","startedAt":"1970-01-01T00:00:01Z"},{"finishedAt":"1970-01-01T00:00:05Z","name":"ControlPlane","startedAt":"1970-01-01T00:00:01Z"},{"finishedAt":"1970-01-01T00:00:09Z","name":"Workers","startedAt":"1970-01-01T00:00:05Z"},{"finishedAt":"1970-01-01T00:00:09Z","name":"Addons","startedAt":"1970-01-01T00:00:09Z"}]
    tenantNamespace: "shop-0a1b2c3d"
    versions: {"controlPlane":"v1.36.3","newestWorker":"v1.36.3","oldestWorker":"v1.36.3"}
    workerNodesDesired: 2
    workerNodesReady: 2
    "#);
}

#[test]
fn a_pass_over_a_ready_cluster_says_the_same_again() {
    let first = plan(&was_ready(&json!({})), &world(ready()), at(200));
    let second = plan(&after(plain(), &first), &world(ready()), at(300));
    assert_eq!(first.status, second.status);
    assert_eq!(second.notes, []);
}

#[test]
fn the_cluster_is_scaled_and_the_change_is_told() {
    let cluster = was_ready(&json!({ "workers": { "replicas": 4 } }));
    let plan = plan(&cluster, &world(ready()), at(200));
    let deployments = applied(&plan, "MachineDeployment");
    assert_eq!(deployments[0]["spec"]["replicas"], 4);
    assert_eq!(plan.status.phase, Some(TenantClusterPhase::Updating));
    assert_eq!(
        condition(&plan, "Ready"),
        "False WorkersProvisioning: 2 of 4 workers are ready"
    );
    assert_eq!(
        plan.notes[0].message,
        "the pool workers goes from 2 to 4 workers"
    );
}

#[test]
fn a_cluster_without_workers_is_ready_with_its_control_plane() {
    let mut related = ready();
    related.machines.clear();
    related.deployments.insert(
        "shop-workers".to_owned(),
        Seen {
            facts: deployment("v1.36.3", 0, 0),
            ..Seen::default()
        },
    );
    let plan = plan(
        &shop(&json!({ "workers": { "replicas": 0 } })),
        &world(related),
        at(2),
    );
    assert_eq!(plan.status.phase, Some(TenantClusterPhase::Ready));
    assert_eq!(condition(&plan, "WorkersReady"), "True WorkersReady: ");
}

#[test]
fn an_upgrade_goes_through_the_control_plane_first() {
    let cluster = was_ready(&json!({ "kubernetesVersion": "v1.36.4" }));
    let versions = |plan: &Plan<TenantClusterStatus, Effect>| {
        let control_plane = applied(plan, "StewardControlPlane")[0]["spec"]["version"].clone();
        let workers =
            applied(plan, "MachineDeployment")[0]["spec"]["template"]["spec"]["version"].clone();
        format!(
            "{:?} {control_plane} {workers} {}",
            plan.status.phase.unwrap(),
            condition(plan, "RollingOut")
        )
    };
    let first = plan(&cluster, &world(ready()), at(200));
    let mut related = ready();
    let seen = related.control_plane.as_mut().unwrap();
    seen.facts = control_plane("v1.36.4", "v1.36.3");
    let second = plan(
        &after(cluster.clone(), &first),
        &world(related.clone()),
        at(210),
    );
    let seen = related.control_plane.as_mut().unwrap();
    seen.facts = control_plane("v1.36.4", "v1.36.4");
    let third = plan(
        &after(cluster.clone(), &second),
        &world(related.clone()),
        at(220),
    );
    let seen = related.deployments.get_mut("shop-workers").unwrap();
    seen.facts = deployment("v1.36.4", 2, 2);
    for machine in related.machines.values_mut() {
        *machine = node("v1.36.4");
    }
    let fourth = plan(&after(cluster, &third), &world(related), at(230));
    let told = [
        versions(&first),
        versions(&second),
        versions(&third),
        versions(&fourth),
    ];
    insta::assert_snapshot!(told.join("\n"), @r#"
    Updating "v1.36.4" "v1.36.3" True Upgrading: the control plane goes from v1.36.3 to v1.36.4
    Updating "v1.36.4" "v1.36.3" True Upgrading: the control plane goes from v1.36.3 to v1.36.4
    Updating "v1.36.4" "v1.36.4" True Upgrading: the workers of the pool workers go from v1.36.3 to v1.36.4
    Ready "v1.36.4" "v1.36.4" False Ready:
    "#);
}

#[test]
fn a_version_out_of_reach_is_refused_and_the_cluster_works_on() {
    let cluster = was_ready(&json!({ "kubernetesVersion": "v1.34.2" }));
    let plan = plan(&cluster, &world(ready()), at(200));
    assert_eq!(plan.status.phase, Some(TenantClusterPhase::Ready));
    assert_eq!(
        applied(&plan, "StewardControlPlane")[0]["spec"]["version"],
        "v1.36.3"
    );
    assert_eq!(
        condition(&plan, "RollingOut"),
        "False VersionSkew: spec.kubernetesVersion: cannot go from v1.36.3 back to v1.34.2: Kubernetes does not support going back to an older minor version"
    );
}

#[test]
fn templates_stay_while_machines_are_left_of_them() {
    let mut related = ready();
    related.sets.insert(
        "shop-workers-2".to_owned(),
        templates("shop-worker-22222222"),
    );
    let plan = plan(&was_ready(&json!({})), &world(related), at(200));
    let Prune::UnlistedBut(kept) = &plan.prune else {
        panic!("{:?}", plan.prune);
    };
    let kept: Vec<_> = kept
        .iter()
        .map(|(kind, key)| format!("{kind} {}", key.name))
        .collect();
    assert_eq!(
        kept.join("\n"),
        "KubeadmConfigTemplate shop-worker-11111111\nKubeadmConfigTemplate shop-worker-22222222\n\
         ButlerMachineTemplate shop-worker-11111111\nButlerMachineTemplate shop-worker-22222222"
    );
}

#[test]
fn a_dead_node_does_not_fail_the_cluster() {
    let mut related = ready();
    let dead = MachineFacts {
        conditions: vec![says(
            "NodeReady",
            "Unknown",
            "Node shop-workers-b is unreachable",
        )],
        ..node("v1.36.3")
    };
    related.machines.insert("shop-workers-b".to_owned(), dead);
    let seen = related.deployments.get_mut("shop-workers").unwrap();
    seen.facts = deployment("v1.36.3", 2, 1);
    let plan = plan(&was_ready(&json!({})), &world(related), at(200));
    assert_eq!(plan.status.phase, Some(TenantClusterPhase::Updating));
    assert_eq!(
        condition(&plan, "Ready"),
        "False WorkersProvisioning: 1 of 2 workers are ready, and shop-workers-b is not: Node shop-workers-b is unreachable"
    );
}

#[test]
fn a_ready_cluster_keeps_running_when_its_provider_is_gone() {
    let mut world = world(ready());
    world.provider = None;
    world.candidates.clear();
    let plan = plan(&was_ready(&json!({})), &world, at(200));
    assert_eq!(plan.apply, []);
    assert_eq!(plan.prune, Prune::Keep);
    assert_eq!(plan.status.phase, Some(TenantClusterPhase::Ready));
    insta::assert_snapshot!(condition(&plan, "Ready"), @"True ReconcileDegraded: spec.providerConfigRef: names none, and there is no ProviderConfig in the namespace butler-system that the cluster may use: create one, or name one");
}

#[test]
fn a_new_cluster_without_a_provider_is_told_what_to_do() {
    let mut world = world(Related::default());
    world.provider = None;
    world.candidates.clear();
    let plan = plan(&plain(), &world, at(1));
    insta::assert_snapshot!(lines(&plan), @r"
    phase Failed
    ProviderAccessGranted=False ProviderConfigNotFound: spec.providerConfigRef: names none, and there is no ProviderConfig in the namespace butler-system that the cluster may use: create one, or name one
    QuotaSatisfied=True WithinQuota
    NetworkReady=False WaitingForDependencies: nothing is made yet; the condition Ready says why
    ImageReady=False WaitingForDependencies: nothing is made yet; the condition Ready says why
    InfrastructureReady=False WaitingForDependencies: nothing is made yet; the condition Ready says why
    ControlPlaneReady=False WaitingForDependencies: nothing is made yet; the condition Ready says why
    WorkersReady=False WaitingForDependencies: nothing is made yet; the condition Ready says why
    AddonsReady=False WaitingForDependencies: nothing is made yet; the condition Ready says why
    RollingOut=False Ready
    Ready=False ProviderConfigNotFound: spec.providerConfigRef: names none, and there is no ProviderConfig in the namespace butler-system that the cluster may use: create one, or name one
    Running=False ProviderConfigNotFound: spec.providerConfigRef: names none, and there is no ProviderConfig in the namespace butler-system that the cluster may use: create one, or name one
    Warning ClusterFailed: spec.providerConfigRef: names none, and there is no ProviderConfig in the namespace butler-system that the cluster may use: create one, or name one
    ");
}

#[test]
fn a_namespace_that_is_somebody_elses_is_left_alone() {
    let mut related = begun();
    related.cluster = None;
    let namespace = related.namespace.as_mut().unwrap();
    namespace.owner = None;
    let plan = plan(&plain(), &world(related), at(1));
    assert_eq!(plan.apply, []);
    assert_eq!(
        condition(&plan, "InfrastructureReady"),
        "False NamespaceNotOwned: the namespace shop-0a1b2c3d exists and was not made for this cluster; delete that namespace if nobody needs it"
    );
}

#[test]
fn a_cluster_that_is_only_looked_at_is_reported_and_not_touched() {
    let parts = json!({ "managementPolicy": { "mode": "Observe" }, "workers": { "replicas": 5 } });
    let ready = plan(&was_ready(&parts), &world(ready()), at(200));
    assert_eq!((ready.apply.len(), ready.effects.len()), (0, 0));
    assert_eq!(ready.prune, Prune::Keep);
    assert_eq!(
        condition(&ready, "WorkersReady"),
        "False WorkersProvisioning: 2 of 5 workers are ready"
    );
    let new = plan(&shop(&parts), &world(Related::default()), at(1));
    assert_eq!(new.apply, []);
    assert_eq!(new.status.phase, Some(TenantClusterPhase::Pending));
    assert_eq!(
        condition(&new, "Ready"),
        "False ObserveOnly: spec.managementPolicy.mode is Observe: nothing is made; set it to Active"
    );
}

#[test]
fn addons_that_this_release_lacks_are_named_and_the_rest_goes_on() {
    let parts = json!({ "addons": {
        "cni": { "provider": "bridge" }, "certManager": {}, "gitops": {},
    } });
    let plan = plan(&shop(&parts), &world(ready()), at(1));
    assert_eq!(plan.status.phase, Some(TenantClusterPhase::Installing));
    assert_eq!(
        condition(&plan, "AddonsReady"),
        "False NotYetImplemented: spec.addons: this release does not install certManager, gitops yet; install them yourself, or leave them out"
    );
    let left_to_git =
        json!({ "managementPolicy": { "mode": "GitOps" }, "addons": { "gitops": {} } });
    let plan = super::plan(&shop(&left_to_git), &world(ready()), at(1));
    assert_eq!(plan.status.phase, Some(TenantClusterPhase::Ready));
}

#[test]
fn protection_from_deletion_changes_nothing_for_a_cluster_that_stays() {
    let cluster = annotated(plain(), annotations::DELETION_PROTECTION, "true");
    let plan = plan(&cluster, &world(ready()), at(1));
    assert_eq!(plan.status.phase, Some(TenantClusterPhase::Ready));
}
