//! Where the addresses of a cluster are, and where they may be: what [`crate::fabric`] tells [`crate::books`].
//!
//! An address may be given back only if it is on no machine and nobody is about to put it on one. The fabric therefore chalks up
//! what it is about to do in the same step in which it reads the caches, and the books look here after they have read the
//! caches: whatever the fabric concludes later, it concludes from caches that are at least as new.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use butler_api::name::MachineName;

use crate::placement::{Placement, Sites};

/// What became of an address that somebody should serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// This machine serves it.
    On(MachineName),
    /// No machine can; why.
    Nowhere(&'static str),
}

/// What is known of the addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Board {
    /// Whether machines were looked at yet.
    pub(crate) known: bool,
    /// Addresses that some machine may have.
    pub(crate) possible: BTreeSet<Ipv4Addr>,
    /// Addresses that were decided upon.
    pub(crate) seats: BTreeMap<Ipv4Addr, Seat>,
}

impl Board {
    /// Whether it is certain that no machine has the address, or is about to get it.
    pub(crate) fn is_clear(&self, address: Option<Ipv4Addr>) -> bool {
        self.known && address.is_none_or(|address| !self.possible.contains(&address))
    }

    /// Before: what is there, and what is coming.
    pub(crate) fn announce(&mut self, sites: &Sites, placement: &Placement) {
        let there = sites.values().flat_map(|site| &site.has);
        self.possible = there.chain(placement.on.keys()).copied().collect();
    }

    /// Afterwards: what is there. Says whether that is news.
    pub(crate) fn settle(&mut self, sites: &Sites, placement: &Placement) -> bool {
        let there = sites.values().flat_map(|site| &site.has);
        let seated = placement.on.iter().filter_map(|(address, name)| {
            let site = sites.get(name)?;
            let served = site.confirmed.contains(address);
            served.then(|| (*address, Seat::On(name.clone())))
        });
        let standing = placement.nowhere.iter();
        let standing = standing.map(|(address, reason)| (*address, Seat::Nowhere(reason)));
        let settled = Self {
            known: true,
            possible: there.copied().collect(),
            seats: seated.chain(standing).collect(),
        };
        let news = *self != settled;
        *self = settled;
        news
    }
}

/// The board that both loops see.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedBoard(Arc<Mutex<Board>>);

impl SharedBoard {
    /// To look at it, or to write on it. A panic in between leaves it whole, so a poisoned lock is still good.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        placement::Site,
        testing::{address, machine_name},
    };

    #[test]
    fn an_address_is_clear_when_nobody_has_it_or_is_about_to() {
        let mut board = Board::default();
        assert!(!board.is_clear(None), "nobody has looked yet");
        let name = machine_name("a");
        let mut sites = Sites::from([(name.clone(), Site::default())]);
        let mut placement = Placement::default();
        placement.on.insert(address(101), name.clone());
        board.settle(&sites, &Placement::default());
        assert!(board.is_clear(Some(address(101))));
        board.announce(&sites, &placement);
        assert!(!board.is_clear(Some(address(101))), "it is coming");

        let site = sites.get_mut(&name).unwrap();
        site.has.insert(address(101));
        board.settle(&sites, &placement);
        assert_eq!(
            board.seats,
            BTreeMap::new(),
            "nobody knows whether it is served"
        );
        let site = sites.get_mut(&name).unwrap();
        site.confirmed.insert(address(101));
        assert!(board.settle(&sites, &placement));
        assert_eq!(board.seats[&address(101)], Seat::On(name));
        assert!(!board.settle(&sites, &placement), "that is no news");
    }
}
