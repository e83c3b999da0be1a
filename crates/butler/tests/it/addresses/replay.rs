//! What must hold of the addresses of a pool at every moment, checked revision by revision.
//!
//! Owns: the rules. Every write to an API server has a revision of its own, so all that ever was said about pools, pages and
//! allocations has one order. Told in that order, each change is checked against what held before it.
//!
//! Must not: talk to anybody. It is told what happened.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use butler_api::{
    butler::{
        ip_allocation::{AllocationPhase, IPAllocation, IPAllocationStatus},
        network_pool::NetworkPool,
        network_pool_ledger::NetworkPoolLedger,
    },
    conditions::{reasons, types},
    net::AddressRange,
};
use kube::ResourceExt;

/// One write to the API server.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Where it stands among all writes.
    pub(crate) revision: u64,
    /// What is so from then on.
    pub(crate) fact: Fact,
}

/// What one object says of addresses; one that is gone says nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// What an allocation shows that it has, or that it was refused because somebody else has it.
    Allocation {
        uid: String,
        shows: Option<AddressRange>,
        refused: Option<AddressRange>,
    },
    /// Which grants have their home in a page, and to whom.
    Page { name: String, grants: Grants },
    /// How many addresses the pool says are allocated.
    Pool { says: u128 },
}

/// Ranges that begin in one page, and the UIDs of their holders.
pub(crate) type Grants = Vec<(AddressRange, String)>;

impl Fact {
    pub(crate) fn of_allocation(allocation: &IPAllocation, gone: bool) -> Self {
        let status = allocation.status.as_ref().filter(|_| !gone);
        let allocated = status.filter(|status| status.phase == Some(AllocationPhase::Allocated));
        Self::Allocation {
            uid: allocation.uid().unwrap(),
            shows: allocated.map(|status| {
                let start = status.start_address.as_deref().unwrap();
                range(start, status.end_address.as_deref().unwrap())
            }),
            refused: status.filter(|status| is_taken(status)).map(|_| {
                let pinned = allocation.spec.pinned_range.as_ref().unwrap();
                range(&pinned.start_address, &pinned.end_address)
            }),
        }
    }

    pub(crate) fn of_page(page: &NetworkPoolLedger, gone: bool) -> Self {
        let slice = range(&page.spec.start_address, &page.spec.end_address);
        let entries = page.spec.entries.iter().filter(|_| !gone);
        let ranges = entries.map(|entry| {
            let range = range(&entry.start_address, &entry.end_address);
            (range, entry.allocation.uid.clone())
        });
        Self::Page {
            name: page.name_any(),
            grants: ranges
                .filter(|(range, _)| slice.contains(range.start()))
                .collect(),
        }
    }

    pub(crate) fn of_pool(pool: &NetworkPool, gone: bool) -> Self {
        let status = pool.status.as_ref().filter(|_| !gone);
        let allocated = status.and_then(|status| status.allocated_ips);
        Self::Pool {
            says: u128::try_from(allocated.unwrap_or_default()).unwrap(),
        }
    }
}

/// Whether an allocation says that somebody else has what it insists on.
fn is_taken(status: &IPAllocationStatus) -> bool {
    let mut conditions = status.conditions.iter();
    let ready = conditions.find(|condition| condition.type_ == types::READY);
    ready.is_some_and(|ready| ready.reason == reasons::PINNED_RANGE_TAKEN)
}

/// The range that an object writes.
pub(crate) fn range(start: &str, end: &str) -> AddressRange {
    AddressRange::from_texts(start, end).expect("what is written is a range")
}

/// Whether the numbers of the pool are held against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// The pool never says less than allocations show: there is one controller at a time.
    Exact,
    /// Several controllers at once write the numbers over each other until they rest.
    Loose,
}

/// That a rule was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// By the write of this revision.
    pub(crate) revision: u64,
    /// How.
    pub(crate) rule: Rule,
}

/// What is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Two allocations show the same address: the new one and the one before.
    ShownTwice(Box<[Claim; 2]>),
    /// Two grants of the ledger have the same address: the new one and the one before.
    GrantedTwice(Box<[Claim; 2]>),
    /// An allocation shows addresses that the ledger does not grant it.
    ShownWithoutGrant(Claim),
    /// An allocation was refused addresses that nobody else ever had.
    RefusedForNothing(Claim),
    /// The pool says that less is allocated than is shown.
    SaysLess { says: u128, shown: u128 },
}

/// Who claims what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) range: AddressRange,
    pub(crate) uid: String,
}

fn claim(range: &AddressRange, uid: &str) -> Claim {
    Claim {
        range: *range,
        uid: uid.to_owned(),
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "the write of revision {} broke a rule: {:?}",
            self.revision, self.rule
        )
    }
}

/// The addresses of a pool at one revision.
#[derive(Debug, Default)]
struct Moment {
    shown: Claims,
    shown_by: BTreeMap<String, AddressRange>,
    shown_count: u128,
    granted: Claims,
    ever_granted: Vec<Claim>,
    pages: BTreeMap<String, Grants>,
    says: u128,
}

/// Checks all changes, in whatever order they were heard of.
pub(crate) fn replay(mut changes: Vec<Change>, numbers: Numbers) -> Result<(), Broken> {
    changes.sort_by_key(|change| change.revision);
    let mut moment = Moment::default();
    for Change { revision, fact } in changes {
        let told = moment.tell(fact);
        told.and_then(|()| moment.counts(numbers))
            .map_err(|rule| Broken { revision, rule })?;
    }
    Ok(())
}

impl Moment {
    fn tell(&mut self, fact: Fact) -> Result<(), Rule> {
        match fact {
            Fact::Allocation {
                uid,
                shows,
                refused,
            } => {
                if let Some(range) = refused {
                    self.refuse(&range, &uid)?;
                }
                self.show(uid, shows)
            }
            Fact::Page { name, grants } => self.write_page(name, grants),
            Fact::Pool { says } => {
                self.says = says;
                Ok(())
            }
        }
    }

    fn show(&mut self, uid: String, shows: Option<AddressRange>) -> Result<(), Rule> {
        if self.shown_by.get(&uid) == shows.as_ref() {
            return Ok(());
        }
        if let Some(before) = self.shown_by.remove(&uid) {
            self.shown.remove(&before);
            self.shown_count -= before.count();
        }
        if let Some(range) = shows {
            self.shown_by.insert(uid.clone(), range);
            self.shown_count += range.count();
            let claim = Claim { range, uid };
            let added = self.shown.add(claim.clone());
            added.map_err(|taken| Rule::ShownTwice([claim.clone(), taken].into()))?;
            if !self.granted.has(&claim) {
                return Err(Rule::ShownWithoutGrant(claim));
            }
        }
        Ok(())
    }

    /// Whoever refuses may be behind, and then names somebody who has given the addresses back meanwhile.
    fn refuse(&self, range: &AddressRange, uid: &str) -> Result<(), Rule> {
        let by_another = |claim: &Claim| claim.uid != uid && claim.range.overlaps(range);
        if self.ever_granted.iter().any(by_another) {
            return Ok(());
        }
        Err(Rule::RefusedForNothing(claim(range, uid)))
    }

    fn write_page(&mut self, name: String, mut grants: Grants) -> Result<(), Rule> {
        grants.sort();
        let before = self.pages.remove(&name).unwrap_or_default();
        let withdrawn = before
            .iter()
            .filter(|grant| grants.binary_search(grant).is_err());
        for (range, uid) in withdrawn {
            self.granted.remove(range);
            if self.shown_by.get(uid) == Some(range) {
                return Err(Rule::ShownWithoutGrant(claim(range, uid)));
            }
        }
        let added = grants
            .iter()
            .filter(|grant| before.binary_search(grant).is_err());
        for (range, uid) in added {
            let claim = claim(range, uid);
            self.ever_granted.push(claim.clone());
            let added = self.granted.add(claim.clone());
            added.map_err(|taken| Rule::GrantedTwice([claim, taken].into()))?;
        }
        self.pages.insert(name, grants);
        Ok(())
    }

    fn counts(&self, numbers: Numbers) -> Result<(), Rule> {
        let (says, shown) = (self.says, self.shown_count);
        if numbers == Numbers::Exact && says < shown {
            return Err(Rule::SaysLess { says, shown });
        }
        Ok(())
    }
}

/// Claims that do not overlap, by their first address.
#[derive(Debug, Default)]
struct Claims(BTreeMap<IpAddr, Claim>);

impl Claims {
    /// Adds a claim, or tells which one it overlaps.
    fn add(&mut self, claim: Claim) -> Result<(), Claim> {
        // They do not overlap each other, so only the last that begins before the end of the new one can reach into it.
        let before = self.0.range(..=claim.range.end()).next_back();
        if let Some((_, taken)) = before.filter(|(_, other)| other.range.overlaps(&claim.range)) {
            return Err(taken.clone());
        }
        self.0.insert(claim.range.start(), claim);
        Ok(())
    }

    fn remove(&mut self, range: &AddressRange) {
        self.0.remove(&range.start());
    }

    fn has(&self, claim: &Claim) -> bool {
        self.0.get(&claim.range.start()) == Some(claim)
    }
}
