//! CPU and memory of a hosted control plane, as a `TenantCluster` asks for them and `ButlerConfig` has them as default.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// Resources of each component of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneResources {
    /// Resources of kube-apiserver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server: Option<ComponentResources>,
    /// Resources of kube-controller-manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_manager: Option<ComponentResources>,
    /// Resources of kube-scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<ComponentResources>,
}

/// What one component is guaranteed and what it may not exceed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentResources {
    /// Reserved for the component on its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<CpuAndMemory>,
    /// Upper bound; above it CPU is throttled and memory ends the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<CpuAndMemory>,
}

/// An amount of CPU and of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuAndMemory {
    /// CPU in cores or thousandths of a core: `2`, `500m`. If absent, none is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,
    /// Memory with its unit: `512Mi`. If absent, none is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
}
