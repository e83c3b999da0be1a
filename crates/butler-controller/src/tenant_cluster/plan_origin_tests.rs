//! What stays of a cluster when the platform or the provider under it says something else than when it was made.

use butler_api::butler::{
    butler_config::ControlPlaneExposure, provider_config::Provider,
    tenant_cluster::TenantClusterPhase,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{
    tests::{applied, plain, was_ready},
    *,
};
use crate::{
    tenant_cluster::{
        related::Related,
        scene::{begun, condition, config, lines, provider, ready, serving, world},
    },
    testing::at,
};

fn ingress() -> Value {
    json!({
        "mode": "Ingress", "hostname": "*.k8s.example.com", "ingressClassName": "public", "controllerType": "nginx",
    })
}

/// A cluster that was ready, and whose addons nobody waits for.
fn shop() -> TenantCluster {
    was_ready(&json!({ "managementPolicy": { "mode": "GitOps" } }))
}

/// A cluster on Harvester, and these settings of the platform.
fn on_harvester(platform: Option<&Value>, related: Related) -> World {
    let mut world = world(related);
    let mut place = provider(&json!({
        "provider": "harvester",
        "credentialsRef": { "name": "harvester" },
        "harvester": { "networkName": "networks/workloads" },
    }));
    place.status.get_or_insert_default().validated = Some(true);
    world.provider = Some(place);
    world.config = platform.map(config);
    world
}

/// What exists of a cluster that is ready and whose control plane is of this kind, reached like that.
fn made(kind: &str, exposure: &Value) -> Related {
    let mut related = ready();
    related.control_plane.as_mut().unwrap().kind = kind.to_owned();
    let exposure: ControlPlaneExposure = serde_json::from_value(exposure.clone()).unwrap();
    let origin = &mut related.cluster.as_mut().unwrap().facts.origin;
    origin.control_plane = Some(kind.to_owned());
    origin.exposure = Some(exposure);
    related
}

/// The control planes that are applied, with how they are reached, and the one that the Cluster names.
fn control_planes(plan: &Plan<TenantClusterStatus, Effect>) -> String {
    let kinds = ["StewardControlPlane", "KamajiControlPlane"];
    let bodies = kinds.into_iter().flat_map(|kind| applied(plan, kind));
    let mut lines: Vec<_> = bodies
        .map(|body| format!("{} {}", body["kind"], body["spec"]["network"]))
        .collect();
    let clusters = applied(plan, "Cluster");
    lines.extend(
        clusters
            .iter()
            .map(|body| format!("named {}", body["spec"]["controlPlaneRef"]["kind"])),
    );
    lines.join("\n")
}

#[test]
fn a_platform_that_goes_to_kamaji_leaves_control_planes_of_steward_where_they_are() {
    let platform = json!({ "controlPlaneProvider": "kamaji" });
    let by_load_balancer = json!({ "mode": "LoadBalancer" });
    let exists = made("StewardControlPlane", &by_load_balancer);
    let changed = plan(&shop(), &on_harvester(Some(&platform), exists), at(200));
    insta::assert_snapshot!(control_planes(&changed), @r#"
    "StewardControlPlane" {"serviceType":"LoadBalancer"}
    named "StewardControlPlane"
    "#);
    assert_eq!(changed.status.phase, Some(TenantClusterPhase::Ready));
    assert_eq!(condition(&changed, "Ready"), "True Ready: ");
    insta::assert_snapshot!(condition(&changed, "ControlPlaneReady"), @"True ControlPlaneReady: Steward runs it, as when it was made: spec.controlPlaneProvider of the ButlerConfig (kamaji) counts for new clusters");
    let new = plan(
        &plain(),
        &on_harvester(Some(&platform), Related::default()),
        at(1),
    );
    insta::assert_snapshot!(control_planes(&new), @r#"
    "KamajiControlPlane" {"serviceType":"LoadBalancer"}
    named "KamajiControlPlane"
    "#);
}

#[test]
fn a_platform_that_loses_its_settings_changes_no_control_plane() {
    let mut world = on_harvester(None, made("KamajiControlPlane", &ingress()));
    world.exposure_address = Some("192.0.2.10".to_owned());
    let lost = plan(&shop(), &world, at(200));
    insta::assert_snapshot!(control_planes(&lost), @r#"
    "KamajiControlPlane" {"ingress":{"className":"public","hostname":"shop.shop-0a1b2c3d.k8s.example.com"},"serviceType":"ClusterIP"}
    named "KamajiControlPlane"
    "#);
    insta::assert_snapshot!(condition(&lost, "ControlPlaneReady"), @"True ControlPlaneReady: Kamaji runs it, as when it was made: spec.controlPlaneProvider of the ButlerConfig (steward) counts for new clusters; it is reached by Ingress, as when it was made: spec.controlPlaneExposure of the ButlerConfig (LoadBalancer) counts for new clusters");
    let kept = &applied(&lost, "Cluster")[0]["metadata"]["annotations"];
    assert_eq!(
        kept["butler.butlerlabs.dev/control-plane-exposure"],
        ingress().to_string(),
        "it must be there in the next pass as well"
    );
}

#[test]
fn nodes_that_joined_find_their_api_server_where_it_was() {
    let platform = json!({ "controlPlaneExposure": ingress() });
    let by_load_balancer = json!({ "mode": "LoadBalancer" });
    let exists = made("StewardControlPlane", &by_load_balancer);
    let mut world = on_harvester(Some(&platform), exists);
    let joined = plan(&shop(), &world, at(200));
    insta::assert_snapshot!(control_planes(&joined), @r#"
    "StewardControlPlane" {"serviceType":"LoadBalancer"}
    named "StewardControlPlane"
    "#);
    insta::assert_snapshot!(condition(&joined, "ControlPlaneReady"), @"True ControlPlaneReady: it is reached by LoadBalancer, as when it was made: spec.controlPlaneExposure of the ButlerConfig (Ingress) counts for new clusters");
    // One that nobody could reach so far is given the way that the platform has now.
    world.related.cluster.as_mut().unwrap().facts.endpoint = None;
    world.exposure_address = Some("192.0.2.10".to_owned());
    let stuck = plan(&plain(), &world, at(200));
    insta::assert_snapshot!(control_planes(&stuck), @r#"
    "StewardControlPlane" {"ingress":{"className":"public","controllerType":"nginx","hostname":"shop.shop-0a1b2c3d.k8s.example.com"},"serviceType":"ClusterIP"}
    named "StewardControlPlane"
    "#);
}

fn nutanix() -> ProviderConfig {
    let mut found = provider(&json!({
        "provider": "nutanix",
        "clusterAPIProvider": "CAPX",
        "credentialsRef": { "name": "prism" },
        "nutanix": { "endpoint": "https://prism.example.com:9440/", "clusterUUID": "a", "subnetUUID": "b" },
    }));
    found.status.get_or_insert_default().validated = Some(true);
    found
}

#[test]
fn a_provider_that_becomes_another_one_holds_its_clusters_as_they_are() {
    let mut world = world(ready());
    let cluster = world.related.cluster.as_mut().unwrap();
    cluster.facts.origin.provider = Some(Provider::Local);
    world.provider = Some(nutanix());
    let held = plan(&shop(), &world, at(200));
    insta::assert_snapshot!(lines(&held), @r"
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
    Ready=True ReconcileDegraded: the ProviderConfig butler-system/default is not what it was when the cluster was made, and nothing of the cluster is changed; set back spec.provider from nutanix to local and spec.clusterAPIProvider from CAPX to Butler; to use something else, make another ProviderConfig and new clusters on it
    Running=True ReconcileDegraded: the ProviderConfig butler-system/default is not what it was when the cluster was made, and nothing of the cluster is changed; set back spec.provider from nutanix to local and spec.clusterAPIProvider from CAPX to Butler; to use something else, make another ProviderConfig and new clusters on it
    Warning ReconcileDegraded: the ProviderConfig butler-system/default is not what it was when the cluster was made, and nothing of the cluster is changed; set back spec.provider from nutanix to local and spec.clusterAPIProvider from CAPX to Butler; to use something else, make another ProviderConfig and new clusters on it
    ");
    world.provider = Some(provider(&json!({ "provider": "local" })));
    let back = plan(&shop(), &world, at(210));
    assert_eq!(condition(&back, "Ready"), "True Ready: ");
    assert!(!back.apply.is_empty());
}

#[test]
fn a_cluster_that_is_still_being_made_is_held_by_what_exists_of_it() {
    for related in [begun(), serving()] {
        let mut world = world(related);
        world.provider = Some(nutanix());
        let held = plan(&plain(), &world, at(3));
        assert_eq!((held.apply.len(), &held.prune), (0, &Prune::Keep));
        insta::allow_duplicates! {
            insta::assert_snapshot!(condition(&held, "Ready"), @"False ValidationFailed: the ProviderConfig butler-system/default is not what it was when the cluster was made, and nothing of the cluster is changed; set back spec.clusterAPIProvider from CAPX to Butler; to use something else, make another ProviderConfig and new clusters on it");
        }
    }
}

#[test]
fn machines_of_the_same_kinds_from_elsewhere_are_not_taken_for_the_same() {
    let mut world = on_harvester(None, ready());
    let was = |world: &mut World, provider| {
        let cluster = world.related.cluster.as_mut().unwrap();
        cluster.facts.origin.provider = provider;
    };
    was(&mut world, Some(Provider::Proxmox));
    let held = plan(&shop(), &world, at(200));
    insta::assert_snapshot!(condition(&held, "Ready"), @"True ReconcileDegraded: the ProviderConfig butler-system/default is not what it was when the cluster was made, and nothing of the cluster is changed; set back spec.provider from harvester to proxmox; to use something else, make another ProviderConfig and new clusters on it");
    assert_eq!(held.apply, []);
    was(&mut world, Some(Provider::Harvester));
    assert!(!plan(&shop(), &world, at(200)).apply.is_empty());
}
