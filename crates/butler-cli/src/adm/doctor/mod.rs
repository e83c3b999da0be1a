//! Whether this host can run machines, and what to do where it cannot.

mod judge;
mod look;

use std::path::Path;

use ipnet::Ipv4Net;

pub(crate) use judge::{Finding, Level};

use crate::output::table::table;

/// Looks at the host and judges it.
pub(crate) async fn examine(range: Ipv4Net, state: &Path, bridge: &str) -> Vec<Finding> {
    judge::judge(&look::look(range, state, bridge).await)
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
