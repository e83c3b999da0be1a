//! Decides which machine serves which address.
//!
//! An address stays where it is for as long as no machine is better, and moves only to one that is. Machines whose nodes are about
//! to go are worse than others, those whose kube-proxy does not work worse than these. It is taken off everywhere else before it
//! is put on, so that at no moment two machines answer for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use butler_api::name::MachineName;

use crate::{hands::AddressChange, proxies::Proxy};

/// An address that somebody should serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Want {
    /// Only these nodes may, if it matters where endpoints are.
    pub(crate) nodes: Option<BTreeSet<String>>,
}

/// A machine, as a place for addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about a machine, and any of them may go with any other"
)]
pub(crate) struct Site {
    /// The node it is, if it is one of this cluster.
    pub(crate) node: Option<String>,
    /// Whether it runs.
    pub(crate) running: bool,
    /// Whether its node is well.
    pub(crate) ready: bool,
    /// Whether its node is perhaps about to go.
    pub(crate) leaving: bool,
    /// Whether load balancers are kept away from it.
    pub(crate) excluded: bool,
    /// What is known of its kube-proxy.
    pub(crate) proxy: Proxy,
    /// Addresses of Services that it may have.
    pub(crate) has: BTreeSet<Ipv4Addr>,
    /// Those of them that were put on it in its present life.
    pub(crate) confirmed: BTreeSet<Ipv4Addr>,
}

/// How good a place is for an address; the first is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fitness {
    Good,
    /// It serves, but is perhaps about to go.
    Leaving,
    /// Nobody knows whether what comes to it goes on to a pod.
    Doubtful,
    /// Both.
    DoubtfulAndLeaving,
}

impl Fitness {
    const fn of(leaving: bool, works: bool) -> Self {
        match (leaving, works) {
            (false, true) => Self::Good,
            (true, true) => Self::Leaving,
            (false, false) => Self::Doubtful,
            (true, false) => Self::DoubtfulAndLeaving,
        }
    }
}

impl Site {
    /// Whether it may serve at all.
    fn stands(&self) -> bool {
        self.running && self.node.is_some() && !self.excluded
    }

    /// Whether it is a place for the address, but for its kube-proxy.
    fn suits(&self, want: &Want) -> bool {
        let allowed = |node: &String| {
            let nodes = want.nodes.as_ref();
            nodes.is_none_or(|nodes| nodes.contains(node))
        };
        self.stands() && self.ready && self.node.as_ref().is_some_and(allowed)
    }

    /// How good it would be for an address that comes to it, if it may come at all: not before kube-proxy works, or has
    /// not answered for long.
    fn welcomes(&self, want: &Want) -> Option<Fitness> {
        let works = match self.proxy {
            Proxy::Works => true,
            Proxy::Silent => false,
            Proxy::Unknown | Proxy::Awaited => return None,
        };
        self.suits(want).then(|| Fitness::of(self.leaving, works))
    }

    /// How good it is for an address that it has. That nobody has asked its kube-proxy yet is no reason to take it away.
    fn keeps(&self, want: &Want) -> Option<Fitness> {
        let works = match self.proxy {
            Proxy::Works | Proxy::Unknown => true,
            Proxy::Silent | Proxy::Awaited => false,
        };
        self.suits(want).then(|| Fitness::of(self.leaving, works))
    }
}

/// Machines by name.
pub(crate) type Sites = BTreeMap<MachineName, Site>;

/// Where addresses shall be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The machine of each that has one.
    pub(crate) on: BTreeMap<Ipv4Addr, MachineName>,
    /// Why the others have none.
    pub(crate) nowhere: BTreeMap<Ipv4Addr, &'static str>,
}

const NOBODY: &str = "no machine of the cluster runs with a ready node that load balancers may use; the address is served as soon as one does";
const NO_ENDPOINT: &str = "externalTrafficPolicy is Local, and no healthy machine has a ready endpoint of the Service; the address is served as soon as one has";
const NO_PROXY: &str = "no machine of the cluster has a kube-proxy that works yet; the address is served as soon as one has, or a node was ready for half a minute";

/// Decides where each wanted address shall be. One about which too little is known yet is neither here nor there.
pub(crate) fn place(wants: &BTreeMap<Ipv4Addr, Want>, sites: &Sites) -> Placement {
    let mut placement = Placement::default();
    let holders = |address: Ipv4Addr| {
        let sites = sites.iter();
        sites.filter(move |(_, site)| site.has.contains(&address))
    };
    // First those that stay: they weigh on where the others go.
    for (address, want) in wants {
        let best = sites.values().filter_map(|site| site.welcomes(want)).min();
        let held = holders(*address)
            .filter_map(|(name, site)| Some((site.keeps(want)?, name)))
            .min();
        if let Some((fitness, name)) = held
            && best.is_none_or(|best| fitness <= best)
        {
            placement.on.insert(*address, name.clone());
        }
    }
    for (address, want) in wants {
        if placement.on.contains_key(address) {
            continue;
        }
        let load = |name: &MachineName| placement.on.values().filter(|on| *on == name).count();
        let best = sites
            .iter()
            .filter_map(|(name, site)| Some((site.welcomes(want)?, name)))
            .min_by_key(|(fitness, name)| (*fitness, load(name)));
        let best = best.map(|(_, name)| name);
        // Where nobody is fit, a node that is not well may still pass packets on.
        let standing = || {
            let mut standing = holders(*address).filter(|(_, site)| site.stands());
            standing.next().map(|(name, _)| name)
        };
        if let Some(name) = best.or_else(standing) {
            placement.on.insert(*address, name.clone());
        } else if let Some(reason) = nowhere(want, sites) {
            placement.nowhere.insert(*address, reason);
        }
    }
    placement
}

/// Why no machine serves an address. Nothing while a kube-proxy is about to be asked.
fn nowhere(want: &Want, sites: &Sites) -> Option<&'static str> {
    let mut suited = sites.values().filter(|site| site.suits(want)).peekable();
    if suited.peek().is_none() {
        return Some(if want.nodes.is_some() {
            NO_ENDPOINT
        } else {
            NOBODY
        });
    }
    let is_asked = suited.all(|site| site.proxy != Proxy::Unknown);
    is_asked.then_some(NO_PROXY)
}

/// What has to be done to get there. On machines of other clusters only the addresses that are `known` to be of this one
/// are touched.
pub(crate) fn changes(
    placement: &Placement,
    sites: &Sites,
    known: &BTreeSet<Ipv4Addr>,
) -> BTreeMap<MachineName, AddressChange> {
    let mut changes = BTreeMap::new();
    for (name, site) in sites {
        let stays = |address: &Ipv4Addr| placement.on.get(address) == Some(name);
        let ours = |address: &Ipv4Addr| site.node.is_some() || known.contains(address);
        let leaving = site.has.iter().filter(|address| !stays(address));
        let placed = placement.on.iter().filter(|(_, on)| *on == name);
        let coming = placed.filter(|(address, _)| !site.confirmed.contains(address));
        let change = AddressChange {
            take_off: leaving.filter(|address| ours(address)).copied().collect(),
            put_on: coming.map(|(address, _)| *address).collect(),
        };
        if !change.is_empty() {
            changes.insert(name.clone(), change);
        }
    }
    changes
}

/// What may be put on once the others were asked to let go: nothing that one of them still holds.
pub(crate) fn arrivals(
    changes: &BTreeMap<MachineName, AddressChange>,
    still_held: &BTreeSet<Ipv4Addr>,
) -> BTreeMap<MachineName, AddressChange> {
    let arrival = |(name, change): (&MachineName, &AddressChange)| {
        let put_on: BTreeSet<_> = change.put_on.difference(still_held).copied().collect();
        let arrival = AddressChange {
            take_off: BTreeSet::new(),
            put_on,
        };
        (!arrival.is_empty()).then(|| (name.clone(), arrival))
    };
    changes.iter().filter_map(arrival).collect()
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
