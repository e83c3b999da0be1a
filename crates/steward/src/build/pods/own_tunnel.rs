//! The container of our own reverse tunnel's server. What it is made of is `butler-tunnel`'s; where its files are is ours.

use butler_api::steward::{addons::Konnectivity, tenant_control_plane::TenantControlPlane};
use butler_tunnel::manifests::{ServerSpec, names};
use k8s_openapi::api::core::v1::ResourceRequirements;
use serde_json::{Value, json};

use super::{api_server::LAST_REQUESTS, security, volumes};
use crate::{
    addresses::port,
    build::PodInputs,
    settings::Settings,
    tunnel::{TcpProxy, Tunnel},
};

pub(super) fn container(inputs: &PodInputs<'_>, wish: &Konnectivity, image: &str) -> Value {
    let server = spec(inputs.control_plane, inputs.settings, wish, image);
    let mut container = json!(server.container());
    // The files of the pod are for the group of its other containers.
    container["securityContext"] = security(&[]);
    container
}

/// Flags that the control plane has for our own tunnel's server, and that are left out.
pub(crate) fn refused_arguments(
    control_plane: &TenantControlPlane,
    settings: &Settings,
) -> Vec<String> {
    match Tunnel::of(control_plane, settings) {
        Some(Tunnel::Butler { wish, image }) => {
            spec(control_plane, settings, wish, image).refused_arguments()
        }
        Some(Tunnel::Konnectivity(_)) | None => Vec::new(),
    }
}

fn spec(
    control_plane: &TenantControlPlane,
    settings: &Settings,
    wish: &Konnectivity,
    image: &str,
) -> ServerSpec {
    let replicas = control_plane.spec.control_plane.deployment.replicas;
    let (certificate, key) = volumes::tunnel_certificate();
    let leads = TcpProxy::leads_through_tunnel(control_plane, settings);
    let api_server = format!("localhost:{}", port(&control_plane.spec.network_profile));
    ServerSpec {
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
        mounts: volumes::tunnel_mounts()
            .into_iter()
            .filter_map(|mount| serde_json::from_value(mount).ok())
            .collect(),
        resources: wish
            .server
            .resources
            .clone()
            .map(ResourceRequirements::from),
        api_server: leads.then(|| api_server.parse().ok()).flatten(),
        extra_arguments: wish.server.extra_args.clone(),
    }
}
