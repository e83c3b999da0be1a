//! Whether a move can begin, and can go on.

use butler_api::{
    conditions::reasons,
    steward::tenant_control_plane::status::{MigrationStage, MigrationState},
};
use butler_runtime::conditions::Finding;

use super::{
    super::{
        observe::StoreView,
        part::{overrides_of, storage_of, was_set_up},
        status::time,
    },
    Migration, Obstacle, Situation,
};
use crate::store::StoreFacts;

impl Situation<'_> {
    /// A move that can be made is put on record, and nothing else is done yet.
    pub(super) fn begin(&self, wished: &str) -> Migration {
        let has =
            storage_of(self.control_plane).and_then(|storage| storage.data_store_name.clone());
        let Some(has) = has else {
            return Migration::default();
        };
        let never_used = !was_set_up(self.control_plane) && !self.is_set_up && !self.has_pods;
        let obstacle = self.obstacle_at(wished).or_else(|| {
            if never_used {
                return None;
            }
            let not_set_up = || {
                let message = format!("its part of the DataStore {has} must be in order first");
                (reasons::WAITING_FOR_DEPENDENCIES, message)
            };
            let unset = (!self.is_set_up).then(not_set_up);
            unset.or_else(|| self.cannot_stand_still())
        });
        if let Some((reason, problem)) = obstacle {
            let message = format!(
                "the state stays in {has}, and does not move to {wished} yet: {problem}; or set spec.dataStore back to {has}"
            );
            return Migration {
                finding: Some(Finding::new(false, reason, message)),
                ..Migration::default()
            };
        }
        let begun = MigrationState {
            from: has,
            to: wished.to_owned(),
            stage: MigrationStage::Copying,
            started: time(self.now),
            since: time(self.now),
            entries: None,
            message: None,
        };
        if never_used {
            // There is no state: no pod ever came to this store. What may have been made there goes.
            let to = begun.to.clone();
            return Migration {
                home: Some(to),
                ..self.enter(&begun, MigrationStage::Finishing)
            };
        }
        self.goes_on(begun, None)
    }

    /// What keeps the state from being moved to a store.
    pub(super) fn obstacle_at(&self, wished: &str) -> Option<Obstacle> {
        let target = match known(self.other) {
            Ok(target) => target,
            Err(obstacle) => return Some(obstacle),
        };
        if target.deleting {
            let message = format!("the DataStore {wished} is being deleted; name another one");
            return Some((reasons::DATA_STORE_NOT_FOUND, message));
        }
        let source = known(self.store).ok();
        if let Some(source) = source.filter(|source| source.driver != target.driver) {
            let message = format!(
                "{wished} is another kind of database than {}; name one of the same kind",
                source.name
            );
            return Some((reasons::UNSUPPORTED, message));
        }
        if let Some(rival) = self.other_rival {
            let message = format!(
                "what it needs in the DataStore {wished} is {rival}'s; name another DataStore"
            );
            return Some((reasons::SCHEMA_TAKEN, message));
        }
        let mut overrides = overrides_of(self.control_plane).iter();
        let has = source.map(|source| source.name.as_str());
        let of_override = |store: &str| store == wished || Some(store) == has;
        if let Some(wish) = overrides.find(|wish| of_override(&wish.data_store)) {
            let message = format!(
                "spec.dataStoreOverrides keeps {} in {}, where it would be in the way; change that first",
                wish.resource, wish.data_store
            );
            return Some((reasons::VALIDATION_FAILED, message));
        }
        let others = self.overrides.iter().filter_map(|view| known(view).ok());
        let mut strangers = others.filter(|other| other.authority_pem != target.authority_pem);
        strangers.next().map(|stranger| {
            let message = format!(
                "{wished} and {} of spec.dataStoreOverrides have different certificate authorities; change that first",
                stranger.name
            );
            (reasons::VALIDATION_FAILED, message)
        })
    }

    /// Why writes could not even be refused once the move has begun.
    fn cannot_stand_still(&self) -> Option<Obstacle> {
        let (reason, message) = self.stillness.as_ref().err()?;
        (*reason != reasons::MIGRATING).then(|| (*reason, message.clone()))
    }
}

/// The facts of a store that can be used, or why it cannot.
pub(super) fn known(view: &StoreView) -> Result<&StoreFacts, Obstacle> {
    match view {
        StoreView::Known(facts) => Ok(facts),
        StoreView::Unnamed => Err((
            reasons::DATA_STORE_NOT_FOUND,
            "no DataStore is named".to_owned(),
        )),
        StoreView::Missing(name) => Err((
            reasons::DATA_STORE_NOT_FOUND,
            format!("the DataStore {name} does not exist; create it"),
        )),
        StoreView::Broken { name, problem } => Err((
            reasons::CREDENTIALS_INVALID,
            format!("the DataStore {name} cannot be used: {problem}"),
        )),
    }
}
