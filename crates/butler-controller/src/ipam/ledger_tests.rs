//! Grants in pages: what is written, in which order, and what a crash may leave.

use butler_runtime::object::ObjectKey;

use super::*;

/// The pages of a pool in a server that checks what each write must find, as the API server does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shelf {
    pages: BTreeMap<ObjectKey, Page>,
    versions: u32,
}

impl Shelf {
    /// A shelf with these grants on it, each a range and the name of an allocation.
    pub(crate) fn granting(pool: &ObjectKey, grants: &[(&str, &str)]) -> Self {
        let mut shelf = Self::default();
        let entries: Vec<_> = grants
            .iter()
            .map(|(range, name)| entry(range, name))
            .collect();
        shelf.write_all(&shelf.ledger().rewrite(pool, &BTreeSet::new(), &entries));
        shelf
    }

    /// The ledger as it is now.
    pub(crate) fn ledger(&self) -> Ledger {
        Ledger::new(self.pages.values().cloned())
    }

    /// Makes one write, if it finds what it must; says whether it did.
    pub(crate) fn write(&mut self, write: &PageWrite) -> bool {
        let before = self.pages.get(&write.key);
        let found = before.map_or(Guard::Absent, |page| Guard::Version {
            uid: page.uid.clone(),
            resource_version: page.resource_version.clone(),
        });
        if found != write.guard {
            return false;
        }
        self.versions += 1;
        let uid = before.map_or_else(
            || format!("page-{}", self.versions),
            |page| page.uid.clone(),
        );
        let page = Page {
            key: write.key.clone(),
            uid,
            resource_version: format!("v{}", self.versions),
            deleting: before.is_some_and(|page| page.deleting),
            content: PageContent::read(&write.spec).unwrap(),
        };
        self.pages.insert(write.key.clone(), page);
        true
    }

    /// Makes all writes, none of which may be refused.
    pub(crate) fn write_all(&mut self, writes: &[PageWrite]) {
        for write in writes {
            assert!(self.write(write), "{} has changed", write.key);
        }
    }

    /// Somebody asks for the deletion of all pages.
    pub(crate) fn delete_all(&mut self) {
        for page in self.pages.values_mut() {
            page.deleting = true;
        }
    }
}

/// That the allocation of this name, with the UID `<name>-uid`, holds a range or one address.
pub(crate) fn entry(range: &str, name: &str) -> Entry {
    let (start, end) = range.split_once('-').unwrap_or((range, range));
    Entry {
        range: AddressRange::from_texts(start, end).unwrap(),
        name: name.to_owned(),
        uid: format!("{name}-uid"),
    }
}

pub(super) fn rack() -> ObjectKey {
    ObjectKey::namespaced("butler-system", "rack")
}

/// A range over three slices: its home is the page of 10.40.0.0.
fn long() -> Entry {
    entry("10.40.3.250-10.40.8.5", "long")
}

fn slices_of(writes: &[PageWrite]) -> Vec<&str> {
    let slices = writes.iter();
    slices
        .map(|write| write.spec.start_address.as_str())
        .collect()
}

fn granted(ledger: &Ledger) -> Vec<Entry> {
    ledger.grants().cloned().collect()
}

/// Whether every grant is in all the pages that it touches.
pub(super) fn homes_have_their_shadows(ledger: &Ledger) -> bool {
    ledger.grants().all(|grant| {
        slices(&grant.range).all(|slice| {
            let page = ledger.pages.get(&slice.start());
            page.is_some_and(|page| page.content.entries.contains(grant))
        })
    })
}

#[test]
fn what_is_recorded_is_granted() {
    let grants = [
        entry("10.40.0.1-10.40.0.8", "shop"),
        entry("10.40.0.9", "bank"),
        entry("10.40.4.0-10.40.4.3", "shop-nodes"),
    ];
    let mut shelf = Shelf::default();
    shelf.write_all(&shelf.ledger().rewrite(&rack(), &BTreeSet::new(), &grants));
    let ledger = shelf.ledger();
    assert_eq!(granted(&ledger), grants);
    assert_eq!(
        ledger.grants_of("bank-uid").collect::<Vec<_>>(),
        [&grants[1]]
    );
    assert_eq!(ledger.grants_of("nobody").next(), None);
    assert_eq!(ledger.dangling(), BTreeSet::new());
}

#[test]
fn grants_of_one_slice_are_one_write_that_counts_them() {
    let grants = [entry("10.40.0.1", "shop"), entry("10.40.0.2", "bank")];
    let writes = Ledger::default().rewrite(&rack(), &BTreeSet::new(), &grants);
    assert_eq!(writes.len(), 1);
    assert_eq!(
        writes[0].key,
        ObjectKey::namespaced("butler-system", "rack.0a280000")
    );
    assert_eq!(writes[0].guard, Guard::Absent);
    assert_eq!(writes[0].grants, 2);
    assert_eq!(writes[0].spec.recorded, Some(1));
}

#[test]
fn a_range_over_several_slices_keeps_others_out_before_it_is_granted() {
    let mut shelf = Shelf::default();
    let writes = shelf.ledger().rewrite(&rack(), &BTreeSet::new(), &[long()]);
    assert_eq!(slices_of(&writes), ["10.40.8.0", "10.40.4.0", "10.40.0.0"]);
    let begun: Vec<_> = writes.iter().map(|write| write.grants).collect();
    assert_eq!(begun, [0, 0, 1], "only the home makes it a grant");
    shelf.write_all(&writes);
    let ledger = shelf.ledger();
    assert_eq!(granted(&ledger), [long()]);
    assert!(ledger.pages().all(|page| page.content.entries == [long()]));
}

#[test]
fn a_range_over_several_slices_is_withdrawn_before_others_are_let_in() {
    let mut shelf = Shelf::default();
    shelf.write_all(&shelf.ledger().rewrite(&rack(), &BTreeSet::new(), &[long()]));
    let writes = shelf.ledger().rewrite(&rack(), &[long()].into(), &[]);
    assert_eq!(slices_of(&writes), ["10.40.0.0", "10.40.4.0", "10.40.8.0"]);
    shelf.write_all(&writes);
    let ledger = shelf.ledger();
    assert!(ledger.pages().all(|page| page.content.entries.is_empty()));
    assert_eq!(ledger.revision(), 3, "what was recorded stays counted");
}

#[test]
fn a_crash_while_granting_grants_nothing_and_is_cleared_away() {
    let writes = Ledger::default().rewrite(&rack(), &BTreeSet::new(), &[long()]);
    for made in 1..writes.len() {
        let mut shelf = Shelf::default();
        shelf.write_all(&writes[..made]);
        let left = shelf.ledger();
        assert_eq!(granted(&left), []);
        assert_eq!(left.dangling(), BTreeSet::from([&long()]));

        let clearing = left.rewrite(&rack(), &BTreeSet::new(), &[]);
        let home = &clearing[0];
        assert_eq!(home.spec.start_address, "10.40.0.0");
        assert_eq!(
            home.guard,
            Guard::Absent,
            "the home page is made to be sealed"
        );
        assert_eq!(home.spec.sealed, Some(1));
        shelf.write_all(&clearing);
        let cleared = shelf.ledger();
        assert_eq!(cleared.dangling(), BTreeSet::new());
        assert!(cleared.pages().all(|page| page.content.entries.is_empty()));
        let late = &writes[writes.len() - 1];
        assert!(
            !shelf.write(late),
            "the grant that was on its way comes too late"
        );
    }
}

#[test]
fn a_home_page_that_exists_is_sealed_too() {
    let neighbour = entry("10.40.0.1", "neighbour");
    let mut shelf = Shelf::default();
    shelf.write_all(&shelf.ledger().rewrite(
        &rack(),
        &BTreeSet::new(),
        std::slice::from_ref(&neighbour),
    ));
    let writes = shelf.ledger().rewrite(&rack(), &BTreeSet::new(), &[long()]);
    shelf.write_all(&writes[..1]);
    shelf.write_all(&shelf.ledger().rewrite(&rack(), &BTreeSet::new(), &[]));
    assert!(
        !shelf.write(&writes[2]),
        "the grant that was on its way comes too late"
    );
    assert_eq!(granted(&shelf.ledger()), [neighbour], "who was there stays");
}

#[test]
fn a_crash_while_withdrawing_leaves_no_grant_that_others_are_let_into() {
    let mut full = Shelf::default();
    full.write_all(&full.ledger().rewrite(&rack(), &BTreeSet::new(), &[long()]));
    let writes = full.ledger().rewrite(&rack(), &[long()].into(), &[]);
    for made in 0..=writes.len() {
        let mut shelf = full.clone();
        shelf.write_all(&writes[..made]);
        let left = shelf.ledger();
        assert!(homes_have_their_shadows(&left), "after {made} writes");
        assert_eq!(left.grants().count(), usize::from(made == 0));
        shelf.write_all(&left.rewrite(&rack(), &left.grants().cloned().collect(), &[]));
        let cleared = shelf.ledger();
        assert!(cleared.pages().all(|page| page.content.entries.is_empty()));
    }
}

#[test]
fn writes_name_the_very_version_that_was_read() {
    let mut shelf = Shelf::granting(&rack(), &[("10.40.0.1", "shop")]);
    let read = shelf.ledger();
    let page = read.pages().next().unwrap().clone();
    let guard = Guard::Version {
        uid: page.uid,
        resource_version: page.resource_version,
    };
    let more = read.rewrite(&rack(), &BTreeSet::new(), &[entry("10.40.0.2", "bank")]);
    let less = read.rewrite(&rack(), &[entry("10.40.0.1", "shop")].into(), &[]);
    assert_eq!((&more[0].guard, &less[0].guard), (&guard, &guard));
    assert!(shelf.write(&more[0]));
    assert!(!shelf.write(&less[0]), "the second of two is refused");
}

#[test]
fn nothing_to_do_is_nothing_to_write() {
    let shelf = Shelf::granting(&rack(), &[("10.40.3.255-10.40.4.0", "shop")]);
    assert_eq!(shelf.ledger().rewrite(&rack(), &BTreeSet::new(), &[]), []);
    assert_eq!(shelf.ledger().rewrite(&rack(), &BTreeSet::new(), &[]), []);
    let unknown = entry("10.44.0.1", "nobody");
    assert_eq!(shelf.ledger().rewrite(&rack(), &[unknown].into(), &[]), []);
}

#[test]
fn the_grants_of_others_stay_when_one_is_withdrawn() {
    let mut shelf = Shelf::granting(
        &rack(),
        &[
            ("10.40.0.1", "shop"),
            ("10.40.0.2", "somebody"),
            ("10.40.3.255-10.40.4.0", "bank"),
        ],
    );
    let shop = entry("10.40.0.1", "shop");
    // The same range under the name of another allocation is not the same grant.
    let impostor = Entry {
        uid: "other-uid".to_owned(),
        ..entry("10.40.0.2", "somebody")
    };
    shelf.write_all(
        &shelf
            .ledger()
            .rewrite(&rack(), &[shop, impostor].into(), &[]),
    );
    let stay = [
        entry("10.40.0.2", "somebody"),
        entry("10.40.3.255-10.40.4.0", "bank"),
    ];
    assert_eq!(granted(&shelf.ledger()), stay);
    assert!(homes_have_their_shadows(&shelf.ledger()));
}

#[test]
fn pools_whose_names_look_like_pages_have_pages_of_their_own() {
    let grants = [entry("10.40.0.1", "shop"), entry("::a28:1", "bank")];
    let names: BTreeSet<_> = [
        "rack",
        "rack.0a280000",
        "rack.00000000000000000000000000000000",
    ]
    .into_iter()
    .flat_map(|pool| {
        let pool = ObjectKey::namespaced("butler-system", pool);
        Ledger::default().rewrite(&pool, &BTreeSet::new(), &grants)
    })
    .map(|write| write.key.name)
    .collect();
    assert_eq!(names.len(), 6, "{names:?}");
}

#[test]
fn the_last_slices_of_both_families_can_be_granted() {
    let grants = [
        entry("255.255.255.255", "last"),
        entry("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "very-last"),
    ];
    let mut shelf = Shelf::default();
    shelf.write_all(&shelf.ledger().rewrite(&rack(), &BTreeSet::new(), &grants));
    assert_eq!(granted(&shelf.ledger()), grants);
}

#[test]
fn a_page_with_an_entry_that_is_no_range_is_not_read_as_less() {
    let writes =
        Ledger::default().rewrite(&rack(), &BTreeSet::new(), &[entry("10.40.0.1", "shop")]);
    let mut spec = writes[0].spec.clone();
    spec.entries[0].end_address = "10.39.0.1".to_owned();
    assert!(PageContent::read(&spec).is_err());
}
