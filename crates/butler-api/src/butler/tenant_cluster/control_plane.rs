//! The control plane of a tenant cluster: hosted as pods, or on machines of its own.

use kube::{KubeSchema, core::Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::workers::MachineTemplate;
use crate::butler::control_plane_resources::ControlPlaneResources;
use crate::reference::LocalReference;

/// The control plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.mode != 'Hosted' || self.replicas <= 3")
    .message("replicas of a Hosted control plane must be 1, 2 or 3"))]
#[x_kube(validation = Rule::new("self.mode != 'Standalone' || self.replicas in [1, 3, 5]")
    .message("replicas of a Standalone control plane must be 1, 3 or 5: its etcd needs an odd number of members"))]
#[x_kube(validation = Rule::new("self.mode == 'Standalone' || !has(self.machineTemplate)")
    .message("machineTemplate is for a Standalone control plane: a Hosted one has no machines"))]
#[x_kube(validation = hosted_alone("dataStoreRef"))]
#[x_kube(validation = hosted_alone("serviceType"))]
#[x_kube(validation = hosted_alone("resources"))]
pub struct TenantClusterControlPlane {
    /// Where the control plane runs: `Hosted` as pods of the management cluster, or `Standalone` on machines of its own,
    /// made by the cluster's provider. It cannot be changed later. Default `Hosted`.
    #[serde(default)]
    pub mode: ControlPlaneMode,
    /// Number of control plane pods, 1 to 3, or of control plane machines, 1, 3 or 5. More than one survives the loss of a
    /// management node, or of a machine. Default 1.
    #[serde(default = "one_replica")]
    #[schemars(range(min = 1, max = 5))]
    pub replicas: i32,
    /// Size and operating system of the machines of a `Standalone` control plane. Changing it replaces them one after
    /// another. What is absent comes from the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_template: Option<MachineTemplate>,
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
            mode: ControlPlaneMode::default(),
            replicas: one_replica(),
            machine_template: None,
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

/// What only a hosted control plane has: on machines of its own nobody would read it.
fn hosted_alone(field: &str) -> Rule {
    Rule::new(format!("self.mode == 'Hosted' || !has(self.{field})")).message(
        format!("{field} is for a Hosted control plane: leave it out with mode Standalone")
            .as_str(),
    )
}

/// The rule that a control plane stays where it is: its state cannot move between pods and machines.
pub(super) fn unchangeable_mode() -> Rule {
    let effective = |object: &str| {
        format!("(has({object}.controlPlane) ? {object}.controlPlane.mode : 'Hosted')")
    };
    Rule::new(format!("{} == {}", effective("self"), effective("oldSelf")))
        .message(
            "controlPlane.mode cannot be changed after creation (it is Hosted if never given): create a new cluster instead",
        )
        .field_path(".controlPlane.mode")
}

/// Where a control plane runs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum ControlPlaneMode {
    /// As pods of the management cluster.
    #[default]
    Hosted,
    /// On machines of its own.
    Standalone,
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
