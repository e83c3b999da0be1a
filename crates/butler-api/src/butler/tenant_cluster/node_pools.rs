//! Further groups of workers, each of a size, machine template, labels and taints of its own.
//!
//! The workers of `spec.workers` are the pool [`WORKERS_POOL`]; everything that is said of a pool is true of them too.

use std::collections::BTreeMap;

use kube::{KubeSchema, core::Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::workers::MachineTemplate;
use crate::name::LABEL_PATTERN;

/// Name of the pool that `spec.workers` is.
pub const WORKERS_POOL: &str = "workers";

/// Names that no other pool may have: objects made for the workers and the control plane are called by them.
pub const RESERVED_POOLS: [&str; 3] = ["control-plane", "worker", WORKERS_POOL];

/// Longest name of a pool. It shares the 63 characters of a label with the name of its cluster.
pub const POOL_NAME_LENGTH: usize = 30;

/// A group of workers beside `workers`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePool {
    /// Name of the pool, at most 30 characters: it is part of the names of its machines. Another name is another pool:
    /// the old machines go, new ones come. `workers` is the name of the pool that every cluster has.
    #[schemars(length(min = 1, max = POOL_NAME_LENGTH), regex(pattern = LABEL_PATTERN))]
    #[x_kube(validation = unreserved())]
    pub name: String,
    /// Number of workers in the pool; zero is allowed.
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// Size and operating system of each worker of the pool. Changing it replaces them one after another. What is absent
    /// comes from the environment's or the team's cluster defaults, then from the platform; nothing comes from `workers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_template: Option<MachineTemplate>,
    /// Labels of the nodes. Changing them replaces the workers of the pool one after another.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub labels: BTreeMap<String, String>,
    /// Taints that the nodes join with. Changing them replaces the workers of the pool one after another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub taints: Vec<NodeTaint>,
}

fn unreserved() -> Rule {
    let names = RESERVED_POOLS.map(|name| format!("'{name}'")).join(", ");
    Rule::new(format!("!(self in [{names}])")).message(
        "the names workers, worker and control-plane are taken: choose another name for the pool",
    )
}

/// Keeps pods that do not tolerate it away from a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeTaint {
    /// Key, as pods tolerate it: `example.com/gpu`.
    #[schemars(
        length(min = 1, max = 316),
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
        )
    )]
    pub key: String,
    /// Value, as pods tolerate it; may be absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = crate::name::LABEL_VALUE_PATTERN))]
    pub value: Option<String>,
    /// What happens to pods that do not tolerate it.
    pub effect: TaintEffect,
}

/// What happens to pods that do not tolerate a taint.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum TaintEffect {
    /// They are not put on the node.
    NoSchedule,
    /// They are put on the node only if there is no other.
    PreferNoSchedule,
    /// They are not put on the node, and those that run there are evicted.
    NoExecute,
}

impl TaintEffect {
    /// The effect as Kubernetes spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}
