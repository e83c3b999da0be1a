//! How a pool stands to an allocation, by what the caches show.

use butler_api::keys::groups;
use butler_runtime::cache::{AnyStore as _, Delta};
use serde_json::{Value, json};

use super::*;
use crate::ipam::ledger::page_key;

const UID: &str = "a-uid";

fn body(kind: &str, name: &str, uid: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": groups::BUTLER_API_VERSION,
        "kind": kind,
        "metadata": { "name": name, "namespace": "default", "uid": uid, "resourceVersion": "1" },
        "spec": spec,
    })
}

/// An allocation that insists on two addresses.
fn allocation() -> IPAllocation {
    let spec = json!({
        "poolRef": { "name": "edge" },
        "tenantClusterRef": { "name": "shop", "namespace": "default" },
        "type": "nodes",
        "pinnedRange": { "startAddress": "10.60.25.225", "endAddress": "10.60.25.226" },
    });
    serde_json::from_value(body("IPAllocation", "web", UID, &spec)).unwrap()
}

/// A pool whose ledger grants just these addresses to somebody.
fn granted_to(uid: &str) -> Caches {
    let caches = Caches::default();
    let spec = json!({ "cidr": "10.60.0.0/16" });
    let pool = body("NetworkPool", "edge", "pool-uid", &spec);
    let pools = caches.store::<Whole<NetworkPool>>();
    pools.ingest(Delta::Upsert(pool.clone()));

    let slice = slice_of("10.60.25.225".parse().unwrap());
    let key = page_key(&pool_of(&allocation()), &slice);
    let spec = json!({
        "poolRef": { "name": "edge" },
        "startAddress": slice.start(),
        "endAddress": slice.end(),
        "entries": [{
            "startAddress": "10.60.25.225",
            "endAddress": "10.60.25.226",
            "allocation": { "name": "web", "uid": uid },
        }],
    });
    let page = body("NetworkPoolLedger", &key.name, "page-uid", &spec);
    caches.store::<CachedPage>().ingest(Delta::Upsert(page));
    caches
}

fn seen_in(caches: &Caches) -> PoolSight {
    let allocation = allocation();
    sight(&allocation, &Claimant::of(&allocation), caches)
}

#[test]
fn a_grant_that_comes_while_one_looks_is_no_refusal() {
    assert_eq!(seen_in(&granted_to(UID)), PoolSight::MayGrant);
}

#[test]
fn addresses_that_another_has_are_refused() {
    let sight = seen_in(&granted_to("another-uid"));
    let PoolSight::Refuses(refused) = sight else {
        panic!("{sight:?}");
    };
    assert_eq!(refused.field, "spec.pinnedRange");
}
