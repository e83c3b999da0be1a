//! Claims: how other controllers ask for addresses and let go of them.
//!
//! Owns: the name, labels, finalizer and owner reference of the `IPAllocation` that stands for a claim, and finding those
//! that exist.
//!
//! Must not: choose addresses, or apply anything. These are objects for plans.
//!
//! A claimer applies [`Claim::wanted`] for as long as it wants the addresses, reads [`crate::standing`], and when the
//! allocation is under deletion takes the addresses out of use and only then applies [`let_go`]: addresses that are
//! announced somewhere are not free.

use std::collections::{BTreeMap, BTreeSet};

use butler_api::butler::ip_allocation::{
    AllocationClusterReference, AllocationOwnerReference, AllocationType, IPAllocation,
    IPAllocationSpec, PinnedRange,
};
use butler_api::keys::{finalizers, groups, labels, values};
use butler_api::name::{LabelValue, SUBDOMAIN_LENGTH};
use butler_api::net::AddressRange;
use butler_api::reference::LocalReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::refusal::kind_text;
use crate::request::TENANT_CLUSTER;

/// Whether a claim is the one its owner starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The claim an owner starts with.
    Initial,
    /// A claim added by demand; the number tells it from others, see [`next_growth_index`].
    Growth(u32),
}

/// How many addresses, or which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimWish {
    /// As many as the pool gives by default.
    Default,
    /// So many.
    Count(u32),
    /// Exactly these, or none.
    Exactly(AddressRange),
}

/// Whom addresses are claimed for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimOwner {
    /// A tenant cluster.
    TenantCluster {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// Any other object.
    Object {
        /// Group and version of its kind.
        api_version: String,
        /// Its kind.
        kind: String,
        /// Its namespace; absent if it has none.
        namespace: Option<String>,
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
}

impl ClaimOwner {
    fn api_version(&self) -> &str {
        match self {
            Self::TenantCluster { .. } => groups::BUTLER_API_VERSION,
            Self::Object { api_version, .. } => api_version,
        }
    }

    fn kind(&self) -> &str {
        match self {
            Self::TenantCluster { .. } => TENANT_CLUSTER,
            Self::Object { kind, .. } => kind,
        }
    }

    fn namespace(&self) -> Option<&str> {
        match self {
            Self::TenantCluster { namespace, .. } => Some(namespace),
            Self::Object { namespace, .. } => namespace.as_deref(),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::TenantCluster { name, .. } | Self::Object { name, .. } => name,
        }
    }

    fn uid(&self) -> &str {
        match self {
            Self::TenantCluster { uid, .. } | Self::Object { uid, .. } => uid,
        }
    }

    /// Whether the spec names this owner.
    fn is_named_by(&self, spec: &IPAllocationSpec) -> bool {
        match (self, &spec.tenant_cluster_ref, &spec.owner_ref) {
            (
                Self::TenantCluster {
                    namespace, name, ..
                },
                Some(cluster),
                _,
            ) => cluster.namespace == *namespace && cluster.name == *name,
            (Self::Object { .. }, None, Some(owner)) => {
                owner.kind == self.kind()
                    && group(&owner.api_version) == group(self.api_version())
                    && owner.namespace.as_deref() == self.namespace()
                    && owner.name == self.name()
                    && owner.uid.as_deref().is_none_or(|uid| uid == self.uid())
            }
            _ => false,
        }
    }
}

/// A claim on addresses of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Namespace of the pool, and so of the allocation.
    pub namespace: String,
    /// Name of the pool.
    pub pool: String,
    /// Whom the addresses are for.
    pub owner: ClaimOwner,
    /// What they are for.
    pub kind: AllocationType,
    /// Whether it is the claim the owner starts with.
    pub role: Role,
    /// How many, or which.
    pub wish: ClaimWish,
    /// The team the owner belongs to, if that is known.
    pub team: Option<String>,
}

impl Claim {
    /// The name of the allocation. It depends on the owner, the kind and the role alone, so that a claimer that changes
    /// its mind about pool or size cannot end up with two. The digits keep owners apart whose names read the same when
    /// joined, and an owner from an earlier one of the same name.
    pub fn name(&self) -> String {
        let owner = &self.owner;
        let purpose = match self.kind {
            AllocationType::Nodes => "nodes",
            AllocationType::Loadbalancer => "lb",
        };
        let digest = digest([
            owner.kind(),
            owner.namespace().unwrap_or_default(),
            owner.name(),
            owner.uid(),
        ]);
        let mut suffix = format!("-{purpose}-{digest}");
        if let Role::Growth(index) = self.role {
            suffix = format!("{suffix}-{index}");
        }
        let parts: Vec<_> = owner
            .namespace()
            .into_iter()
            .chain([owner.name()])
            .collect();
        let readable: String = parts
            .join("-")
            .chars()
            .map(|letter| match letter {
                'a'..='z' | '0'..='9' => letter,
                _ => '-',
            })
            .take(SUBDOMAIN_LENGTH - suffix.len())
            .collect();
        format!("{}{suffix}", readable.trim_matches('-'))
    }

    /// The allocation, to apply for as long as the addresses are wanted and it is not under deletion: the API server
    /// lets no finalizer be added then. What an allocation asks for never changes either: who wants another pool or size
    /// deletes it, lets go, and claims again.
    pub fn wanted(&self) -> IPAllocation {
        let mut allocation = IPAllocation::new(&self.name(), self.spec());
        allocation.metadata.namespace = Some(self.namespace.clone());
        allocation.metadata.labels = Some(self.labels());
        allocation.metadata.finalizers = Some(vec![finalizers::ADDRESSES_IN_USE.to_owned()]);
        allocation.metadata.owner_references = self.owner_reference().map(|owner| vec![owner]);
        allocation
    }

    fn spec(&self) -> IPAllocationSpec {
        let (tenant_cluster_ref, owner_ref) = match &self.owner {
            ClaimOwner::TenantCluster {
                namespace, name, ..
            } => {
                let cluster = AllocationClusterReference {
                    name: name.clone(),
                    namespace: namespace.clone(),
                };
                (Some(cluster), None)
            }
            ClaimOwner::Object {
                api_version,
                kind,
                namespace,
                name,
                uid,
            } => {
                let owner = AllocationOwnerReference {
                    api_version: api_version.clone(),
                    kind: kind.clone(),
                    name: name.clone(),
                    namespace: namespace.clone(),
                    uid: Some(uid.clone()),
                };
                (None, Some(owner))
            }
        };
        IPAllocationSpec {
            pool_ref: LocalReference {
                name: self.pool.clone(),
            },
            tenant_cluster_ref,
            owner_ref,
            kind: self.kind,
            count: match self.wish {
                ClaimWish::Count(count) => Some(i32::try_from(count).unwrap_or(i32::MAX)),
                ClaimWish::Default | ClaimWish::Exactly(_) => None,
            },
            pinned_range: match self.wish {
                ClaimWish::Exactly(range) => Some(PinnedRange {
                    start_address: range.start().to_string(),
                    end_address: range.end().to_string(),
                }),
                ClaimWish::Default | ClaimWish::Count(_) => None,
            },
        }
    }

    /// Labels are for people and their selectors; a name that is too long for one is left out.
    fn labels(&self) -> BTreeMap<String, String> {
        let tenant = match &self.owner {
            ClaimOwner::TenantCluster { name, .. } => Some(name.as_str()),
            ClaimOwner::Object { .. } => None,
        };
        let role = match self.role {
            Role::Initial => values::ALLOCATION_ROLE_INITIAL,
            Role::Growth(_) => values::ALLOCATION_ROLE_GROWTH,
        };
        [
            (labels::NETWORK_POOL, Some(self.pool.as_str())),
            (labels::TEAM, self.team.as_deref()),
            (labels::TENANT, tenant),
            (labels::ALLOCATION_TYPE, Some(kind_text(self.kind))),
            (labels::ALLOCATION_ROLE, Some(role)),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?.parse::<LabelValue>().ok()?)))
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect()
    }

    /// Kubernetes collects the allocation after its owner, where it can: references do not cross namespaces.
    fn owner_reference(&self) -> Option<OwnerReference> {
        let owner = &self.owner;
        owner
            .namespace()
            .is_none_or(|namespace| namespace == self.namespace)
            .then(|| OwnerReference {
                api_version: owner.api_version().to_owned(),
                kind: owner.kind().to_owned(),
                name: owner.name().to_owned(),
                uid: owner.uid().to_owned(),
                controller: Some(false),
                block_owner_deletion: Some(false),
            })
    }
}

/// "I do not use the addresses any more": what a claimer applies to an allocation under deletion so that its finalizer
/// goes. Nothing if there is nothing to let go of. The UID keeps a deleted allocation from being made anew; the spec is
/// there because an allocation without one is invalid.
pub fn let_go(allocation: &IPAllocation) -> Option<IPAllocation> {
    let metadata = &allocation.metadata;
    let in_use = metadata
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == finalizers::ADDRESSES_IN_USE);
    if metadata.deletion_timestamp.is_none() || !in_use {
        return None;
    }
    let mut rest = IPAllocation::new(metadata.name.as_deref()?, allocation.spec.clone());
    rest.metadata.namespace.clone_from(&metadata.namespace);
    rest.metadata.uid = Some(metadata.uid.clone()?);
    Some(rest)
}

/// The allocations of one kind that belong to an owner, found by what their specs say, so that those named by older
/// releases are among them. Those that an earlier owner of the same name left behind are not.
pub fn of_owner<'a>(
    owner: &ClaimOwner,
    kind: AllocationType,
    allocations: impl IntoIterator<Item = &'a IPAllocation>,
) -> impl Iterator<Item = &'a IPAllocation> {
    allocations.into_iter().filter(move |allocation| {
        allocation.spec.kind == kind
            && owner.is_named_by(&allocation.spec)
            && !is_of_an_earlier_owner(owner, allocation)
    })
}

/// Whether the engine's labels say that the allocation was made for another object of the same kind.
fn is_of_an_earlier_owner(owner: &ClaimOwner, allocation: &IPAllocation) -> bool {
    let label = |key| {
        let labels = allocation.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get(key))
            .map(String::as_str)
    };
    label(labels::OWNER_KIND) == Some(owner.kind())
        && label(labels::OWNER_UID).is_some_and(|uid| uid != owner.uid())
}

/// The number for the next [`Role::Growth`]: the smallest from 1 that no name in use ends with. It is never the count of
/// what exists: after one from the middle was given back, that would be a name in use. Allocations under deletion still
/// have their names, so give them too.
pub fn next_growth_index<'a>(existing: impl Iterator<Item = &'a IPAllocation>) -> u32 {
    let used: BTreeSet<u32> = existing
        .filter_map(|allocation| allocation.metadata.name.as_deref()?.rsplit_once('-'))
        .filter_map(|(_, index)| index.parse().ok())
        .collect();
    // One of the first n + 1 numbers is not among n used ones.
    (1..=u32::MAX)
        .find(|index| !used.contains(index))
        .unwrap_or(u32::MAX)
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Eight digits of FNV-1a, which is the same in every release. Parts are told apart by a byte that no name has.
fn digest(parts: [&str; 4]) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = parts
        .iter()
        .flat_map(|part| part.bytes().chain([0xff]))
        .fold(OFFSET, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(PRIME)
        });
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
