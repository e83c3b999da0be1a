//! Whether and how far a tenant cluster may hold developer workspaces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::QUANTITY_PATTERN;
use crate::schema::DURATION_PATTERN;

/// Developer workspaces on a tenant cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantClusterWorkspaces {
    /// Whether workspaces may be created here. Default false.
    #[serde(default)]
    pub enabled: bool,
    /// Image for workspaces that name none. Default `ghcr.io/butlerdotdev/workspace-base:latest`.
    #[serde(default = "base_image")]
    pub default_image: String,
    /// How many workspaces may exist here at once. Default 20.
    #[serde(default = "twenty_workspaces")]
    #[schemars(range(min = 0))]
    pub max_workspaces: i32,
    /// How long a stopped workspace is kept before it is deleted with its volume. Default `720h`.
    #[serde(default = "thirty_days")]
    #[schemars(regex(pattern = DURATION_PATTERN))]
    pub auto_delete_after: String,
    /// What all workspaces here may use together. If absent, there is no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_quota: Option<WorkspaceQuota>,
}

impl Default for TenantClusterWorkspaces {
    fn default() -> Self {
        Self {
            enabled: false,
            default_image: base_image(),
            max_workspaces: twenty_workspaces(),
            auto_delete_after: thirty_days(),
            resource_quota: None,
        }
    }
}

/// What all workspaces of a cluster may use together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceQuota {
    /// CPU in cores. Default `16`.
    #[serde(default = "sixteen_cores", rename = "maxCPU")]
    #[schemars(regex(pattern = QUANTITY_PATTERN))]
    pub max_cpu: String,
    /// Memory with its unit. Default `32Gi`.
    #[serde(default = "memory_32_gi")]
    #[schemars(regex(pattern = QUANTITY_PATTERN))]
    pub max_memory: String,
    /// Volume space with its unit. Default `500Gi`.
    #[serde(default = "storage_500_gi")]
    #[schemars(regex(pattern = QUANTITY_PATTERN))]
    pub max_storage: String,
}

impl Default for WorkspaceQuota {
    fn default() -> Self {
        Self {
            max_cpu: sixteen_cores(),
            max_memory: memory_32_gi(),
            max_storage: storage_500_gi(),
        }
    }
}

fn base_image() -> String {
    "ghcr.io/butlerdotdev/workspace-base:latest".to_owned()
}

fn twenty_workspaces() -> i32 {
    20
}

fn thirty_days() -> String {
    "720h".to_owned()
}

fn sixteen_cores() -> String {
    "16".to_owned()
}

fn memory_32_gi() -> String {
    "32Gi".to_owned()
}

fn storage_500_gi() -> String {
    "500Gi".to_owned()
}
