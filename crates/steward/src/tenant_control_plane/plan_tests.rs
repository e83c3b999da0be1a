use std::{sync::Arc, time::Duration};

use butler_api::steward::{
    data_store::DataStoreDriver,
    tenant_control_plane::{
        DataStoreOverride,
        status::{ControlPlanePhase, StorageSetupState, StorageState},
    },
};
use butler_runtime::cache::{Cached, Facts, Projection};
use butler_runtime::object::ObjectKey;
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::DeploymentStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pretty_assertions::assert_eq;
use serde_json::json;

#[path = "exposure_tests.rs"]
mod exposure;
#[path = "inside_tests.rs"]
mod inside;
#[path = "migration_tests.rs"]
mod migration;
#[path = "obstacles_tests.rs"]
mod obstacles;

use super::*;
use crate::{
    build,
    names::{Names, SecretRole},
    projections::DeploymentFacts,
    secrets::{KeptSecret, bytes, checksum, issue},
    store::{Shows, StoreFacts, setup_fingerprint},
    tenant_control_plane::StoreView,
    testing::{Memory, OneKey, control_plane, control_plane_with, now, service_at, told},
};

fn store_facts(name: &str) -> StoreFacts {
    StoreFacts {
        name: name.to_owned(),
        driver: DataStoreDriver::PostgreSql,
        endpoints: vec!["db:5432".to_owned()],
        authority_pem: None,
        shows: Shows::Nothing,
        fingerprint: "f".to_owned(),
        deleting: false,
    }
}

fn store() -> StoreView {
    StoreView::Known(store_facts("default"))
}

fn world() -> World {
    World {
        store: store(),
        ..World::default()
    }
}

fn look(
    control_plane: &TenantControlPlane,
    world: &World,
) -> Plan<TenantControlPlaneStatus, Effect> {
    plan(control_plane, world, &Settings::default(), now())
}

/// The same control plane after a plan was carried out.
fn after(
    mut control_plane: TenantControlPlane,
    plan: &Plan<TenantControlPlaneStatus, Effect>,
) -> TenantControlPlane {
    control_plane.status = Some(plan.status.clone());
    control_plane
}

/// Carries out what a plan orders of certificates.
fn issued(
    control_plane: &TenantControlPlane,
    plan: &Plan<TenantControlPlaneStatus, Effect>,
    memory: &Memory,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    for effect in &plan.effects {
        if let Effect::Issue { orders, at } = effect {
            let names = Names::of(control_plane);
            runtime
                .block_on(issue(&names, orders, *at, &OneKey, memory))
                .unwrap();
        }
    }
}

/// The settings of a store that is set up as ordered.
fn set_up(
    control_plane: &TenantControlPlane,
    plan: &Plan<TenantControlPlaneStatus, Effect>,
    memory: &Memory,
) {
    for effect in &plan.effects {
        if let Effect::EnsureStore(order) = effect {
            let names = Names::of(control_plane);
            let data = [("DB_SCHEMA".to_owned(), bytes(&order.schema))].into();
            let mut body = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": names.metadata(&names.secret_name(SecretRole::StoreConfig), "datastore-config", None),
                "data": data,
            });
            body["metadata"]["annotations"] = json!({
                "steward.butlerlabs.dev/checksum": checksum(&data),
                "storage.steward.butlerlabs.dev/setup": setup_fingerprint(&order.base, &checksum(&data)),
            });
            memory.remove(&ObjectKey::in_body(&body));
            memory.put(body);
        }
    }
}

fn serving(image: &str, wanted: i32) -> DeploymentFacts {
    DeploymentFacts {
        generation: Some(1),
        wanted,
        image: Some(image.to_owned()),
        store: Some("default".to_owned()),
        status: DeploymentStatus {
            observed_generation: Some(1),
            replicas: Some(wanted),
            updated_replicas: Some(wanted),
            ready_replicas: Some(wanted),
            ..DeploymentStatus::default()
        },
        ..DeploymentFacts::default()
    }
}

/// A control plane that serves, its Secrets and its world.
fn ready(control_plane: TenantControlPlane) -> (TenantControlPlane, World, Memory) {
    let memory = Memory::default();
    let mut world = World {
        service: Some(service_at("192.0.2.4")),
        ..world()
    };
    let first = look(&control_plane, &world);
    let control_plane = after(control_plane, &first);
    issued(&control_plane, &first, &memory);
    let second = look(&control_plane, &world);
    set_up(&control_plane, &second, &memory);
    world.secrets = memory.seen();
    let version = control_plane.spec.kubernetes.version.parse().unwrap();
    let replicas = control_plane.spec.control_plane.deployment.replicas;
    world.deployment = Some(serving(
        &build::api_server_image(&control_plane, &version),
        replicas,
    ));
    let third = look(&control_plane, &world);
    (after(control_plane, &third), world, memory)
}

fn word(plan: &Plan<TenantControlPlaneStatus, Effect>) -> ControlPlanePhase {
    let resources = plan.status.kubernetes_resources.as_ref().unwrap();
    resources.version.as_ref().unwrap().status
}

#[test]
fn the_first_look_makes_all_that_depends_on_nothing() {
    let plan = look(&control_plane("LoadBalancer"), &world());
    insta::assert_snapshot!(told(&plan), @"
    CertificatesReady=False Issuing: shop-ca is missing; shop-front-proxy-ca-certificate is missing; shop-sa-certificate is missing; shop-api-server-kubelet-client-certificate is missing; shop-front-proxy-client-certificate is missing; shop-controller-manager-kubeconfig is missing; shop-scheduler-kubeconfig is missing
    DataStoreReady=False Creating: its part of the DataStore default is not set up yet
    EndpointReady=False WaitingForAddress: the Service payments/shop has no address yet; a load balancer of the management cluster must give it one
    Available=False Creating: the pods are made when all that they need is there
    RollingOut=False Creating: there are no pods yet
    Ready=False Creating: its part of the DataStore default is not set up yet
    apply Service payments/shop
    ");
    let [Effect::Issue { orders, .. }] = plan.effects.as_slice() else {
        panic!("{:?}", plan.effects);
    };
    let roles: Vec<_> = orders.iter().map(|order| order.role.as_str()).collect();
    insta::assert_snapshot!(roles.join(" "), @"ca front-proxy-ca-certificate sa-certificate api-server-kubelet-client-certificate front-proxy-client-certificate controller-manager-kubeconfig scheduler-kubeconfig");
    assert_eq!(plan.prune, Prune::Keep, "nothing is complete yet");
}

#[test]
fn the_store_hears_of_a_control_plane_only_when_the_status_says_so() {
    let control_plane = control_plane("LoadBalancer");
    let first = look(&control_plane, &world());
    assert!(
        !first
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::EnsureStore(_)))
    );
    let setup = first.status.storage.clone().unwrap().setup.unwrap();
    assert_eq!(
        setup.schema.as_deref(),
        Some("tcp6f9619ff8b864011b42d00c04fc964ff")
    );
    let second = look(&after(control_plane, &first), &world());
    assert!(
        second
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::EnsureStore(_)))
    );
}

#[test]
fn with_everything_in_place_the_pods_are_made_and_nothing_else_is_done() {
    let (control_plane, mut world, _) = ready(control_plane("LoadBalancer"));
    world.deployment = None;
    let plan = look(&control_plane, &world);
    insta::assert_snapshot!(told(&plan), @"
    CertificatesReady=True Ready: every certificate is valid
    DataStoreReady=True Ready: its part of the DataStore default is set up
    EndpointReady=True Ready: the API server is reached at 192.0.2.4:6443
    Available=False Creating: the pods are made when all that they need is there
    RollingOut=False Creating: there are no pods yet
    Ready=False Creating: the pods are made when all that they need is there
    apply Service payments/shop
    apply Deployment payments/shop
    apply PodDisruptionBudget payments/shop
    next: After(21023900s)
    ");
    assert_eq!(plan.effects, []);
    assert_eq!(plan.prune, Prune::Unlisted);
}

#[test]
fn a_control_plane_that_serves_is_ready_and_at_rest() {
    let (control_plane, world, _) = ready(control_plane("LoadBalancer"));
    let plan = look(&control_plane, &world);
    insta::assert_snapshot!(told(&plan), @"
    CertificatesReady=True Ready: every certificate is valid
    DataStoreReady=True Ready: its part of the DataStore default is set up
    EndpointReady=True Ready: the API server is reached at 192.0.2.4:6443
    Available=True Ready: the API server serves
    RollingOut=False Ready: every pod is of the newest kind
    Ready=True Ready: the API server serves at 192.0.2.4:6443
    apply Service payments/shop
    apply Deployment payments/shop
    apply PodDisruptionBudget payments/shop
    next: After(21023900s)
    ");
    assert_eq!(word(&plan), ControlPlanePhase::Ready);
    assert_eq!(
        Some(&plan.status),
        control_plane.status.as_ref(),
        "another look shows the same"
    );
    assert_eq!(plan.effects, []);
    let installed = plan
        .status
        .kubernetes_resources
        .unwrap()
        .version
        .unwrap()
        .version;
    assert_eq!(installed.as_deref(), Some("v1.36.3"));
}

#[test]
fn a_deleted_certificate_is_made_and_the_pods_are_left_alone_meanwhile() {
    let (control_plane, mut world, _) = ready(control_plane("LoadBalancer"));
    world.secrets.remove(&SecretRole::ApiServer);
    let plan = look(&control_plane, &world);
    assert!(
        !plan
            .apply
            .iter()
            .any(|manifest| manifest.kind.kind == "Deployment")
    );
    assert_eq!(plan.prune, Prune::Keep, "and not taken away");
    assert_eq!(plan.effects.len(), 1);
    assert_eq!(word(&plan), ControlPlanePhase::Ready, "it goes on serving");
}

#[test]
fn pods_are_not_made_with_certificates_that_are_replaced_in_a_moment() {
    let (mut control_plane, mut world, memory) = ready(control_plane("LoadBalancer"));
    control_plane.spec.network_profile.port = 7443;
    let kinds = |plan: &Plan<TenantControlPlaneStatus, Effect>| {
        let kinds = plan.apply.iter();
        let kinds = kinds.map(|manifest| manifest.kind.kind.clone());
        kinds.collect::<Vec<_>>()
    };
    let plan = look(&control_plane, &world);
    assert_eq!(kinds(&plan), ["Service"], "one set of pods is enough");
    issued(&control_plane, &plan, &memory);
    world.secrets = memory.seen();
    let plan = look(&control_plane, &world);
    assert_eq!(
        kinds(&plan),
        ["Service", "Deployment", "PodDisruptionBudget"]
    );
}

#[test]
fn a_password_that_somebody_changed_is_replaced() {
    let (control_plane, mut world, _) = ready(control_plane("LoadBalancer"));
    let seen = &world.secrets[&SecretRole::StoreConfig];
    let mut value = seen.value.clone();
    value.checksum = "tampered".to_owned();
    let tampered = Arc::new(Cached {
        facts: seen.facts.clone(),
        value,
    });
    world.secrets.insert(SecretRole::StoreConfig, tampered);
    let plan = look(&control_plane, &world);
    let [Effect::EnsureStore(order)] = plan.effects.as_slice() else {
        panic!("{:?}", plan.effects);
    };
    assert_eq!(order.reason, "has settings that somebody changed");
}

#[test]
fn a_control_plane_scaled_to_zero_sleeps_and_keeps_what_it_has() {
    let (mut control_plane, mut world, _) = ready(control_plane("LoadBalancer"));
    control_plane.spec.control_plane.deployment.replicas = 0;
    world.deployment = Some(serving("registry.k8s.io/kube-apiserver:v1.36.3", 0));
    let plan = look(&control_plane, &world);
    insta::assert_snapshot!(told(&plan), @"
    CertificatesReady=True Ready: every certificate is valid
    DataStoreReady=True Ready: its part of the DataStore default is set up
    EndpointReady=True Ready: the API server is reached at 192.0.2.4:6443
    Available=False Sleeping: it is scaled to zero; scale it up to wake it
    RollingOut=False Ready: every pod is of the newest kind
    Ready=False Sleeping: it is scaled to zero; scale it up to wake it
    apply Service payments/shop
    apply Deployment payments/shop
    next: After(21023900s)
    ");
    assert_eq!(word(&plan), ControlPlanePhase::Sleeping);
    assert_eq!(plan.effects, []);
}

#[test]
fn an_upgrade_is_shown_until_the_last_pod_runs_the_new_version() {
    let (mut control_plane, mut world, memory) = ready(control_plane_with(json!({
        "kubernetes": { "version": "v1.35.4", "kubelet": {} },
    })));
    control_plane.spec.kubernetes.version = "v1.36.3".to_owned();
    let rolling = serving("registry.k8s.io/kube-apiserver:v1.36.3", 2);
    let mut halfway = rolling.clone();
    halfway.status.updated_replicas = Some(1);
    world.deployment = Some(halfway);
    let plan = look(&control_plane, &world);
    assert_eq!(word(&plan), ControlPlanePhase::Upgrading);
    // From 1.36 on the kubelets' client certificate names no group.
    issued(&control_plane, &plan, &memory);
    world.secrets = memory.seen();
    world.deployment = Some(rolling);
    let plan = look(&control_plane, &world);
    assert_eq!(word(&plan), ControlPlanePhase::Ready);
    let installed = plan
        .status
        .kubernetes_resources
        .unwrap()
        .version
        .unwrap()
        .version;
    assert_eq!(installed.as_deref(), Some("v1.36.3"));
}

#[test]
fn a_version_that_cannot_follow_changes_nothing_and_says_why() {
    let (mut control_plane, world, _) = ready(control_plane("LoadBalancer"));
    control_plane.spec.kubernetes.version = "v1.34.2".to_owned();
    let plan = look(&control_plane, &world);
    let deployment = plan
        .apply
        .iter()
        .find(|manifest| manifest.kind.kind == "Deployment")
        .unwrap();
    let text = deployment.body.to_string();
    assert!(text.contains("kube-apiserver:v1.36.3") && !text.contains("v1.34.2"));
    let ready = plan
        .status
        .conditions
        .iter()
        .find(|condition| condition.type_ == types::READY)
        .unwrap();
    assert_eq!(ready.reason, reasons::VERSION_SKEW);
    insta::assert_snapshot!(ready.message, @"spec.kubernetes.version: cannot go from v1.36.3 back to v1.34.2: Kubernetes does not support going back to an older minor version");
}

/// The version of the data, as the status names it.
fn served(plan: &Plan<TenantControlPlaneStatus, Effect>) -> String {
    let resources = plan.status.kubernetes_resources.clone().unwrap();
    resources.version.unwrap().version.unwrap()
}

/// The image that pods are made with, if they can be made.
fn image(plan: &Plan<TenantControlPlaneStatus, Effect>) -> Option<String> {
    let mut applied = plan.apply.iter();
    let pods = applied.find(|made| made.kind.kind == "Deployment")?;
    let text = pods.body.to_string();
    let (_, tag) = text.split_once("kube-apiserver:")?;
    let (tag, _) = tag.split_once('"')?;
    Some(format!("registry.k8s.io/kube-apiserver:{tag}"))
}

#[test]
fn a_minor_version_is_not_skipped_by_whoever_sleeps() {
    let (mut control_plane, mut world, memory) = ready(control_plane_with(json!({
        "kubernetes": { "version": "v1.34.2", "kubelet": {} },
    })));
    let mut go_to = |version: &str, replicas: i32| {
        control_plane.spec.control_plane.deployment.replicas = replicas;
        control_plane.spec.kubernetes.version = version.to_owned();
        // Certificates are made before the pods are, and the status follows what these do.
        for pass in 0..4 {
            let plan = look(&control_plane, &world);
            issued(&control_plane, &plan, &memory);
            world.secrets = memory.seen();
            control_plane = after(control_plane.clone(), &plan);
            if pass == 3 {
                let conditions = plan.status.conditions.iter();
                let mut ready = conditions.filter(|said| said.type_ == types::READY);
                let said = ready.next().unwrap().message.clone();
                return format!("{}, {}: {said}", served(&plan), image(&plan).unwrap());
            }
            if let Some(image) = image(&plan) {
                world.deployment = Some(serving(&image, replicas));
            }
        }
        unreachable!("the last pass returns");
    };
    let told = [
        go_to("v1.34.2", 0),
        go_to("v1.35.4", 0),
        go_to("v1.36.3", 0),
        go_to("v1.35.4", 0),
        go_to("v1.35.4", 2),
        go_to("v1.36.3", 0),
    ];
    insta::assert_snapshot!(told.join("\n"), @"
    v1.34.2, registry.k8s.io/kube-apiserver:v1.34.2: it is scaled to zero; scale it up to wake it
    v1.34.2, registry.k8s.io/kube-apiserver:v1.35.4: it is scaled to zero; scale it up to wake it
    v1.34.2, registry.k8s.io/kube-apiserver:v1.34.2: spec.kubernetes.version: cannot go from v1.34.2 to v1.36.3 in one step: upgrade one minor version at a time, first to v1.35.x, and wake it there before the next step
    v1.34.2, registry.k8s.io/kube-apiserver:v1.35.4: it is scaled to zero; scale it up to wake it
    v1.35.4, registry.k8s.io/kube-apiserver:v1.35.4: the API server serves at 192.0.2.4:6443
    v1.35.4, registry.k8s.io/kube-apiserver:v1.36.3: it is scaled to zero; scale it up to wake it
    ");
}

#[test]
fn who_is_woken_has_not_served_before_a_pod_does() {
    let (mut control_plane, mut world, _) = ready(control_plane_with(json!({
        "kubernetes": { "version": "v1.34.2", "kubelet": {} },
    })));
    control_plane.spec.kubernetes.version = "v1.35.4".to_owned();
    let asleep = serving("registry.k8s.io/kube-apiserver:v1.35.4", 0);
    world.deployment = Some(asleep);
    assert_eq!(served(&look(&control_plane, &world)), "v1.34.2");
}

#[test]
fn what_never_served_has_no_data_and_is_of_the_version_it_asks_for() {
    let (mut control_plane, mut world, _) = ready(control_plane_with(json!({
        "controlPlane": {
            "service": { "serviceType": "LoadBalancer" }, "deployment": { "replicas": 0 },
        },
        "kubernetes": { "version": "v1.35.4", "kubelet": {} },
    })));
    control_plane.spec.kubernetes.version = "v1.36.3".to_owned();
    world.deployment = Some(serving("registry.k8s.io/kube-apiserver:v1.36.3", 0));
    assert_eq!(served(&look(&control_plane, &world)), "v1.36.3");
}

#[test]
fn a_version_that_is_not_hosted_makes_nothing() {
    let control_plane =
        control_plane_with(json!({ "kubernetes": { "version": "v1.20.0", "kubelet": {} } }));
    let plan = look(&control_plane, &world());
    insta::assert_snapshot!(told(&plan), @"
    Ready=False ValidationFailed: spec.kubernetes.version: v1.20.0 is not hosted by this release: choose a version from v1.29 to v1.36
    Warning ValidationFailed: spec.kubernetes.version: v1.20.0 is not hosted by this release: choose a version from v1.29 to v1.36
    ");
    assert!(plan.apply.is_empty() && plan.effects.is_empty());
}

#[test]
fn a_store_that_is_not_there_is_waited_for_while_the_rest_goes_on() {
    for (view, expected) in [
        (StoreView::Unnamed, reasons::DATA_STORE_NOT_FOUND),
        (
            StoreView::Missing("gold".to_owned()),
            reasons::DATA_STORE_NOT_FOUND,
        ),
        (
            StoreView::Broken {
                name: "gold".to_owned(),
                problem: "no Secret".to_owned(),
            },
            reasons::CREDENTIALS_INVALID,
        ),
    ] {
        let world = World {
            store: view,
            ..World::default()
        };
        let plan = look(&control_plane("LoadBalancer"), &world);
        let ready = plan
            .status
            .conditions
            .iter()
            .find(|condition| condition.type_ == types::READY);
        assert_eq!(ready.unwrap().reason, expected);
        assert_eq!(plan.effects.len(), 1, "certificates are made meanwhile");
    }
}

#[test]
fn who_comes_second_to_a_part_of_a_store_does_not_get_it() {
    let first = ObjectKey::namespaced("other", "first");
    let rivals = [("default".to_owned(), first)].into();
    let plan = look(&control_plane("LoadBalancer"), &World { rivals, ..world() });
    let store = plan
        .status
        .conditions
        .iter()
        .find(|condition| condition.type_ == types::DATA_STORE_READY);
    assert_eq!(store.unwrap().reason, reasons::SCHEMA_TAKEN);
    assert_eq!(plan.status.storage, None, "and does not announce it");
}

fn deleted(mut control_plane: TenantControlPlane, seconds_ago: i64) -> TenantControlPlane {
    let since = now()
        .checked_sub(SignedDuration::from_secs(seconds_ago))
        .unwrap();
    control_plane.metadata.deletion_timestamp = Some(Time(since));
    control_plane
}

#[test]
fn a_deleted_control_plane_leaves_alone_what_another_one_has() {
    let (mut control_plane, mut world, _) = ready(control_plane("LoadBalancer"));
    on_record(&mut control_plane, Some(events_in("gold")));
    assert_eq!(
        discarded(&control_plane, &world),
        [(vec!["default".to_owned(), "gold".to_owned()], true)]
    );
    world.rivals = [("gold".to_owned(), ObjectKey::namespaced("other", "first"))].into();
    assert_eq!(
        discarded(&control_plane, &world),
        [(vec!["default".to_owned()], true)]
    );
}

fn events_in(store: &str) -> Vec<DataStoreOverride> {
    vec![DataStoreOverride {
        resource: "/events".to_owned(),
        data_store: store.to_owned(),
    }]
}

fn on_record(control_plane: &mut TenantControlPlane, overrides: Option<Vec<DataStoreOverride>>) {
    let storage = control_plane.status.as_mut().unwrap().storage.as_mut();
    storage.unwrap().overrides = overrides;
}

/// The stores that a deletion empties, and whether what is there is known to be the control plane's.
fn discarded(control_plane: &TenantControlPlane, world: &World) -> Vec<(Vec<String>, bool)> {
    let world = World {
        deployment: None,
        ..world.clone()
    };
    let plan = look(&deleted(control_plane.clone(), 1), &world);
    let discards = plan.effects.iter().filter_map(|effect| match effect {
        Effect::DiscardStore(order) => Some((order.stores.clone(), order.established)),
        _ => None,
    });
    discards.collect()
}

#[test]
fn resources_that_slip_into_another_store_stay_where_they_are_and_that_is_told() {
    let (mut control_plane, world, _) = ready(control_plane("LoadBalancer"));
    let storage = control_plane.status.clone().unwrap().storage.unwrap();
    assert_eq!(
        storage.overrides,
        Some(Vec::new()),
        "it is on record that there are none"
    );
    control_plane.spec.data_store_overrides = events_in("gold");
    let plan = look(&control_plane, &world);
    let told = told(&plan);
    assert!(told.contains("DataStoreMigrated=False Unsupported: spec.dataStoreOverrides wants /events in gold, but what was set up stays: nothing elsewhere"), "{told}");
    assert_eq!(plan.effects, [], "nothing is set up in gold");
    assert_eq!(
        discarded(&control_plane, &world),
        [(vec!["default".to_owned()], true)],
        "and nothing is taken away from there"
    );
}

#[test]
fn what_was_never_set_up_in_another_store_is_not_known_to_be_ours() {
    let (mut control_plane, world, _) = ready(control_plane("LoadBalancer"));
    // As an older release left it, which did not write down where resources are.
    on_record(&mut control_plane, None);
    control_plane.spec.data_store_overrides = events_in("gold");
    assert_eq!(
        discarded(&control_plane, &world),
        [
            (vec!["default".to_owned()], true),
            (vec!["gold".to_owned()], false)
        ]
    );
    let world = World {
        overrides: vec![("/events".to_owned(), StoreView::Missing("gold".to_owned()))],
        ..world
    };
    let storage = look(&control_plane, &world).status.storage.unwrap();
    assert_eq!(storage.overrides, None, "nothing was set up with it");
}

#[test]
fn the_pods_of_a_deleted_control_plane_end_before_its_part_of_the_store_goes() {
    let (control_plane, mut world, _) = ready(control_plane("LoadBalancer"));
    let pods = world.deployment.as_mut().unwrap();
    pods.uid = "d-1".to_owned();
    let plan = look(&deleted(control_plane.clone(), 1), &world);
    let end = Effect::EndPods {
        uid: "d-1".to_owned(),
    };
    assert_eq!(plan.effects, [Effect::ReleaseTenant, end]);
    assert_eq!(plan.next, Next::After(Duration::from_secs(119)));
    let told = told(&plan);
    assert!(
        told.contains(
            "Ready=False Deleting: the control plane is being deleted: its pods end first"
        ),
        "{told}"
    );

    // While they end, nothing is asked for again.
    world.deployment.as_mut().unwrap().is_ending = true;
    let plan = look(&deleted(control_plane.clone(), 1), &world);
    assert_eq!(plan.effects, [Effect::ReleaseTenant]);

    // Pods of a lost node hold nobody up for ever.
    let plan = look(&deleted(control_plane, 120), &world);
    assert!(matches!(plan.effects.last(), Some(Effect::DiscardStore(_))));
    assert_eq!(plan.next, Next::Done);
}

#[test]
fn a_deleted_control_plane_gives_its_part_of_the_store_back_and_is_done() {
    let (control_plane, mut world, _) = ready(control_plane("LoadBalancer"));
    world.deployment = None;
    let plan = look(&deleted(control_plane.clone(), 1), &world);
    assert_eq!(plan.next, Next::Done);
    let [Effect::ReleaseTenant, Effect::DiscardStore(order)] = plan.effects.as_slice() else {
        panic!("{:?}", plan.effects);
    };
    assert_eq!(order.stores, ["default"]);
    assert!(!order.patience_is_over);
    let plan = look(&deleted(control_plane, 600), &world);
    let Some(Effect::DiscardStore(order)) = plan.effects.last() else {
        panic!("{:?}", plan.effects);
    };
    assert!(order.patience_is_over);
}

#[test]
fn a_control_plane_that_never_came_to_a_store_leaves_none() {
    let plan = look(
        &deleted(control_plane("LoadBalancer"), 1),
        &World::default(),
    );
    assert_eq!(
        (plan.next, plan.effects),
        (Next::Done, vec![Effect::ReleaseTenant])
    );
}

#[test]
fn an_older_releases_finalizer_does_not_hold_a_deletion_up() {
    let mut control_plane = deleted(control_plane("LoadBalancer"), 1);
    control_plane.metadata.finalizers =
        Some(vec![finalizers::TENANT_CONTROL_PLANE_SOOT.to_owned()]);
    let plan = look(&control_plane, &world());
    assert_eq!(plan.effects, [Effect::DropLegacyFinalizer]);
    assert_eq!(plan.next, Next::AwaitChange);
}

#[test]
fn secrets_that_an_older_release_holds_are_freed_at_once_and_at_the_end_at_the_latest() {
    let (control_plane, mut world, memory) = ready(control_plane("LoadBalancer"));
    let key = Names::of(&control_plane).secret(SecretRole::StoreConfig);
    let mut body = memory.body(&key).unwrap();
    body["metadata"]["finalizers"] = json!([finalizers::DATA_STORE_SECRET]);
    memory.remove(&key);
    memory.put(body);
    world.secrets = memory.seen();
    let free = Effect::FreeSecrets {
        roles: vec![SecretRole::StoreConfig],
    };
    assert_eq!(
        look(&control_plane, &world).effects,
        std::slice::from_ref(&free)
    );
    for seconds in [1, 600] {
        let plan = look(&deleted(control_plane.clone(), seconds), &world);
        assert!(plan.effects.contains(&free), "{:?}", plan.effects);
    }
}

#[test]
fn secrets_of_a_tunnel_that_is_switched_off_go_when_no_pod_mounts_them() {
    let (mut control_plane, mut world, memory) = ready(control_plane_with(json!({
        "controlPlane": {
            "service": { "serviceType": "ClusterIP" },
            "ingress": { "hostname": "shop.k8s.example.com" },
        },
        "addons": { "konnectivity": {} },
    })));
    let roles = [
        SecretRole::KonnectivityCertificate,
        SecretRole::KonnectivityKubeconfig,
    ];
    let removed = |control_plane: &TenantControlPlane, world: &World| {
        let effects = look(control_plane, world).effects.into_iter();
        let removed = effects.filter_map(|effect| match effect {
            Effect::RemoveSecret { role, .. } => Some(role),
            _ => None,
        });
        removed.collect::<Vec<_>>()
    };
    world.deployment.as_mut().unwrap().mounts = roles.into();
    assert_eq!(removed(&control_plane, &world), []);
    let with_tunnel = control_plane.clone();
    control_plane.spec.addons.konnectivity = None;
    assert_eq!(removed(&control_plane, &world), [], "pods mount them");
    world.deployment.as_mut().unwrap().mounts.clear();
    world.deployment.as_mut().unwrap().status.updated_replicas = Some(1);
    assert_eq!(removed(&control_plane, &world), [], "the last pod does");
    world.deployment.as_mut().unwrap().status.updated_replicas = Some(2);
    assert_eq!(removed(&control_plane, &world), roles);
    assert_eq!(removed(&with_tunnel, &world), []);

    // Without a public name, the tunnel shows what the API server shows.
    let mut nameless = with_tunnel;
    nameless.spec.control_plane.ingress = None;
    assert_eq!(removed(&nameless, &world), roles[..1]);

    // What is not ours beyond doubt stays.
    let key = Names::of(&control_plane).secret(roles[1]);
    let ours = memory.body(&key).unwrap();
    let mut changed = Vec::new();
    for (pointer, value) in [
        ("/data/mine", json!(bytes("a value"))),
        ("/metadata/ownerReferences/0/uid", json!("another")),
        (
            "/metadata/annotations/steward.butlerlabs.dev~1paused",
            json!(""),
        ),
        (
            "/metadata/annotations/steward.butlerlabs.dev~1checksum",
            json!("other"),
        ),
    ] {
        let mut body = ours.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        body.pointer_mut(parent).unwrap()[name.replace("~1", "/")] = value;
        changed.push(body);
    }
    for body in changed {
        memory.remove(&key);
        memory.put(body);
        world.secrets = memory.seen();
        assert_eq!(removed(&control_plane, &world), roles[..1]);
    }
}

#[test]
fn the_tenant_is_looked_after_as_soon_as_its_api_server_serves() {
    let (control_plane, mut world, _) = ready(control_plane("LoadBalancer"));
    world.tenant = Some(crate::tenant_port::TenantState::default());
    let plan = look(&control_plane, &world);
    let [Effect::ConfigureTenant { fingerprint }] = plan.effects.as_slice() else {
        panic!("{:?}", plan.effects);
    };
    world.tenant.as_mut().unwrap().configured = Some(fingerprint.clone());
    assert_eq!(look(&control_plane, &world).effects, []);
}

#[test]
fn the_name_in_the_store_stays_once_it_is_announced() {
    let mut control_plane = control_plane("LoadBalancer");
    let setup = StorageSetupState {
        schema: Some("payments_shop".to_owned()),
        user: Some("payments_shop".to_owned()),
        ..StorageSetupState::default()
    };
    let storage = StorageState {
        setup: Some(setup),
        ..StorageState::default()
    };
    control_plane.status = Some(TenantControlPlaneStatus {
        storage: Some(storage),
        ..TenantControlPlaneStatus::default()
    });
    let plan = look(&control_plane, &world());
    assert_eq!(
        plan.status
            .storage
            .unwrap()
            .setup
            .unwrap()
            .schema
            .as_deref(),
        Some("payments_shop")
    );
}

/// The projection and the facts of a Secret agree with what the API server shows.
#[test]
fn a_secret_of_another_name_is_nobodys() {
    let body = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "x", "namespace": "payments", "labels": { "steward.butlerlabs.dev/project": "steward" } },
    });
    assert_eq!(Facts::of(&body).key, ObjectKey::namespaced("payments", "x"));
    assert_eq!(KeptSecret::project(body).unwrap().role, None);
}
