//! Pools make sense, stay apart from each other, and do not lose what is in use.

use std::sync::Arc;

use butler_api::{
    butler::{ip_allocation::IPAllocation, network_pool::NetworkPool},
    keys::annotations,
    net::AddressRange,
};
use butler_ipam::{Layout, range_text};
use butler_runtime::{
    admission::{Denial, Operation, Review, Validate, Verdict, Warning},
    cache::{Caches, Whole},
    object::ObjectKey,
};
use kube::ResourceExt;

use crate::ipam::{
    observe::{layout, ledger, network, pool_of, shared},
    some,
};

/// Refuses pools that make no sense, that share addresses with another, or that leave what is in use behind. What slips
/// through is held by the controller: it grants nothing that two pools give, and a finalizer keeps a pool in use.
pub(super) struct PoolRules {
    caches: Arc<Caches>,
}

impl PoolRules {
    pub(super) fn new(caches: &Arc<Caches>) -> Self {
        Self {
            caches: Arc::clone(caches),
        }
    }

    fn deletion(&self, pool: &NetworkPool) -> Verdict {
        let key = ObjectKey::of(pool);
        let (ledger, _) = ledger(&key, &self.caches);
        let mut holders: Vec<_> = ledger.grants().map(|entry| entry.name.clone()).collect();
        let allocations = self.caches.store::<Whole<IPAllocation>>().list();
        let asking = allocations
            .iter()
            .map(|cached| &cached.value.0)
            .filter(|allocation| pool_of(allocation) == key);
        holders.extend(asking.map(ResourceExt::name_any));
        holders.sort();
        holders.dedup();
        if holders.is_empty() {
            return Ok(Vec::new());
        }
        let rule = format!(
            "in use by the IPAllocations {}; delete them or their owners first",
            some(&holders)
        );
        Err(vec![Denial::new("metadata.name", rule)])
    }

    /// What is in use must stay within what the pool gives out; what was left out before is not held against it.
    fn narrowing(
        &self,
        pool: &NetworkPool,
        layout: &Layout,
        before: Option<&Layout>,
    ) -> Option<Denial> {
        let (ledger, _) = ledger(&ObjectKey::of(pool), &self.caches);
        let gives = |layout: &Layout, range: &AddressRange| {
            let given = layout.given();
            given
                .iter()
                .any(|given| given.contains(range.start()) && given.contains(range.end()))
        };
        let left_out: Vec<_> = ledger
            .grants()
            .filter(|entry| before.is_none_or(|before| gives(before, &entry.range)))
            .filter(|entry| !gives(layout, &entry.range))
            .map(|entry| {
                format!(
                    "{} of IPAllocation {}",
                    range_text(&entry.range),
                    entry.name
                )
            })
            .collect();
        let rule = format!(
            "leaves out addresses that are in use: {}; delete these allocations first",
            some(&left_out)
        );
        (!left_out.is_empty()).then(|| Denial::new("spec", rule))
    }
}

impl PoolRules {
    /// A pool whose addresses are in use stays in its network: pools of other networks may give out the same ones.
    fn moving(&self, pool: &NetworkPool, old: Option<&NetworkPool>) -> Option<Denial> {
        let moved = old.is_some_and(|old| network(old) != network(pool));
        let (ledger, _) = ledger(&ObjectKey::of(pool), &self.caches);
        let in_use = ledger.grants().next().is_some();
        (moved && in_use).then(|| {
            let field = format!("metadata.annotations[{}]", annotations::NETWORK);
            Denial::new(field, "cannot be changed while addresses are in use")
        })
    }
}

fn layout_of(pool: &NetworkPool) -> Option<Layout> {
    Layout::of(&pool.spec).ok()
}

impl Validate<NetworkPool> for PoolRules {
    const OPERATIONS: &'static [Operation] =
        &[Operation::Create, Operation::Update, Operation::Delete];

    fn validate(&self, review: &Review<'_, NetworkPool>) -> Verdict {
        let pool = review.object;
        if review.operation == Operation::Delete {
            return self.deletion(pool);
        }
        // Finalizers, labels and the like are not held up by what an older release let through.
        let same = |old: &NetworkPool| old.spec == pool.spec && network(old) == network(pool);
        if review.old.is_some_and(same) || pool.metadata.deletion_timestamp.is_some() {
            return Ok(Vec::new());
        }
        let layout = layout(pool).map_err(|violations| {
            let denials = violations.into_iter();
            denials
                .map(|violation| Denial::new(violation.field, violation.rule))
                .collect::<Vec<_>>()
        })?;
        let mut denials = Vec::new();
        let before = review.old.and_then(|old| Some((old, layout_of(old)?)));
        let shared_before = before.as_ref().map(|(old, before)| {
            let ranges = shared(old, before, &self.caches).into_iter();
            ranges.map(|(range, _)| range).collect::<Vec<_>>()
        });
        let shared_before = shared_before.unwrap_or_default();
        let covered = |range: &AddressRange| {
            let mut before = shared_before.iter();
            before.any(|before| before.contains(range.start()) && before.contains(range.end()))
        };
        let shared: Vec<_> = shared(pool, &layout, &self.caches)
            .into_iter()
            .filter(|(range, _)| !covered(range))
            .map(|(range, other)| format!("{} with {other}", range_text(&range)))
            .collect();
        if !shared.is_empty() {
            let rule = format!(
                "shares addresses: {}; keep the pools apart by tenantAllocation.ranges, or give them different {} annotations if they are different networks",
                some(&shared),
                annotations::NETWORK,
            );
            denials.push(Denial::new("spec.cidr", rule));
        }
        let before = before.as_ref().map(|(_, before)| before);
        denials.extend(self.narrowing(pool, &layout, before));
        denials.extend(self.moving(pool, review.old));
        if denials.is_empty() {
            Ok(warnings(pool))
        } else {
            Err(denials)
        }
    }
}

fn warnings(pool: &NetworkPool) -> Vec<Warning> {
    let window = pool.spec.tenant_allocation.as_ref();
    let single = window.is_some_and(|window| window.start.is_some());
    let text = "spec.tenantAllocation.start and end are deprecated: write them as one of ranges";
    single.then(|| Warning::new(text)).into_iter().collect()
}
