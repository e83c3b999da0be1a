//! The container of our own reverse tunnel's server. What it is made of is `butler-tunnel`'s; where its files are is ours.

use butler_api::steward::addons::Konnectivity;
use butler_tunnel::manifests::{ServerSpec, names};
use k8s_openapi::api::core::v1::ResourceRequirements;
use serde_json::{Value, json};

use super::{api_server::LAST_REQUESTS, security, volumes};
use crate::build::PodInputs;

pub(super) fn container(inputs: &PodInputs<'_>, wish: &Konnectivity, image: &str) -> Value {
    let replicas = inputs.control_plane.spec.control_plane.deployment.replicas;
    let (certificate, key) = volumes::tunnel_certificate(inputs.control_plane);
    let mounts = volumes::tunnel_mounts(inputs.control_plane);
    let server = ServerSpec {
        image: image.to_owned(),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        socket: names::SOCKET.to_owned(),
        certificate,
        key,
        kubeconfig: volumes::tunnel_kubeconfig_file(),
        agent_port: u16::try_from(wish.server.port).unwrap_or(names::AGENT_PORT),
        server_count: usize::try_from(replicas).unwrap_or(1).max(1),
        shutdown_delay: LAST_REQUESTS,
        // Mounts are ours, and of this shape.
        mounts: mounts
            .into_iter()
            .filter_map(|mount| serde_json::from_value(mount).ok())
            .collect(),
        resources: wish
            .server
            .resources
            .clone()
            .map(ResourceRequirements::from),
        extra_arguments: wish.server.extra_args.clone(),
    };
    let mut container = json!(server.container());
    // The files of the pod are for the group of its other containers.
    container["securityContext"] = security(&[]);
    container
}
