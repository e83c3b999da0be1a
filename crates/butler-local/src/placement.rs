//! Decides which machine serves which address.
//!
//! An address stays where it is for as long as its machine is fit, and moves only to one that is. It is taken off everywhere
//! else before it is put on, so that at no moment two machines answer for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use butler_api::name::MachineName;

use crate::hands::AddressChange;

/// An address that somebody should serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Want {
    /// Only these nodes may, if it matters where endpoints are.
    pub(crate) nodes: Option<BTreeSet<String>>,
}

/// A machine, as a place for addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Site {
    /// The node it is, if it is one of this cluster.
    pub(crate) node: Option<String>,
    /// Whether it runs.
    pub(crate) running: bool,
    /// Whether its node is well.
    pub(crate) ready: bool,
    /// Whether load balancers are kept away from it.
    pub(crate) excluded: bool,
    /// Addresses of Services that it may have.
    pub(crate) has: BTreeSet<Ipv4Addr>,
    /// Those of them that were put on it in its present life.
    pub(crate) confirmed: BTreeSet<Ipv4Addr>,
}

impl Site {
    /// Whether it may serve at all.
    fn stands(&self) -> bool {
        self.running && self.node.is_some() && !self.excluded
    }

    /// Whether it is a good place.
    fn suits(&self, want: &Want) -> bool {
        let allowed = |node: &String| {
            let nodes = want.nodes.as_ref();
            nodes.is_none_or(|nodes| nodes.contains(node))
        };
        self.stands() && self.ready && self.node.as_ref().is_some_and(allowed)
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

/// Decides where each wanted address shall be.
pub(crate) fn place(wants: &BTreeMap<Ipv4Addr, Want>, sites: &Sites) -> Placement {
    let mut placement = Placement::default();
    let holder = |address: &Ipv4Addr, fit: &dyn Fn(&Site) -> bool| {
        let mut holders = sites
            .iter()
            .filter(|(_, site)| site.has.contains(address) && fit(site));
        holders.next().map(|(name, _)| name.clone())
    };
    // First those that stay: they weigh on where the others go.
    for (address, want) in wants {
        if let Some(name) = holder(address, &|site| site.suits(want)) {
            placement.on.insert(*address, name);
        }
    }
    for (address, want) in wants {
        if placement.on.contains_key(address) {
            continue;
        }
        let load = |name: &MachineName| placement.on.values().filter(|on| *on == name).count();
        let fit = sites.iter().filter(|(_, site)| site.suits(want));
        let lightest = fit.map(|(name, _)| name).min_by_key(|name| load(name));
        // Where nobody is fit, a node that is not well may still pass packets on.
        let chosen = lightest.cloned().or_else(|| holder(address, &Site::stands));
        if let Some(name) = chosen {
            placement.on.insert(*address, name);
        } else {
            let reason = if want.nodes.is_some() {
                NO_ENDPOINT
            } else {
                NOBODY
            };
            placement.nowhere.insert(*address, reason);
        }
    }
    placement
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
