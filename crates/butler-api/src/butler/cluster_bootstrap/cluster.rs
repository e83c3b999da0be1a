//! The machines of a management cluster.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::VERSION_PATTERN;
use super::network::{ADDRESS_OR_NAME_MESSAGE, ADDRESS_OR_NAME_RULE};
use crate::Quantity;
use crate::butler::machine_request::ExtraDisk;
use crate::name::LABEL_PATTERN;
use crate::schema::{at_least_rule, processors_rule};

/// The machines of the cluster and what they have in common.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.topology != 'ha' || (self.controlPlane.replicas >= 3 && self.controlPlane.replicas % 2 == 1)")
        .message("controlPlane.replicas must be an odd number of at least 3 for topology ha"),
    validation = Rule::new("self.topology != 'single-node' || self.controlPlane.replicas == 1")
        .message("controlPlane.replicas must be 1 for topology single-node"),
    validation = Rule::new("self.topology != 'single-node' || !has(self.workers) || self.workers.replicas == 0")
        .message("workers.replicas must be 0 for topology single-node: its one node runs the workloads")
)]
pub struct BootstrapCluster {
    /// Name of the cluster and first part of its machines' names: a DNS label of at most 63 characters. Immutable.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = LABEL_PATTERN)
    )]
    pub name: String,
    /// `ha` has three or more control plane nodes, `single-node` is one node that does everything.
    #[serde(default)]
    pub topology: Topology,
    /// Address or DNS name at which the API server is reached: the same as `network.vip`. If neither is given, the
    /// cloud's load balancer or, without one, the address of the first control plane node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new(ADDRESS_OR_NAME_RULE).message(ADDRESS_OR_NAME_MESSAGE))]
    pub control_plane_endpoint: Option<String>,
    /// Version of Kubernetes, such as `v1.31.0`. The newest that this release of Butler, and Talos where it is used,
    /// supports if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = VERSION_PATTERN))]
    pub kubernetes_version: Option<String>,
    /// The nodes that run the API servers and etcd.
    pub control_plane: NodePool,
    /// The nodes that run workloads. If absent or 0, control plane nodes run workloads too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<NodePool>,
}

/// How many control plane nodes a cluster has, and whether they stand alone.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[schemars(description = "")]
pub enum Topology {
    /// One node that does everything.
    SingleNode,
    /// Three or more control plane nodes, so that one may fail.
    #[default]
    Ha,
}

/// Machines of one size. The size is given either as whole numbers or as a template with quantities.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.machineTemplate) || !(has(self.cpu) || has(self.memoryMB) || has(self.diskGB))")
        .message("give the machines' size either as machineTemplate or as cpu, memoryMB and diskGB, not both"),
    validation = Rule::new("self.replicas == 0 || has(self.machineTemplate) || (has(self.cpu) && has(self.memoryMB) && has(self.diskGB))")
        .message("machineTemplate, or all of cpu, memoryMB and diskGB, is required unless replicas is 0")
)]
pub struct NodePool {
    /// Number of machines, at most 10. Workers may be 0.
    #[schemars(range(min = 0, max = 10))]
    pub replicas: i32,
    /// Virtual processors of each machine, 1 to 128.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 128))]
    pub cpu: Option<i32>,
    /// Memory of each machine in MiB, at least 2048.
    #[serde(default, rename = "memoryMB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2048))]
    pub memory_mb: Option<i32>,
    /// Root disk of each machine in GiB, at least 20.
    #[serde(default, rename = "diskGB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 20))]
    pub disk_gb: Option<i32>,
    /// Size of each machine as Kubernetes quantities, instead of `cpu`, `memoryMB` and `diskGB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_template: Option<MachineTemplate>,
    /// Disks of each machine beside the root disk, in the order in which the machine sees them. None if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_disks: Vec<ExtraDisk>,
    /// Labels or tags to put on each machine at the provider.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// The size of a machine as Kubernetes quantities.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineTemplate {
    /// Virtual processors, a whole number from 1 to 128.
    #[x_kube(validation = processors_rule())]
    pub cpu: Quantity,
    /// Memory, such as `16Gi`; at least `2Gi`. Rounded up to whole MiB.
    #[x_kube(validation = at_least_rule("memory", "2Gi", "16Gi"))]
    pub memory: Quantity,
    /// Root disk, such as `100Gi`; at least `20Gi`. Rounded up to whole GiB.
    #[x_kube(validation = at_least_rule("diskSize", "20Gi", "100Gi"))]
    pub disk_size: Quantity,
}
