//! Two controllers with pictures of different age, crashes and requests that arrive late: what a ledger holds always.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::{
    tests::{Shelf, homes_have_their_shadows, rack},
    *,
};

/// Where the ranges of these stories begin: the first of five slices.
const BASE: u32 = 0x0a28_0000;

/// What a controller does next.
#[derive(Clone, Debug)]
enum Deed {
    /// Reads all pages.
    Look,
    /// Grants a range, if the picture shows it free.
    Grant { offset: u32, length: u32, name: u8 },
    /// Takes back one of the grants in the picture, and all that crashes left.
    Withdraw { which: usize },
}

/// A deed, and how far it comes.
#[derive(Clone, Debug)]
struct Step {
    controller: usize,
    deed: Deed,
    /// After so many writes the controller dies.
    writes: usize,
    /// Whether the write after that is on its way and arrives later.
    sent: bool,
}

fn any_step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![1_u32..8, 900_u32..2_500];
    let grant = (0_u32..2_600, length, 0_u8..3).prop_map(|(offset, length, name)| Deed::Grant {
        offset,
        length,
        name,
    });
    let deed = prop_oneof![
        2 => Just(Deed::Look),
        3 => grant,
        2 => (0_usize..8).prop_map(|which| Deed::Withdraw { which }),
    ];
    (0_usize..2, deed, 0_usize..6, any::<bool>()).prop_map(|(controller, deed, writes, sent)| {
        Step {
            controller,
            deed,
            writes,
            sent,
        }
    })
}

/// The pages, what each controller has read of them, and what is on its way.
#[derive(Default)]
struct Story {
    shelf: Shelf,
    pictures: [Ledger; 2],
    on_the_way: Vec<PageWrite>,
}

impl Story {
    fn writes(&self, step: &Step) -> Vec<PageWrite> {
        let picture = &self.pictures[step.controller];
        match &step.deed {
            Deed::Look => Vec::new(),
            Deed::Grant {
                offset,
                length,
                name,
            } => {
                let first = Ipv4Addr::from(BASE + offset).into();
                let last = Ipv4Addr::from(BASE + offset + length - 1).into();
                let range = AddressRange::new(first, last).unwrap();
                let mut entries = picture.pages().flat_map(|page| &page.content.entries);
                if entries.any(|entry| entry.range.overlaps(&range)) {
                    return Vec::new();
                }
                let (name, uid) = (format!("a{name}"), format!("{name}"));
                let entry = Entry { range, name, uid };
                if entry.reaches_over() && picture.has_loose_ends(&BTreeSet::new()) {
                    return Vec::new();
                }
                picture.rewrite(&rack(), &BTreeSet::new(), &[entry])
            }
            Deed::Withdraw { which } => {
                let spent = picture.grants().nth(*which).cloned();
                picture.rewrite(&rack(), &spent.into_iter().collect(), &[])
            }
        }
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        if matches!(step.deed, Deed::Look) {
            self.pictures[step.controller] = self.shelf.ledger();
            if let Some(late) = self.on_the_way.pop() {
                self.shelf.write(&late);
            }
            return self.holds();
        }
        let writes = self.writes(step);
        for write in writes.iter().take(step.writes) {
            if !self.shelf.write(write) {
                return Ok(());
            }
            self.holds()?;
        }
        let next = writes.get(step.writes).filter(|_| step.sent);
        self.on_the_way.extend(next.cloned());
        Ok(())
    }

    /// No two grants share an address, and every grant keeps others out of all the pages it touches.
    fn holds(&self) -> Result<(), TestCaseError> {
        let ledger = self.shelf.ledger();
        let mut reached = None;
        let mut grants: Vec<_> = ledger.grants().collect();
        grants.sort();
        for grant in grants {
            prop_assert!(
                reached.is_none_or(|end| end < grant.range.start()),
                "{ledger:#?}"
            );
            reached = Some(grant.range.end());
        }
        prop_assert!(homes_have_their_shadows(&ledger), "{ledger:#?}");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn no_address_is_granted_twice_whatever_is_late_or_lost(steps in prop::collection::vec(any_step(), 1..60)) {
        let mut story = Story::default();
        for step in &steps {
            story.take(step)?;
        }
        for late in std::mem::take(&mut story.on_the_way) {
            story.shelf.write(&late);
            story.holds()?;
        }
        let ledger = story.shelf.ledger();
        let grants: Vec<_> = ledger.grants().cloned().collect();
        story.shelf.write_all(&ledger.rewrite(&rack(), &BTreeSet::new(), &[]));
        let ledger = story.shelf.ledger();
        prop_assert!(ledger.dangling().is_empty());
        prop_assert_eq!(ledger.grants().cloned().collect::<Vec<_>>(), grants);
    }

    #[test]
    fn no_two_pools_share_a_page(
        pools in prop::collection::btree_set("[a0](\\.?[a0]){0,3}(\\.0a280[04]00)?", 2),
        offsets in prop::collection::vec(any::<u32>(), 1..4),
        high in prop::collection::vec(any::<u128>(), 1..4),
    ) {
        let starts: BTreeSet<IpAddr> = offsets
            .iter()
            .map(|offset| slice_of(Ipv4Addr::from(*offset).into()).start())
            .chain(high.iter().map(|bits| slice_of(std::net::Ipv6Addr::from(*bits).into()).start()))
            .chain([slice_of(Ipv4Addr::from(BASE).into()).start()])
            .collect();
        let names: BTreeSet<_> = pools
            .iter()
            .flat_map(|pool| {
                let pool = ObjectKey::namespaced("butler-system", pool);
                starts.iter().map(move |start| page_key(&pool, &slice_of(*start)))
            })
            .collect();
        prop_assert_eq!(names.len(), pools.len() * starts.len());
    }

    #[test]
    fn pages_survive_being_written_and_read(
        grants in prop::collection::btree_map(0_u32..4_000, 1_u32..40, 0..30),
    ) {
        let mut next = 0;
        let mut entries = Vec::new();
        for (offset, length) in grants {
            let first = next.max(offset);
            next = first + length;
            let range = AddressRange::new(
                Ipv4Addr::from(BASE + first).into(),
                Ipv4Addr::from(BASE + next - 1).into(),
            );
            entries.push(Entry { range: range.unwrap(), name: "a".to_owned(), uid: first.to_string() });
        }
        let mut shelf = Shelf::default();
        shelf.write_all(&shelf.ledger().rewrite(&rack(), &BTreeSet::new(), &entries));
        prop_assert_eq!(shelf.ledger().grants().cloned().collect::<Vec<_>>(), entries.clone());
        let all = entries.into_iter().collect();
        shelf.write_all(&shelf.ledger().rewrite(&rack(), &all, &[]));
        prop_assert!(shelf.ledger().pages().all(|page| page.content.entries.is_empty()));
    }
}
