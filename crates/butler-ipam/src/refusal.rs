//! Why a request is refused, in words that say what to do.
//!
//! Owns: the reasons and the sentences. Admission, the controllers and the command line all show these.
//!
//! Must not: decide; that is [`crate::pool`]'s.

use std::fmt;

use butler_api::butler::ip_allocation::AllocationType;
use butler_api::keys::values;
use butler_api::net::{AddressRange, Cidr};

use crate::request::{COUNT_FIELD, Owner, PINNED_FIELD, Request, Wish};

/// Reasons of refusals, as conditions have them.
pub mod reasons {
    /// The pool has no run of so many free addresses now.
    pub const POOL_EXHAUSTED: &str = "PoolExhausted";
    /// The pool could not give so many addresses in one run even if it were empty.
    pub const COUNT_TOO_LARGE: &str = "CountTooLarge";
    /// Somebody has some of the addresses asked for.
    pub const PINNED_RANGE_TAKEN: &str = "PinnedRangeTaken";
    /// The pool does not give out the addresses asked for.
    pub const PINNED_RANGE_OUTSIDE: &str = "PinnedRangeOutside";
    /// The owner may not have so many.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no run of so many free addresses now.
    Exhausted {
        /// How many were asked for.
        count: u32,
        /// How many are free.
        free: u128,
        /// How many the pool gives out.
        total: u128,
        /// How many nobody holds and yet must not be given out.
        blocked: u128,
        /// The longest free run.
        largest: Option<AddressRange>,
        /// Who has most, and how many; the biggest first.
        holders: Vec<(Owner, u128)>,
    },
    /// No run of the pool is so long, free or not.
    CountTooLarge {
        /// How many were asked for.
        count: u32,
        /// The most that could ever be had.
        most: u128,
    },
    /// Some of exactly these addresses are in use.
    PinnedTaken {
        /// The addresses asked for.
        range: AddressRange,
        /// The first of them that are taken.
        taken: AddressRange,
        /// Who has those.
        by: TakenBy,
    },
    /// The pool does not give out these addresses.
    PinnedOutside {
        /// The addresses asked for.
        range: AddressRange,
        /// The network of the pool.
        cidr: Cidr,
        /// In which way they lie outside.
        how: Outside,
    },
    /// The owner may not have so many.
    QuotaExceeded {
        /// Who asks.
        owner: Box<Owner>,
        /// What the addresses are for.
        kind: AllocationType,
        /// The most the owner may have.
        most: u32,
        /// What the owner has.
        used: u32,
        /// How many more were asked for.
        more: u128,
        /// Whether certain addresses were asked for.
        pinned: bool,
    },
}

/// Who has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakenBy {
    /// An allocation, for this owner.
    Owner(Box<Owner>),
    /// Nobody through the pool: this is what blocks it.
    Other(String),
}

/// In which way a range lies outside of what a pool gives out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// Not, or not wholly, in the network.
    Network,
    /// In the network, but in none of the windows.
    Windows,
    /// Partly in this window and partly not.
    Straddles(AddressRange),
    /// It touches these reserved addresses.
    Reserved(AddressRange),
    /// It has an address that no host may have.
    NeverGiven,
}

impl Refusal {
    /// The reason, as conditions have it.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Exhausted { .. } => reasons::POOL_EXHAUSTED,
            Self::CountTooLarge { .. } => reasons::COUNT_TOO_LARGE,
            Self::PinnedTaken { .. } => reasons::PINNED_RANGE_TAKEN,
            Self::PinnedOutside { .. } => reasons::PINNED_RANGE_OUTSIDE,
            Self::QuotaExceeded { .. } => reasons::QUOTA_EXCEEDED,
        }
    }

    /// The field of the allocation that asks for what cannot be had.
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Exhausted { .. }
            | Self::CountTooLarge { .. }
            | Self::QuotaExceeded { pinned: false, .. } => COUNT_FIELD,
            Self::PinnedTaken { .. }
            | Self::PinnedOutside { .. }
            | Self::QuotaExceeded { pinned: true, .. } => PINNED_FIELD,
        }
    }
}

impl Refusal {
    /// Refuses a request that asks for more than its quota leaves.
    pub(crate) fn within_quota(request: &Request) -> Result<(), Self> {
        let Some(quota) = request.quota else {
            return Ok(());
        };
        let more = request.wish.addresses().max(1);
        if u128::from(quota.used).saturating_add(more) <= quota.most.into() {
            return Ok(());
        }
        Err(Self::QuotaExceeded {
            owner: Box::new(request.owner.clone()),
            kind: request.kind,
            most: quota.most,
            used: quota.used,
            more,
            pinned: matches!(request.wish, Wish::Exactly(_)),
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted {
                count,
                free,
                total,
                blocked,
                largest,
                holders,
            } => {
                match count {
                    1 => write!(formatter, "no free address: ")?,
                    _ => write!(formatter, "no run of {count} free addresses: ")?,
                }
                write!(formatter, "{free} of {total} are free")?;
                if let Some(largest) = largest {
                    let (size, place) = (largest.count(), plain(largest));
                    write!(formatter, ", the largest free block is {size} ({place})")?;
                }
                if *blocked > 0 {
                    let verb = verb(*blocked);
                    write!(
                        formatter,
                        "; {blocked} {verb} in use by others than allocations"
                    )?;
                }
                match holders.as_slice() {
                    [] => write!(formatter, "; nobody holds any")?,
                    holders => {
                        let holders = holders
                            .iter()
                            .map(|(owner, held)| format!("{owner} ({held})"));
                        let holders = holders.collect::<Vec<_>>().join(", ");
                        write!(formatter, "; most are held by {holders}")?;
                    }
                }
                write!(
                    formatter,
                    "; release some, ask for fewer, or widen the pool"
                )
            }
            Self::CountTooLarge { most: 0, .. } => write!(
                formatter,
                "the pool gives out no address at all; widen its windows or reserve less"
            ),
            Self::CountTooLarge { count, most } => write!(
                formatter,
                "{count} addresses can never be had in one run: the most this pool can give is {most}; \
                 ask for fewer, or widen the pool"
            ),
            Self::PinnedTaken { range, taken, by } => {
                write!(
                    formatter,
                    "{} cannot be had: {} ",
                    plain(range),
                    plain(taken)
                )?;
                let verb = verb(taken.count());
                match by {
                    TakenBy::Owner(owner) => write!(formatter, "{verb} held by {owner}")?,
                    TakenBy::Other(what) => write!(formatter, "{verb} in use: {what}")?,
                }
                write!(formatter, "; pin other addresses, or release these")
            }
            Self::PinnedOutside { range, cidr, how } => {
                let range = plain(range);
                match how {
                    Outside::Network => write!(
                        formatter,
                        "{range} is not within the pool's network {cidr}; pin addresses of that network"
                    ),
                    Outside::Windows => write!(
                        formatter,
                        "{range} is in the pool's network {cidr} but in none of its windows; \
                         pin addresses of a window, or add one to the pool"
                    ),
                    Outside::Straddles(window) => write!(
                        formatter,
                        "{range} reaches beyond the window {}; pin addresses within it, or widen it",
                        plain(window)
                    ),
                    Outside::Reserved(block) => write!(
                        formatter,
                        "{range} touches {}, which the pool keeps reserved; pin other addresses",
                        plain(block)
                    ),
                    Outside::NeverGiven => write!(
                        formatter,
                        "{range} has the first or last address of {cidr}, which no host may have; \
                         pin other addresses"
                    ),
                }
            }
            Self::QuotaExceeded {
                owner,
                kind,
                most,
                used,
                more,
                pinned: _,
            } => {
                let kind = kind_text(*kind);
                let verb = verb(*more);
                write!(
                    formatter,
                    "{owner} may have {most} {kind} addresses and has {used}; {more} more {verb} too many"
                )
            }
        }
    }
}

impl std::error::Error for Refusal {}

/// So many "are", and one "is".
const fn verb(count: u128) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// A range as people say it: one address is no range.
fn plain(range: &AddressRange) -> String {
    if range.start() == range.end() {
        range.start().to_string()
    } else {
        range.to_string()
    }
}

/// The word for what addresses are for, as manifests have it.
pub(crate) const fn kind_text(kind: AllocationType) -> &'static str {
    match kind {
        AllocationType::Nodes => values::ALLOCATION_TYPE_NODES,
        AllocationType::Loadbalancer => values::ALLOCATION_TYPE_LOAD_BALANCER,
    }
}

#[cfg(test)]
#[path = "refusal_tests.rs"]
mod tests;
