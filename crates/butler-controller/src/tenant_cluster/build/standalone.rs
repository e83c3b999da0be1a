//! A control plane on machines of its own: `KubeadmControlPlane`, and the load balancer before it.

use butler_api::butler::load_balancer_request::{LoadBalancerRequest, LoadBalancerTarget};
use butler_runtime::object::{Kind, Manifest};
use serde_json::json;

use super::{
    bootstrap, deletion, kubeadm_control_plane, metadata, reference, templates, without_empty,
};
use crate::tenant_cluster::blueprint::{Blueprint, ControlPlane, Infrastructure, Standalone};

/// Port of the API servers, and of the load balancer before them.
const API_SERVER_PORT: i32 = 6443;

/// How many days before its certificates end a machine is replaced. They last a year.
const CERTIFICATES_EXPIRY_DAYS: i32 = 90;

pub(super) fn control_plane(blueprint: &Blueprint, wish: &Standalone) -> Vec<Manifest> {
    let machine = templates::of_control_plane(blueprint, wish);
    let body = json!({
        "metadata": metadata(blueprint, &blueprint.name),
        "spec": {
            "version": blueprint.version,
            "replicas": wish.replicas,
            "rollout": {
                // Nobody else renews certificates on these machines: a new machine has new ones.
                "before": { "certificatesExpiryDays": CERTIFICATES_EXPIRY_DAYS },
                // One more at a time: its store never has fewer members than it needs to agree.
                "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1 } },
            },
            "machineTemplate": {
                "spec": { "infrastructureRef": reference(&machine), "deletion": deletion() },
            },
            "kubeadmConfigSpec": bootstrap::of_control_plane(blueprint, wish),
        },
    });
    let control_plane = Manifest::new(kubeadm_control_plane(), body).needing(&machine);
    vec![machine, control_plane]
}

/// The load balancer before a standalone control plane; nothing for a hosted one. It is made before there are machines, so that
/// certificates can name it.
pub(crate) fn load_balancer(
    blueprint: &Blueprint,
    targets: &[LoadBalancerTarget],
) -> Option<Manifest> {
    let (ControlPlane::Standalone(_), Infrastructure::Butler { config, .. }) =
        (&blueprint.control_plane, &blueprint.infrastructure)
    else {
        return None;
    };
    let body = json!({
        "metadata": metadata(blueprint, &blueprint.name),
        "spec": without_empty(json!({
            // Clusters of two namespaces may have one name; at the provider, load balancers must not.
            "clusterName": blueprint.namespace,
            "providerConfigRef": config,
            "port": API_SERVER_PORT,
            "targets": targets,
        })),
    });
    Some(Manifest::new(Kind::of::<LoadBalancerRequest>(), body))
}
