//! How an allocation stands, for whoever asked for it.
//!
//! Owns: the reading of an `IPAllocation`'s status by other controllers.
//!
//! Must not: write a status; the pool's controller does.

use butler_api::butler::ip_allocation::{AllocationPhase, IPAllocation, IPAllocationStatus};
use butler_api::conditions::{reasons, types};
use butler_api::net::AddressRange;

/// How an allocation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does not exist: apply the claim.
    Missing,
    /// It was not decided on yet.
    Waiting {
        /// What it waits for, for people.
        message: String,
    },
    /// The addresses may be used.
    Granted {
        /// The addresses.
        range: AddressRange,
    },
    /// It cannot be granted now. The pool looks at it again whenever something changes.
    Refused {
        /// The reason, as conditions have it.
        reason: String,
        /// Why, and what to do, for people.
        message: String,
    },
    /// It is being given back: its addresses must not be put to use any more.
    Releasing,
}

/// How an allocation stands. Deletion wins over everything, for who sees it must stop using the addresses; a grant wins
/// over a condition that is not `True`, for a cluster must not lose addresses because its pool has trouble.
pub fn standing(allocation: Option<&IPAllocation>) -> Standing {
    let Some(allocation) = allocation else {
        return Standing::Missing;
    };
    if allocation.metadata.deletion_timestamp.is_some() {
        return Standing::Releasing;
    }
    let default = IPAllocationStatus::default();
    let status = allocation.status.as_ref().unwrap_or(&default);
    let ready = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == types::READY);
    match status.phase {
        Some(AllocationPhase::Released) => Standing::Releasing,
        Some(AllocationPhase::Failed) => Standing::Refused {
            reason: ready.map_or_else(
                || reasons::FAILED.to_owned(),
                |condition| condition.reason.clone(),
            ),
            message: ready.map_or_else(
                || "the pool refused it without saying why".to_owned(),
                |condition| condition.message.clone(),
            ),
        },
        Some(AllocationPhase::Allocated) => granted(status),
        None | Some(AllocationPhase::Pending) => match ready {
            Some(condition) if condition.status == "True" => granted(status),
            Some(condition) if !condition.message.is_empty() => Standing::Waiting {
                message: condition.message.clone(),
            },
            _ => Standing::Waiting {
                message: format!(
                    "waiting for pool {} to grant addresses",
                    allocation.spec.pool_ref.name
                ),
            },
        },
    }
}

fn granted(status: &IPAllocationStatus) -> Standing {
    let range = status
        .start_address
        .as_deref()
        .zip(status.end_address.as_deref())
        .and_then(|(start, end)| AddressRange::from_texts(start, end).ok());
    range.map_or_else(
        || Standing::Waiting {
            message: "granted, but the addresses are not in the status yet".to_owned(),
        },
        |range| Standing::Granted { range },
    )
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
