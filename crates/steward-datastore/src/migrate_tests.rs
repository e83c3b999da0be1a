//! Moves between stores in memory, of which two may be one and not know it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use butler_api::steward::data_store::DataStoreDriver;
use pretty_assertions::assert_eq;

use super::*;
use crate::store::TenantState;

/// What a store has of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Part {
    entries: u64,
    frozen: bool,
}

/// A member of a store, which says that it is somebody of its own.
struct Member {
    name: &'static str,
    parts: Arc<Mutex<BTreeMap<String, Part>>>,
    /// Whether somebody sets the tenant up while it is copied.
    meddled_with: bool,
}

impl Member {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            parts: Arc::default(),
            meddled_with: false,
        }
    }

    fn another(&self, name: &'static str) -> Self {
        Self {
            name,
            parts: Arc::clone(&self.parts),
            meddled_with: false,
        }
    }

    fn parts(&self) -> MutexGuard<'_, BTreeMap<String, Part>> {
        self.parts.lock().unwrap()
    }

    fn part(&self) -> Option<Part> {
        self.parts().get(tenant().schema.as_str()).cloned()
    }

    fn with(self, entries: u64) -> Self {
        let part = Part {
            entries,
            frozen: false,
        };
        self.parts().insert(tenant().schema.to_string(), part);
        self
    }
}

impl Store for Member {
    fn driver(&self) -> DataStoreDriver {
        DataStoreDriver::Etcd
    }

    fn place(&self) -> String {
        self.name.to_owned()
    }

    async fn identity(&self, _: &Tenant) -> Result<Option<String>, Error> {
        Ok(Some(self.name.to_owned()))
    }

    async fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn tenant_state(&self, _: &Tenant) -> Result<TenantState, Error> {
        Ok(TenantState::default())
    }

    async fn ensure_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        let mut parts = self.parts();
        parts.entry(tenant.schema.to_string()).or_default().frozen = false;
        Ok(())
    }

    async fn freeze(&self, tenant: &Tenant) -> Result<(), Error> {
        let mut parts = self.parts();
        parts.entry(tenant.schema.to_string()).or_default().frozen = true;
        Ok(())
    }

    async fn is_frozen(&self, _: &Tenant) -> Result<bool, Error> {
        Ok(self.part().is_some_and(|part| part.frozen))
    }

    async fn revoke(&self, _: &Tenant) -> Result<(), Error> {
        Ok(())
    }

    async fn drop_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        self.parts().remove(tenant.schema.as_str());
        Ok(())
    }

    async fn count(&self, _: &Tenant) -> Result<u64, Error> {
        Ok(self.part().map_or(0, |part| part.entries))
    }

    async fn copy_to(&self, tenant: &Tenant, target: &Self) -> Result<Copied, Error> {
        let entries = self.part().map_or(0, |part| part.entries);
        if let Some(part) = target.parts().get_mut(tenant.schema.as_str()) {
            part.entries = entries;
        }
        if self.meddled_with {
            self.ensure_tenant(tenant).await?;
        }
        Ok(Copied {
            entries,
            ..Copied::default()
        })
    }
}

fn tenant() -> Tenant {
    Tenant {
        owner: "6f9619ff-8b86-4011-b42d-00c04fc964ff".parse().unwrap(),
        schema: "shop".parse().unwrap(),
        user: "shop".parse().unwrap(),
        password: None,
        standing: Standing::Established,
    }
}

fn part(entries: u64, frozen: bool) -> Part {
    Part { entries, frozen }
}

#[tokio::test]
async fn what_was_copied_stays_frozen_until_the_caller_opens_it() {
    let (old, new) = (Member::new("old").with(3), Member::new("new").with(2));
    let copied = migrate(&old, &new, &tenant(), Leftovers::Remove).await;
    assert_eq!(copied.unwrap().entries, 3);
    assert_eq!(
        (old.part(), new.part()),
        (Some(part(3, true)), Some(part(3, false)))
    );
}

#[tokio::test]
async fn members_of_one_cluster_that_say_otherwise_are_found_out() {
    let one = Member::new("one").with(3);
    let other = one.another("other");
    let error = migrate(&one, &other, &tenant(), Leftovers::Remove)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "SameDataStore", "{error}");
    assert_eq!(one.part(), Some(part(3, false)));
}

#[tokio::test]
async fn a_tenant_that_could_write_meanwhile_is_not_moved() {
    let old = Member {
        meddled_with: true,
        ..Member::new("old").with(3)
    };
    let new = Member::new("new");
    let error = migrate(&old, &new, &tenant(), Leftovers::Remove)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "SourceOpened", "{error}");
    assert!(error.may_pass());
    assert_eq!((old.part(), new.part()), (Some(part(3, false)), None));
}

#[tokio::test]
async fn leftovers_that_are_not_to_be_removed_leave_everything_as_it_was() {
    let (old, new) = (Member::new("old").with(3), Member::new("new").with(2));
    let error = migrate(&old, &new, &tenant(), Leftovers::Refuse)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "TargetInUse", "{error}");
    assert_eq!(
        (old.part(), new.part()),
        (Some(part(3, false)), Some(part(2, false)))
    );
}
