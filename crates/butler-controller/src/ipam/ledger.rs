//! The ledger of a pool: which allocation holds which addresses, in pages of one slice each.
//!
//! A grant is an entry in the page of the slice where its range begins: its *home*. A range that reaches further has the same
//! entry in every other page it touches, to keep others out: its *shadows*. Shadows are written before the home and removed
//! after it, so a home always has its shadows. A shadow without a home is what a crash left; it grants nothing.
//!
//! Pure: pages in, page writes out.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use butler_api::{
    butler::network_pool_ledger::{LedgerEntry, LedgerHolder, NetworkPoolLedgerSpec},
    net::{AddressRange, NetError},
    reference::LocalReference,
};
use butler_ipam::{slice_of, slices};
use butler_runtime::object::ObjectKey;
use serde::Serialize;

/// What a page says, in types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageContent {
    /// The slice.
    pub(crate) slice: AddressRange,
    /// The entries, ascending.
    pub(crate) entries: Vec<Entry>,
    /// How often something was granted here.
    pub(crate) recorded: i64,
    /// How often a half-made grant was closed here.
    pub(crate) sealed: i64,
}

/// That an allocation holds a range.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// The whole range, also where it reaches beyond the page.
    pub(crate) range: AddressRange,
    /// The name of the allocation, beside the pool.
    pub(crate) name: String,
    /// The UID of the allocation.
    pub(crate) uid: String,
}

impl Entry {
    fn read(entry: &LedgerEntry) -> Result<Self, NetError> {
        Ok(Self {
            range: AddressRange::from_texts(&entry.start_address, &entry.end_address)?,
            name: entry.allocation.name.clone(),
            uid: entry.allocation.uid.clone(),
        })
    }

    fn written(&self) -> LedgerEntry {
        LedgerEntry {
            start_address: self.range.start().to_string(),
            end_address: self.range.end().to_string(),
            allocation: LedgerHolder {
                name: self.name.clone(),
                uid: self.uid.clone(),
            },
        }
    }

    /// The slice whose page makes it a grant.
    fn home(&self) -> IpAddr {
        slice_of(self.range.start()).start()
    }
}

impl PageContent {
    /// Reads a page's spec.
    pub(crate) fn read(spec: &NetworkPoolLedgerSpec) -> Result<Self, NetError> {
        let mut entries = spec
            .entries
            .iter()
            .map(Entry::read)
            .collect::<Result<Vec<_>, _>>()?;
        entries.sort();
        Ok(Self {
            slice: AddressRange::from_texts(&spec.start_address, &spec.end_address)?,
            entries,
            recorded: spec.recorded.unwrap_or_default(),
            sealed: spec.sealed.unwrap_or_default(),
        })
    }

    fn written(&self, pool: &str) -> NetworkPoolLedgerSpec {
        NetworkPoolLedgerSpec {
            pool_ref: LocalReference {
                name: pool.to_owned(),
            },
            start_address: self.slice.start().to_string(),
            end_address: self.slice.end().to_string(),
            recorded: Some(self.recorded).filter(|count| *count > 0),
            sealed: Some(self.sealed).filter(|count| *count > 0),
            entries: self.entries.iter().map(Entry::written).collect(),
        }
    }
}

/// A page as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Its key.
    pub(crate) key: ObjectKey,
    /// Its UID.
    pub(crate) uid: String,
    /// The version that a write must find.
    pub(crate) resource_version: String,
    /// Somebody asked for its deletion; its finalizer keeps it.
    pub(crate) deleting: bool,
    /// What it says.
    pub(crate) content: PageContent,
}

/// What a write of a page must find.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Guard {
    /// No such page.
    Absent,
    /// This very version of it.
    Version {
        /// Its UID.
        uid: String,
        /// Its version.
        resource_version: String,
    },
}

/// A page to write.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PageWrite {
    /// Which one.
    pub key: ObjectKey,
    /// What must be there now.
    pub guard: Guard,
    /// What it will say.
    pub spec: NetworkPoolLedgerSpec,
    /// How many grants begin with this write.
    pub grants: u64,
}

/// All pages of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    pages: BTreeMap<IpAddr, Page>,
}

impl Ledger {
    pub(crate) fn new(pages: impl IntoIterator<Item = Page>) -> Self {
        let pages = pages.into_iter();
        Self {
            pages: pages
                .map(|page| (page.content.slice.start(), page))
                .collect(),
        }
    }

    /// The pages, ascending.
    pub(crate) fn pages(&self) -> impl Iterator<Item = &Page> {
        self.pages.values()
    }

    /// How often something was granted: a ledger that shows less than another is behind it.
    pub(crate) fn revision(&self) -> i64 {
        let pages = self.pages.values();
        pages.map(|page| page.content.recorded).sum()
    }

    /// The grants, ascending.
    pub(crate) fn grants(&self) -> impl Iterator<Item = &Entry> {
        self.pages.iter().flat_map(|(slice, page)| {
            let entries = page.content.entries.iter();
            entries.filter(move |entry| entry.home() == *slice)
        })
    }

    /// The grants of an allocation. More than one only if several controllers were at work at once.
    pub(crate) fn grants_of<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.grants().filter(move |entry| entry.uid == uid)
    }

    /// What a crash left: entries whose home does not know them.
    pub(crate) fn dangling(&self) -> BTreeSet<&Entry> {
        let entries = self.pages.values().flat_map(|page| &page.content.entries);
        entries.filter(|entry| !self.is_grant(entry)).collect()
    }

    fn is_grant(&self, entry: &Entry) -> bool {
        self.pages
            .get(&entry.home())
            .is_some_and(|page| page.content.entries.binary_search(entry).is_ok())
    }

    /// The writes that take these grants back and clear what crashes left. Homes come before their shadows.
    ///
    /// A home page whose grant never came to be is sealed: written without a change of its entries, so that a write of the
    /// grant which is still on its way finds another version and is refused.
    pub(crate) fn withdraw(&self, pool: &ObjectKey, grants: &BTreeSet<Entry>) -> Vec<PageWrite> {
        let dangling = self.dangling();
        let mut edits = Edits::new(self);
        for entry in grants.iter().chain(dangling.iter().copied()) {
            for slice in slices(&entry.range) {
                edits.remove(&slice, entry);
            }
        }
        for entry in dangling {
            edits.seal(&slice_of(entry.range.start()));
        }
        edits.writes(pool)
    }

    /// The writes that make these grants. Shadows come before their homes.
    pub(crate) fn record(&self, pool: &ObjectKey, grants: &[Entry]) -> Vec<PageWrite> {
        let mut edits = Edits::new(self);
        for entry in grants {
            for slice in slices(&entry.range) {
                edits.add(&slice, entry);
            }
        }
        edits
            .changed
            .values_mut()
            .for_each(|(page, _)| page.recorded += 1);
        let mut writes = edits.writes(pool);
        writes.reverse();
        writes
    }
}

/// Pages in the making.
struct Edits<'a> {
    ledger: &'a Ledger,
    changed: BTreeMap<IpAddr, (PageContent, u64)>,
}

impl<'a> Edits<'a> {
    const fn new(ledger: &'a Ledger) -> Self {
        Self {
            ledger,
            changed: BTreeMap::new(),
        }
    }

    fn page(&mut self, slice: &AddressRange) -> &mut (PageContent, u64) {
        self.changed.entry(slice.start()).or_insert_with(|| {
            let page = self.ledger.pages.get(&slice.start());
            let content = page.map(|page| page.content.clone());
            let empty = || PageContent {
                slice: *slice,
                entries: Vec::new(),
                recorded: 0,
                sealed: 0,
            };
            (content.unwrap_or_else(empty), 0)
        })
    }

    fn add(&mut self, slice: &AddressRange, entry: &Entry) {
        let (content, grants) = self.page(slice);
        if let Err(position) = content.entries.binary_search(entry) {
            content.entries.insert(position, entry.clone());
        }
        *grants += u64::from(entry.home() == slice.start());
    }

    fn remove(&mut self, slice: &AddressRange, entry: &Entry) {
        if self.ledger.pages.contains_key(&slice.start()) {
            self.page(slice).0.entries.retain(|other| other != entry);
        }
    }

    fn seal(&mut self, slice: &AddressRange) {
        self.page(slice).0.sealed += 1;
    }

    /// Ascending; pages that stay as they are left out.
    fn writes(self, pool: &ObjectKey) -> Vec<PageWrite> {
        let ledger = self.ledger;
        let changed = self.changed.into_iter().filter_map(|(slice, edited)| {
            let before = ledger.pages.get(&slice);
            let same = before.is_some_and(|page| page.content == edited.0);
            (!same).then_some((before, edited))
        });
        changed
            .map(|(before, (content, grants))| PageWrite {
                key: before.map_or_else(|| page_key(pool, &content.slice), |page| page.key.clone()),
                guard: before.map_or(Guard::Absent, |page| Guard::Version {
                    uid: page.uid.clone(),
                    resource_version: page.resource_version.clone(),
                }),
                spec: content.written(&pool.name),
                grants,
            })
            .collect()
    }
}

/// The one page of a slice of a pool. That there is only one is the API server's doing: it has one object of a name.
///
/// The slice is a part of its own after the last dot and has no dot itself, so no two pools share a name.
fn page_key(pool: &ObjectKey, slice: &AddressRange) -> ObjectKey {
    let slice = match slice.start() {
        IpAddr::V4(address) => format!("{:08x}", u32::from(address)),
        IpAddr::V6(address) => format!("{:032x}", u128::from(address)),
    };
    ObjectKey {
        namespace: pool.namespace.clone(),
        name: format!("{}.{slice}", pool.name),
    }
}

#[cfg(test)]
#[path = "ledger_properties.rs"]
mod properties;
#[cfg(test)]
#[path = "ledger_tests.rs"]
pub(crate) mod tests;
