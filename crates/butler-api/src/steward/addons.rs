//! What Steward installs into a tenant cluster or runs beside its control plane.

use k8s_openapi::api::core::v1::Toleration;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::container_resources::ContainerResources;
use super::exposure::{
    CERTIFICATE_NAMES_MESSAGE, CERTIFICATE_NAMES_RULE, RANGES_MESSAGE, RANGES_RULE,
};
use super::kubernetes::JsonPatch;

/// Addons of a `TenantControlPlane`. One that is absent is not installed; an empty object installs it with defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Addons {
    /// `CoreDNS`: names of Services and pods.
    #[serde(default, rename = "coreDNS", skip_serializing_if = "Option::is_none")]
    pub core_dns: Option<AddonImage>,
    /// kube-proxy: Services on every node. Leave it out where the network plugin does this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_proxy: Option<KubeProxy>,
    /// Konnectivity: the way of the API server to nodes and pods it cannot dial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub konnectivity: Option<Konnectivity>,
    /// A proxy in the tenant cluster through which pods reach an API server that stands behind an Ingress or Gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_proxy: Option<TcpProxy>,
    /// What nodes need beside the Kubernetes API in order to join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_bootstrap: Option<WorkerBootstrap>,
}

/// Image of an addon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonImage {
    /// Registry and path before the image name; that of the Kubernetes project if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_repository: Option<String>,
    /// Image tag; the one that goes with the Kubernetes version if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_tag: Option<String>,
}

/// kube-proxy: its image, and how its configuration differs from the usual one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeProxy {
    /// Its image.
    #[serde(flatten)]
    pub image: AddonImage,
    /// JSON patches (RFC 6902) applied, in order, to the `KubeProxyConfiguration` of all nodes.
    #[serde(
        default,
        rename = "configurationJSONPatches",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 64))]
    pub configuration_json_patches: Vec<JsonPatch>,
}

/// The two ends of the reverse tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Konnectivity {
    /// The end beside the API server.
    #[serde(default)]
    pub server: KonnectivityServer,
    /// The end in the tenant cluster.
    #[serde(default)]
    pub agent: KonnectivityAgent,
}

/// The server that the API server sends its connections through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KonnectivityServer {
    /// Port where agents connect, on the control plane's address.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Image without its tag.
    #[serde(default = "proxy_server_image")]
    pub image: String,
    /// Image tag; `v0.<Kubernetes minor>.0` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Requests and limits of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ContainerResources>,
    /// Further arguments, each written `--flag=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_args: Vec<String>,
}

impl Default for KonnectivityServer {
    fn default() -> Self {
        Self {
            port: 8132,
            image: proxy_server_image(),
            version: None,
            resources: None,
            extra_args: Vec::new(),
        }
    }
}

fn proxy_server_image() -> String {
    "registry.k8s.io/kas-network-proxy/proxy-server".to_owned()
}

/// The agents that dial out to the server and carry its connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.mode != 'DaemonSet' || !has(self.replicas) || self.replicas == 0").message("replicas must not be set in mode DaemonSet: every node runs an agent"),
    validation = Rule::new("self.mode != 'Deployment' || !has(self.replicas) || self.replicas > 0").message("replicas must be greater than zero in mode Deployment")
)]
pub struct KonnectivityAgent {
    /// Image without its tag.
    #[serde(default = "proxy_agent_image")]
    pub image: String,
    /// Image tag; `v0.<Kubernetes minor>.0` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether every node runs an agent, or a fixed number of pods.
    #[serde(default)]
    pub mode: KonnectivityAgentMode,
    /// How many agents run in mode `Deployment`; one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Whether agents use the network of their node, so that they run before the network plugin does.
    #[serde(default)]
    pub host_network: bool,
    /// Taints the agents tolerate. See `kubectl explain pod.spec.tolerations`.
    #[serde(default = "critical_addons_only")]
    #[schemars(schema_with = "super::embedded::schema_of::<Vec<Toleration>>")]
    pub tolerations: Vec<Toleration>,
    /// Further arguments, each written `--flag=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_args: Vec<String>,
}

impl Default for KonnectivityAgent {
    fn default() -> Self {
        Self {
            image: proxy_agent_image(),
            version: None,
            mode: KonnectivityAgentMode::default(),
            replicas: None,
            host_network: false,
            tolerations: critical_addons_only(),
            extra_args: Vec::new(),
        }
    }
}

fn proxy_agent_image() -> String {
    "registry.k8s.io/kas-network-proxy/proxy-agent".to_owned()
}

fn critical_addons_only() -> Vec<Toleration> {
    vec![Toleration {
        key: Some("CriticalAddonsOnly".to_owned()),
        operator: Some("Exists".to_owned()),
        ..Toleration::default()
    }]
}

/// How agents are spread over a tenant cluster.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum KonnectivityAgentMode {
    /// One on every node.
    #[default]
    DaemonSet,
    /// A fixed number, wherever there is room.
    Deployment,
}

/// The proxy that stands in for the API server inside a tenant cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TcpProxy {
    /// Image with its tag; the one of this release if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Requests and limits of the proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ContainerResources>,
    /// Names the proxy resolves by itself, for tenant clusters without DNS for the control plane's host name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_aliases: Vec<HostAlias>,
    /// `host:port` the proxy connects to; the control plane's endpoint if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal_endpoint: Option<String>,
}

/// Names for an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostAlias {
    /// IPv4 or IPv6 address.
    pub ip: String,
    /// Host names that resolve to it.
    pub hostnames: Vec<String>,
}

/// What a kind of node needs to join.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerBootstrap {
    /// Operating system of the nodes.
    pub provider: WorkerBootstrapProvider,
    /// Settings for Talos nodes; defaults if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub talos: Option<TalosBootstrap>,
    /// Whether Steward approves the serving certificates of kubelets.
    #[serde(default)]
    pub csr_approval: CertificateApproval,
    /// Networks of the nodes. A serving certificate is approved only for addresses within them; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 64)))]
    #[x_kube(validation = Rule::new(RANGES_RULE).message(RANGES_MESSAGE))]
    pub allowed_subnets: Vec<String>,
}

/// Operating systems whose nodes need help to join.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum WorkerBootstrapProvider {
    /// Talos Linux, whose nodes get their certificates from a trust daemon.
    Talos,
}

/// The trust daemon of Talos nodes, run beside the API server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TalosBootstrap {
    /// Image without its tag.
    #[serde(default = "trust_daemon_image")]
    pub image: String,
    /// Image tag; the one of this release if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_tag: Option<String>,
    /// Port of the daemon on the control plane's address. Talos nodes expect 50001.
    #[serde(default = "trust_daemon_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Requests and limits of the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ContainerResources>,
    /// Names and addresses to add to the daemon's certificate.
    #[serde(default, rename = "certSANs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 253)))]
    #[x_kube(validation = Rule::new(CERTIFICATE_NAMES_RULE).message(CERTIFICATE_NAMES_MESSAGE))]
    pub cert_sans: Vec<String>,
}

impl Default for TalosBootstrap {
    fn default() -> Self {
        Self {
            image: trust_daemon_image(),
            image_tag: None,
            port: trust_daemon_port(),
            resources: None,
            cert_sans: Vec::new(),
        }
    }
}

fn trust_daemon_image() -> String {
    "ghcr.io/butlerdotdev/steward-trustd".to_owned()
}

fn trust_daemon_port() -> i32 {
    50001
}

/// Approval of kubelets' serving certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateApproval {
    /// Whether requests that name the node that made them are approved by themselves.
    #[serde(default = "approve")]
    pub auto_approve: bool,
}

impl Default for CertificateApproval {
    fn default() -> Self {
        Self {
            auto_approve: approve(),
        }
    }
}

fn approve() -> bool {
    true
}
