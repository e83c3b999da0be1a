//! Short spellings for tests.

use butler_api::butler::ip_allocation::{
    AllocationClusterReference, AllocationType, IPAllocationSpec,
};
use butler_api::butler::network_pool::{
    NetworkPoolSpec, PoolRange, ReservedBlock, TenantAllocation,
};
use butler_api::net::{AddressRange, Cidr};
use butler_api::reference::LocalReference;

use crate::{Holder, Layout, Owner, Pool, Request, Wish};

/// `10.0.0.1-10.0.0.9`, `10.0.0.0/24` or `10.0.0.1`.
pub(crate) fn range(text: &str) -> AddressRange {
    if let Ok(block) = text.parse::<Cidr>() {
        block.range()
    } else if text.contains('-') {
        text.parse().expect("range")
    } else {
        AddressRange::from_texts(text, text).expect("address")
    }
}

pub(crate) fn spec(cidr: &str, reserved: &[&str], windows: &[&str]) -> NetworkPoolSpec {
    let window = |text: &&str| {
        let (start, end) = text.split_once('-').expect("two addresses");
        PoolRange {
            start: start.to_owned(),
            end: end.to_owned(),
        }
    };
    NetworkPoolSpec {
        cidr: cidr.to_owned(),
        reserved: reserved
            .iter()
            .map(|&cidr| ReservedBlock {
                cidr: cidr.to_owned(),
                description: None,
            })
            .collect(),
        tenant_allocation: (!windows.is_empty()).then(|| TenantAllocation {
            ranges: windows.iter().map(window).collect(),
            ..TenantAllocation::default()
        }),
    }
}

pub(crate) fn layout(cidr: &str, reserved: &[&str], windows: &[&str]) -> Layout {
    Layout::of(&spec(cidr, reserved, windows)).expect("a valid pool")
}

pub(crate) fn pool(cidr: &str, reserved: &[&str], windows: &[&str]) -> Pool {
    Pool::new(layout(cidr, reserved, windows))
}

/// A tenant cluster, from `namespace/name`.
pub(crate) fn cluster(text: &str) -> Owner {
    let (namespace, name) = text.split_once('/').expect("namespace and name");
    Owner {
        kind: "TenantCluster".to_owned(),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    }
}

/// An allocation of a tenant cluster.
pub(crate) fn holder(allocation: &str, owner: &str) -> Holder {
    Holder {
        allocation: allocation.to_owned(),
        owner: cluster(owner),
    }
}

pub(crate) fn request(wish: Wish) -> Request {
    Request {
        kind: AllocationType::Loadbalancer,
        wish,
        owner: cluster("a/b"),
        quota: None,
    }
}

pub(crate) fn count(count: u32) -> Request {
    request(Wish::Count(count))
}

pub(crate) fn exactly(text: &str) -> Request {
    request(Wish::Exactly(range(text)))
}

/// The spec of an allocation for the load balancers of `a/b`.
pub(crate) fn allocation_spec() -> IPAllocationSpec {
    IPAllocationSpec {
        pool_ref: LocalReference {
            name: "rack-1".to_owned(),
        },
        tenant_cluster_ref: Some(AllocationClusterReference {
            name: "b".to_owned(),
            namespace: "a".to_owned(),
        }),
        owner_ref: None,
        kind: AllocationType::Loadbalancer,
        count: None,
        pinned_range: None,
    }
}

/// Ranges as text, to compare with.
pub(crate) fn texts<'a>(ranges: impl IntoIterator<Item = &'a AddressRange>) -> Vec<String> {
    ranges.into_iter().map(crate::range_text).collect()
}
