//! Whose network it is, and how its Services ask for addresses.

use std::{fmt, net::Ipv4Addr};

use butler_api::{
    butler::ip_allocation::{
        AllocationClusterReference, AllocationOwnerReference, AllocationType, IPAllocation,
        IPAllocationSpec, PinnedRange,
    },
    keys::{finalizers, labels, values},
    reference::LocalReference,
};
use butler_runtime::object::{Kind, ObjectKey};
use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use sha2::{Digest as _, Sha256};

use crate::facts::{AllocationFacts, ServiceFacts};

/// A cluster whose nodes are local machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cluster {
    /// The one that holds Butler's own objects. Addresses belong to its Services by name.
    Management,
    /// A tenant. Its Services are not objects of the management cluster, so addresses belong to the tenant cluster, whose
    /// quota they count against.
    Tenant {
        /// Namespace of the `TenantCluster`.
        namespace: String,
        /// Name of the `TenantCluster`.
        name: String,
    },
}

impl fmt::Display for Cluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Management => formatter.write_str("management"),
            Self::Tenant { namespace, name } => write!(formatter, "{namespace}/{name}"),
        }
    }
}

/// How much of a Service's name stands in the name of its allocation; all of it, as names of Services are short.
const LONGEST_NAME: usize = 63;
/// How many bytes of the hash tell allocations apart: ten digits.
const HASH_BYTES: usize = 5;

/// Where the Services of a cluster ask for addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    /// Whose Services.
    pub(crate) cluster: Cluster,
    /// The pool; allocations are made beside it.
    pub(crate) pool: ObjectKey,
}

impl Counter {
    /// Whether an allocation was made here for some Service of this cluster.
    pub(crate) fn made(&self, allocation: &AllocationFacts) -> bool {
        let tenant = match &self.cluster {
            Cluster::Management => None,
            Cluster::Tenant { namespace, name } => Some(AllocationClusterReference {
                name: name.clone(),
                namespace: namespace.clone(),
            }),
        };
        allocation.service.is_some() && allocation.tenant == tenant
    }

    /// The name of the allocation for a wish. It follows from all that the allocation says, since that cannot be changed.
    pub(crate) fn name(&self, service: &ServiceFacts, pinned: Option<Ipv4Addr>) -> String {
        let pinned = pinned.map(|address| address.to_string());
        let mut hash = Sha256::new();
        for part in [
            &self.cluster.to_string(),
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
        let (tenant_cluster_ref, owner_ref) = match &self.cluster {
            Cluster::Management => (
                None,
                Some(AllocationOwnerReference {
                    api_version: kind.api_version(),
                    kind: kind.kind.clone(),
                    name: service.key.name.clone(),
                    namespace: service.key.namespace.clone(),
                    uid: Some(service.uid.clone()),
                }),
            ),
            Cluster::Tenant { namespace, name } => (
                Some(AllocationClusterReference {
                    name: name.clone(),
                    namespace: namespace.clone(),
                }),
                None,
            ),
        };
        let spec = IPAllocationSpec {
            pool_ref: LocalReference {
                name: self.pool.name.clone(),
            },
            tenant_cluster_ref,
            owner_ref,
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
    fn an_address_of_a_tenants_service_belongs_to_the_tenant() {
        let tenant = Counter {
            cluster: Cluster::Tenant {
                namespace: "team".to_owned(),
                name: "shop".to_owned(),
            },
            ..counter()
        };
        let allocation = tenant.allocation(&service("web"), None);
        assert_eq!(allocation.spec.owner_ref, None);
        assert_eq!(allocation.spec.tenant_cluster_ref.unwrap().name, "shop");
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
