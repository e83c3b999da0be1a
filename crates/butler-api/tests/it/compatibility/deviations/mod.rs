//! Where our definitions differ from the tables on purpose.

mod addons;
mod clusters;
mod machines;
mod platform;
mod steward;
mod workspaces;

use super::compare::{Problem, What};

/// Differences on purpose that have one reason.
#[derive(Debug)]
pub(super) struct Deviation {
    pub(super) kind: &'static str,
    pub(super) what: What,
    pub(super) reason: &'static str,
    /// The fields, one by one: a field that no longer differs fails the test.
    pub(super) paths: &'static [&'static str],
}

impl Deviation {
    pub(super) fn covers(&self, problem: &Problem) -> bool {
        self.kind == problem.kind
            && self.what == problem.what
            && self.paths.contains(&problem.path.as_str())
    }
}

/// Why many a text and list has a bound that the table does not have.
const BOUNDED: &str =
    "a length that no real value reaches keeps what is stored, and what rules read, bounded";

/// Every difference on purpose.
pub(super) fn all() -> impl Iterator<Item = &'static Deviation> {
    [
        platform::DEVIATIONS,
        clusters::DEVIATIONS,
        addons::DEVIATIONS,
        machines::DEVIATIONS,
        workspaces::DEVIATIONS,
        steward::DEVIATIONS,
    ]
    .into_iter()
    .flatten()
}
