//! Addresses that the management cluster itself uses: its load balancers, its nodes and the machines of Cluster API.

use std::{collections::BTreeMap, net::IpAddr};

use butler_api::{
    butler::network_pool::{InfrastructureAllocation, InfrastructureSource},
    cluster_api::machine::Machine,
    net::Cidr,
    reference::{LocalReference, NamespacedReference},
};
use butler_runtime::{
    cache::{Caches, Projection},
    object::{Kind, ObjectKey},
};
use k8s_openapi::api::core::v1::{Node, Service};
use serde_json::Value;

/// The addresses of a Service of type `LoadBalancer`.
#[derive(Clone, Debug)]
pub(crate) struct ServiceAddresses(pub(crate) Vec<IpAddr>);

impl Projection for ServiceAddresses {
    fn kind() -> Kind {
        Kind::of::<Service>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        Ok(Self(texts(
            &object,
            "/status/loadBalancer/ingress",
            |entry| entry["ip"].as_str(),
        )))
    }
}

/// The addresses of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeAddresses(pub(crate) Vec<IpAddr>);

impl Projection for NodeAddresses {
    fn kind() -> Kind {
        Kind::of::<Node>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        Ok(Self(texts(&object, "/status/addresses", internal)))
    }
}

/// The addresses of a machine of Cluster API.
#[derive(Clone, Debug)]
pub(crate) struct MachineAddresses(pub(crate) Vec<IpAddr>);

impl Projection for MachineAddresses {
    const OPTIONAL: bool = true;

    fn kind() -> Kind {
        Kind::of::<Machine>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        Ok(Self(texts(&object, "/status/addresses", internal)))
    }
}

fn internal(entry: &Value) -> Option<&str> {
    let internal = entry["type"] == "InternalIP";
    entry["address"].as_str().filter(|_| internal)
}

/// The addresses in a list; what is none is somebody else's to complain of.
fn texts(object: &Value, list: &str, text: fn(&Value) -> Option<&str>) -> Vec<IpAddr> {
    let entries = object.pointer(list).and_then(Value::as_array);
    let texts = entries.into_iter().flatten().filter_map(text);
    texts.filter_map(|text| text.parse().ok()).collect()
}

/// Every address of a network that the management cluster uses, once each, with all that have it.
pub(crate) fn in_use(
    caches: &Caches,
    network: &Cidr,
) -> BTreeMap<IpAddr, InfrastructureAllocation> {
    let mut found = BTreeMap::new();
    for service in caches.store::<ServiceAddresses>().list() {
        let reference = namespaced(&service.facts.key);
        for address in within(network, &service.value.0) {
            entry(&mut found, address, InfrastructureSource::Metallb).service_ref =
                Some(reference.clone());
        }
    }
    for node in caches.store::<NodeAddresses>().list() {
        let reference = LocalReference {
            name: node.facts.key.name.clone(),
        };
        for address in within(network, &node.value.0) {
            entry(&mut found, address, InfrastructureSource::Node).node_ref =
                Some(reference.clone());
        }
    }
    for machine in caches.store::<MachineAddresses>().list() {
        let reference = namespaced(&machine.facts.key);
        for address in within(network, &machine.value.0) {
            entry(&mut found, address, InfrastructureSource::Machine).machine_ref =
                Some(reference.clone());
        }
    }
    found
}

fn namespaced(key: &ObjectKey) -> NamespacedReference {
    NamespacedReference {
        name: key.name.clone(),
        namespace: key.namespace.clone(),
    }
}

fn within(network: &Cidr, addresses: &[IpAddr]) -> impl Iterator<Item = IpAddr> {
    addresses
        .iter()
        .copied()
        .filter(|address| network.contains(*address))
}

fn entry(
    found: &mut BTreeMap<IpAddr, InfrastructureAllocation>,
    address: IpAddr,
    source: InfrastructureSource,
) -> &mut InfrastructureAllocation {
    found
        .entry(address)
        .or_insert_with(|| InfrastructureAllocation {
            ip: address.to_string(),
            source,
            service_ref: None,
            node_ref: None,
            machine_ref: None,
        })
}

/// Who uses an address, in words.
pub(crate) fn user(allocation: &InfrastructureAllocation) -> String {
    let key = |reference: &NamespacedReference| {
        let namespace = reference.namespace.as_deref().unwrap_or_default();
        format!("{namespace}/{}", reference.name)
    };
    let service = allocation.service_ref.as_ref();
    let service = service.map(|service| format!("Service {}", key(service)));
    let node = allocation.node_ref.as_ref();
    let node = node.map(|node| format!("Node {}", node.name));
    let machine = allocation.machine_ref.as_ref();
    let machine = machine.map(|machine| format!("Machine {}", key(machine)));
    service.or(node).or(machine).unwrap_or_default()
}
