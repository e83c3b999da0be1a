//! How long a machine may be ill before another takes its place.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::DURATION_PATTERN;

/// How long a new machine may take to become a node when the cluster does not say.
pub const DEFAULT_NODE_STARTUP_TIMEOUT: &str = "20m";

/// How long a node may be not ready when the cluster does not say.
pub const DEFAULT_UNHEALTHY_TIMEOUT: &str = "5m";

/// Whether and when machines are replaced that no longer work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealth {
    /// Whether machines that no longer work are replaced. Default true.
    #[serde(default = "enabled")]
    pub enabled: bool,
    /// How long a new machine may take to become a node of the cluster, at least 30s, before it is replaced. Default `20m`.
    #[serde(default = "node_startup_timeout")]
    #[schemars(length(max = 32), regex(pattern = DURATION_PATTERN))]
    pub node_startup_timeout: String,
    /// How long a node may be not ready or unreachable, at least 30s, before its machine is replaced. Default `5m`.
    #[serde(default = "unhealthy_timeout")]
    #[schemars(length(max = 32), regex(pattern = DURATION_PATTERN))]
    pub unhealthy_timeout: String,
}

impl Default for MachineHealth {
    fn default() -> Self {
        Self {
            enabled: enabled(),
            node_startup_timeout: node_startup_timeout(),
            unhealthy_timeout: unhealthy_timeout(),
        }
    }
}

fn enabled() -> bool {
    true
}

fn node_startup_timeout() -> String {
    DEFAULT_NODE_STARTUP_TIMEOUT.to_owned()
}

fn unhealthy_timeout() -> String {
    DEFAULT_UNHEALTHY_TIMEOUT.to_owned()
}
