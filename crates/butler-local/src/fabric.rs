//! Brings machines in step: routes to pods, and addresses of Services.
//!
//! Owns: when the hands are asked for something. Each pass looks at all machines and does what differs from what they were told
//! in their present life. It reads caches alone, so that an address moves also while the API server is away.
//!
//! Must not: write to an API server.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::Arc,
    time::Duration,
};

use butler_api::name::MachineName;
use butler_host::network::PodNetwork;
use butler_runtime::cache::AnyStore as _;
use futures::{
    FutureExt as _,
    future::{join, join_all},
};

use crate::{
    board::SharedBoard,
    facts::{NodeFacts, Servers, ServiceFacts},
    hands::{AddressChange, Hands, LocalMachine},
    members::members,
    placement::{self, Placement, Site, Sites, Want},
    pods::{pod_networks, without_pods},
    proxies::SharedProxies,
    run::{Bell, Memories, Pass},
    source::{Served, Source},
};

/// How long the hands may take for one thing.
const PATIENCE: Duration = Duration::from_secs(30);

/// Keeps the machines of one cluster in step.
pub(crate) struct Fabric<H> {
    pub(crate) hands: Arc<H>,
    pub(crate) source: Source,
    pub(crate) memories: Memories,
    pub(crate) board: SharedBoard,
    /// Which kube-proxies work.
    pub(crate) proxies: SharedProxies,
    /// Rung when the board has changed.
    pub(crate) news: Bell,
    /// What machines were told in their present lives.
    pub(crate) told: BTreeMap<MachineName, Told>,
}

/// What a machine was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    life: u32,
    pods: Option<PodNetwork>,
    addresses: BTreeSet<Ipv4Addr>,
}

/// Where addresses are to be, and what leads there.
struct Course {
    sites: Sites,
    placement: Placement,
    changes: BTreeMap<MachineName, AddressChange>,
}

impl<H: Hands> Pass for Fabric<H> {
    /// Looks at everything once and does what is due.
    async fn pass(&mut self) -> bool {
        if !*self.memories.nodes.synced().borrow() {
            return true;
        }
        let listed = within("list the machines", self.hands.machines()).await;
        let Some(machines) = listed else {
            return false;
        };
        self.forget_lives(&machines);
        let nodes: Vec<NodeFacts> = self
            .memories
            .nodes
            .list()
            .iter()
            .map(|node| node.value.clone())
            .collect();
        let own: Vec<_> = machines
            .iter()
            .filter(|machine| self.source.may_have(machine))
            .cloned()
            .collect();
        let members = members(&own, &nodes);
        let networks = self.due_networks(&machines, &members);
        let course = self.course(&machines, &members);
        let (networks_told, arrived) = join(
            tell_networks(&self.hands, networks),
            follow(&self.hands, course),
        )
        .await;
        let mut well = true;
        for (name, network, succeeded) in networks_told {
            well &= succeeded;
            if let Some(told) = self.told.get_mut(&name).filter(|_| succeeded) {
                told.pods = Some(network);
            }
        }
        if let Some((course, succeeded)) = arrived {
            well &= succeeded;
            self.remember(&course);
            if self.board.lock().settle(&course.sites, &course.placement) {
                self.news.ring();
            }
        }
        well
    }
}

impl<H: Hands> Fabric<H> {
    /// A machine that ended, or lives again, knows nothing of what it was told.
    fn forget_lives(&mut self, machines: &[LocalMachine]) {
        let lives: BTreeMap<_, _> = machines
            .iter()
            .filter_map(|machine| Some((&machine.name, machine.life?)))
            .collect();
        self.told
            .retain(|name, told| lives.get(name) == Some(&told.life));
        for (name, life) in lives {
            self.told.entry(name.clone()).or_insert_with(|| Told {
                life,
                ..Told::default()
            });
        }
    }

    /// What running machines are still to be told about pods. One that left the cluster is told to forget them, and so is one whose
    /// cluster has a network of its own: it may have known them before.
    fn due_networks(
        &self,
        machines: &[LocalMachine],
        members: &BTreeMap<&MachineName, &NodeFacts>,
    ) -> Vec<(MachineName, PodNetwork)> {
        let mut networks = if self.source.gives_pods() {
            pod_networks(machines, members)
        } else {
            without_pods(members)
        };
        let due = |(name, told): (&MachineName, &Told)| match networks.remove(name) {
            Some(network) if told.pods.as_ref() != Some(&network) => Some((name.clone(), network)),
            None if told
                .pods
                .as_ref()
                .is_some_and(|pods| *pods != PodNetwork::default()) =>
            {
                Some((name.clone(), PodNetwork::default()))
            }
            Some(_) | None => None,
        };
        self.told.iter().filter_map(due).collect()
    }

    /// Decides about addresses, and chalks up what is about to be done in the same step. Nothing is decided before everything
    /// was seen once.
    fn course(
        &self,
        machines: &[LocalMachine],
        members: &BTreeMap<&MachineName, &NodeFacts>,
    ) -> Option<Course> {
        if !self.memories.are_synced() {
            return None;
        }
        let mut board = self.board.lock();
        let Served { services, known } = self.source.served(&self.memories);
        let want = |service: &ServiceFacts| Want {
            nodes: match service.servers {
                Servers::Any => None,
                Servers::WithEndpoint => Some(self.memories.endpoint_nodes(&service.key)),
            },
        };
        let wants = services
            .iter()
            .map(|(address, service)| (*address, want(&service.value)))
            .collect();
        let sites = self.sites(machines, members);
        let known: BTreeSet<_> = sites
            .values()
            .flat_map(|site| site.has.iter().copied())
            .filter(|address| known.iter().any(|span| span.contains(*address)))
            .collect();
        let placement = placement::place(&wants, &sites);
        let changes = placement::changes(&placement, &sites, &known);
        board.announce(&sites, &placement);
        Some(Course {
            sites,
            placement,
            changes,
        })
    }

    fn sites(
        &self,
        machines: &[LocalMachine],
        members: &BTreeMap<&MachineName, &NodeFacts>,
    ) -> Sites {
        let site = |machine: &LocalMachine| {
            let node = members.get(&machine.name);
            let told = self.told.get(&machine.name);
            let confirmed = told.map(|told| told.addresses.clone()).unwrap_or_default();
            let site = Site {
                node: node.map(|node| node.name.clone()),
                running: machine.is_running(),
                ready: node.is_some_and(|node| node.ready && !node.deleting),
                leaving: node.is_some_and(|node| node.cordoned),
                excluded: node.is_some_and(|node| node.excluded),
                proxy: self.proxies.of(&machine.name, machine.life),
                has: &machine.service_addresses | &confirmed,
                confirmed,
            };
            (machine.name.clone(), site)
        };
        machines.iter().map(site).collect()
    }

    fn remember(&mut self, course: &Course) {
        for (name, site) in &course.sites {
            if let Some(told) = self.told.get_mut(name) {
                told.addresses.clone_from(&site.confirmed);
            }
        }
    }
}

async fn tell_networks<H: Hands>(
    hands: &Arc<H>,
    due: Vec<(MachineName, PodNetwork)>,
) -> Vec<(MachineName, PodNetwork, bool)> {
    let tell = |(name, network): (MachineName, PodNetwork)| {
        tell_network(Arc::clone(hands), name, network).boxed()
    };
    join_all(due.into_iter().map(tell)).await
}

async fn tell_network<H: Hands>(
    hands: Arc<H>,
    name: MachineName,
    network: PodNetwork,
) -> (MachineName, PodNetwork, bool) {
    let what = format!("tell machine {name} about pods");
    let told = within(&what, hands.set_pod_network(&name, &network)).await;
    if told.is_some() {
        tracing::info!(machine = %name, own = ?network.own, peers = network.peers.len(), "a machine knows the pods of its cluster");
    }
    (name, network, told.is_some())
}

/// Takes off, and only then puts on. Gives back where everything is afterwards, and whether all went well.
async fn follow<H: Hands>(hands: &Arc<H>, course: Option<Course>) -> Option<(Course, bool)> {
    let mut course = course?;
    let departures = course.changes.iter().filter_map(|(name, change)| {
        let departure = AddressChange {
            take_off: change.take_off.clone(),
            put_on: BTreeSet::new(),
        };
        (!departure.is_empty()).then(|| (name.clone(), departure))
    });
    let mut well = true;
    let mut still_held = BTreeSet::new();
    for (name, change, succeeded) in change_all(hands, departures.collect()).await {
        well &= succeeded;
        if !succeeded {
            still_held.extend(change.take_off);
        } else if let Some(site) = course.sites.get_mut(&name) {
            site.has = &site.has - &change.take_off;
            site.confirmed = &site.confirmed - &change.take_off;
        }
    }
    let arrivals = placement::arrivals(&course.changes, &still_held);
    let (arrived, failed): (Vec<_>, Vec<_>) = change_all(hands, arrivals)
        .await
        .into_iter()
        .partition(|(_, change, succeeded)| *succeeded || change.put_on.len() == 1);
    // One that cannot be put on must not keep the others from it.
    let mut one_by_one = Vec::new();
    for (name, change, _) in failed {
        for address in change.put_on {
            let single = AddressChange {
                put_on: BTreeSet::from([address]),
                take_off: BTreeSet::new(),
            };
            one_by_one.extend(change_all(hands, [(name.clone(), single)].into()).await);
        }
    }
    for (name, change, succeeded) in arrived.into_iter().chain(one_by_one) {
        well &= succeeded;
        if let Some(site) = course.sites.get_mut(&name) {
            // Also where it failed: it may have come half-way.
            site.has.extend(&change.put_on);
            if succeeded {
                site.confirmed.extend(&change.put_on);
            }
        }
    }
    Some((course, well))
}

async fn change_all<H: Hands>(
    hands: &Arc<H>,
    changes: BTreeMap<MachineName, AddressChange>,
) -> Vec<(MachineName, AddressChange, bool)> {
    let perform = |(name, change): (MachineName, AddressChange)| {
        change_one(Arc::clone(hands), name, change).boxed()
    };
    join_all(changes.into_iter().map(perform)).await
}

async fn change_one<H: Hands>(
    hands: Arc<H>,
    name: MachineName,
    change: AddressChange,
) -> (MachineName, AddressChange, bool) {
    let what = format!("change the addresses on machine {name}");
    let changed = within(&what, hands.change_service_addresses(&name, &change)).await;
    if changed.is_some() {
        tracing::info!(machine = %name, put_on = ?change.put_on, taken_off = ?change.take_off, "addresses of Services have changed machines");
    }
    (name, change, changed.is_some())
}

/// What the hands gave, unless they failed or took too long; that is told, and tried again.
async fn within<T, E: std::error::Error>(
    what: &str,
    work: impl Future<Output = Result<T, E>>,
) -> Option<T> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(Ok(done)) => Some(done),
        Ok(Err(error)) => {
            tracing::warn!(error = %chain(&error), "could not {what}; it is tried again");
            None
        }
        Err(_) => {
            tracing::warn!("could not {what} within {PATIENCE:?}; it is tried again");
            None
        }
    }
}

/// An error with all that led to it.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |words, cause| {
        format!("{words}: {cause}")
    })
}
