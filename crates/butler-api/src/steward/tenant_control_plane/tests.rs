use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::steward::addons::KonnectivityAgentMode;
use crate::steward::exposure::ServiceType;
use crate::testing;

const EXAMPLE: &str = include_str!("../../../../../examples/tenant-control-plane.yaml");

fn smallest() -> TenantControlPlaneSpec {
    serde_json::from_value(json!({
        "controlPlane": { "service": { "serviceType": "LoadBalancer" } },
        "kubernetes": { "version": "v1.35.2", "kubelet": {} },
    }))
    .unwrap()
}

#[test]
fn a_users_manifest_is_kept_as_written() {
    let control_plane: TenantControlPlane = testing::read(EXAMPLE);
    assert_eq!(
        control_plane.spec.control_plane.service.service_type,
        ServiceType::LoadBalancer
    );
}

#[test]
fn the_smallest_manifest_is_a_highly_available_control_plane() {
    let spec = smallest();
    assert_eq!(spec.control_plane.deployment.replicas, 2);
    assert_eq!(spec.network_profile.port, 6443);
    assert_eq!(spec.network_profile.service_cidr, "10.96.0.0/16");
    assert_eq!(spec.kubernetes.admission_controllers.len(), 17);
    assert_eq!(spec.addons, Addons::default());
    assert!(spec.write_permissions.allows_all());
}

#[test]
fn an_empty_konnectivity_is_a_tunnel_with_an_agent_on_every_node() {
    let addons: Addons = serde_json::from_value(json!({ "konnectivity": {} })).unwrap();
    let konnectivity = addons.konnectivity.unwrap();
    assert_eq!(konnectivity.server.port, 8132);
    assert_eq!(konnectivity.agent.mode, KonnectivityAgentMode::DaemonSet);
    assert_eq!(konnectivity.agent.tolerations.len(), 1);
}

#[test]
fn the_schema_carries_the_defaults() {
    let field = testing::field::<TenantControlPlane>;
    let deployment = "spec.controlPlane.deployment";
    assert_eq!(
        field(&format!("{deployment}.registrySettings"))["default"],
        json!({
            "apiServerImage": "kube-apiserver",
            "controllerManagerImage": "kube-controller-manager",
            "registry": "registry.k8s.io",
            "schedulerImage": "kube-scheduler",
        })
    );
    assert_eq!(
        field(&format!("{deployment}.strategy"))["default"],
        json!({
            "rollingUpdate": { "maxSurge": "100%", "maxUnavailable": 0 },
            "type": "RollingUpdate",
        })
    );
    assert_eq!(
        field("spec.kubernetes.kubelet.preferredAddressTypes")["default"],
        json!(["InternalIP", "ExternalIP", "Hostname"])
    );
    assert_eq!(
        field("spec.addons.konnectivity.agent.tolerations")["default"],
        json!([{ "key": "CriticalAddonsOnly", "operator": "Exists" }])
    );
    assert_eq!(
        field("status.kubernetesResources.version.status")["default"],
        "Provisioning"
    );
}

#[test]
fn lists_that_several_writers_share_merge_by_their_key() {
    let field = testing::field::<TenantControlPlane>;
    for (path, key) in [
        (
            "spec.controlPlane.deployment.resources.apiServer.claims",
            "name",
        ),
        ("spec.addons.tcpProxy.resources.claims", "name"),
        ("status.conditions", "type"),
        ("status.kubernetesResources.deployment.conditions", "type"),
        ("status.kubernetesResources.service.conditions", "type"),
        (
            "status.addons.konnectivity.gateway.parents[].conditions",
            "type",
        ),
    ] {
        let list = field(path);
        assert_eq!(list["x-kubernetes-list-type"], "map", "{path}");
        assert_eq!(list["x-kubernetes-list-map-keys"], json!([key]), "{path}");
    }
    assert_eq!(
        field("spec.kubernetes.kubelet.preferredAddressTypes")["x-kubernetes-list-type"],
        "set"
    );
}

#[test]
fn kubectl_scale_finds_the_replicas() {
    assert_eq!(
        testing::crd_part::<TenantControlPlane>("spec/versions/0/subresources/scale"),
        json!({
            "specReplicasPath": ".spec.controlPlane.deployment.replicas",
            "statusReplicasPath": ".status.kubernetesResources.deployment.replicas",
            "labelSelectorPath": ".status.kubernetesResources.deployment.selector",
        })
    );
}

#[test]
fn the_crd_says_what_kubectl_needs() {
    assert_eq!(
        testing::crd_part::<TenantControlPlane>("spec/names/shortNames"),
        json!(["tcp"])
    );
    assert_eq!(
        testing::crd_part::<TenantControlPlane>("spec/names/categories"),
        json!(["steward"])
    );
    assert_eq!(
        testing::columns::<TenantControlPlane>(),
        [
            "Version",
            "Installed Version",
            "Status",
            "Control-Plane endpoint",
            "Kubeconfig",
            "Datastore",
            "Age"
        ]
    );
}
