//! Moving a tenant's state from one store to another of the same kind.
//!
//! Owns: the order of steps, the proof that everything arrived, and the way back: whatever fails, the source is as it was.
//!
//! Must not: stop the tenant's writes, which the caller has done before, or point the control plane to the target, which
//! the caller does afterwards. The source's copy stays until the caller drops it.

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

/// Copies the tenant's state, whose writes must be frozen, and verifies that all of it arrived. If that fails, the copy is
/// removed again, as far as the target can be reached.
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
    if source.place() == target.place() {
        return Err(Error::SameStore {
            place: source.place(),
        });
    }
    target.check().await?;
    let newcomer = Tenant {
        standing: Standing::New,
        ..tenant.clone()
    };
    target.ensure_tenant(&newcomer).await?;
    let entries = target.count(&newcomer).await?;
    if entries > 0 {
        if leftovers == Leftovers::Refuse {
            return Err(Error::TargetInUse {
                schema: tenant.schema.clone(),
                entries,
            });
        }
        target.drop_tenant(&newcomer).await?;
        target.ensure_tenant(&newcomer).await?;
    }
    let outcome = copy(source, target, tenant).await;
    if outcome.is_err() {
        // The reason why the copy failed says more than why it could not be removed; what is left is removed by the next
        // attempt.
        let _ = target.drop_tenant(&newcomer).await;
    }
    outcome
}

async fn copy<S: Store>(source: &S, target: &S, tenant: &Tenant) -> Result<Copied, Error> {
    let expected = source.count(tenant).await?;
    let copied = source.copy_to(tenant, target).await?;
    let arrived = target.count(tenant).await?;
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
