//! What the tests of several modules are made of. Numbers stand for machines: the second has 10.213.76.2 and pods 10.244.2.0/24.

use std::{collections::BTreeSet, net::Ipv4Addr};

use butler_api::{
    butler::ip_allocation::AllocationClusterReference, keys::finalizers, name::MachineName,
};
use butler_runtime::object::ObjectKey;
use ipnet::Ipv4Net;
use jiff::Timestamp;

use crate::{
    cluster::Counter,
    facts::{AllocationFacts, Answer, NodeFacts, Origin, Servers, ServiceFacts, Wish},
    hands::LocalMachine,
};

pub(crate) fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 213, 76, number)
}

pub(crate) fn pods(number: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(10, 244, number, 0), 24)
}

pub(crate) fn machine_name(name: &str) -> MachineName {
    name.parse().unwrap()
}

/// A machine that runs.
pub(crate) fn machine(name: &str, number: u8) -> LocalMachine {
    LocalMachine {
        name: machine_name(name),
        id: format!("id-{name}"),
        address: address(number),
        life: Some(u32::from(number)),
        service_addresses: BTreeSet::new(),
    }
}

/// A node that is ready.
pub(crate) fn node(name: &str, number: u8) -> NodeFacts {
    NodeFacts {
        name: name.to_owned(),
        provider_id: None,
        addresses: BTreeSet::from([address(number)]),
        pods: Some(pods(number)),
        ready: true,
        ready_since: Some(Timestamp::UNIX_EPOCH),
        cordoned: false,
        excluded: false,
        deleting: false,
    }
}

pub(crate) fn counter() -> Counter {
    Counter {
        pool: ObjectKey::namespaced("butler-system", "local"),
    }
}

/// A Service that asks for any address, and that nobody has looked at yet.
pub(crate) fn service(name: &str) -> ServiceFacts {
    ServiceFacts {
        key: ObjectKey::namespaced("shop", name),
        uid: format!("uid-{name}"),
        version: "1".to_owned(),
        created: Timestamp::UNIX_EPOCH,
        balanced: true,
        names_us: false,
        deleting: false,
        finalizers: Vec::new(),
        wish: Wish::Any,
        servers: Servers::Any,
        assigned: None,
        ingress: Vec::new(),
        told: None,
    }
}

/// The same, with our mark.
pub(crate) fn held_service(name: &str) -> ServiceFacts {
    ServiceFacts {
        finalizers: vec![finalizers::SERVICE_LOAD_BALANCER.to_owned()],
        ..service(name)
    }
}

/// An allocation that waits for the pool.
pub(crate) fn asked(service: &ServiceFacts) -> AllocationFacts {
    let name = counter().name(service, service.wish.pinned());
    AllocationFacts {
        uid: format!("uid-{name}"),
        key: ObjectKey::namespaced("butler-system", name),
        version: "1".to_owned(),
        finalizers: vec![finalizers::ADDRESSES_IN_USE.to_owned()],
        balances: true,
        origin: Origin::Initial,
        service: Some(service.uid.clone()),
        tenant: None,
        address: None,
        last: None,
        answer: Answer::Awaited,
        deleting: false,
        in_use: true,
        used_by: None,
    }
}

/// An allocation that the pool has granted.
pub(crate) fn granted(service: &ServiceFacts, number: u8) -> AllocationFacts {
    AllocationFacts {
        address: Some(address(number)),
        last: Some(address(number)),
        answer: Answer::Granted,
        ..asked(service)
    }
}

/// The name under which we put marks.
pub(crate) const OURSELVES: &str = "butler-provider-local";

/// The tenant that has ranges.
pub(crate) fn tenant() -> AllocationClusterReference {
    AllocationClusterReference {
        name: "shop".to_owned(),
        namespace: "team".to_owned(),
    }
}

/// A range of the tenant with our mark.
pub(crate) fn range(first: u8, last: u8) -> AllocationFacts {
    AllocationFacts {
        key: ObjectKey::namespaced("butler-system", format!("shop-{first}")),
        uid: format!("uid-shop-{first}"),
        service: None,
        tenant: Some(tenant()),
        last: Some(address(last)),
        used_by: Some(OURSELVES.to_owned()),
        ..granted(&service("nobody"), first)
    }
}

/// The same without it.
pub(crate) fn unused_range(first: u8, last: u8) -> AllocationFacts {
    AllocationFacts {
        finalizers: Vec::new(),
        in_use: false,
        used_by: None,
        ..range(first, last)
    }
}
