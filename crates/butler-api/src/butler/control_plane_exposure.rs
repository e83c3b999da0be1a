//! How API servers of tenant clusters are reached, as `ClusterBootstrap` sets it up and `ButlerConfig` keeps it.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::steward::exposure::IngressControllerType;

/// How API servers of tenant clusters are reached from outside the management cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.mode != 'Gateway' || has(self.gatewayRef)")
    .message("gatewayRef is required when mode is Gateway"))]
pub struct ControlPlaneExposure {
    /// `LoadBalancer`: an address for each cluster. `Ingress` or `Gateway`: one address for all, told apart by name.
    #[serde(default)]
    pub mode: ExposureMode,
    /// Domain under which each cluster gets a name, for `Ingress` and `Gateway`; a leading `*.` may be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Ingress class to use; the cluster's default class if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_class_name: Option<String>,
    /// Which ingress controller serves the class, so that TLS passthrough is asked for in its own words. Found from the
    /// class if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_type: Option<IngressControllerType>,
    /// Gateway to attach to, written `namespace/name`. Required for `Gateway`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_ref: Option<String>,
}

/// How API servers of tenant clusters are reached.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum ExposureMode {
    /// An address for each cluster.
    #[default]
    LoadBalancer,
    /// One ingress controller for all, by TLS server name.
    Ingress,
    /// One Gateway for all, by TLS server name.
    Gateway,
}
