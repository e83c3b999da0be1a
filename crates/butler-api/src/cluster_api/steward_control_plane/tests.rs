use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::steward::exposure::ServiceType;
use crate::testing;

const CONTROL_PLANE: &str = include_str!("../../../../../examples/steward-control-plane.yaml");
const TEMPLATE: &str = include_str!("../../../../../examples/steward-control-plane-template.yaml");

#[test]
fn users_manifests_are_kept_as_written() {
    let control_plane: StewardControlPlane = testing::read(CONTROL_PLANE);
    assert_eq!(
        control_plane.spec.settings.network.service_type,
        ServiceType::LoadBalancer
    );
    let template: StewardControlPlaneTemplate = testing::read(TEMPLATE);
    assert!(template.spec.template.spec.addons.core_dns.is_some());
}

#[test]
fn a_version_is_all_that_has_to_be_said() {
    let spec: StewardControlPlaneSpec =
        serde_json::from_value(json!({ "version": "v1.35.2" })).unwrap();
    assert_eq!(spec.replicas, 2);
    assert_eq!(spec.settings, ControlPlaneSettings::default());
    assert_eq!(
        testing::field::<StewardControlPlane>("spec")["required"],
        json!(["version"])
    );
}

#[test]
fn a_template_leaves_out_what_the_topology_sets() {
    let schema = testing::field::<StewardControlPlaneTemplate>("spec.template.spec");
    let fields = schema["properties"].as_object().unwrap();
    for absent in ["version", "replicas", "controlPlaneEndpoint"] {
        assert!(!fields.contains_key(absent), "{absent}");
    }
    let control_plane = testing::field::<StewardControlPlane>("spec");
    for field in fields.keys() {
        assert_eq!(
            &control_plane["properties"][field], &schema["properties"][field],
            "{field}"
        );
    }
}

#[test]
fn the_crd_says_what_kubectl_needs() {
    assert_eq!(
        testing::crd_part::<StewardControlPlane>("spec/names/categories"),
        json!(["cluster-api", "steward"])
    );
    assert_eq!(
        testing::crd_part::<StewardControlPlaneTemplate>("spec/names/shortNames"),
        json!(["stcpt"])
    );
}

#[test]
fn kubectl_scale_finds_the_replicas() {
    assert_eq!(
        testing::crd_part::<StewardControlPlane>("spec/versions/0/subresources/scale"),
        json!({
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        })
    );
}

#[test]
fn a_fresh_status_says_that_there_are_no_control_plane_machines() {
    assert!(StewardControlPlaneStatus::default().external_managed_control_plane);
    assert_eq!(
        testing::field::<StewardControlPlane>("status.externalManagedControlPlane")["default"],
        true
    );
}
