//! Allocations ask for what their pool can have.

use std::sync::Arc;

use butler_api::{
    butler::{ip_allocation::IPAllocation, network_pool::NetworkPool},
    conditions::reasons,
};
use butler_runtime::{
    admission::{Denial, Operation, Review, Validate, Verdict, Warning},
    cache::{Caches, Whole},
};

use crate::ipam::{
    book,
    claimant::Claimant,
    observe::{layout, pool_of, surroundings},
};

/// What will not come true by waiting.
const LASTING: [&str; 4] = [
    reasons::VALIDATION_FAILED,
    reasons::COUNT_TOO_LARGE,
    reasons::PINNED_RANGE_OUTSIDE,
    reasons::PINNED_RANGE_TAKEN,
];

/// Refuses wishes that cannot come true, at once and in the controller's own words. A pool that is merely full may have room
/// later: that wish is taken and waits.
pub(super) struct AllocationRules {
    caches: Arc<Caches>,
}

impl AllocationRules {
    pub(super) fn new(caches: &Arc<Caches>) -> Self {
        Self {
            caches: Arc::clone(caches),
        }
    }
}

impl Validate<IPAllocation> for AllocationRules {
    // Its spec never changes.
    const OPERATIONS: &'static [Operation] = &[Operation::Create];

    fn validate(&self, review: &Review<'_, IPAllocation>) -> Verdict {
        let key = pool_of(review.object);
        let Some(pool) = self.caches.store::<Whole<NetworkPool>>().get(&key) else {
            let text = format!("the NetworkPool {key} does not exist yet");
            return Ok(vec![Warning::new(text)]);
        };
        let pool = &pool.value.0;
        let Ok(layout) = layout(pool) else {
            let text = format!("the NetworkPool {key} is not valid; its Ready condition says why");
            return Ok(vec![Warning::new(text)]);
        };
        let around = surroundings(pool, &layout, &self.caches);
        let book = book::open(layout, &around);
        match book::find(&book, &Claimant::of(review.object), &around) {
            Ok(_) => Ok(Vec::new()),
            Err(refused) if LASTING.contains(&refused.reason) => {
                Err(vec![Denial::new(refused.field, refused.message)])
            }
            Err(refused) => Ok(vec![Warning::new(format!(
                "{}: {}",
                refused.field, refused.message
            ))]),
        }
    }
}
