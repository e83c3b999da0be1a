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
    /// What the status promises, if it speaks of a ledger that is yet to be written.
    pub(super) promised: Option<Promise>,
    /// UIDs of allocations that hold addresses in the ledger and are gone for good: the API server itself says so.
    pub(super) gone: BTreeSet<String>,
}

/// How many addresses may be allocated before the status must be raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Promise {
    /// The revision of the ledger it is about.
    pub(super) revision: i64,
    /// At most this many.
    pub(super) allocated: u128,
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
    let mut promised = None;
    if announced > Some(around.ledger.revision()) {
        // Grants were announced that the cache does not show: they are yet to be made, or a cache is behind. Only the API
        // server knows.
        promised = read_promise(pool, context).await?;
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
        promised,
        gone,
    })
}

/// How far the status lets the ledger go, as the API server has it. The cache may show a promise that was taken back since.
async fn read_promise(pool: &NetworkPool, context: &Context) -> Result<Option<Promise>, Failure> {
    let kind = Kind::of::<NetworkPool>();
    let body = context.api().get(&kind, &ObjectKey::of(pool)).await?;
    let current = body.and_then(|body| serde_json::from_value::<NetworkPool>(body).ok());
    let current = current.filter(|current| current.metadata.uid == pool.metadata.uid);
    let status = current.and_then(|current| current.status);
    Ok(status.and_then(|status| {
        let (revision, allocated) = (status.ledger_revision?, status.allocated_ips?);
        // The status cannot count further.
        let unlimited = allocated == i32::MAX;
        Some(Promise {
            revision,
            allocated: if unlimited {
                u128::MAX
            } else {
                u128::try_from(allocated).ok()?
            },
        })
    }))
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
