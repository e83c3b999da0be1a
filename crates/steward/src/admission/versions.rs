//! Whether a control plane may become another version.

use std::fmt;

use butler_api::version::{
    VersionStepError,
    rules::{self, VersionRefusal},
};

/// Why a version is refused.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It cannot follow, or cannot be hosted.
    Rule(VersionRefusal),
    /// It may follow the one that was asked for last, but that one has not served yet.
    Overtakes {
        wanted: String,
        asked: String,
        running: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(refusal) => refusal.fmt(formatter),
            Self::Overtakes {
                wanted,
                asked,
                running,
            } => write!(
                formatter,
                "cannot go from {running} to {wanted} in one step: {asked} must have served between them; wait until it has, and if the control plane sleeps, wake it first"
            ),
        }
    }
}

/// Why a version is refused, if it is: both what runs, or ran before it slept, and what was `asked` for last must be able to
/// become it. What was asked for and cannot be reached itself does not count: who sets it right must be able to.
pub(super) fn refusal(wanted: &str, asked: Option<&str>, running: Option<&str>) -> Option<Refusal> {
    let running = running.filter(|version| !version.is_empty());
    let asked = asked.filter(|asked| rules::check(running, asked).is_ok());
    if let Err(refusal) = rules::check(asked, wanted) {
        return Some(Refusal::Rule(refusal));
    }
    let refusal = rules::check(running.or(asked), wanted).err()?;
    let skips = matches!(
        refusal,
        VersionRefusal::Step(VersionStepError::SkipsMinor { .. })
    );
    Some(match (asked, running) {
        (Some(asked), Some(running)) if skips => Refusal::Overtakes {
            wanted: wanted.to_owned(),
            asked: asked.to_owned(),
            running: running.to_owned(),
        },
        _ => Refusal::Rule(refusal),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(wanted: &str, asked: &str, running: &str) -> String {
        let refused = refusal(wanted, Some(asked), Some(running));
        refused.map_or_else(|| "fine".to_owned(), |refusal| refusal.to_string())
    }

    #[test]
    fn what_sleeps_is_upgraded_by_one_minor_and_must_wake_before_the_next() {
        let told = [
            told("v1.35.4", "v1.34.2", "v1.34.2"),
            told("v1.35.5", "v1.35.4", "v1.34.2"),
            told("v1.36.3", "v1.35.4", "v1.34.2"),
            told("v1.34.2", "v1.35.4", "v1.34.2"),
            told("v1.36.3", "v1.35.4", "v1.35.4"),
        ];
        insta::assert_snapshot!(told.join("\n"), @"
        fine
        fine
        cannot go from v1.34.2 to v1.36.3 in one step: v1.35.4 must have served between them; wait until it has, and if the control plane sleeps, wake it first
        cannot go from v1.35.4 back to v1.34.2: Kubernetes does not support going back to an older minor version
        fine
        ");
    }
}
