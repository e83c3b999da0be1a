//! Address ranges whose ends are in order, IPv6 included.

use butler_api::{butler::tenant_cluster::TenantCluster, net::AddressRange};
use butler_runtime::admission::{Denial, Review, Validate, Verdict};

/// Refuses reversed ranges.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderedRanges;

impl Validate<TenantCluster> for OrderedRanges {
    fn validate(&self, review: &Review<'_, TenantCluster>) -> Verdict {
        let networking = review.object.spec.networking.as_ref();
        let pool = networking.and_then(|networking| networking.load_balancer_pool.as_ref());
        // Both ends empty means that no pool is asked for.
        let given = pool.filter(|pool| !(pool.start.is_empty() && pool.end.is_empty()));
        let range = given.map(|pool| AddressRange::from_texts(&pool.start, &pool.end));
        match range {
            Some(Err(rule)) => {
                let field = "spec.networking.loadBalancerPool";
                Err(vec![Denial::new(field, rule.to_string())])
            }
            _ => Ok(Vec::new()),
        }
    }
}
