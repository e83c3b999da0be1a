//! What is remembered of the objects of a cluster.

use std::{collections::BTreeSet, net::Ipv4Addr};

use butler_api::{
    butler::ip_allocation::{
        AllocationClusterReference, AllocationPhase, AllocationType, IPAllocation,
    },
    conditions::types,
    keys::{annotations, finalizers, labels, values},
};
use butler_runtime::{
    cache::Projection,
    object::{Kind, ObjectKey},
};
use ipnet::Ipv4Net;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::{Node, Service, ServiceSpec},
        discovery::v1::EndpointSlice,
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::ResourceExt as _;
use serde_json::Value;

const LOAD_BALANCER: &str = "LoadBalancer";
const LOCAL: &str = "Local";
const IPV4: &str = "IPv4";
const INTERNAL_ADDRESS: &str = "InternalIP";
const NODE_READY: &str = "Ready";
const TRUE: &str = "True";

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is something that somebody else says of a node, and any of them may go with any other"
)]
pub(crate) struct NodeFacts {
    pub(crate) name: String,
    /// Which machine it says it is.
    pub(crate) provider_id: Option<String>,
    pub(crate) addresses: BTreeSet<Ipv4Addr>,
    /// The range of its pods, once it has one.
    pub(crate) pods: Option<Ipv4Net>,
    pub(crate) ready: bool,
    /// Since when it is ready, or not.
    pub(crate) ready_since: Option<Timestamp>,
    /// Whether nothing new is to come to it: it is perhaps about to go.
    pub(crate) cordoned: bool,
    /// Whether load balancers are kept away from it.
    pub(crate) excluded: bool,
    pub(crate) deleting: bool,
}

impl Projection for NodeFacts {
    fn kind() -> Kind {
        Kind::of::<Node>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let node: Node = serde_json::from_value(object)?;
        let spec = node.spec.clone().unwrap_or_default();
        let status = node.status.clone().unwrap_or_default();
        let mut ranges = spec.pod_cidrs.into_iter().flatten().chain(spec.pod_cidr);
        let addresses = status.addresses.into_iter().flatten();
        let conditions = status.conditions.into_iter().flatten();
        let ready = conditions
            .into_iter()
            .find(|condition| condition.type_ == NODE_READY);
        Ok(Self {
            name: node.name_any(),
            provider_id: spec.provider_id.filter(|id| !id.is_empty()),
            addresses: addresses
                .filter(|address| address.type_ == INTERNAL_ADDRESS)
                .filter_map(|address| address.address.parse().ok())
                .collect(),
            pods: ranges.find_map(|range| range.parse().ok()),
            ready_since: ready
                .as_ref()
                .and_then(|ready| ready.last_transition_time.as_ref())
                .map(|time| time.0),
            ready: ready.is_some_and(|ready| ready.status == TRUE),
            cordoned: spec.unschedulable.unwrap_or_default(),
            excluded: node
                .labels()
                .contains_key(labels::EXCLUDE_FROM_LOAD_BALANCERS),
            deleting: node.metadata.deletion_timestamp.is_some(),
        })
    }
}

/// The address that a Service asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Whichever the pool gives.
    Any,
    /// This one.
    Address(Ipv4Addr),
    /// What cannot be given, in words for whoever wrote it.
    Impossible(String),
}

impl Wish {
    /// Whether a pool can be asked for it.
    pub(crate) const fn is_possible(&self) -> bool {
        !matches!(self, Self::Impossible(_))
    }

    /// The one address that will do, if there is but one.
    pub(crate) const fn pinned(&self) -> Option<Ipv4Addr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Any | Self::Impossible(_) => None,
        }
    }
}

/// Which machines may serve a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    /// Whichever there are.
    Any,
    /// Only those with a ready endpoint.
    WithEndpoint,
}

/// A Service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServiceFacts {
    pub(crate) key: ObjectKey,
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) created: Timestamp,
    /// Whether it asks for a load balancer of ours.
    pub(crate) balanced: bool,
    /// Whether it asks for ours by name, and so for nobody else's.
    pub(crate) names_us: bool,
    pub(crate) deleting: bool,
    pub(crate) finalizers: Vec<String>,
    pub(crate) wish: Wish,
    pub(crate) servers: Servers,
    /// The address of the cluster's ranges that we wrote down for it.
    pub(crate) assigned: Option<Ipv4Addr>,
    /// The addresses it shows.
    pub(crate) ingress: Vec<String>,
    /// What we said of it last.
    pub(crate) told: Option<Condition>,
}

impl ServiceFacts {
    /// Whether it carries our mark, so that it cannot vanish while its address is served.
    pub(crate) fn is_held(&self) -> bool {
        let held = &self.finalizers;
        held.iter()
            .any(|finalizer| finalizer == finalizers::SERVICE_LOAD_BALANCER)
    }

    /// Whether it should have an address.
    pub(crate) const fn is_wanting(&self) -> bool {
        self.balanced && !self.deleting
    }
}

impl Projection for ServiceFacts {
    fn kind() -> Kind {
        Kind::of::<Service>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let service: Service = serde_json::from_value(object)?;
        let spec = service.spec.clone().unwrap_or_default();
        let status = service.status.clone().unwrap_or_default();
        let ingress = status.load_balancer.unwrap_or_default().ingress;
        let conditions = status.conditions.into_iter().flatten();
        let class = spec.load_balancer_class.as_deref();
        Ok(Self {
            key: ObjectKey::of(&service),
            uid: service.uid().unwrap_or_default(),
            version: service.resource_version().unwrap_or_default(),
            created: service
                .creation_timestamp()
                .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            names_us: class == Some(values::LOAD_BALANCER_CLASS_LOCAL),
            balanced: spec.type_.as_deref() == Some(LOAD_BALANCER)
                && class.is_none_or(|class| class == values::LOAD_BALANCER_CLASS_LOCAL),
            deleting: service.metadata.deletion_timestamp.is_some(),
            finalizers: service.finalizers().to_vec(),
            wish: wish(&service, &spec),
            servers: if spec.external_traffic_policy.as_deref() == Some(LOCAL) {
                Servers::WithEndpoint
            } else {
                Servers::Any
            },
            assigned: service
                .annotations()
                .get(annotations::LOAD_BALANCER_ASSIGNED)
                .and_then(|address| address.parse().ok()),
            ingress: ingress
                .into_iter()
                .flatten()
                .map(|entry| entry.ip.or(entry.hostname).unwrap_or_default())
                .collect(),
            told: conditions
                .into_iter()
                .find(|condition| condition.type_ == types::LOAD_BALANCER_READY),
        })
    }
}

/// The annotation is the newer way to ask, so it wins.
fn wish(service: &Service, spec: &ServiceSpec) -> Wish {
    let families = spec.ip_families.as_deref().unwrap_or_default();
    if !families.is_empty() && !families.iter().any(|family| family == IPV4) {
        return Wish::Impossible(
            "spec.ipFamilies: local machines have IPv4 addresses alone; add IPv4".to_owned(),
        );
    }
    let annotation = service
        .annotations()
        .get(annotations::LOAD_BALANCER_ADDRESS);
    let annotation = annotation.map(|text| (text, annotations::LOAD_BALANCER_ADDRESS));
    let field = spec.load_balancer_ip.as_ref();
    let asked = annotation.or_else(|| field.map(|text| (text, "spec.loadBalancerIP")));
    let Some((text, place)) = asked.filter(|(text, _)| !text.is_empty()) else {
        return Wish::Any;
    };
    text.parse().map_or_else(
        |_| {
            Wish::Impossible(format!(
                "{place}: {text:?} is not an IPv4 address; write one such as 172.30.8.1, or leave it out"
            ))
        },
        Wish::Address,
    )
}

/// Some endpoints of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndpointFacts {
    /// Whose endpoints these are.
    pub(crate) service: Option<ObjectKey>,
    /// The nodes with one that is ready.
    pub(crate) nodes: BTreeSet<String>,
}

impl Projection for EndpointFacts {
    fn kind() -> Kind {
        Kind::of::<EndpointSlice>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let slice: EndpointSlice = serde_json::from_value(object)?;
        let service = slice.labels().get(labels::SERVICE_NAME);
        // One that does not say is ready.
        let ready = slice.endpoints.iter().filter(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            conditions.is_none_or(|conditions| conditions.ready != Some(false))
        });
        Ok(Self {
            service: service.map(|name| ObjectKey {
                namespace: slice.namespace(),
                name: name.clone(),
            }),
            nodes: ready
                .filter_map(|endpoint| endpoint.node_name.clone())
                .collect(),
        })
    }
}

/// Why a pool refuses an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// What a pool says to who asks for addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing yet, or nothing that it gives a reason for.
    Awaited,
    Granted,
    Refused(Refusal),
}

/// How an allocation came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It came with its cluster and stays as long.
    Initial,
    /// It was added by demand.
    Growth,
}

/// Addresses asked for, as far as they may be a Service's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AllocationFacts {
    pub(crate) key: ObjectKey,
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) finalizers: Vec<String>,
    /// Whether the addresses are for Services at all.
    pub(crate) balances: bool,
    pub(crate) origin: Origin,
    /// UID of the Service it was made for, if it was made for one.
    pub(crate) service: Option<String>,
    /// The tenant cluster it belongs to, if it belongs to one.
    pub(crate) tenant: Option<AllocationClusterReference>,
    /// The address it names, also while it is given back; of several the first.
    pub(crate) address: Option<Ipv4Addr>,
    /// The last of its addresses.
    pub(crate) last: Option<Ipv4Addr>,
    pub(crate) answer: Answer,
    pub(crate) deleting: bool,
    /// Whether it carries the mark of a user.
    pub(crate) in_use: bool,
    /// Which component says that it is this user.
    pub(crate) used_by: Option<String>,
}

impl AllocationFacts {
    /// Whether the pool has granted it.
    pub(crate) const fn is_granted(&self) -> bool {
        matches!(self.answer, Answer::Granted)
    }

    /// Why the pool refuses it, if it does.
    pub(crate) const fn refusal(&self) -> Option<&Refusal> {
        match &self.answer {
            Answer::Refused(refusal) => Some(refusal),
            Answer::Awaited | Answer::Granted => None,
        }
    }

    /// Whether its address may be used.
    pub(crate) const fn is_usable(&self) -> bool {
        self.is_granted() && self.in_use && !self.deleting && self.address.is_some()
    }
}

impl Projection for AllocationFacts {
    fn kind() -> Kind {
        Kind::of::<IPAllocation>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let allocation: IPAllocation = serde_json::from_value(object)?;
        let marks = allocation.labels();
        let service = Kind::of::<Service>().kind;
        let owner = marks.get(labels::OWNER_UID).cloned();
        let status = allocation.status.clone().unwrap_or_default();
        let ready = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == types::READY);
        let answer = match status.phase {
            Some(AllocationPhase::Allocated) => Answer::Granted,
            Some(AllocationPhase::Failed) => ready.map_or(Answer::Awaited, |ready| {
                Answer::Refused(Refusal {
                    reason: ready.reason.clone(),
                    message: ready.message.clone(),
                })
            }),
            _ => Answer::Awaited,
        };
        let role = marks.get(labels::ALLOCATION_ROLE).map(String::as_str);
        Ok(Self {
            key: ObjectKey::of(&allocation),
            uid: allocation.uid().unwrap_or_default(),
            version: allocation.resource_version().unwrap_or_default(),
            finalizers: allocation.finalizers().to_vec(),
            balances: allocation.spec.kind == AllocationType::Loadbalancer,
            origin: if role == Some(values::ALLOCATION_ROLE_GROWTH) {
                Origin::Growth
            } else {
                Origin::Initial
            },
            service: owner.filter(|_| marks.get(labels::OWNER_KIND) == Some(&service)),
            tenant: allocation.spec.tenant_cluster_ref.clone(),
            address: parsed(status.start_address.as_deref()),
            last: parsed(status.end_address.as_deref()),
            answer,
            deleting: allocation.metadata.deletion_timestamp.is_some(),
            in_use: allocation
                .finalizers()
                .iter()
                .any(|held| held == finalizers::ADDRESSES_IN_USE),
            used_by: allocation
                .annotations()
                .get(annotations::ADDRESSES_USED_BY)
                .cloned(),
        })
    }
}

fn parsed(address: Option<&str>) -> Option<Ipv4Addr> {
    address.and_then(|address| address.parse().ok())
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
