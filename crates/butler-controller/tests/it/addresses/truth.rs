//! What must hold of pools, ledgers and allocations: at every moment, and at rest.

use std::{collections::BTreeMap, net::IpAddr};

use butler_api::{
    butler::{
        ip_allocation::{AllocationPhase, IPAllocation},
        network_pool::NetworkPool,
        network_pool_ledger::{LedgerEntry, NetworkPoolLedger},
    },
    keys::{finalizers::ADDRESSES_IN_USE, labels},
    net::AddressRange,
};
use kube::ResourceExt;

/// Everything there is of addresses, at one moment.
pub(crate) struct Truth {
    pub(crate) pools: Vec<NetworkPool>,
    pub(crate) ledgers: Vec<NetworkPoolLedger>,
    pub(crate) allocations: Vec<IPAllocation>,
}

/// Who has a range, in which pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holding {
    pub(crate) range: AddressRange,
    pub(crate) uid: String,
}

fn range(start: &str, end: &str) -> AddressRange {
    AddressRange::from_texts(start, end).expect("what is written is a range")
}

impl Truth {
    /// What the ledgers of each pool grant: the entries in the page where their range begins.
    pub(crate) fn grants(&self) -> BTreeMap<String, Vec<Holding>> {
        let mut grants = BTreeMap::<String, Vec<Holding>>::new();
        for ledger in &self.ledgers {
            let page = range(&ledger.spec.start_address, &ledger.spec.end_address);
            for LedgerEntry {
                start_address,
                end_address,
                allocation,
            } in &ledger.spec.entries
            {
                let range = range(start_address, end_address);
                if page.contains(range.start()) {
                    let holding = Holding {
                        range,
                        uid: allocation.uid.clone(),
                    };
                    let pool = ledger.spec.pool_ref.name.clone();
                    grants.entry(pool).or_default().push(holding);
                }
            }
        }
        grants
    }

    /// What the allocations of each pool say that they have.
    pub(crate) fn shown(&self) -> BTreeMap<String, Vec<Holding>> {
        let mut shown = BTreeMap::<String, Vec<Holding>>::new();
        for allocation in &self.allocations {
            let Some(status) = &allocation.status else {
                continue;
            };
            if status.phase != Some(AllocationPhase::Allocated) {
                continue;
            }
            let (start, end) = (&status.start_address, &status.end_address);
            let holding = Holding {
                range: range(start.as_deref().unwrap(), end.as_deref().unwrap()),
                uid: allocation.uid().unwrap(),
            };
            let pool = allocation.spec.pool_ref.name.clone();
            shown.entry(pool).or_default().push(holding);
        }
        shown
    }

    /// No address is with two allocations, be it granted or shown, whichever pool it is from.
    pub(crate) fn nothing_shared(&self) -> Result<(), String> {
        let grants = self.grants();
        let mut all: Vec<_> = grants.values().flatten().collect();
        apart(&mut all)?;
        let shown = self.shown();
        apart(&mut shown.values().flatten().collect())?;
        for holding in shown.values().flatten() {
            let mut others = all.iter().filter(|granted| granted.uid != holding.uid);
            if let Some(other) = others.find(|granted| granted.range.overlaps(&holding.range)) {
                return Err(format!("{holding:?} is shown and {other:?} is granted"));
            }
        }
        Ok(())
    }

    /// No address is granted twice, and nobody shows what is not granted.
    pub(crate) fn nothing_twice(&self) -> Result<(), String> {
        self.nothing_shared()?;
        let (grants, shown) = (self.grants(), self.shown());
        for (pool, holdings) in &shown {
            let granted = grants.get(pool).map_or(&[][..], Vec::as_slice);
            if let Some(made_up) = holdings.iter().find(|holding| !granted.contains(holding)) {
                return Err(format!("{made_up:?} is shown and not granted by {pool}"));
            }
        }
        Ok(())
    }

    /// A pool never says that it has given out less than allocations show.
    pub(crate) fn nothing_hidden(&self) -> Result<(), String> {
        let shown = self.shown();
        for pool in &self.pools {
            let says = says(pool);
            let shown = count(shown.get(&pool.name_any()));
            if says < shown {
                return Err(format!(
                    "{} says {says} and allocations show {shown}",
                    pool.name_any()
                ));
            }
        }
        Ok(())
    }

    /// Addresses that somebody uses are granted to the allocation they are used under, and to no other.
    pub(crate) fn used_is_kept(&self) -> Result<(), String> {
        let grants = self.grants();
        for allocation in &self.allocations {
            let mut marks = allocation.finalizers().iter();
            let status = allocation.status.as_ref();
            let ends = status.and_then(|status| {
                let start = status.start_address.as_deref()?;
                Some((start, status.end_address.as_deref()?))
            });
            let Some((start, end)) = ends.filter(|_| marks.any(|mark| mark == ADDRESSES_IN_USE))
            else {
                continue;
            };
            let used = Holding {
                range: range(start, end),
                uid: allocation.uid().unwrap(),
            };
            if !grants.values().flatten().any(|granted| *granted == used) {
                return Err(format!("{used:?} is in use and not granted"));
            }
        }
        Ok(())
    }

    /// A pool of which anybody has addresses exists.
    pub(crate) fn pools_stay(&self) -> Result<(), String> {
        let shown = self.shown();
        let gone = shown.keys().find(|name| {
            let mut pools = self.pools.iter();
            !pools.any(|pool| pool.name_any() == **name)
        });
        gone.map_or(Ok(()), |name| Err(format!("{name} is gone and in use")))
    }

    /// No cluster has more addresses than so many.
    pub(crate) fn at_most(&self, cluster: &str, most: u128) -> Result<(), String> {
        let of_cluster = |uid: &str| {
            let mut allocations = self.allocations.iter();
            let allocation = allocations.find(|one| one.uid().as_deref() == Some(uid));
            let owner = allocation.and_then(|one| one.spec.tenant_cluster_ref.as_ref());
            let labelled = allocation.and_then(|one| one.labels().get(labels::SOURCE_NAME));
            let name = owner.map(|owner| &owner.name).or(labelled);
            name.is_some_and(|name| name == cluster)
        };
        let grants = self.grants();
        let grants = grants.values().flatten();
        let held: u128 = grants
            .filter(|granted| of_cluster(&granted.uid))
            .map(|granted| granted.range.count())
            .sum();
        if held > most {
            return Err(format!("{cluster} has {held}"));
        }
        Ok(())
    }

    /// At rest everything is granted or refused, and all numbers agree.
    pub(crate) fn at_rest(&self) -> Result<(), String> {
        self.nothing_twice()?;
        let mut grants = self.grants();
        let mut shown = self.shown();
        for holdings in grants.values_mut().chain(shown.values_mut()) {
            holdings.sort();
        }
        if grants != shown {
            return Err(format!("granted {grants:?} but shown {shown:?}"));
        }
        for pool in &self.pools {
            let (says, shown) = (says(pool), count(shown.get(&pool.name_any())));
            if says != shown {
                let pool = pool.name_any();
                return Err(format!("{pool} says {says}, allocations show {shown}"));
            }
        }
        for allocation in &self.allocations {
            let phase = allocation.status.as_ref().and_then(|status| status.phase);
            let settled = matches!(
                phase,
                Some(AllocationPhase::Allocated | AllocationPhase::Failed)
            );
            let held = allocation.metadata.deletion_timestamp.is_some();
            if !settled && !held {
                return Err(format!("{} is {phase:?}", allocation.name_any()));
            }
        }
        self.nothing_left_half_done()
    }

    /// A range that reaches over pages is in all of them, and nothing else is in any.
    fn nothing_left_half_done(&self) -> Result<(), String> {
        let grants = self.grants();
        for ledger in &self.ledgers {
            let page = range(&ledger.spec.start_address, &ledger.spec.end_address);
            let granted = grants.get(&ledger.spec.pool_ref.name);
            let mut expected: Vec<_> = granted
                .into_iter()
                .flatten()
                .filter(|holding| holding.range.overlaps(&page))
                .cloned()
                .collect();
            let entries = ledger.spec.entries.iter();
            let mut found: Vec<_> = entries
                .map(|entry| Holding {
                    range: range(&entry.start_address, &entry.end_address),
                    uid: entry.allocation.uid.clone(),
                })
                .collect();
            expected.sort();
            found.sort();
            if expected != found {
                let page = ledger.name_any();
                return Err(format!("{page} has {found:?} and should have {expected:?}"));
            }
        }
        Ok(())
    }
}

/// That no two share an address.
fn apart(holdings: &mut Vec<&Holding>) -> Result<(), String> {
    holdings.sort();
    let mut before: Option<&Holding> = None;
    for holding in holdings {
        if let Some(before) = before.filter(|before| before.range.overlaps(&holding.range)) {
            return Err(format!("{before:?} and {holding:?} share addresses"));
        }
        let reaches: IpAddr = holding.range.end();
        if before.is_none_or(|before| before.range.end() < reaches) {
            before = Some(holding);
        }
    }
    Ok(())
}

fn says(pool: &NetworkPool) -> u128 {
    let status = pool.status.as_ref();
    let allocated = status.and_then(|status| status.allocated_ips);
    u128::try_from(allocated.unwrap_or_default()).expect("a count")
}

fn count(holdings: Option<&Vec<Holding>>) -> u128 {
    let ranges = holdings.into_iter().flatten();
    ranges.map(|holding| holding.range.count()).sum()
}
