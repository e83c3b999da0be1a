//! `NetworkPool`: addresses that clusters get theirs from.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reference::{LocalReference, NamespacedReference};
use crate::schema::range_rules;

/// Which addresses there are and which of them clusters may get.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "NetworkPool",
    plural = "networkpools",
    shortname = "np",
    namespaced,
    status = "NetworkPoolStatus",
    derive = "PartialEq",
    doc = "A network whose addresses Butler gives to machines and load balancers of tenant clusters.",
    printcolumn(name = "CIDR", type_ = "string", json_path = ".spec.cidr"),
    printcolumn(
        name = "Available",
        type_ = "integer",
        json_path = ".status.availableIPs"
    ),
    printcolumn(
        name = "Allocated",
        type_ = "integer",
        json_path = ".status.allocatedIPs"
    ),
    printcolumn(name = "Total", type_ = "integer", json_path = ".status.totalIPs"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(
    validation = Rule::new(
        "!has(self.reserved) || !isCIDR(self.cidr) \
         || self.reserved.all(r, !isCIDR(r.cidr) || cidr(self.cidr).containsCIDR(r.cidr))"
    )
    .message("reserved: each block must lie within cidr"),
    validation = Rule::new(
        "!has(self.tenantAllocation) || !has(self.tenantAllocation.start) || !has(self.tenantAllocation.end) \
         || !isCIDR(self.cidr) || !isIP(self.tenantAllocation.start) || !isIP(self.tenantAllocation.end) \
         || (cidr(self.cidr).containsIP(self.tenantAllocation.start) \
             && cidr(self.cidr).containsIP(self.tenantAllocation.end))"
    )
    .message("tenantAllocation: start and end must lie within cidr"),
    validation = Rule::new(
        "!has(self.tenantAllocation) || !has(self.tenantAllocation.ranges) || !isCIDR(self.cidr) \
         || self.tenantAllocation.ranges.all(r, !isIP(r.start) || !isIP(r.end) \
             || (cidr(self.cidr).containsIP(r.start) && cidr(self.cidr).containsIP(r.end)))"
    )
    .message("tenantAllocation.ranges: start and end of each range must lie within cidr"),
    validation = Rule::new("!isCIDR(self.cidr) || cidr(self.cidr).containsCIDR(oldSelf.cidr)")
        .message("cidr can be widened but must keep containing the addresses it had")
)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPoolSpec {
    /// The network, in CIDR notation. It can be widened later, not narrowed or moved.
    #[schemars(schema_with = "crate::schema::cidr")]
    pub cidr: String,
    /// Blocks of the network that are never given out: gateways, hypervisors, other people's machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub reserved: Vec<ReservedBlock>,
    /// Which addresses clusters may get, and how many by default; the whole network if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_allocation: Option<TenantAllocation>,
}

/// A block that is never given out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservedBlock {
    /// The block, in CIDR notation; `/32` or `/128` for one address.
    #[schemars(schema_with = "crate::schema::cidr")]
    pub cidr: String,
    /// What it is used for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Which addresses clusters may get.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("has(self.start) == has(self.end)")
        .message("start and end must be given together"),
    validation = range_rules("start", "end")[0].clone(),
    validation = range_rules("start", "end")[1].clone()
)]
#[serde(rename_all = "camelCase")]
pub struct TenantAllocation {
    /// Windows of the network, in ascending order and apart from each other. Wins over `start` and `end`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub ranges: Vec<PoolRange>,
    /// First address of a single window. Prefer `ranges`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::address")]
    pub start: Option<String>,
    /// Last address of a single window. Prefer `ranges`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::address")]
    pub end: Option<String>,
    /// How many addresses a cluster gets when it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<AllocationDefaults>,
}

/// Addresses from `start` to `end`, both included.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = range_rules("start", "end")[0].clone(),
    validation = range_rules("start", "end")[1].clone()
)]
#[serde(rename_all = "camelCase")]
pub struct PoolRange {
    /// First address.
    #[schemars(schema_with = "crate::schema::address")]
    pub start: String,
    /// Last address.
    #[schemars(schema_with = "crate::schema::address")]
    pub end: String,
}

/// How many addresses a cluster gets when it does not say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllocationDefaults {
    /// Addresses for machines.
    #[serde(default = "nodes_per_tenant")]
    #[schemars(range(min = 1))]
    pub nodes_per_tenant: i32,
    /// Addresses for Services of type `LoadBalancer`.
    #[serde(default = "lb_pool_per_tenant")]
    #[schemars(range(min = 1))]
    pub lb_pool_per_tenant: i32,
}

fn nodes_per_tenant() -> i32 {
    5
}

fn lb_pool_per_tenant() -> i32 {
    8
}

/// What Butler reports about a pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPoolStatus {
    /// `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Revision of the ledgers that the numbers count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger_revision: Option<i64>,
    /// Addresses clusters may get, reserved ones left out. Counts stop at 2147483647, as IPv6 has more.
    #[serde(rename = "totalIPs", default, skip_serializing_if = "Option::is_none")]
    pub total_ips: Option<i32>,
    /// Addresses given out.
    #[serde(
        rename = "allocatedIPs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub allocated_ips: Option<i32>,
    /// Addresses still to be had.
    #[serde(
        rename = "availableIPs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub available_ips: Option<i32>,
    /// Number of allocations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation_count: Option<i32>,
    /// How scattered the free addresses are, in percent: 0 when they are in one piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub fragmentation_percent: Option<i32>,
    /// Longest run of free addresses, and so the largest allocation that can succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_free_block: Option<i32>,
    /// Addresses of the whole network.
    #[serde(
        rename = "poolSizeIPs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub pool_size_ips: Option<i64>,
    /// Addresses in reserved blocks.
    #[serde(
        rename = "reservedIPs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub reserved_ips: Option<i64>,
    /// Addresses that are neither reserved nor open to clusters.
    #[serde(
        rename = "unmanagedScopeIPs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub unmanaged_scope_ips: Option<i64>,
    /// Where those addresses are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmanaged_ranges: Vec<AddressSpan>,
    /// Addresses of the network found in use by the management cluster itself.
    #[serde(
        rename = "infrastructureConsumedIPs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub infrastructure_consumed_ips: Option<i64>,
    /// Who uses those addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["ip".into()]))]
    pub infrastructure_allocations: Vec<InfrastructureAllocation>,
    /// Ready, `CapacityWarning`, `CapacityCritical`, `CapacityExhausted`, `Disjoint` and what the engine reports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// A run of addresses in a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddressSpan {
    /// First address.
    pub start: String,
    /// Last address.
    pub end: String,
}

/// An address found in use by the management cluster itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureAllocation {
    /// The address.
    pub ip: String,
    /// What kind of thing uses it.
    pub source: InfrastructureSource,
    /// The Service that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_ref: Option<NamespacedReference>,
    /// The node that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<LocalReference>,
    /// The Cluster API Machine that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_ref: Option<NamespacedReference>,
}

/// What kind of thing uses an address.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum InfrastructureSource {
    /// A Service of type `LoadBalancer`.
    Metallb,
    /// A node of the management cluster.
    Node,
    /// A machine of Cluster API.
    Machine,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;
    use crate::testing::{columns, read};

    #[test]
    fn a_pool_is_read_and_written_unchanged() {
        let pool = read::<NetworkPool>(include_str!("../../../../examples/network-pool.yaml"));
        assert_eq!(
            pool.spec
                .tenant_allocation
                .expect("tenantAllocation")
                .ranges
                .len(),
            2
        );
    }

    #[test]
    fn the_crd_has_the_names_people_type() {
        let crd = NetworkPool::crd();
        assert_eq!(crd.spec.scope, "Namespaced");
        assert_eq!(crd.spec.names.short_names, Some(vec!["np".to_owned()]));
        assert_eq!(
            columns::<NetworkPool>(),
            ["CIDR", "Available", "Allocated", "Total", "Age"]
        );
    }
}
