//! What a pool needs to know of an allocation.

use butler_api::{
    butler::ip_allocation::{
        AllocationClusterReference, AllocationPhase, IPAllocation, IPAllocationSpec,
    },
    keys::{finalizers, labels},
    net::AddressRange,
};
use butler_ipam::{Holder, Owner};
use jiff::Timestamp;
use kube::ResourceExt;

use super::ledger::Entry;

/// An allocation, as its pool sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claimant {
    /// Its name, beside the pool.
    pub(crate) name: String,
    /// Its UID.
    pub(crate) uid: String,
    /// What it asks for.
    pub(crate) spec: IPAllocationSpec,
    /// The tenant cluster whose quota it counts for: the one it is for, or the one whose machine it is for.
    pub(crate) tenant: Option<AllocationClusterReference>,
    /// Since when.
    pub(crate) created: Option<Timestamp>,
    /// Whether its deletion was asked for.
    pub(crate) deleting: bool,
    /// Whether our finalizer is on it, so that it cannot vanish with addresses in its hands.
    pub(crate) held: bool,
    /// Other finalizers on it: somebody may still use its addresses.
    pub(crate) users: Vec<String>,
    /// Where it is in its life.
    pub(crate) phase: Option<AllocationPhase>,
    /// The addresses its status names. Once named, they stay.
    pub(crate) committed: Option<AddressRange>,
}

impl Claimant {
    pub(crate) fn of(allocation: &IPAllocation) -> Self {
        let status = allocation.status.as_ref();
        let (ours, users): (Vec<_>, Vec<_>) = allocation
            .finalizers()
            .iter()
            .cloned()
            .partition(|finalizer| finalizer == finalizers::IP_ALLOCATION);
        Self {
            name: allocation.name_any(),
            uid: allocation.uid().unwrap_or_default(),
            spec: allocation.spec.clone(),
            tenant: tenant(allocation),
            created: allocation.creation_timestamp().map(|time| time.0),
            deleting: allocation.metadata.deletion_timestamp.is_some(),
            held: !ours.is_empty(),
            users,
            phase: status.and_then(|status| status.phase),
            committed: status.and_then(|status| {
                let ends = status
                    .start_address
                    .as_deref()
                    .zip(status.end_address.as_deref())?;
                AddressRange::from_texts(ends.0, ends.1).ok()
            }),
        }
    }

    /// Whom the addresses are for.
    pub(crate) fn owner(&self) -> Owner {
        Owner::of(&self.spec)
    }

    /// Whom the addresses count for: the tenant cluster, also where they are for one of its machines.
    pub(crate) fn counted(&self) -> Owner {
        match &self.tenant {
            Some(tenant) => Owner::tenant_cluster(tenant),
            None => self.owner(),
        }
    }

    /// Who it is in a pool's book.
    pub(crate) fn holder(&self) -> Holder {
        Holder {
            allocation: self.uid.clone(),
            owner: self.counted(),
        }
    }

    /// The entry that grants it a range.
    pub(crate) fn entry(&self, range: AddressRange) -> Entry {
        Entry {
            range,
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }

    /// Whether it has given its addresses back, in public: nothing will use them under its name again.
    pub(crate) fn has_released(&self) -> bool {
        self.deleting && self.users.is_empty() && self.phase == Some(AllocationPhase::Released)
    }

    /// Whether it names addresses and has not given them back.
    pub(crate) fn has_addresses(&self) -> bool {
        self.committed.is_some() && !self.has_released()
    }

    /// Whether it may be granted something.
    pub(crate) const fn may_receive(&self) -> bool {
        self.held && !self.deleting
    }

    /// Whether it simply uses its addresses.
    pub(crate) fn is_settled(&self) -> bool {
        self.phase == Some(AllocationPhase::Allocated) && !self.deleting
    }

    /// Who comes first is served first.
    pub(crate) fn turn(&self) -> (Option<Timestamp>, &str) {
        (self.created, &self.name)
    }
}

/// The tenant cluster that an allocation is for, or that its labels name: addresses of machines belong to their requests.
fn tenant(allocation: &IPAllocation) -> Option<AllocationClusterReference> {
    let spec = &allocation.spec;
    let said = |label: &str| allocation.labels().get(label).cloned();
    let labelled = || {
        let (namespace, name) = said(labels::SOURCE_NAMESPACE).zip(said(labels::SOURCE_NAME))?;
        Some(AllocationClusterReference { name, namespace })
    };
    spec.tenant_cluster_ref.clone().or_else(labelled)
}
