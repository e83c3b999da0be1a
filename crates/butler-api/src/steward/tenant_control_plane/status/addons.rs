//! What is known about the addons of a control plane.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::resources::{GatewayState, ServiceState};
use super::{ObjectState, SecretState};
use crate::steward::addons::WorkerBootstrapProvider;

/// What is known about the addons.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonsStatus {
    /// `CoreDNS`.
    #[serde(default, rename = "coreDNS", skip_serializing_if = "Option::is_none")]
    pub core_dns: Option<AddonStatus>,
    /// kube-proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_proxy: Option<AddonStatus>,
    /// Konnectivity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub konnectivity: Option<KonnectivityStatus>,
    /// The proxy in the tenant cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_proxy: Option<TcpProxyStatus>,
    /// What nodes need to join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_bootstrap: Option<WorkerBootstrapStatus>,
}

/// An addon without parts worth naming.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonStatus {
    /// Whether it is installed.
    pub enabled: bool,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update: Option<Time>,
}

/// The two ends of the reverse tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KonnectivityStatus {
    /// Whether it is installed.
    pub enabled: bool,
    /// The API server's egress configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapState>,
    /// Certificate of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<SecretState>,
    /// Kubeconfig of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<SecretState>,
    /// Service account of the agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sa: Option<ObjectState>,
    /// Binding that lets the server check the agents' tokens.
    #[serde(
        default,
        rename = "clusterrolebinding",
        skip_serializing_if = "Option::is_none"
    )]
    pub cluster_role_binding: Option<ObjectState>,
    /// The agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<KonnectivityAgentState>,
    /// The Service where agents connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceState>,
    /// The Gateway's route where agents connect, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayState>,
}

/// A `ConfigMap` that Steward keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapState {
    /// Name of the `ConfigMap`, in the control plane's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Fingerprint of its contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

/// The agents in the tenant cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KonnectivityAgentState {
    /// Name of the agents' `DaemonSet` or Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace in the tenant cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Whether it is a `DaemonSet` or a Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update: Option<Time>,
}

/// The proxy in the tenant cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TcpProxyStatus {
    /// Whether it is installed.
    pub enabled: bool,
    /// Its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<ObjectState>,
    /// Its Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ObjectState>,
    /// Its service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ObjectState>,
    /// What it may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_role: Option<ObjectState>,
    /// The binding of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_role_binding: Option<ObjectState>,
}

/// What nodes need to join.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerBootstrapStatus {
    /// Whether it is set up.
    pub enabled: bool,
    /// Operating system of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<WorkerBootstrapProvider>,
    /// The Secret with the nodes' token and authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<SecretState>,
    /// `host:port` where nodes ask for their certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The Service that carries that port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceState>,
}
