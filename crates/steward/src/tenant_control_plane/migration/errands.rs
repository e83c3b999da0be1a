//! What a move has done in stores, one errand after the other: how far each is, or the order for it.

use butler_api::steward::tenant_control_plane::status::MigrationState;
use jiff::Timestamp;

use super::{
    super::{
        observe::StoreView,
        part::{overrides_of, part_of_store, remains},
    },
    Situation,
    begin::known,
};
use crate::{
    move_port::{Errand, ErrandTask, Progress, Stillness},
    store::ErrandOrder,
};

impl Situation<'_> {
    /// How far the copy is, or the order for it.
    pub(super) fn progress_of_copy(
        &self,
        migration: &MigrationState,
        stillness: Stillness,
    ) -> Result<&Progress, Box<ErrandOrder>> {
        let task = ErrandTask::Copy {
            from: migration.from.clone(),
            to: migration.to.clone(),
            stillness,
            remains: remains(self.control_plane),
        };
        self.progress(task, migration.started.0, true)
    }

    /// The order to open the store that the state is in, before the tenant is told to refuse writes: which is a write too, and
    /// an earlier copy may have closed the store. That is one of a process that has ended, or of a control plane that slept and
    /// was woken.
    pub(super) fn reopening(&self, migration: &MigrationState) -> Option<Box<ErrandOrder>> {
        let is_told = |task: &ErrandTask| match task {
            ErrandTask::Copy { stillness, .. } => *stillness == Stillness::Frozen,
            ErrandTask::Open { .. } | ErrandTask::Seal { .. } | ErrandTask::Clear { .. } => false,
        };
        if self.errand.is_some_and(|state| is_told(&state.errand.task)) {
            return None;
        }
        let task = ErrandTask::Open {
            store: migration.from.clone(),
        };
        self.progress(task, migration.started.0, true).err()
    }

    /// Whether the store that the state stays in takes writes of the control plane again. What comes behind that is begun when it
    /// does, and not before.
    pub(super) fn opened(&self, migration: &MigrationState) -> Result<bool, Box<ErrandOrder>> {
        match self.store {
            // There is nothing to open.
            StoreView::Missing(_) | StoreView::Unnamed => return Ok(true),
            StoreView::Broken { .. } => return Ok(false),
            StoreView::Known(_) => {}
        }
        let is_past = self.errand.is_some_and(|state| match &state.errand.task {
            ErrandTask::Seal { store } | ErrandTask::Clear { store, .. } => {
                *store == migration.to && state.errand.since == migration.since.0
            }
            ErrandTask::Copy { .. } | ErrandTask::Open { .. } => false,
        });
        if is_past {
            return Ok(true);
        }
        let task = ErrandTask::Open {
            store: migration.from.clone(),
        };
        let progress = self.progress(task, migration.since.0, true)?;
        Ok(matches!(progress, Progress::Done(_)))
    }

    /// Whether a store is closed to the control plane's account, as far as that can be.
    pub(super) fn sealed(
        &self,
        store: &str,
        migration: &MigrationState,
    ) -> Result<bool, Box<ErrandOrder>> {
        if known(self.other).is_err() {
            return Ok(true);
        }
        let task = ErrandTask::Seal {
            store: store.to_owned(),
        };
        let progress = self.progress(task, migration.since.0, true)?;
        Ok(*progress != Progress::Working)
    }

    /// How far the removal of what is left in a store is, or the order for it.
    pub(super) fn cleared(
        &self,
        store: &str,
        migration: &MigrationState,
        established: bool,
    ) -> Result<Progress, Box<ErrandOrder>> {
        let mut overrides = overrides_of(self.control_plane).iter();
        // What is kept there now would go too.
        let is_used = overrides.any(|wish| wish.data_store == store);
        let leaving = match self.other {
            _ if is_used => return Ok(Progress::Done(None)),
            // A store that is gone holds nobody.
            StoreView::Missing(_) | StoreView::Unnamed => return Ok(Progress::Done(None)),
            StoreView::Broken { problem, .. } => return Ok(Progress::Failing(problem.clone())),
            StoreView::Known(facts) => facts.deleting,
        };
        let task = ErrandTask::Clear {
            store: store.to_owned(),
            leaving,
        };
        let progress = self.progress(task, migration.since.0, established)?;
        Ok(progress.clone())
    }

    /// How far an errand is, or the order for it.
    fn progress(
        &self,
        task: ErrandTask,
        since: Timestamp,
        established: bool,
    ) -> Result<&Progress, Box<ErrandOrder>> {
        let access =
            |view| known(view).map_or_else(|_| String::new(), |facts| facts.fingerprint.clone());
        let access = match &task {
            ErrandTask::Copy { .. } => format!("{} {}", access(self.store), access(self.other)),
            ErrandTask::Open { .. } => access(self.store),
            ErrandTask::Seal { .. } | ErrandTask::Clear { .. } => access(self.other),
        };
        let errand = Errand {
            task,
            since,
            access,
        };
        match self.errand {
            Some(state) if state.errand == errand => Ok(&state.progress),
            _ => {
                let (schema, user) = part_of_store(self.control_plane);
                Err(Box::new(ErrandOrder {
                    errand,
                    schema,
                    user,
                    established,
                }))
            }
        }
    }
}
