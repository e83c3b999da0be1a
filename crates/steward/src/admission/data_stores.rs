//! A store that control planes use is not deleted.

use std::sync::Arc;

use butler_api::steward::data_store::DataStore;
use butler_runtime::{
    admission::{Denial, Operation, Review, Validate, Verdict, Warning},
    cache::Caches,
};
use kube::ResourceExt;

use crate::{
    data_store::{plan::some, users},
    projections::SecretVersion,
    settings::Settings,
    store::Resolver,
};

/// Refuses the deletion of a store in use, at once and with names. The finalizer holds what slips through.
pub(super) struct DataStoreRules {
    caches: Arc<Caches>,
    settings: Settings,
    resolver: Resolver,
}

impl DataStoreRules {
    pub(super) fn new(caches: &Arc<Caches>, settings: &Settings) -> Self {
        Self {
            caches: Arc::clone(caches),
            resolver: Resolver::new(&settings.namespace),
            settings: settings.clone(),
        }
    }

    fn missing_secrets(&self, store: &DataStore) -> Vec<Warning> {
        let known = self.caches.store::<SecretVersion>();
        let secrets = self.resolver.secrets(store).into_iter();
        let missing = secrets.filter(|key| known.get(key).is_none());
        missing
            .map(|key| {
                Warning::new(format!(
                    "the Secret {key} does not exist: the store cannot be used before"
                ))
            })
            .collect()
    }
}

impl Validate<DataStore> for DataStoreRules {
    const OPERATIONS: &'static [Operation] =
        &[Operation::Create, Operation::Update, Operation::Delete];

    fn validate(&self, review: &Review<'_, DataStore>) -> Verdict {
        let store = review.object;
        if review.operation != Operation::Delete {
            return Ok(self.missing_secrets(store));
        }
        let users = users(&self.caches, &store.name_any(), &self.settings);
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let rule = format!(
            "still used by {}; delete these control planes first",
            some(&users)
        );
        Err(vec![Denial::new("metadata.name", rule)])
    }
}
