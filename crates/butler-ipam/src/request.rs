//! Who asks a pool for what.
//!
//! Owns: the reading of an `IPAllocation`'s spec as a request, with the refusals that need no pool.
//!
//! Must not: look at what is free; that is [`crate::pool`]'s.

use std::fmt;

use butler_api::butler::ip_allocation::{
    AllocationClusterReference, AllocationType, IPAllocationSpec,
};
use butler_api::net::AddressRange;

use crate::layout::{Layout, Violation};

/// Most addresses one allocation may have; the schema of `IPAllocation` says the same.
pub const LARGEST_ALLOCATION: u32 = 65_536;

/// The field that says how many addresses.
pub(crate) const COUNT_FIELD: &str = "spec.count";
/// The field that says which addresses.
pub(crate) const PINNED_FIELD: &str = "spec.pinnedRange";

/// Kind of the owner of addresses that are for a tenant cluster.
pub(crate) const TENANT_CLUSTER: &str = "TenantCluster";

/// Who holds a range: an allocation, for its owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// UID of the `IPAllocation`: another one of the same name is another holder.
    pub allocation: String,
    /// Whom the addresses are for.
    pub owner: Owner,
}

/// Whom addresses are for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object; absent for one that has none.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
}

impl Owner {
    /// A tenant cluster.
    pub fn tenant_cluster(cluster: &AllocationClusterReference) -> Self {
        Self {
            kind: TENANT_CLUSTER.to_owned(),
            namespace: Some(cluster.namespace.clone()),
            name: cluster.name.clone(),
        }
    }

    /// Whom an allocation is for: its tenant cluster, else its other owner.
    pub fn of(spec: &IPAllocationSpec) -> Self {
        if let Some(cluster) = &spec.tenant_cluster_ref {
            Self::tenant_cluster(cluster)
        } else if let Some(owner) = &spec.owner_ref {
            Self {
                kind: owner.kind.clone(),
                namespace: owner.namespace.clone(),
                name: owner.name.clone(),
            }
        } else {
            // The API server lets no such allocation in; one that came around it still has a name in sentences.
            Self {
                kind: "unknown".to_owned(),
                namespace: None,
                name: "owner".to_owned(),
            }
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{} {namespace}/{}", self.kind, self.name),
            None => write!(formatter, "{} {}", self.kind, self.name),
        }
    }
}

/// A request for addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What they are for.
    pub kind: AllocationType,
    /// How many, or which.
    pub wish: Wish,
    /// Whom they are for.
    pub owner: Owner,
    /// How many the owner may have, if there is a limit.
    pub quota: Option<Quota>,
}

/// How many addresses, or which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// So many in one run, wherever they are.
    Count(u32),
    /// Exactly these, or none.
    Exactly(AddressRange),
}

/// A limit on what one owner may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Most addresses of the request's kind the owner may have.
    pub most: u32,
    /// How many of that kind the owner has now, in all pools.
    pub used: u32,
}

impl Request {
    /// Reads a spec as a request to the pool of the layout, which knows how many addresses are given by default.
    pub fn of(
        spec: &IPAllocationSpec,
        layout: &Layout,
        quota: Option<Quota>,
    ) -> Result<Self, Violation> {
        let wish = match (&spec.pinned_range, spec.count) {
            (Some(pinned), _) => {
                let range = AddressRange::from_texts(&pinned.start_address, &pinned.end_address)
                    .map_err(|error| Violation::new(PINNED_FIELD, &error))?;
                Wish::Exactly(range)
            }
            (None, None) => Wish::Count(layout.default_count(spec.kind)),
            (None, Some(count)) => {
                let count = u32::try_from(count).ok().filter(|&count| count > 0);
                Wish::Count(
                    count.ok_or_else(|| {
                        Violation::new(COUNT_FIELD, "ask for at least one address")
                    })?,
                )
            }
        };
        if wish.addresses() > u128::from(LARGEST_ALLOCATION) {
            let rule = format!(
                "{} addresses are more than one allocation may have; ask for at most {LARGEST_ALLOCATION}",
                wish.addresses()
            );
            return Err(Violation::new(wish.field(), &rule));
        }
        Ok(Self {
            kind: spec.kind,
            wish,
            owner: Owner::of(spec),
            quota,
        })
    }
}

impl Wish {
    /// How many addresses would be granted.
    pub(crate) fn addresses(&self) -> u128 {
        match self {
            Self::Count(count) => u128::from(*count),
            Self::Exactly(range) => range.count(),
        }
    }

    /// The field of the spec it comes from.
    pub(crate) const fn field(&self) -> &'static str {
        match self {
            Self::Count(_) => COUNT_FIELD,
            Self::Exactly(_) => PINNED_FIELD,
        }
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
