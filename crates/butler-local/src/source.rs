//! Where the Services of a cluster have their addresses from: each from a pool, or all from the ranges of their tenant.

use std::{collections::BTreeMap, net::Ipv4Addr, sync::Arc};

use butler_api::butler::ip_allocation::AllocationClusterReference;
use butler_runtime::cache::Cached;
use tokio::sync::watch;

use crate::{
    claims,
    cluster::{Cluster, Counter, Tenant, Waiting},
    facts::ServiceFacts,
    hands::LocalMachine,
    ranges::{self, Choice, Range, Span},
    run::Memories,
};

/// Where addresses come from.
#[derive(Clone)]
pub(crate) enum Source {
    /// Each Service asks a pool.
    Pool(Counter),
    /// The ranges of a tenant.
    Ranges(Estate),
}

/// What a tenant has.
#[derive(Clone)]
pub(crate) struct Estate {
    pub(crate) tenant: AllocationClusterReference,
    /// Whether machines are told about its pods.
    pub(crate) pods: bool,
    /// Who we are: the name beside our mark on ranges.
    pub(crate) user: Arc<str>,
    /// Whether the ranges grow by themselves.
    pub(crate) grows: bool,
    pub(crate) waiting: watch::Sender<Option<Waiting>>,
    machines: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

/// What is to be served, and what is known to be this cluster's.
pub(crate) struct Served {
    pub(crate) services: BTreeMap<Ipv4Addr, Arc<Cached<ServiceFacts>>>,
    pub(crate) known: Vec<Span>,
}

impl Source {
    pub(crate) fn of(cluster: Cluster, user: Arc<str>) -> Self {
        match cluster {
            Cluster::Management { pool } => Self::Pool(Counter { pool }),
            Cluster::Tenant(Tenant {
                namespace,
                name,
                machines,
                pods,
                grows,
                waiting,
            }) => Self::Ranges(Estate {
                tenant: AllocationClusterReference { name, namespace },
                pods,
                user,
                grows,
                waiting,
                machines,
            }),
        }
    }

    /// Whether a machine may be a node of the cluster.
    pub(crate) fn may_have(&self, machine: &LocalMachine) -> bool {
        match self {
            Self::Pool(_) => true,
            Self::Ranges(estate) => (estate.machines)(&machine.id),
        }
    }

    /// Whether machines are told about the pods of the cluster.
    pub(crate) const fn gives_pods(&self) -> bool {
        match self {
            Self::Pool(_) => true,
            Self::Ranges(estate) => estate.pods,
        }
    }

    /// What machines shall serve.
    pub(crate) fn served(&self, memories: &Memories) -> Served {
        match self {
            Self::Pool(counter) => served_from_pool(counter, memories),
            Self::Ranges(estate) => served_from_ranges(estate, memories),
        }
    }
}

impl Estate {
    /// The ranges of the tenant.
    pub(crate) fn ranges(&self, memories: &Memories) -> Vec<Range> {
        let allocations = memories.allocations.list();
        let ranges = allocations
            .iter()
            .filter_map(|allocation| Range::of(&allocation.value, &self.tenant, &self.user));
        ranges.collect()
    }
}

fn served_from_pool(counter: &Counter, memories: &Memories) -> Served {
    let allocations = memories.allocations_of_services();
    let known = allocations.values().flatten();
    let known = known.filter_map(|allocation| allocation.address);
    let known = known.map(|address| Span {
        first: address,
        last: address,
    });
    let known = known.collect();
    let mut services = BTreeMap::new();
    for service in memories.services.list() {
        let own = allocations.get(&service.value.uid);
        let address = own.and_then(|own| claims::served_address(&service.value, own, counter));
        if let Some(address) = address {
            services.insert(address, service);
        }
    }
    Served { services, known }
}

fn served_from_ranges(estate: &Estate, memories: &Memories) -> Served {
    let ranges = estate.ranges(memories);
    let cached = memories.services.list();
    let facts: Vec<_> = cached.iter().map(|service| &service.value).collect();
    let standings = ranges::standings(&facts, &ranges, Choice::None);
    let mut services = BTreeMap::new();
    for service in &cached {
        let standing = standings.get(&service.value.uid);
        let address = standing.and_then(|standing| standing.has);
        if let Some(address) = address.filter(|_| service.value.is_held()) {
            services.insert(address, Arc::clone(service));
        }
    }
    Served {
        services,
        known: ranges.iter().filter_map(|range| range.span).collect(),
    }
}
