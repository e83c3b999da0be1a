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

    /// Whether it is in more than one page.
    pub(crate) fn reaches_over(&self) -> bool {
        slice_of(self.range.start()) != slice_of(self.range.end())
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
    /// Whether it counts as a write that granted something.
    pub recorded: bool,
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

    /// Whether anything that reaches over several pages is to be cleared: a spent grant, or what a crash left.
    pub(crate) fn has_loose_ends(&self, spent: &BTreeSet<Entry>) -> bool {
        spent.iter().any(Entry::reaches_over) || !self.dangling().is_empty()
    }

    /// The writes that take spent grants back, clear what crashes left, and make new grants; one write for each page.
    ///
    /// Homes are cleared before their shadows, so these writes ascend; shadows are made before their homes, so those descend.
    /// Ranges within one page go either way. New ranges over several pages are therefore not to be mixed with loose ends.
    ///
    /// A home page whose grant never came to be is sealed: written without a change of its entries, so that a write of the
    /// grant which is still on its way finds another version and is refused.
    pub(crate) fn rewrite(
        &self,
        pool: &ObjectKey,
        spent: &BTreeSet<Entry>,
        grants: &[Entry],
    ) -> Vec<PageWrite> {
        let dangling = self.dangling();
        let mut edits = Edits::new(self);
        for entry in spent.iter().chain(dangling.iter().copied()) {
            for slice in slices(&entry.range) {
                edits.remove(&slice, entry);
            }
        }
        for entry in dangling {
            edits.seal(&slice_of(entry.range.start()));
        }
        for entry in grants {
            for slice in slices(&entry.range) {
                edits.add(&slice, entry);
            }
        }
        let mut writes = edits.writes(pool);
        if grants.iter().any(Entry::reaches_over) {
            debug_assert!(!self.has_loose_ends(spent), "one pass, one direction");
            writes.reverse();
        }
        writes
    }
}

/// Pages in the making.
struct Edits<'a> {
    ledger: &'a Ledger,
    changed: BTreeMap<IpAddr, Edited>,
}

/// A page as it will be.
struct Edited {
    content: PageContent,
    /// Grants that have their home here from now on.
    grants: u64,
    /// Something was granted, here or across.
    granted: bool,
}

impl<'a> Edits<'a> {
    const fn new(ledger: &'a Ledger) -> Self {
        Self {
            ledger,
            changed: BTreeMap::new(),
        }
    }

    fn page(&mut self, slice: &AddressRange) -> &mut Edited {
        self.changed.entry(slice.start()).or_insert_with(|| {
            let page = self.ledger.pages.get(&slice.start());
            let content = page.map(|page| page.content.clone());
            let empty = || PageContent {
                slice: *slice,
                entries: Vec::new(),
                recorded: 0,
                sealed: 0,
            };
            Edited {
                content: content.unwrap_or_else(empty),
                grants: 0,
                granted: false,
            }
        })
    }

    fn add(&mut self, slice: &AddressRange, entry: &Entry) {
        let page = self.page(slice);
        if let Err(position) = page.content.entries.binary_search(entry) {
            page.content.entries.insert(position, entry.clone());
        }
        page.grants += u64::from(entry.home() == slice.start());
        page.granted = true;
    }

    fn remove(&mut self, slice: &AddressRange, entry: &Entry) {
        if self.ledger.pages.contains_key(&slice.start()) {
            let page = self.page(slice);
            page.content.entries.retain(|other| other != entry);
        }
    }

    fn seal(&mut self, slice: &AddressRange) {
        self.page(slice).content.sealed += 1;
    }

    /// Ascending; pages that stay as they are left out.
    fn writes(self, pool: &ObjectKey) -> Vec<PageWrite> {
        let mut writes = Vec::new();
        for (slice, mut edited) in self.changed {
            edited.content.recorded += i64::from(edited.granted);
            let before = self.ledger.pages.get(&slice);
            if before.is_some_and(|page| page.content == edited.content) {
                continue;
            }
            let content = &edited.content;
            writes.push(PageWrite {
                key: before.map_or_else(|| page_key(pool, &content.slice), |page| page.key.clone()),
                guard: before.map_or(Guard::Absent, |page| Guard::Version {
                    uid: page.uid.clone(),
                    resource_version: page.resource_version.clone(),
                }),
                spec: content.written(&pool.name),
                grants: edited.grants,
                recorded: edited.granted,
            });
        }
        writes
    }
}

/// The one page of a slice of a pool. That there is only one is the API server's doing: it has one object of a name.
///
/// The slice is a part of its own after the last dot and has no dot itself, so no two pools share a name.
pub(crate) fn page_key(pool: &ObjectKey, slice: &AddressRange) -> ObjectKey {
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
