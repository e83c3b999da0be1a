//! The hosted control plane of a tenant cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::butler::control_plane_resources::ControlPlaneResources;
use crate::reference::LocalReference;

/// The hosted control plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantClusterControlPlane {
    /// Number of control plane pods, 1 to 3. More than one survives the loss of a management node. Default 1.
    #[serde(default = "one_replica")]
    #[schemars(range(min = 1, max = 3))]
    pub replicas: i32,
    /// `DataStore` that keeps the cluster's state. If absent, the one called `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_store_ref: Option<LocalReference>,
    /// How the API server is exposed to workers and users. If absent, a load balancer; behind a shared ingress or gateway
    /// (`ButlerConfig` `controlPlaneExposure`), a cluster IP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_type: Option<ControlPlaneServiceType>,
    /// More names and addresses that the API server's certificate must be valid for.
    #[serde(default, rename = "certSANs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub cert_sans: Vec<String>,
    /// Whether nodes wait for a cloud controller manager to initialise them. If absent, yes where the provider brings one
    /// and no elsewhere: a node that waits for a manager that never comes stays unusable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_cloud_provider: Option<bool>,
    /// CPU and memory of the control plane's components. What is absent comes from `ButlerConfig`
    /// `defaultControlPlaneResources`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ControlPlaneResources>,
}

impl Default for TenantClusterControlPlane {
    fn default() -> Self {
        Self {
            replicas: one_replica(),
            data_store_ref: None,
            service_type: None,
            cert_sans: Vec::new(),
            external_cloud_provider: None,
            resources: None,
        }
    }
}

fn one_replica() -> i32 {
    1
}

/// Kind of Service in front of the API server.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum ControlPlaneServiceType {
    /// An address of its own from the management cluster's load balancer.
    LoadBalancer,
    /// A port on every management node.
    NodePort,
    /// Reachable inside the management cluster, or through its ingress or gateway.
    ClusterIP,
}
