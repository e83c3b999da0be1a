//! A store that control planes use is not deleted, unless these are being deleted themselves.

use std::sync::Arc;

use butler_api::steward::data_store::DataStore;
use butler_runtime::{
    admission::{Denial, Operation, Review, Validate, Verdict, Warning},
    cache::Caches,
};
use kube::ResourceExt;

use crate::{
    data_store::{
        plan::{some, unused_members},
        staying_users,
    },
    projections::SecretVersion,
    settings::Settings,
    store::Resolver,
};

/// Refuses the deletion of a store in use, at once and with names. The finalizer holds what slips through, and the store itself
/// until its last user has gone: so a store that is lost, and its users with it, can be deleted in any order.
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
            let mut warnings = self.missing_secrets(store);
            warnings.extend(unused_members(store).map(Warning::new));
            return Ok(warnings);
        }
        let users = staying_users(&self.caches, &store.name_any(), &self.settings);
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

#[cfg(test)]
mod tests {
    use butler_api::steward::tenant_control_plane::TenantControlPlane;
    use butler_runtime::cache::{AnyStore, Delta, Whole};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;
    use crate::testing::{control_plane_with, now};

    fn named(name: &str, is_going: bool) -> TenantControlPlane {
        let mut user = control_plane_with(json!({ "dataStore": "gold" }));
        user.metadata.name = Some(name.to_owned());
        user.metadata.deletion_timestamp = is_going.then(|| Time(now()));
        user
    }

    fn deletion_among(users: &[TenantControlPlane]) -> String {
        let caches = Arc::<Caches>::default();
        let control_planes = caches.store::<Whole<TenantControlPlane>>();
        control_planes.ingest(Delta::Reset(users.iter().map(|user| json!(user)).collect()));
        let store: DataStore = serde_json::from_value(json!({
            "metadata": { "name": "gold" },
            "spec": { "driver": "etcd", "endpoints": ["etcd:2379"] },
        }))
        .unwrap();
        let rules = DataStoreRules::new(&caches, &Settings::default());
        let verdict = rules.validate(&Review {
            operation: Operation::Delete,
            object: &store,
            old: None,
            user: "alice",
            groups: &[],
            dry_run: false,
            now: now(),
        });
        match verdict {
            Ok(_) => "fine".to_owned(),
            Err(denials) => denials[0].to_string(),
        }
    }

    #[test]
    fn whoever_names_members_that_nobody_uses_is_warned() {
        let rules = DataStoreRules::new(&Arc::default(), &Settings::default());
        let store: DataStore = serde_json::from_value(json!({
            "metadata": { "name": "gold" },
            "spec": { "driver": "MySQL", "endpoints": ["db-0:3306", "db-1:3306"] },
        }))
        .unwrap();
        let verdict = rules.validate(&Review {
            operation: Operation::Create,
            object: &store,
            old: None,
            user: "alice",
            groups: &[],
            dry_run: false,
            now: now(),
        });
        assert_eq!(verdict.map(|warnings| warnings.len()).ok(), Some(1));
    }

    #[test]
    fn a_store_in_use_is_not_deleted() {
        let told = deletion_among(&[named("shop", false), named("desk", true)]);
        assert!(
            told.contains("payments/shop") && !told.contains("desk"),
            "{told}"
        );
    }

    #[test]
    fn a_lost_store_goes_with_control_planes_that_wait_for_it() {
        assert_eq!(deletion_among(&[named("shop", true)]), "fine");
        assert_eq!(deletion_among(&[]), "fine");
    }
}
