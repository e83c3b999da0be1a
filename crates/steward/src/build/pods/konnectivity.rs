//! The container of konnectivity's server.

use butler_api::steward::addons::Konnectivity;
use serde_json::{Value, json};

use super::{arguments, resources, security, volumes};
use crate::{
    build::{KONNECTIVITY_SERVER, PodInputs, egress},
    tunnel::{AGENT_NAMESPACE, KONNECTIVITY_AGENT, KONNECTIVITY_USER, konnectivity_tag},
};

/// Where the socket between the two is.
pub(super) const SOCKET_DIRECTORY: &str = "/run/konnectivity";
const ADMIN_PORT: i32 = 8133;
const HEALTH_PORT: i32 = 8134;

pub(super) fn container(inputs: &PodInputs<'_>, wish: &Konnectivity) -> Value {
    let spec = &inputs.control_plane.spec;
    let server = &wish.server;
    let mut mounts =
        vec![json!({ "name": volumes::KONNECTIVITY_SOCKET, "mountPath": SOCKET_DIRECTORY })];
    mounts.extend(volumes::tunnel_mounts());
    let (certificate, key) = volumes::tunnel_certificate();
    let flags = vec![
        ("admin-port", ADMIN_PORT.to_string()),
        ("agent-namespace", AGENT_NAMESPACE.to_owned()),
        ("agent-port", server.port.to_string()),
        ("agent-service-account", KONNECTIVITY_AGENT.to_owned()),
        ("authentication-audience", KONNECTIVITY_USER.to_owned()),
        ("cluster-cert", certificate),
        ("cluster-key", key),
        ("health-port", HEALTH_PORT.to_string()),
        ("kubeconfig", volumes::tunnel_kubeconfig_file()),
        ("mode", "grpc".to_owned()),
        (
            "server-count",
            spec.control_plane.deployment.replicas.max(1).to_string(),
        ),
        ("server-port", "0".to_owned()),
        ("uds-name", egress::KONNECTIVITY_SOCKET.to_owned()),
    ];
    json!({
        "name": KONNECTIVITY_SERVER,
        "image": format!("{}:{}", server.image, konnectivity_tag(inputs.version, server.version.as_ref())),
        "imagePullPolicy": "IfNotPresent",
        "command": ["/proxy-server"],
        "args": arguments::merge(flags, &server.extra_args),
        "ports": [
            { "name": "agentport", "containerPort": server.port, "protocol": "TCP" },
            { "name": "adminport", "containerPort": ADMIN_PORT, "protocol": "TCP" },
            { "name": "healthport", "containerPort": HEALTH_PORT, "protocol": "TCP" },
        ],
        "livenessProbe": {
            "httpGet": { "path": "/healthz", "port": HEALTH_PORT, "scheme": "HTTP" },
            "initialDelaySeconds": 30,
            "timeoutSeconds": 60,
            "periodSeconds": 10,
        },
        // An API server whose connections nobody takes is not ready. This answers when all ports are open; `/readyz` would
        // wait for agents.
        "readinessProbe": {
            "httpGet": { "path": "/healthz", "port": HEALTH_PORT, "scheme": "HTTP" },
            "periodSeconds": 1,
        },
        "resources": resources(server.resources.as_ref(), "10m", "32Mi"),
        "securityContext": security(&[]),
        "volumeMounts": mounts,
    })
}
