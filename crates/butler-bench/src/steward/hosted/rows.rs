//! What the numbers are called, and what they are held to.

use std::time::Duration;

use super::{Measured, Need, One, Several};
use crate::{
    report::{Row, Unit, median, number},
    steward::bars,
};

pub(super) fn of(measured: &Measured) -> Vec<Row> {
    let mut rows = one(&measured.ones);
    rows.extend(several(&measured.several));
    let removal = &measured.removal;
    rows.extend([
        Row::seconds(
            format!("{} deleted → all made for them is gone", removal.count),
            removal.everything,
        )
        .held_to(bars::DELETION),
        Row::seconds(
            format!("{} deleted → they themselves are gone", removal.count),
            removal.control_planes,
        ),
    ]);
    rows.extend(measured.needs.iter().flat_map(memory));
    let (rest, count) = (&measured.rest, bars::DELETED);
    let seconds = rest.window.as_secs();
    rows.extend([
        Row::count(
            format!("writes in {seconds} s at rest, {count} control planes, leases excepted"),
            rest.writes,
        )
        .held_to(bars::WRITES_AT_REST),
        Row::new(
            format!("CPU of Steward in {seconds} s at rest, {count} control planes"),
            rest.cpu,
            Unit::PercentOfCore,
        ),
    ]);
    rows
}

fn one(ones: &[One]) -> Vec<Row> {
    let middle = |of: fn(&One) -> Duration| median(ones.iter().map(of).collect());
    let hosted = middle(|one| one.hosted);
    let by_hand = middle(|one| one.by_hand);
    let bare = middle(|one| one.bare);
    let apart = ones.iter().map(|one| one.status_after.abs());
    let furthest = apart.reduce(f64::max).unwrap_or_default();
    let turns = ones.len();
    vec![
        Row::seconds(
            format!("control plane: created → /readyz by its Service, median of {turns}"),
            hosted,
        ),
        Row::seconds("the same pod by hand: Deployment → /readyz", by_hand),
        Row::ratio("control plane : by hand", hosted, by_hand).held_to(bars::TIMES_BY_HAND),
        Row::seconds("bare kube-apiserver: process → /readyz", bare),
        Row::ratio("control plane : bare", hosted, bare).held_to(bars::TIMES_BARE),
        Row::ratio("by hand : bare", by_hand, bare),
        Row::new(
            format!("/readyz and status Ready apart, furthest of {turns}"),
            furthest * 1e3,
            Unit::Milliseconds,
        )
        .held_to(bars::STATUS_AFTER),
    ]
}

fn several(all: &[Several]) -> Vec<Row> {
    let count = bars::AT_ONCE;
    let middle = |of: fn(&Several) -> Duration| median(all.iter().map(of).collect());
    let hosted = middle(|several| several.hosted);
    let by_hand = middle(|several| several.by_hand);
    let bare = middle(|several| several.bare);
    let writes = all.iter().map(|several| several.writes).max();
    vec![
        Row::seconds(
            format!("{count} control planes at once: created → /readyz of all"),
            hosted,
        ),
        Row::seconds(format!("{count} such pods at once by hand"), by_hand),
        Row::ratio(format!("{count} control planes : by hand"), hosted, by_hand)
            .held_to(bars::TIMES_BY_HAND),
        Row::seconds(format!("{count} bare kube-apiservers at once"), bare),
        Row::ratio(format!("{count} control planes : bare"), hosted, bare),
        Row::new(
            format!("API writes for each of {count}, leases excepted"),
            number(writes.unwrap_or_default()) / number(count),
            Unit::Count,
        )
        .held_to(bars::WRITES_EACH),
    ]
}

fn memory(need: &Need) -> [Row; 2] {
    let count = need.count;
    [
        Row::new(
            format!("butler steward: memory (RSS) with {count}"),
            need.resident,
            Unit::Mebibytes,
        )
        .held_to(bars::memory(count)),
        Row::new(
            format!("butler steward: working set of its container with {count}"),
            need.working_set,
            Unit::Mebibytes,
        ),
    ]
}
