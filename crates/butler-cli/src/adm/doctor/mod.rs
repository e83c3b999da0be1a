//! Whether this host can run machines, and what to do where it cannot.

mod judge;
mod listeners;
mod look;

use std::path::Path;

use butler_host::network::Egress;
use ipnet::Ipv4Net;

pub(crate) use judge::{Finding, Level};

use crate::output::table::table;

/// What the host is to give.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'wish> {
    /// Addresses of machines and load balancers.
    pub(crate) range: Ipv4Net,
    /// Where the state is kept.
    pub(crate) state: &'wish Path,
    /// The bridge, if it is there already.
    pub(crate) bridge: &'wish str,
    pub(crate) egress: Egress,
}

/// Looks at the host and judges it.
pub(crate) async fn examine(wish: Wish<'_>) -> Vec<Finding> {
    judge::judge(&look::look(wish).await)
}

/// The findings as a table, with what to do below those that do not pass.
pub(crate) fn report(findings: &[Finding]) -> String {
    let rows = findings.iter().map(|finding| {
        let fix = finding.fix.as_deref().unwrap_or_default();
        [
            finding.level.to_string(),
            finding.aspect.to_owned(),
            finding.found.clone(),
            fix.to_owned(),
        ]
    });
    table(["RESULT", "ASPECT", "FOUND", "FIX"], rows)
}
