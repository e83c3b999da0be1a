//! A provider that clusters run on cannot be deleted.

use std::sync::Arc;

use butler_api::butler::provider_config::ProviderConfig;
use butler_runtime::{
    admission::{Denial, Operation, Review, Validate, Verdict},
    cache::Caches,
    object::ObjectKey,
};

use crate::provider_config::users;

/// Refuses the deletion of a provider in use, at once and with the clusters' names. The finalizer holds what slips through.
pub(super) struct ProviderInUse {
    caches: Arc<Caches>,
}

impl ProviderInUse {
    pub(super) fn new(caches: &Arc<Caches>) -> Self {
        Self {
            caches: Arc::clone(caches),
        }
    }
}

impl Validate<ProviderConfig> for ProviderInUse {
    const OPERATIONS: &'static [Operation] = &[Operation::Delete];

    fn validate(&self, review: &Review<'_, ProviderConfig>) -> Verdict {
        let users = users(&self.caches, &ObjectKey::of(review.object));
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let clusters: Vec<_> = users
            .iter()
            .map(|cluster| cluster.key.to_string())
            .collect();
        let rule = format!(
            "still used by {}; delete these clusters or move them first",
            clusters.join(", ")
        );
        Err(vec![Denial::new("metadata.name", rule)])
    }
}
