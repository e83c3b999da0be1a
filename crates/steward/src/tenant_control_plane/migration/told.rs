//! What is said of a move, and how long it may take.

use butler_api::{
    conditions::reasons,
    keys::annotations,
    steward::tenant_control_plane::status::{MigrationStage, MigrationState},
};
use butler_runtime::conditions::Finding;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::{Migration, Situation};
use crate::move_port::Progress;

/// How long writes may be refused for a copy, and for new pods after it, unless an annotation says otherwise.
const USUAL_PATIENCE: SignedDuration = SignedDuration::from_mins(5);

impl Situation<'_> {
    /// How far a move is, in words.
    pub(super) fn told(&self, migration: &MigrationState) -> String {
        let MigrationState { from, to, .. } = migration;
        let trouble = match self.errand.map(|state| &state.progress) {
            Some(Progress::Failing(problem) | Progress::Refused(problem)) => {
                format!(" (tried again: {problem})")
            }
            Some(Progress::Working | Progress::Done(_)) | None => String::new(),
        };
        let why = migration.message.as_deref().unwrap_or_default();
        let warning = migration.message.as_ref().map(|told| format!("; {told}"));
        let warning = warning.unwrap_or_default();
        match migration.stage {
            MigrationStage::Copying => {
                format!("the state is copied from {from} to {to}, and writes are refused{trouble}")
            }
            MigrationStage::Switching => format!(
                "the state is in {to}, and pods that use it take the place of the others; writes are refused{warning}"
            ),
            MigrationStage::Sealing => {
                format!(
                    "all pods use {to}, and {from} is closed to them; writes are refused{warning}"
                )
            }
            MigrationStage::Finishing => {
                format!("the state is in {to}; what is left in {from} is removed{trouble}{warning}")
            }
            MigrationStage::RollingBack => {
                format!(
                    "{why}; pods that use {from} come back, and writes are refused until then{trouble}"
                )
            }
            MigrationStage::Returning | MigrationStage::Failed => {
                format!(
                    "{why}; the state stays in {from}, and what is left in {to} is removed{trouble}"
                )
            }
        }
    }

    /// Whether patience that began then is over.
    pub(super) fn is_over(&self, begin: Timestamp) -> bool {
        self.now.duration_since(begin) >= self.patience()
    }

    pub(super) fn patience(&self) -> SignedDuration {
        let annotations = self.control_plane.annotations();
        let asked = annotations.get(annotations::STEWARD_MIGRATION_TIMEOUT);
        let asked: Option<SignedDuration> = asked.and_then(|text| text.parse().ok());
        asked
            .filter(SignedDuration::is_positive)
            .unwrap_or(USUAL_PATIENCE)
    }

    pub(super) fn patience_text(&self) -> String {
        format!(
            "{:#} (annotation {})",
            self.patience(),
            annotations::STEWARD_MIGRATION_TIMEOUT
        )
    }
}

/// A move that failed and is left at that.
pub(super) fn stays(migration: &MigrationState) -> Migration {
    let MigrationState { from, to, .. } = migration;
    let why = migration.message.as_deref().unwrap_or_default();
    let message = format!(
        "the state stays in {from}: {why}; to try again, set spec.dataStore back to {from} and then to {to}"
    );
    Migration {
        state: Some(migration.clone()),
        finding: Some(Finding::new(false, reasons::MIGRATION_FAILED, message)),
        ..Migration::default()
    }
}
