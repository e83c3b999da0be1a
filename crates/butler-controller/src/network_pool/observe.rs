//! What the plan for a pool depends on. Cached, but for allocations that the ledger knows and no cache shows.

use std::collections::BTreeSet;

use butler_api::{
    butler::{
        ip_allocation::IPAllocation, network_pool::NetworkPool,
        network_pool_ledger::NetworkPoolLedger,
    },
    keys::labels,
};
use butler_ipam::{Layout, Violation};
use butler_runtime::{
    failure::Failure,
    object::{Kind, ObjectKey},
    reconciler::Context,
};
use serde_json::Value;

use crate::ipam::{
    ledger::Ledger,
    observe::{Surroundings, holdings, layout, surroundings},
    pages::from_body,
};

/// The world around a pool.
#[derive(Clone, Debug)]
pub struct World {
    /// What the spec means, or what is wrong with it.
    pub(super) layout: Result<Layout, Vec<Violation>>,
    /// Ledger, allocations and everything else that is cached.
    pub(super) around: Surroundings,
    /// UIDs of allocations that hold addresses in the ledger and are gone for good: the API server itself says so.
    pub(super) gone: BTreeSet<String>,
}

pub(super) async fn observe(pool: &NetworkPool, context: &Context) -> Result<World, Failure> {
    let layout = layout(pool);
    let caches = context.caches();
    let mut around = match &layout {
        Ok(layout) => surroundings(pool, layout, caches),
        Err(_) => holdings(&ObjectKey::of(pool), caches),
    };
    let status = pool.status.as_ref();
    let announced = status.and_then(|status| status.ledger_revision);
    if announced > Some(around.ledger.revision()) {
        // Grants were announced that the cache does not show: they were never made, or it is behind. Only the API server knows.
        (around.ledger, around.unreadable) = read_ledger(pool, context).await?;
    }
    let mut gone = BTreeSet::new();
    let namespace = pool.metadata.namespace.clone();
    for entry in around.ledger.grants() {
        if around.claimants.contains_key(&entry.uid) {
            continue;
        }
        let key = ObjectKey {
            namespace: namespace.clone(),
            name: entry.name.clone(),
        };
        let allocation = context.api().get(&Kind::of::<IPAllocation>(), &key).await?;
        let uid = allocation.as_ref().and_then(|allocation| {
            let uid = allocation.pointer("/metadata/uid");
            uid.and_then(Value::as_str)
        });
        if uid != Some(entry.uid.as_str()) {
            gone.insert(entry.uid.clone());
        }
    }
    Ok(World {
        layout,
        around,
        gone,
    })
}

/// The ledger of a pool as the API server has it.
async fn read_ledger(
    pool: &NetworkPool,
    context: &Context,
) -> Result<(Ledger, Option<String>), Failure> {
    let key = ObjectKey::of(pool);
    let selector = format!("{}={}", labels::NETWORK_POOL, key.name);
    let kind = Kind::of::<NetworkPoolLedger>();
    let bodies = context
        .api()
        .list(&kind, key.namespace.as_deref(), Some(&selector))
        .await?;
    let mut pages = Vec::new();
    let mut unreadable = None;
    for body in bodies {
        match from_body(body) {
            Ok((of, Ok(page))) if of == key => pages.push(page),
            Ok((of, Err(why))) if of == key => unreadable = Some(why),
            Ok(_) => {}
            Err(error) => unreadable = Some(error.to_string()),
        }
    }
    Ok((Ledger::new(pages), unreadable))
}
