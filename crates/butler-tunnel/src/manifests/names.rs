//! Names that several places must agree on.

/// Name of the agent's workload, service account and container.
pub const AGENT: &str = "butler-tunnel-agent";
/// Where agents live in a tenant cluster.
pub const AGENT_NAMESPACE: &str = "kube-system";
/// For whom agents have their tokens: they are good for nothing else.
pub const AUDIENCE: &str = "butler-tunnel";
/// Name of the server's container, and of the roles in the tenant by which it may have tokens judged.
pub const SERVER: &str = "butler-tunnel-server";
/// The user in the server's kubeconfig, unless the control plane has another for it.
pub const SERVER_USER: &str = "system:butler-tunnel-server";

/// Where the socket is, in the server's container and in the API server's.
pub const SOCKET_DIRECTORY: &str = "/run/butler-tunnel";
/// The socket where the API server asks for connections.
pub const SOCKET: &str = "/run/butler-tunnel/tunnel.sock";
/// The volume of the socket.
pub const SOCKET_VOLUME: &str = "butler-tunnel-socket";

/// Where agents dial in, unless the control plane says otherwise.
pub const AGENT_PORT: u16 = 8132;
/// Where both ends show their numbers.
pub const METRICS_PORT: u16 = 8133;
/// Where both ends answer probes.
pub const HEALTH_PORT: u16 = 8134;

/// Name of the proxy that stands in for the API server in a tenant, of its Service and of its service account.
pub const TCP_PROXY: &str = "steward-tcp-proxy";
/// Name of what the proxy may do, and of the binding.
pub const TCP_PROXY_ROLE: &str = "steward:tcp-proxy";
/// Where the proxy lives in a tenant cluster.
pub const TCP_PROXY_NAMESPACE: &str = "kube-system";
/// Where the proxy takes connections of pods, on its node.
pub const TCP_PROXY_PORT: u16 = 6443;

/// The agents' service account as the server's flag wants it.
pub fn agent_service_account() -> String {
    format!("{AGENT_NAMESPACE}/{AGENT}")
}
