//! Decides what is written about one Service of a tenant, whose address is one of the cluster's ranges.
//!
//! On the way in: our mark on the range, the address and our mark on the Service in one write, what the Service shows. On the way
//! out: the machine (which is the fabric's), what the Service shows, the address and the mark, the mark on the range. Each
//! step is planned when the caches show the one before it.

use jiff::Timestamp;

use super::plan::{Record, Showing, Step, releasing, showing, with_mark, without_mark};
use crate::{
    board::Board,
    facts::ServiceFacts,
    ranges::{Range, Standing, is_usable},
};

/// What has to be done about a Service.
pub(crate) fn plan(
    service: &ServiceFacts,
    standing: &Standing,
    ranges: &[Range],
    board: &Board,
    now: Timestamp,
) -> Vec<Step> {
    if service.is_wanting() {
        serve(service, standing, ranges, board, now)
    } else if service.assigned.is_some() || service.told.is_some() {
        withdraw(service, standing, board, now)
    } else {
        Vec::new()
    }
}

fn serve(
    service: &ServiceFacts,
    standing: &Standing,
    ranges: &[Range],
    board: &Board,
    now: Timestamp,
) -> Vec<Step> {
    let next = standing
        .next
        .filter(|address| is_usable(ranges, *address) && service.assigned != Some(*address));
    // Somebody took our mark off.
    let again = standing.has.filter(|_| !service.is_held());
    if let Some(address) = next.or(again) {
        return vec![Step::Record(Record {
            finalizers: with_mark(service),
            address: Some(address),
        })];
    }
    // It is about to have one: whatever could be said now would be wrong in a moment.
    if standing.has.is_none() && standing.refusal.is_none() {
        return Vec::new();
    }
    let refusal = standing.refusal.clone();
    let showing = showing(service, standing.has, refusal, board, now);
    showing.map(Step::Show).into_iter().collect()
}

fn withdraw(
    service: &ServiceFacts,
    standing: &Standing,
    board: &Board,
    now: Timestamp,
) -> Vec<Step> {
    let mut addresses = standing.owns.iter();
    if !board.known || !addresses.all(|address| board.is_clear(Some(*address))) {
        return Vec::new();
    }
    if !service.ingress.is_empty() {
        return vec![Step::Show(releasing(service, now))];
    }
    if service.is_held() || service.assigned.is_some() {
        return vec![Step::Record(Record {
            finalizers: without_mark(service),
            address: None,
        })];
    }
    if service.deleting {
        return Vec::new();
    }
    vec![Step::Show(Showing::default())]
}

#[cfg(test)]
#[path = "plan_in_ranges_tests.rs"]
mod tests;
