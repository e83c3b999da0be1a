//! What helm says of releases.

use jiff::Timestamp;
use serde::Deserialize;

/// How far a release is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleasePhase {
    /// Its objects are in the cluster. Whether they work is another question.
    Deployed,
    /// The last install or upgrade did not succeed.
    Failed,
    /// The first install is under way, or was left.
    PendingInstall,
    /// An upgrade is under way, or was left.
    PendingUpgrade,
    /// A rollback is under way, or was left.
    PendingRollback,
    /// It is being removed, or the removal was left.
    Uninstalling,
    /// It was removed, and its history was kept.
    Uninstalled,
    /// Another revision came after this one.
    Superseded,
    /// Helm does not know, or says what we do not.
    #[serde(other)]
    Unknown,
}

impl ReleasePhase {
    /// Whether the objects are in the cluster.
    pub const fn is_deployed(self) -> bool {
        matches!(self, Self::Deployed)
    }

    /// Whether somebody is at work on it, or was when they ended.
    pub const fn is_pending(self) -> bool {
        matches!(
            self,
            Self::PendingInstall
                | Self::PendingUpgrade
                | Self::PendingRollback
                | Self::Uninstalling
        )
    }
}

/// A release as helm knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseReport {
    /// How many times it was installed, upgraded or rolled back.
    pub revision: u32,
    /// How far it is.
    pub phase: ReleasePhase,
    /// What helm says about that.
    pub description: String,
    /// When it was last installed or upgraded.
    pub last_deployed: Option<Timestamp>,
    /// What the chart tells people.
    pub notes: String,
}

/// A release in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseSummary {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How many times it was installed, upgraded or rolled back.
    pub revision: u32,
    /// How far it is.
    pub phase: ReleasePhase,
    /// The chart with its version, such as `butler-0.1.0`.
    pub chart: String,
    /// The version of what the chart installs.
    pub app_version: String,
}

/// One revision of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Revision {
    pub(crate) revision: u32,
    #[serde(rename = "status")]
    pub(crate) phase: ReleasePhase,
}

/// The revision to go back to when the last one was left half done: the newest whose objects were in the cluster.
pub(crate) fn last_good(history: &[Revision]) -> Option<u32> {
    let good = history.iter().filter(|revision| {
        matches!(
            revision.phase,
            ReleasePhase::Deployed | ReleasePhase::Superseded
        )
    });
    good.map(|revision| revision.revision).max()
}

/// Reads the answer of `helm upgrade` and `helm status`, and the manifest in it.
pub(crate) fn release(output: &[u8]) -> Result<(ReleaseReport, String), serde_json::Error> {
    let Answer {
        version,
        info,
        manifest,
    } = serde_json::from_slice(output)?;
    let report = ReleaseReport {
        revision: version,
        phase: info.status,
        description: info.description,
        // Helm writes an empty text, or the year 1, where there is none.
        last_deployed: info.last_deployed.parse().ok(),
        notes: info.notes,
    };
    Ok((report, manifest))
}

/// Reads the answer of `helm list`.
pub(crate) fn releases(output: &[u8]) -> Result<Vec<ReleaseSummary>, serde_json::Error> {
    let rows: Vec<Row> = serde_json::from_slice(output)?;
    let summary = |row: Row| ReleaseSummary {
        // A revision is a number, whatever the list makes of it.
        revision: row.revision.parse().unwrap_or_default(),
        namespace: row.namespace,
        name: row.name,
        phase: row.status,
        chart: row.chart,
        app_version: row.app_version,
    };
    Ok(rows.into_iter().map(summary).collect())
}

/// Reads the answer of `helm history`.
pub(crate) fn history(output: &[u8]) -> Result<Vec<Revision>, serde_json::Error> {
    serde_json::from_slice(output)
}

/// What we read of a release; its values are not among it.
#[derive(Deserialize)]
struct Answer {
    version: u32,
    info: Info,
    #[serde(default)]
    manifest: String,
}

#[derive(Deserialize)]
struct Info {
    status: ReleasePhase,
    #[serde(default)]
    description: String,
    #[serde(default)]
    last_deployed: String,
    #[serde(default)]
    notes: String,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    namespace: String,
    revision: String,
    status: ReleasePhase,
    #[serde(default)]
    chart: String,
    #[serde(default)]
    app_version: String,
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_upgrade_is_read_without_its_values() {
        let output = br#"{"name":"butler","info":{"first_deployed":"2026-01-02T03:04:05.6Z",
            "last_deployed":"2026-01-02T03:04:05.6Z","description":"Install complete","status":"deployed","notes":"Hello"},
            "chart":{"metadata":{"name":"butler","version":"0.1.0"}},"config":{"password":"hunter2"},
            "manifest":"---\nkind: Pod\n","version":3,"namespace":"butler-system","apply_method":"ssa"}"#;
        let (report, manifest) = release(output).unwrap();
        assert_eq!(manifest, "---\nkind: Pod\n");
        let expected = ReleaseReport {
            revision: 3,
            phase: ReleasePhase::Deployed,
            description: "Install complete".to_owned(),
            last_deployed: Some("2026-01-02T03:04:05.6Z".parse().unwrap()),
            notes: "Hello".to_owned(),
        };
        assert_eq!(report, expected);
    }

    #[test]
    fn a_list_is_read() {
        let output = br#"[{"name":"butler","namespace":"butler-system","revision":"12","updated":"2026-01-02 03:04:05 +0000 UTC",
            "status":"pending-upgrade","chart":"butler-0.1.0","app_version":"0.1.0"}]"#;
        let expected = ReleaseSummary {
            namespace: "butler-system".to_owned(),
            name: "butler".to_owned(),
            revision: 12,
            phase: ReleasePhase::PendingUpgrade,
            chart: "butler-0.1.0".to_owned(),
            app_version: "0.1.0".to_owned(),
        };
        assert_eq!(releases(output).unwrap(), [expected]);
        assert_eq!(releases(b"[]").unwrap(), []);
    }

    #[test]
    fn a_phase_of_a_helm_to_come_is_unknown() {
        let output = br#"[{"revision":1,"status":"meditating"}]"#;
        assert_eq!(history(output).unwrap()[0].phase, ReleasePhase::Unknown);
    }

    #[test]
    fn one_goes_back_to_the_newest_revision_that_was_in_the_cluster() {
        let at = |revision, phase| Revision { revision, phase };
        let first = [at(1, ReleasePhase::PendingInstall)];
        assert_eq!(last_good(&first), None);
        let history = [
            at(1, ReleasePhase::Superseded),
            at(2, ReleasePhase::Deployed),
            at(3, ReleasePhase::Failed),
            at(4, ReleasePhase::PendingUpgrade),
        ];
        assert_eq!(last_good(&history), Some(2));
    }
}
