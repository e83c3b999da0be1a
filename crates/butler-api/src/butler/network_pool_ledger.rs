//! `NetworkPoolLedger`: who holds which addresses of one slice of a pool.
//!
//! A pool is cut into slices so that one busy pool is not one busy object. Two writers who would give out the same
//! address have to write the same ledger, and the API server lets only the first of them.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reference::LocalReference;
use crate::schema::range_rules;

/// What makes a ledger the ledger of its slice.
const SLICE: &str = "self.poolRef == oldSelf.poolRef \
    && self.startAddress == oldSelf.startAddress && self.endAddress == oldSelf.endAddress";

/// A slice of a pool and the grants that touch it.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "NetworkPoolLedger",
    plural = "networkpoolledgers",
    shortname = "npl",
    namespaced,
    derive = "PartialEq",
    doc = "Who holds the addresses of one slice of a NetworkPool. Butler's own book: written with a resourceVersion guard, and the only grant there is. Do not edit.",
    printcolumn(name = "Pool", type_ = "string", json_path = ".spec.poolRef.name"),
    printcolumn(name = "From", type_ = "string", json_path = ".spec.startAddress"),
    printcolumn(name = "To", type_ = "string", json_path = ".spec.endAddress"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(
    validation = range_rules("startAddress", "endAddress")[0].clone(),
    validation = range_rules("startAddress", "endAddress")[1].clone(),
    validation = Rule::new(SLICE)
        .message("poolRef, startAddress and endAddress cannot be changed: a ledger stays with its slice")
)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPoolLedgerSpec {
    /// The pool, in the same namespace.
    pub pool_ref: LocalReference,
    /// First address of the slice.
    #[schemars(schema_with = "crate::schema::address")]
    pub start_address: String,
    /// Last address of the slice.
    #[schemars(schema_with = "crate::schema::address")]
    pub end_address: String,
    /// How often something was granted here. It only grows: by it, a picture that lags behind is recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<i64>,
    /// How often a grant that was left half made was closed here: a write that is still on its way then finds another
    /// version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<i64>,
    /// Grants that touch the slice. One that reaches beyond it is in the ledgers of the neighbouring slices too, and
    /// counts only where its first address is: that one is written last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub entries: Vec<LedgerEntry>,
}

/// Addresses from `startAddress` to `endAddress`, both included, and who holds them.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// First address; it may lie before the slice.
    #[schemars(schema_with = "crate::schema::address")]
    pub start_address: String,
    /// Last address; it may lie behind the slice.
    #[schemars(schema_with = "crate::schema::address")]
    pub end_address: String,
    /// The `IPAllocation` that holds them, in the same namespace.
    pub allocation: LedgerHolder,
}

/// Names one `IPAllocation`, and not another that has its name later.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct LedgerHolder {
    /// Name of the `IPAllocation`.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// UID of the `IPAllocation`.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::testing::{columns, crd_part, field, read};

    #[test]
    fn a_ledger_is_read_and_written_unchanged() {
        let ledger = read::<NetworkPoolLedger>(include_str!(
            "../../../../examples/network-pool-ledger.yaml"
        ));
        assert_eq!(
            ledger.spec.entries[0].allocation.name,
            "payments-production-lb"
        );
    }

    #[test]
    fn a_slice_of_which_nothing_is_held_says_so_by_saying_nothing() {
        let ledger: NetworkPoolLedgerSpec = serde_json::from_value(json!({
            "poolRef": { "name": "rack-1" },
            "startAddress": "10.40.0.0",
            "endAddress": "10.40.3.255",
        }))
        .expect("spec");
        assert_eq!(ledger.entries, []);
        let back = serde_json::to_value(ledger).expect("JSON");
        assert_eq!(back.get("entries"), None);
    }

    #[test]
    fn grants_are_written_as_a_whole_and_are_bounded() {
        let entries = field::<NetworkPoolLedger>("spec.entries");
        assert_eq!(entries["x-kubernetes-list-type"], "atomic");
        assert_eq!(entries["maxItems"], 1024);
    }

    #[test]
    fn the_crd_has_the_names_people_type() {
        let crd = NetworkPoolLedger::crd();
        assert_eq!(crd.spec.names.plural, "networkpoolledgers");
        assert_eq!(crd.spec.names.short_names, Some(vec!["npl".to_owned()]));
        assert_eq!(
            columns::<NetworkPoolLedger>(),
            ["Pool", "From", "To", "Age"]
        );
        assert!(
            crd_part::<NetworkPoolLedger>("spec/versions/0/subresources/status").is_null(),
            "what is held is not a report"
        );
    }
}
