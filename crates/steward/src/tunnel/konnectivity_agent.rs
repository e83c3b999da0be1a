//! The objects of konnectivity's agents in a tenant.

use butler_api::{
    net::HostPort,
    steward::addons::{KonnectivityAgent, KonnectivityAgentMode},
    version::KubernetesVersion,
};
use butler_runtime::object::{Kind, Manifest};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::ServiceAccount,
    rbac::v1::ClusterRoleBinding,
};
use serde_json::{Value, json};

use super::{AGENT_NAMESPACE, KONNECTIVITY_AGENT, KONNECTIVITY_USER, konnectivity_tag};
use crate::build::merge_arguments;

const TOKEN_VOLUME: &str = "konnectivity-agent-token";
const TOKEN_DIRECTORY: &str = "/var/run/secrets/tokens";
/// How long a token is good for; the kubelet renews it before.
const TOKEN_SECONDS: i32 = 3600;
const ADMIN_PORT: i32 = 8133;
const HEALTH_PORT: i32 = 8134;

pub(super) fn objects(
    agent: &KonnectivityAgent,
    server: &HostPort,
    host_network: bool,
    version: &KubernetesVersion,
) -> Vec<Manifest> {
    let here = json!({ "namespace": AGENT_NAMESPACE, "name": KONNECTIVITY_AGENT });
    let account = json!({ "metadata": here });
    // The server asks the API server who an agent is.
    let binding = json!({
        "metadata": { "name": KONNECTIVITY_USER },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator",
        },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": KONNECTIVITY_USER }],
    });
    let selector = json!({ "k8s-app": KONNECTIVITY_AGENT });
    let mut spec = json!({
        "selector": { "matchLabels": selector },
        "template": { "metadata": { "labels": selector }, "spec": pod(agent, server, host_network, version) },
    });
    let workload = match agent.mode {
        KonnectivityAgentMode::DaemonSet => Kind::of::<DaemonSet>(),
        KonnectivityAgentMode::Deployment => {
            spec["replicas"] = agent.replicas.unwrap_or(1).into();
            Kind::of::<Deployment>()
        }
    };
    vec![
        Manifest::new(Kind::of::<ServiceAccount>(), account),
        Manifest::new(Kind::of::<ClusterRoleBinding>(), binding),
        Manifest::new(workload, json!({ "metadata": here, "spec": spec })),
    ]
}

fn pod(
    agent: &KonnectivityAgent,
    server: &HostPort,
    host_network: bool,
    version: &KubernetesVersion,
) -> Value {
    let mut pod = json!({
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "tolerations": agent.tolerations,
        "serviceAccountName": KONNECTIVITY_AGENT,
        "containers": [container(agent, server, version)],
        "volumes": [{
            "name": TOKEN_VOLUME,
            "projected": { "sources": [{ "serviceAccountToken": {
                "path": TOKEN_VOLUME, "audience": KONNECTIVITY_USER, "expirationSeconds": TOKEN_SECONDS,
            } }] },
        }],
    });
    if host_network {
        pod["hostNetwork"] = true.into();
        // The tenant's own DNS may need the tunnel.
        pod["dnsPolicy"] = "Default".into();
    }
    pod
}

fn container(agent: &KonnectivityAgent, server: &HostPort, version: &KubernetesVersion) -> Value {
    let flags = vec![
        ("admin-server-port", ADMIN_PORT.to_string()),
        (
            "ca-cert",
            "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt".to_owned(),
        ),
        ("health-server-port", HEALTH_PORT.to_string()),
        ("logtostderr", "true".to_owned()),
        ("proxy-server-host", server.host().to_owned()),
        ("proxy-server-port", server.port().to_string()),
        (
            "service-account-token-path",
            format!("{TOKEN_DIRECTORY}/{TOKEN_VOLUME}"),
        ),
    ];
    json!({
        "name": KONNECTIVITY_AGENT,
        "image": format!("{}:{}", agent.image, konnectivity_tag(version, agent.version.as_ref())),
        "command": ["/proxy-agent"],
        "args": merge_arguments(flags, &agent.extra_args),
        "livenessProbe": {
            "httpGet": { "path": "/healthz", "port": HEALTH_PORT },
            "initialDelaySeconds": 15,
            "timeoutSeconds": 15,
        },
        "resources": { "requests": { "cpu": "10m", "memory": "24Mi" } },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
        "volumeMounts": [{ "name": TOKEN_VOLUME, "mountPath": TOKEN_DIRECTORY, "readOnly": true }],
    })
}
