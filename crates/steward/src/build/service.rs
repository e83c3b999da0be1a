//! The Service in front of a control plane.

use butler_api::{
    keys::annotations,
    steward::{exposure::ServiceType, tenant_control_plane::TenantControlPlane},
};
use butler_runtime::object::{Kind, Manifest};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::{API_SERVER, KONNECTIVITY_SERVER};
use crate::names::Names;

const COMPONENT: &str = "service";

/// The Service in front of a control plane. While nobody has ever served (`is_first_start`), it leads to pods that are not known to be
/// ready as well: there is nobody better, and an API server that serves is reached at once, not when kubelet, the API server and
/// kube-proxy have passed on that it does.
pub fn service(
    control_plane: &TenantControlPlane,
    names: &Names,
    is_first_start: bool,
) -> Manifest {
    let wished = &control_plane.spec.control_plane.service;
    let profile = &control_plane.spec.network_profile;
    let address = profile
        .address
        .as_deref()
        .filter(|address| !address.is_empty());
    let mut metadata = names.metadata(names.name(), COMPONENT, wished.additional_metadata.as_ref());
    let mut spec = json!({
        "type": wished.service_type,
        "selector": names.selector(),
        "ports": ports(control_plane),
    });
    if is_first_start {
        spec["publishNotReadyAddresses"] = true.into();
    }
    match wished.service_type {
        ServiceType::LoadBalancer => {
            if let Some(class) = &profile.load_balancer_class {
                spec["loadBalancerClass"] = class.clone().into();
            }
            if !profile.load_balancer_source_ranges.is_empty() {
                spec["loadBalancerSourceRanges"] = json!(profile.load_balancer_source_ranges);
            }
            if let Some(address) = address {
                metadata["annotations"][annotations::LOAD_BALANCER_ADDRESS] = address.into();
            }
        }
        ServiceType::ClusterIP | ServiceType::NodePort => {
            if let Some(address) = address.filter(|_| profile.allow_address_as_external_ip) {
                spec["externalIPs"] = json!([address]);
            }
        }
    }
    let body = json!({ "metadata": metadata, "spec": spec });
    Manifest::new(Kind::of::<Service>(), body)
}

fn ports(control_plane: &TenantControlPlane) -> Vec<Value> {
    let spec = &control_plane.spec;
    let on_nodes = spec.control_plane.service.service_type == ServiceType::NodePort;
    let own = |name: &str, number: i32| {
        let mut port = json!({
            "name": name, "protocol": "TCP", "port": number, "targetPort": number,
        });
        if on_nodes {
            port["nodePort"] = number.into();
        }
        port
    };
    let mut ports = vec![own(API_SERVER, spec.network_profile.port)];
    if let Some(tunnel) = &spec.addons.konnectivity {
        ports.push(own(KONNECTIVITY_SERVER, tunnel.server.port));
    }
    for more in &spec.control_plane.service.additional_ports {
        let mut port = json!({
            "name": more.name,
            "protocol": more.protocol,
            "port": more.port,
            "targetPort": more.target_port,
        });
        if let Some(protocol) = &more.app_protocol {
            port["appProtocol"] = protocol.clone().into();
        }
        ports.push(port);
    }
    ports
}

#[cfg(test)]
mod tests {
    use insta::assert_yaml_snapshot;

    use super::*;
    use crate::testing::{control_plane, control_plane_with};

    fn body(control_plane: &TenantControlPlane) -> Value {
        service(control_plane, &Names::of(control_plane), false).body
    }

    #[test]
    fn a_load_balancer() {
        assert_yaml_snapshot!(body(&control_plane("LoadBalancer")), @"
        apiVersion: v1
        kind: Service
        metadata:
          labels:
            steward.butlerlabs.dev/component: service
            steward.butlerlabs.dev/name: shop
            steward.butlerlabs.dev/project: steward
          name: shop
          namespace: payments
          ownerReferences:
            - apiVersion: steward.butlerlabs.dev/v1alpha1
              blockOwnerDeletion: true
              controller: true
              kind: TenantControlPlane
              name: shop
              uid: 6f9619ff-8b86-4011-b42d-00c04fc964ff
        spec:
          ports:
            - name: kube-apiserver
              port: 6443
              protocol: TCP
              targetPort: 6443
          selector:
            steward.butlerlabs.dev/name: shop
          type: LoadBalancer
        ");
    }

    #[test]
    fn a_load_balancer_with_everything() {
        let tcp = control_plane_with(json!({
            "controlPlane": { "service": {
                "serviceType": "LoadBalancer",
                "additionalMetadata": { "annotations": { "example.com/pool": "public" } },
                "additionalPorts": [{ "name": "metrics", "port": 9000, "targetPort": "metrics" }],
            } },
            "networkProfile": {
                "address": "192.0.2.4", "port": 7443, "loadBalancerClass": "example.com/fast",
                "loadBalancerSourceRanges": ["198.51.100.0/24"],
            },
            "addons": { "konnectivity": {} },
        }));
        assert_yaml_snapshot!(body(&tcp)["spec"], @"
        loadBalancerClass: example.com/fast
        loadBalancerSourceRanges:
          - 198.51.100.0/24
        ports:
          - name: kube-apiserver
            port: 7443
            protocol: TCP
            targetPort: 7443
          - name: konnectivity-server
            port: 8132
            protocol: TCP
            targetPort: 8132
          - name: metrics
            port: 9000
            protocol: TCP
            targetPort: metrics
        selector:
          steward.butlerlabs.dev/name: shop
        type: LoadBalancer
        ");
    }

    #[test]
    fn a_node_port_has_the_same_port_everywhere() {
        let tcp = control_plane_with(json!({
            "controlPlane": { "service": { "serviceType": "NodePort" } },
            "networkProfile": { "address": "192.0.2.4", "port": 30443, "allowAddressAsExternalIP": true },
        }));
        assert_yaml_snapshot!(body(&tcp)["spec"], @"
        externalIPs:
          - 192.0.2.4
        ports:
          - name: kube-apiserver
            nodePort: 30443
            port: 30443
            protocol: TCP
            targetPort: 30443
        selector:
          steward.butlerlabs.dev/name: shop
        type: NodePort
        ");
    }
}
