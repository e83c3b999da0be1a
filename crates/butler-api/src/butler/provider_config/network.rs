//! Where the machines and load balancers of a provider get their addresses.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where addresses come from.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("self.mode != 'ipam' || (has(self.poolRefs) && self.poolRefs.size() > 0)")
        .message("poolRefs must name at least one NetworkPool when mode is ipam")
)]
#[serde(rename_all = "camelCase")]
pub struct ProviderNetwork {
    /// `ipam`: Butler gives addresses out of pools. `cloud`: the infrastructure does.
    #[serde(default)]
    pub mode: NetworkMode,
    /// Network of the machines, in CIDR notation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// Gateway of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::address")]
    pub gateway: Option<String>,
    /// DNS servers of the machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::addresses")]
    pub dns_servers: Vec<String>,
    /// Time servers of the machines; the platform's if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub time_servers: Vec<String>,
    /// Pools that addresses come from, for `ipam`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub pool_refs: Vec<PoolReference>,
    /// How load balancers get their addresses, for `ipam`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerNetwork>,
    /// How many addresses a cluster may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_per_tenant: Option<AddressQuota>,
}

/// Who gives out addresses.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum NetworkMode {
    /// Butler, out of pools.
    Ipam,
    /// The infrastructure.
    #[default]
    Cloud,
}

/// Names a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolReference {
    /// Name of the `NetworkPool`, in the namespace of the provider configuration.
    pub name: String,
    /// Pools with a higher priority are asked first; those of equal priority in the order written.
    #[serde(default)]
    pub priority: i32,
}

/// How load balancers get their addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerNetwork {
    /// `static`: a cluster gets `defaultPoolSize` addresses, or as many as it asks for. `elastic`: it gets a few; more when a Service
    /// has waited 30 seconds for one, and what was added is given back when it is unused for 10 minutes. Ranges grow by
    /// themselves only where Butler serves Services itself, which is the provider `local`; elsewhere a cluster keeps what it
    /// begins with, and gets more by `spec.networking.lbPoolSize`.
    #[serde(default)]
    pub allocation_mode: AllocationMode,
    /// Addresses of a cluster under `static`.
    #[serde(default = "default_pool_size")]
    #[schemars(range(min = 1))]
    pub default_pool_size: i32,
    /// Addresses a cluster starts with under `elastic`, if it does not say.
    #[serde(default = "small_pool_size")]
    #[schemars(range(min = 1))]
    pub initial_pool_size: i32,
    /// Addresses added at least each time under `elastic`, if there is room.
    #[serde(default = "small_pool_size")]
    #[schemars(range(min = 1))]
    pub growth_increment: i32,
}

fn default_pool_size() -> i32 {
    8
}

fn small_pool_size() -> i32 {
    2
}

/// When a cluster's load balancers get their addresses.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum AllocationMode {
    /// Once, a fixed number.
    #[default]
    Static,
    /// By need; what is unused is given back.
    Elastic,
}

/// How many addresses a cluster may have. What is absent is not limited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddressQuota {
    /// Addresses for machines, those of a control plane on machines of its own among them. Machines are replaced one by one, and
    /// a new one is there before an old one goes: allow one more than a cluster has workers. A machine that would be one too
    /// many waits, and says so.
    #[serde(
        rename = "maxNodeIPs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1))]
    pub max_node_ips: Option<i32>,
    /// Addresses for Services of type `LoadBalancer`.
    #[serde(
        rename = "maxLoadBalancerIPs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1))]
    pub max_load_balancer_ips: Option<i32>,
}
