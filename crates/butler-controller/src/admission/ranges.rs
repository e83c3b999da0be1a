//! Address ranges whose ends are in order, IPv6 included.

use butler_api::{
    butler::{network_pool::NetworkPool, tenant_cluster::TenantCluster},
    net::AddressRange,
};
use butler_runtime::admission::{Denial, Review, Validate, Verdict};

/// Refuses reversed ranges.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderedRanges;

/// A range of a manifest and the field that holds it.
struct Range<'a> {
    field: String,
    start: &'a str,
    end: &'a str,
}

fn verdict<'a>(ranges: impl Iterator<Item = Range<'a>>) -> Verdict {
    let denials: Vec<_> = ranges
        .filter_map(|range| {
            let rule = AddressRange::from_texts(range.start, range.end).err()?;
            Some(Denial::new(range.field, rule.to_string()))
        })
        .collect();
    if denials.is_empty() {
        Ok(Vec::new())
    } else {
        Err(denials)
    }
}

impl Validate<NetworkPool> for OrderedRanges {
    fn validate(&self, review: &Review<'_, NetworkPool>) -> Verdict {
        let window = review.object.spec.tenant_allocation.iter();
        verdict(window.flat_map(|window| {
            let field = "spec.tenantAllocation";
            let whole = window.start.as_deref().zip(window.end.as_deref());
            let whole = whole.map(|(start, end)| Range {
                field: field.to_owned(),
                start,
                end,
            });
            let listed = window
                .ranges
                .iter()
                .enumerate()
                .map(move |(index, range)| Range {
                    field: format!("{field}.ranges[{index}]"),
                    start: &range.start,
                    end: &range.end,
                });
            whole.into_iter().chain(listed)
        }))
    }
}

impl Validate<TenantCluster> for OrderedRanges {
    fn validate(&self, review: &Review<'_, TenantCluster>) -> Verdict {
        let networking = review.object.spec.networking.as_ref();
        let pool = networking.and_then(|networking| networking.load_balancer_pool.as_ref());
        // Both ends empty means that no pool is asked for.
        let given = pool.filter(|pool| !(pool.start.is_empty() && pool.end.is_empty()));
        verdict(given.into_iter().map(|pool| Range {
            field: "spec.networking.loadBalancerPool".to_owned(),
            start: &pool.start,
            end: &pool.end,
        }))
    }
}
