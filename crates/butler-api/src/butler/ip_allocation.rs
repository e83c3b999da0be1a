//! `IPAllocation`: addresses of a pool that belong to one cluster, or to something else that needs them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reference::LocalReference;
use crate::schema::range_rules;

/// Which addresses are asked for, and for whom. It never changes.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "IPAllocation",
    plural = "ipallocations",
    shortname = "ipa",
    namespaced,
    status = "IPAllocationStatus",
    derive = "PartialEq",
    doc = "Addresses of a NetworkPool, granted to a tenant cluster or to another object.",
    printcolumn(name = "Pool", type_ = "string", json_path = ".spec.poolRef.name"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.tenantClusterRef.name"
    ),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Start", type_ = "string", json_path = ".status.startAddress"),
    printcolumn(name = "End", type_ = "string", json_path = ".status.endAddress"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(
    validation = Rule::new("has(self.tenantClusterRef) != has(self.ownerRef)")
        .message("either tenantClusterRef or ownerRef is required, and not both: addresses belong to somebody"),
    validation = Rule::new("self == oldSelf")
        .message("an allocation keeps its addresses: delete it and create another")
)]
#[serde(rename_all = "camelCase")]
pub struct IPAllocationSpec {
    /// The pool, in the same namespace.
    pub pool_ref: LocalReference,
    /// The tenant cluster the addresses are for. The allocation goes when the cluster is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_cluster_ref: Option<AllocationClusterReference>,
    /// Any other object the addresses are for. The allocation goes when that object is gone, if Butler watches its kind
    /// (`MachineRequest`, `LoadBalancerRequest`, Service, Node) or the allocation has an owner reference to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_ref: Option<AllocationOwnerReference>,
    /// What the addresses are for.
    #[serde(rename = "type")]
    pub kind: AllocationType,
    /// How many addresses, at most 65536; the pool's default for the type if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub count: Option<i32>,
    /// Exactly these addresses, or none; wins over `count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_range: Option<PinnedRange>,
}

/// Names the tenant cluster that addresses are for.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct AllocationClusterReference {
    /// Name of the `TenantCluster`.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Namespace of the `TenantCluster`.
    #[schemars(length(min = 1))]
    pub namespace: String,
}

/// Names any object that addresses are for.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct AllocationOwnerReference {
    /// Group and version of the object: `butler.butlerlabs.dev/v1alpha1`.
    #[schemars(length(min = 1))]
    pub api_version: String,
    /// Kind of the object: `MachineRequest`.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Name of the object.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Namespace of the object; absent for one that has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// UID of the object, so that another of the same name is not taken for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// What addresses are for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum AllocationType {
    /// Machines.
    Nodes,
    /// Services of type `LoadBalancer`.
    Loadbalancer,
}

/// Exactly these addresses.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = range_rules("startAddress", "endAddress")[0].clone(),
    validation = range_rules("startAddress", "endAddress")[1].clone()
)]
#[serde(rename_all = "camelCase")]
pub struct PinnedRange {
    /// First address.
    #[schemars(schema_with = "crate::schema::address")]
    pub start_address: String,
    /// Last address.
    #[schemars(schema_with = "crate::schema::address")]
    pub end_address: String,
}

/// What was granted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IPAllocationStatus {
    /// `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Summary, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<AllocationPhase>,
    /// The addresses as a CIDR block, or as `start-end` where no block is exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
    /// First address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_address: Option<String>,
    /// Last address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_address: Option<String>,
    /// Each address, up to 256; beyond that `startAddress` and `endAddress` say it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// How many addresses were granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_count: Option<i32>,
    /// When they were granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_at: Option<Time>,
    /// Which controller granted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_by: Option<String>,
    /// When they were given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_at: Option<Time>,
    /// Ready and what the engine reports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Where an allocation is in its life.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum AllocationPhase {
    /// Asked for.
    Pending,
    /// Granted.
    Allocated,
    /// Given back.
    Released,
    /// Cannot be granted now; the conditions say why.
    Failed,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;
    use crate::testing::{columns, read};

    #[test]
    fn an_allocation_is_read_and_written_unchanged() {
        let allocation =
            read::<IPAllocation>(include_str!("../../../../examples/ip-allocation.yaml"));
        assert_eq!(allocation.spec.kind, AllocationType::Loadbalancer);
    }

    #[test]
    fn addresses_may_belong_to_something_that_is_no_cluster() {
        let spec: IPAllocationSpec = serde_json::from_value(serde_json::json!({
            "poolRef": { "name": "rack-1" },
            "ownerRef": {
                "apiVersion": "butler.butlerlabs.dev/v1alpha1",
                "kind": "MachineRequest",
                "name": "demo-worker-0",
                "namespace": "butler-system",
            },
            "type": "nodes",
            "count": 1,
        }))
        .expect("spec");
        assert_eq!(spec.tenant_cluster_ref, None);
    }

    #[test]
    fn the_crd_has_the_names_people_type() {
        let crd = IPAllocation::crd();
        assert_eq!(crd.spec.names.plural, "ipallocations");
        assert_eq!(crd.spec.names.short_names, Some(vec!["ipa".to_owned()]));
        assert_eq!(
            columns::<IPAllocation>(),
            ["Pool", "Cluster", "Type", "Phase", "Start", "End", "Age"]
        );
    }
}
