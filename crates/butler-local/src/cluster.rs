//! Whose network it is, and how Services of the management cluster ask for addresses.

use std::{fmt, net::Ipv4Addr, sync::Arc};

use butler_api::{
    butler::ip_allocation::{
        AllocationOwnerReference, AllocationType, IPAllocation, IPAllocationSpec, PinnedRange,
    },
    keys::{finalizers, labels, values},
    reference::LocalReference,
};
use butler_runtime::object::{Kind, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::facts::{AllocationFacts, ServiceFacts};

/// A cluster whose nodes are local machines.
#[derive(Clone)]
pub enum Cluster {
    /// The one that holds Butler's own objects. Each of its Services has an address of its own out of a pool.
    Management {
        /// The `NetworkPool`.
        pool: ObjectKey,
    },
    /// A tenant. Its Services take addresses of the ranges that its `TenantCluster` was granted.
    Tenant(Tenant),
}

/// A tenant cluster.
#[derive(Clone)]
pub struct Tenant {
    /// Namespace of the `TenantCluster`.
    pub namespace: String,
    /// Name of the `TenantCluster`.
    pub name: String,
    /// Whether the machine with an id is the tenant's. Nodes are objects of the tenant: what one says of a machine that is
    /// somebody else's counts for nothing.
    pub machines: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// Whether machines are told about its pods. Not where the tenant brings a network of its own: routes and a configuration of
    /// ours would be in its way.
    pub pods: bool,
    /// Whether its ranges grow by themselves when Services wait.
    pub grows: bool,
    /// Told how many Services wait for an address; nothing before that is known.
    pub waiting: watch::Sender<Option<Waiting>>,
}

/// Services that wait because no address of the cluster's ranges is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many.
    pub count: usize,
    /// Since when the one waits that has waited longest.
    pub since: Option<Timestamp>,
}

impl fmt::Display for Cluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Management { .. } => formatter.write_str(MANAGEMENT),
            Self::Tenant(tenant) => write!(formatter, "{}/{}", tenant.namespace, tenant.name),
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Cluster({self})")
    }
}

const MANAGEMENT: &str = "management";
/// How much of a Service's name stands in the name of its allocation; all of it, as names of Services are short.
const LONGEST_NAME: usize = 63;
/// How many bytes of the hash tell allocations apart: ten digits.
const HASH_BYTES: usize = 5;

/// Where the Services of the management cluster ask for addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    /// The pool; allocations are made beside it.
    pub(crate) pool: ObjectKey,
}

impl Counter {
    /// Whether an allocation was made here for some Service.
    pub(crate) const fn made(allocation: &AllocationFacts) -> bool {
        allocation.service.is_some() && allocation.tenant.is_none()
    }

    /// The name of the allocation for a wish. It follows from all that the allocation says, since that cannot be changed.
    pub(crate) fn name(&self, service: &ServiceFacts, pinned: Option<Ipv4Addr>) -> String {
        let pinned = pinned.map(|address| address.to_string());
        let mut hash = Sha256::new();
        for part in [
            MANAGEMENT,
            &self.pool.name,
            service.key.namespace.as_deref().unwrap_or_default(),
            &service.key.name,
            &service.uid,
            pinned.as_deref().unwrap_or_default(),
        ] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let digest = hash.finalize();
        let number = digest
            .iter()
            .take(HASH_BYTES)
            .fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
        let name: String = service.key.name.chars().take(LONGEST_NAME).collect();
        format!("{name}-{number:010x}")
    }

    /// The allocation for a wish, marked as used from its first moment on.
    pub(crate) fn allocation(
        &self,
        service: &ServiceFacts,
        pinned: Option<Ipv4Addr>,
    ) -> IPAllocation {
        let kind = Kind::of::<Service>();
        let owner = AllocationOwnerReference {
            api_version: kind.api_version(),
            kind: kind.kind.clone(),
            name: service.key.name.clone(),
            namespace: service.key.namespace.clone(),
            uid: Some(service.uid.clone()),
        };
        let spec = IPAllocationSpec {
            pool_ref: LocalReference {
                name: self.pool.name.clone(),
            },
            tenant_cluster_ref: None,
            owner_ref: Some(owner),
            kind: AllocationType::Loadbalancer,
            count: Some(1),
            pinned_range: pinned.map(|address| PinnedRange {
                start_address: address.to_string(),
                end_address: address.to_string(),
            }),
        };
        let marks = [
            (labels::MANAGED_BY, values::MANAGED_BY_BUTLER),
            (
                labels::ALLOCATION_TYPE,
                values::ALLOCATION_TYPE_LOAD_BALANCER,
            ),
            (labels::OWNER_KIND, &kind.kind),
            (labels::OWNER_UID, &service.uid),
        ];
        IPAllocation {
            metadata: ObjectMeta {
                name: Some(self.name(service, pinned)),
                namespace: self.pool.namespace.clone(),
                labels: Some(
                    marks
                        .map(|(key, value)| (key.to_owned(), value.to_owned()))
                        .into(),
                ),
                finalizers: Some(vec![finalizers::ADDRESSES_IN_USE.to_owned()]),
                ..ObjectMeta::default()
            },
            spec,
            status: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::testing::{counter, service};

    #[test]
    fn a_service_of_the_management_cluster_owns_its_address() {
        let allocation = counter().allocation(&service("web"), None);
        let owner = allocation.spec.owner_ref.unwrap();
        assert_eq!(
            (owner.kind.as_str(), owner.name.as_str()),
            ("Service", "web")
        );
        assert_eq!(owner.uid.as_deref(), Some("uid-web"));
        assert_eq!(allocation.spec.tenant_cluster_ref, None);
    }

    #[test]
    fn another_wish_has_another_name() {
        let counter = counter();
        let web = service("web");
        let any = counter.name(&web, None);
        let pinned = counter.name(&web, Some(Ipv4Addr::new(10, 213, 76, 9)));
        let reborn = ServiceFacts {
            uid: "uid-of-its-successor".to_owned(),
            ..service("web")
        };
        assert_ne!(any, pinned);
        assert_ne!(any, counter.name(&reborn, None));
        assert_eq!(any, counter.name(&web, None));
        assert!(any.starts_with("web-"), "{any}");
    }
}
