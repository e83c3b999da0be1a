//! The move of a control plane's state to another store: how far it is by what is on record, and what comes next. Pure.
//!
//! ```text
//!    ┌──────── (asleep) ───────┐
//! Copying ──> Switching ──> Sealing ──> Finishing ──> (nothing on record)
//!    │            └──────> RollingBack ─┐
//!    └─────────────────────────────────> Returning ──> Failed
//! ```
//!
//! Every stage is on record before anything is done for it, and everything that is done may be done again: so a process can end
//! between any two steps. Writes are refused from `Copying` until all pods use one store and the other is closed to them; up to
//! that point both stores hold the same, and the way back loses nothing. The old store itself takes none from when the copy
//! begins: whoever goes back opens it first.

mod begin;
mod errands;
mod told;

use butler_api::{
    conditions::reasons,
    steward::tenant_control_plane::{
        TenantControlPlane,
        status::{MigrationStage, MigrationState},
    },
};
use butler_runtime::{conditions::Finding, object::ObjectKey};
use jiff::Timestamp;

use super::{
    observe::StoreView,
    part::{migration_of, remains, wished_store},
    status::time,
};
use crate::{
    move_port::{Arrival, ErrandState, Progress, Remains, Stillness},
    store::ErrandOrder,
};
use told::stays;

/// All that a step of a move depends on.
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
pub(super) struct Situation<'a> {
    pub(super) control_plane: &'a TenantControlPlane,
    /// The store that has the state.
    pub(super) store: &'a StoreView,
    /// The store that it moves to or from, or shall move to.
    pub(super) other: &'a StoreView,
    /// Who has what this control plane wants of that store.
    pub(super) other_rival: Option<&'a ObjectKey>,
    /// The authorities of stores with single resources.
    pub(super) overrides: Vec<&'a StoreView>,
    /// Why nobody can write now, or what that waits for.
    pub(super) stillness: Result<Stillness, Obstacle>,
    /// Whether the part of the store that has the state is set up.
    pub(super) is_set_up: bool,
    /// Whether there are pods, or there is what makes them.
    pub(super) has_pods: bool,
    /// Whether all pods use the store that has the state.
    pub(super) is_rolled_out: bool,
    /// Whether writes are accepted again, or nobody serves.
    pub(super) is_thawed: bool,
    /// What is done in stores.
    pub(super) errand: Option<&'a ErrandState>,
    pub(super) now: Timestamp,
}

/// What is in the way: a reason and a sentence.
pub(super) type Obstacle = (&'static str, String);

/// What comes next.
#[derive(Debug, Default)]
pub(super) struct Migration {
    /// What is on record from now on.
    pub(super) state: Option<MigrationState>,
    /// The store that has the state from now on, if that changes.
    pub(super) home: Option<String>,
    /// What is to be done in stores.
    pub(super) order: Option<Box<ErrandOrder>>,
    /// What is said of it.
    pub(super) finding: Option<Finding>,
    /// When patience is over.
    pub(super) deadline: Option<Timestamp>,
}

pub(super) fn look(situation: &Situation<'_>) -> Migration {
    let control_plane = situation.control_plane;
    let Some(migration) = migration_of(control_plane) else {
        return match wished_store(control_plane) {
            Some(wished) => situation.begin(wished),
            None => Migration::default(),
        };
    };
    match migration.stage {
        MigrationStage::Copying => situation.copy(migration),
        MigrationStage::Switching => situation.switch(migration),
        MigrationStage::Sealing => situation.seal(migration),
        MigrationStage::Finishing => situation.finish(migration),
        MigrationStage::RollingBack => situation.roll_back(migration),
        MigrationStage::Returning => situation.come_back(migration),
        MigrationStage::Failed => match wished_store(control_plane) {
            Some(wished) if wished == migration.to => stays(migration),
            Some(wished) => situation.begin(wished),
            None => Migration::default(),
        },
    }
}

impl Situation<'_> {
    fn copy(&self, migration: &MigrationState) -> Migration {
        let wishes = self.control_plane.spec.data_store.as_ref();
        if wishes != Some(&migration.to) {
            return self.give_up(migration, "spec.dataStore was changed on the way");
        }
        if let Some((_, problem)) = self.obstacle_at(&migration.to) {
            return self.give_up(migration, &problem);
        }
        let (order, waits_for) = match &self.stillness {
            Err((_, problem)) => (self.reopening(migration), problem.clone()),
            Ok(stillness) => match self.progress_of_copy(migration, *stillness) {
                Ok(Progress::Done(arrival)) => {
                    return self.arrived(migration, *arrival, *stillness);
                }
                Ok(Progress::Refused(problem)) => return self.give_up(migration, problem),
                Ok(Progress::Failing(problem)) => (None, problem.clone()),
                Ok(Progress::Working) => (None, "the copy was still under way".to_owned()),
                Err(order) => (Some(order), "the copy could not begin".to_owned()),
            },
        };
        if self.is_over(migration.started.0) {
            let problem = format!("it took longer than {}: {waits_for}", self.patience_text());
            return self.give_up(migration, &problem);
        }
        self.goes_on(migration.clone(), order)
    }

    /// Everything is in the new store. That it has the state from now on is one write of the status.
    fn arrived(
        &self,
        migration: &MigrationState,
        arrival: Option<Arrival>,
        stillness: Stillness,
    ) -> Migration {
        let stage = match stillness {
            Stillness::Frozen => MigrationStage::Switching,
            // There are no pods to wait for, and what wakes on the new store refuses nothing: there is no way back from it.
            Stillness::Asleep(_) => MigrationStage::Sealing,
        };
        let behind = arrival.map_or(0, |arrival| arrival.behind);
        let counted = MigrationState {
            entries: arrival.and_then(|arrival| i64::try_from(arrival.entries).ok()),
            message: (behind > 0).then(|| is_behind(migration, behind)),
            ..migration.clone()
        };
        Migration {
            home: Some(migration.to.clone()),
            ..self.enter(&counted, stage)
        }
    }

    fn switch(&self, migration: &MigrationState) -> Migration {
        if self.is_rolled_out {
            return self.enter(migration, MigrationStage::Sealing);
        }
        let wishes = self.control_plane.spec.data_store.as_ref();
        let problem = if wishes == Some(&migration.from) {
            Some("spec.dataStore was set back on the way".to_owned())
        } else {
            let message = || {
                format!(
                    "the pods did not come to serve with {} within {}; `kubectl describe` and `kubectl logs` of the newest ones tell why",
                    migration.to,
                    self.patience_text()
                )
            };
            self.is_over(migration.since.0).then(message)
        };
        match problem {
            None => self.goes_on(migration.clone(), None),
            Some(problem) => {
                let failed = failed(migration, &problem);
                Migration {
                    home: Some(migration.from.clone()),
                    ..self.enter(&failed, MigrationStage::RollingBack)
                }
            }
        }
    }

    /// The store that nobody uses any more is closed to pods that have not ended yet. One that cannot be closed is not waited
    /// for: writes are refused meanwhile.
    fn seal(&self, migration: &MigrationState) -> Migration {
        match self.sealed(&migration.from, migration) {
            Ok(true) => self.enter(migration, MigrationStage::Finishing),
            Ok(false) => self.goes_on(migration.clone(), None),
            Err(order) => self.goes_on(migration.clone(), Some(order)),
        }
    }

    fn roll_back(&self, migration: &MigrationState) -> Migration {
        let is_sealed = match self.opened(migration) {
            Ok(true) => self.sealed(&migration.to, migration),
            waits => waits,
        };
        match is_sealed {
            Ok(true) if self.is_rolled_out => self.enter(migration, MigrationStage::Returning),
            Ok(_) => self.goes_on(migration.clone(), None),
            Err(order) => self.goes_on(migration.clone(), Some(order)),
        }
    }

    fn finish(&self, migration: &MigrationState) -> Migration {
        // Without a copy, nobody knows that what has the control plane's names there is its own.
        let is_ours = migration.entries.is_some();
        match self.cleared(&migration.from, migration, is_ours) {
            Err(order) => self.goes_on(migration.clone(), Some(order)),
            Ok(Progress::Done(_)) if self.is_thawed => Migration::default(),
            Ok(_) => self.goes_on(migration.clone(), None),
        }
    }

    fn come_back(&self, migration: &MigrationState) -> Migration {
        match self.opened(migration) {
            Ok(true) => {}
            Ok(false) => return self.goes_on(migration.clone(), None),
            Err(order) => return self.goes_on(migration.clone(), Some(order)),
        }
        // What was there before any copy was complete, and shall stay, is not told from what the copy left.
        if migration.entries.is_none() && remains(self.control_plane) == Remains::Stay {
            return self.enter(migration, MigrationStage::Failed);
        }
        match self.cleared(&migration.to, migration, false) {
            Err(order) => self.goes_on(migration.clone(), Some(order)),
            Ok(Progress::Done(_)) => self.enter(migration, MigrationStage::Failed),
            Ok(_) => self.goes_on(migration.clone(), None),
        }
    }

    /// The state stays where it is.
    fn give_up(&self, migration: &MigrationState, problem: &str) -> Migration {
        self.enter(&failed(migration, problem), MigrationStage::Returning)
    }

    /// The next stage goes on record; what it takes is done when it is.
    fn enter(&self, migration: &MigrationState, stage: MigrationStage) -> Migration {
        let entered = MigrationState {
            stage,
            since: time(self.now),
            ..migration.clone()
        };
        if stage == MigrationStage::Failed {
            return stays(&entered);
        }
        self.goes_on(entered, None)
    }

    fn goes_on(&self, migration: MigrationState, order: Option<Box<ErrandOrder>>) -> Migration {
        let begin = match migration.stage {
            MigrationStage::Copying => Some(migration.started.0),
            MigrationStage::Switching => Some(migration.since.0),
            MigrationStage::Sealing
            | MigrationStage::Finishing
            | MigrationStage::RollingBack
            | MigrationStage::Returning
            | MigrationStage::Failed => None,
        };
        Migration {
            finding: Some(Finding::new(
                false,
                reasons::MIGRATING,
                self.told(&migration),
            )),
            deadline: begin.and_then(|begin| begin.checked_add(self.patience()).ok()),
            order,
            home: None,
            state: Some(migration),
        }
    }
}

fn failed(migration: &MigrationState, problem: &str) -> MigrationState {
    MigrationState {
        message: Some(problem.to_owned()),
        ..migration.clone()
    }
}

fn is_behind(migration: &MigrationState, behind: u64) -> String {
    let MigrationState { from, to, .. } = migration;
    format!(
        "the revisions of {to} are {behind} behind those of {from}, so that whoever watched there may hear nothing: restart kubelets, and what else watches, after the move"
    )
}
