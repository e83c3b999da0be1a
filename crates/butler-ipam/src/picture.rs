//! A pool as the objects of a cluster show it, for people: what the command line and the console draw.
//!
//! Must not: be granted from. Who grants reads more than this, and writes over what it read.

use butler_api::butler::ip_allocation::IPAllocation;
use butler_api::butler::network_pool::NetworkPool;
use butler_api::butler::network_pool_ledger::{LedgerEntry, NetworkPoolLedger};
use butler_api::net::{AddressRange, parse_address};

use crate::{Holder, Layout, Owner, Pool, Violation};

/// The pool with all that is granted of it and what its status says is in use by the platform. Ledgers and allocations of other
/// pools are left out, so lists of a whole namespace will do.
pub fn picture<'a>(
    pool: &NetworkPool,
    ledgers: impl IntoIterator<Item = &'a NetworkPoolLedger>,
    allocations: &[IPAllocation],
) -> Result<Pool, Vec<Violation>> {
    let mut picture = Pool::new(Layout::of(&pool.spec)?);
    let status = pool.status.iter();
    for used in status.flat_map(|status| &status.infrastructure_allocations) {
        let address = parse_address(&used.ip);
        if let Ok(range) = address.and_then(|address| AddressRange::new(address, address)) {
            picture.block(&range, "the platform");
        }
    }
    for ledger in ledgers {
        let ours = ledger.metadata.namespace == pool.metadata.namespace
            && Some(&ledger.spec.pool_ref.name) == pool.metadata.name.as_ref();
        let slice =
            AddressRange::from_texts(&ledger.spec.start_address, &ledger.spec.end_address).ok();
        let Some(slice) = slice.filter(|_| ours) else {
            continue;
        };
        for entry in &ledger.spec.entries {
            let range = AddressRange::from_texts(&entry.start_address, &entry.end_address).ok();
            // An entry counts where its range begins; elsewhere it only keeps others out.
            if let Some(range) = range.filter(|range| slice.contains(range.start())) {
                // What overlaps is drawn once.
                let _drawn = picture.hold(&range, holder(entry, allocations));
            }
        }
    }
    Ok(picture)
}

/// Whose an entry is, as far as the allocations tell.
fn holder(entry: &LedgerEntry, allocations: &[IPAllocation]) -> Holder {
    let uid = &entry.allocation.uid;
    let mut allocations = allocations.iter();
    let allocation = allocations.find(|allocation| allocation.metadata.uid.as_ref() == Some(uid));
    Holder {
        allocation: uid.clone(),
        owner: allocation.map_or_else(
            || Owner {
                kind: "IPAllocation".to_owned(),
                namespace: None,
                name: entry.allocation.name.clone(),
            },
            |allocation| Owner::of(&allocation.spec),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::map;

    fn read<K: serde::de::DeserializeOwned>(kind: &str, name: &str, more: Value) -> K {
        let mut body = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1",
            "kind": kind,
            "metadata": { "name": name, "namespace": "butler-system", "uid": format!("uid-of-{name}") },
        });
        let Value::Object(more) = more else {
            unreachable!("a manifest has fields")
        };
        body.as_object_mut().unwrap().extend(more);
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn a_pool_is_drawn_from_what_the_cluster_shows() {
        let pool: NetworkPool = read(
            "NetworkPool",
            "rack",
            json!({
                "spec": { "cidr": "10.40.0.0/27", "reserved": [{ "cidr": "10.40.0.0/30" }] },
                "status": { "infrastructureAllocations": [{ "ip": "10.40.0.9", "source": "node" }] },
            }),
        );
        let entry = |start: &str, end: &str, name: &str| {
            json!({
                "startAddress": start,
                "endAddress": end,
                "allocation": { "name": name, "uid": format!("uid-of-{name}") },
            })
        };
        let ledger = |name: &str, pool: &str, entries: Value| -> NetworkPoolLedger {
            let spec = json!({
                "poolRef": { "name": pool },
                "startAddress": "10.40.0.0",
                "endAddress": "10.40.3.255",
                "entries": entries,
            });
            read("NetworkPoolLedger", name, json!({ "spec": spec }))
        };
        let ledgers = [
            ledger(
                "rack.0a280000",
                "rack",
                json!([
                    entry("10.40.0.4", "10.40.0.7", "shop-lb"),
                    entry("10.40.0.16", "10.40.0.17", "unknown"),
                ]),
            ),
            ledger(
                "other.0a280000",
                "other",
                json!([entry("10.40.0.20", "10.40.0.30", "elsewhere")]),
            ),
        ];
        let allocations: Vec<IPAllocation> = vec![read(
            "IPAllocation",
            "shop-lb",
            json!({ "spec": {
                "poolRef": { "name": "rack" },
                "tenantClusterRef": { "name": "shop", "namespace": "payments" },
                "type": "loadbalancer",
            } }),
        )];
        let picture = picture(&pool, &ledgers, &allocations).unwrap();
        insta::assert_snapshot!(map(&picture, 32), @"
        10.40.0.0/27: gives 27 addresses, 20 free in runs of up to 13, 6 in 2 allocations; a cell is 1 address
        10.40.0.0  ####AAAA.!......BB.............#
        . free   # reserved or never given   ! in use by others than allocations
        A TenantCluster payments/shop: 4 addresses
        B IPAllocation unknown: 2 addresses
        ");
    }
}
