//! Moving a tenant's state from one store to another of the same kind.
//!
//! Owns: the order of steps, that nobody writes into the source meanwhile, the proof that everything arrived, and the way
//! back: whatever fails, the source is as it was.
//!
//! Must not: point the control plane to the target, which the caller does afterwards. The source stays frozen, with all that
//! is in it, until the caller drops it, or opens it again by [`Store::ensure_tenant`]. That is also for the caller to do when
//! this was cut off.

use crate::error::Error;
use crate::store::{Copied, Standing, Store, Tenant};

/// What to do with state of the tenant that is in the target already, such as that of a move that was cut off, or of the
/// time before the tenant moved away from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// Refuse the move.
    Refuse,
    /// Remove them first: the source is what counts.
    Remove,
}

/// Freezes the tenant's state, copies it, and verifies that all of it arrived. If that fails, the copy is removed again and
/// the source is opened, as far as they can be reached.
pub async fn migrate<S: Store>(
    source: &S,
    target: &S,
    tenant: &Tenant,
    leftovers: Leftovers,
) -> Result<Copied, Error> {
    if source.driver() != target.driver() {
        return Err(Error::DifferentDrivers {
            from: source.driver(),
            to: target.driver(),
        });
    }
    require_another(source, target, tenant).await?;
    let outcome = carry(source, target, tenant, leftovers).await;
    if outcome.is_err() {
        // The reason why the copy failed says more than why this did; the caller opens the source again anyway.
        let _ = source.ensure_tenant(tenant).await;
    }
    outcome
}

/// Two addresses may lead to one store. What is removed from the target would then be the tenant's only state.
async fn require_another<S: Store>(source: &S, target: &S, tenant: &Tenant) -> Result<(), Error> {
    if source.place() == target.place() {
        return Err(same(source, target));
    }
    target.check().await?;
    let identity = source.identity(tenant).await?;
    if identity.is_some() && identity == target.identity(tenant).await? {
        return Err(same(source, target));
    }
    Ok(())
}

async fn carry<S: Store>(
    source: &S,
    target: &S,
    tenant: &Tenant,
    leftovers: Leftovers,
) -> Result<Copied, Error> {
    let newcomer = Tenant {
        standing: Standing::New,
        ..tenant.clone()
    };
    source.freeze(tenant).await?;
    target.ensure_tenant(&newcomer).await?;
    // Not all stores have an identity, and members of one cluster may have one each. But a set-up undoes a freeze: if that
    // reached the source, there are no two stores.
    if !source.is_frozen(tenant).await? {
        return Err(same(source, target));
    }
    let expected = source.count(tenant).await?;
    let entries = target.count(&newcomer).await?;
    if entries > 0 {
        if leftovers == Leftovers::Refuse {
            return Err(Error::TargetInUse {
                schema: tenant.schema.clone(),
                entries,
            });
        }
        target.drop_tenant(&newcomer).await?;
        let left = source.count(tenant).await?;
        if left < expected {
            return Err(Error::SourceShrank {
                before: expected,
                after: left,
            });
        }
        target.ensure_tenant(&newcomer).await?;
    }
    let outcome = copy(source, target, tenant, expected).await;
    if outcome.is_err() {
        // The reason why the copy failed says more than why it could not be removed; what is left is removed by the next
        // attempt.
        let _ = target.drop_tenant(&newcomer).await;
    }
    outcome
}

async fn copy<S: Store>(
    source: &S,
    target: &S,
    tenant: &Tenant,
    expected: u64,
) -> Result<Copied, Error> {
    let copied = source.copy_to(tenant, target).await?;
    let arrived = target.count(tenant).await?;
    // Nobody but us freezes: what is frozen now was so all the time.
    if !source.is_frozen(tenant).await? {
        return Err(Error::SourceOpened {
            place: source.place(),
        });
    }
    // Entries that vanish by themselves may have done so meanwhile, on either side.
    let least = expected.saturating_sub(copied.perishable);
    let complete = (least..=expected).contains(&copied.entries)
        && (copied.entries.saturating_sub(copied.perishable)..=copied.entries).contains(&arrived);
    if complete {
        Ok(copied)
    } else {
        Err(Error::CopyIncomplete {
            expected,
            copied: arrived,
        })
    }
}

fn same<S: Store>(source: &S, target: &S) -> Error {
    Error::SameStore {
        from: source.place(),
        to: target.place(),
    }
}

#[cfg(test)]
#[path = "migrate_tests.rs"]
mod tests;
