//! A pool of a few hundred addresses as one cell for each: slow, and too simple to be wrong.

use butler_api::butler::ip_allocation::AllocationType;
use butler_api::net::AddressRange;
use butler_ipam::{Holder, Layout, Owner, Pool, Refusal, Request, Wish};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::setup::{Operation, Setup, operations, setups, wide};

const CASES: u32 = 500;

#[derive(Clone, Copy, Default)]
struct Cell {
    given: bool,
    blocked: bool,
    holder: Option<usize>,
}

impl Cell {
    fn is_free(self) -> bool {
        self.given && !self.blocked && self.holder.is_none()
    }
}

struct Model {
    setup: Setup,
    cells: Vec<Cell>,
    /// What each grant was: first and last position, while it is held.
    grants: Vec<Option<(usize, usize)>>,
    blocks: Vec<(usize, usize)>,
}

impl Model {
    fn new(setup: Setup) -> Self {
        let cells = (0..setup.size()).map(|position| Cell {
            given: setup.is_given(position),
            ..Cell::default()
        });
        Self {
            cells: cells.collect(),
            setup,
            grants: Vec::new(),
            blocks: Vec::new(),
        }
    }

    /// Runs of cells of one sort: first position and length.
    fn runs(&self, is_one: impl Fn(&Cell) -> bool) -> Vec<(usize, usize)> {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for (position, _) in self
            .cells
            .iter()
            .enumerate()
            .filter(|(_, cell)| is_one(cell))
        {
            match runs.last_mut() {
                Some((first, length)) if *first + *length == position => *length += 1,
                _ => runs.push((position, 1)),
            }
        }
        runs
    }

    fn count(&self, is_one: impl Fn(&Cell) -> bool) -> u128 {
        wide(self.cells.iter().filter(|cell| is_one(cell)).count())
    }

    fn grant(&mut self, first: usize, last: usize) -> usize {
        let number = self.grants.len();
        self.grants.push(Some((first, last)));
        for cell in &mut self.cells[first..=last] {
            assert_eq!(cell.holder, None, "an address is granted twice");
            cell.holder = Some(number);
        }
        number
    }
}

/// The pool and the model side by side.
struct Pair {
    pool: Pool,
    model: Model,
}

fn owner(number: usize) -> Owner {
    Owner {
        kind: "TenantCluster".to_owned(),
        namespace: Some("team".to_owned()),
        name: format!("cluster-{}", number % 5),
    }
}

fn holder(number: usize) -> Holder {
    Holder {
        allocation: number.to_string(),
        owner: owner(number),
    }
}

fn request(wish: Wish) -> Request {
    Request {
        kind: AllocationType::Loadbalancer,
        wish,
        owner: owner(0),
        quota: None,
    }
}

impl Pair {
    /// First and last position of a run that begins in the network and does not leave it.
    fn clip(&self, at: usize, length: usize) -> (usize, usize) {
        let size = self.model.cells.len();
        (at % size, (at % size + length).min(size - 1))
    }

    fn range(&self, first: usize, last: usize) -> AddressRange {
        self.model.setup.place.range(first, last)
    }

    fn perform(&mut self, operation: &Operation) -> TestCaseResult {
        match *operation {
            Operation::Allocate(count) => self.allocate(count),
            Operation::AllocateExactly(at, length) => self.allocate_exactly(self.clip(at, length)),
            Operation::Hold(at, length) => self.hold(self.clip(at, length)),
            Operation::Release(which) => self.release(which),
            Operation::ReleaseAnything(at, length) => {
                let (first, last) = self.clip(at, length);
                if !self.model.grants.contains(&Some((first, last))) {
                    let range = self.range(first, last);
                    prop_assert!(self.pool.release(&range).is_err());
                }
                Ok(())
            }
            Operation::Block(at, length) => {
                let (first, last) = self.clip(at, length);
                self.model.blocks.push((first, last));
                for cell in &mut self.model.cells[first..=last] {
                    cell.blocked = true;
                }
                self.pool.block(&self.range(first, last), "somebody else");
                Ok(())
            }
        }
    }

    fn allocate(&mut self, count: u32) -> TestCaseResult {
        let wanted = usize::try_from(count).expect("small");
        let free = self.model.runs(|cell| cell.is_free());
        let best = free
            .iter()
            .filter(|(_, length)| *length >= wanted)
            .min_by_key(|(first, length)| (*length, *first));
        let longest = self.model.runs(|cell| cell.given);
        let longest = longest.iter().map(|(_, length)| *length).max().unwrap_or(0);
        let number = self.model.grants.len();
        let request = request(Wish::Count(count));
        prop_assert_eq!(self.pool.find(&request), self.pool.find(&request));
        match (self.pool.allocate(&request, holder(number)), best) {
            (Ok(range), Some(&(first, _))) => {
                let last = first + wanted - 1;
                prop_assert_eq!(range, self.range(first, last), "the best fit");
                self.model.grant(first, last);
            }
            (Err(Refusal::CountTooLarge { most, .. }), None) => {
                prop_assert!(wanted > longest);
                prop_assert_eq!(most, wide(longest));
            }
            (
                Err(Refusal::Exhausted {
                    free: left,
                    largest,
                    ..
                }),
                None,
            ) => {
                prop_assert!(wanted <= longest);
                prop_assert_eq!(left, self.model.count(|cell| cell.is_free()));
                let largest_length = free.iter().map(|(_, length)| wide(*length)).max();
                prop_assert_eq!(largest.map(|range| range.count()), largest_length);
            }
            (answer, best) => prop_assert!(false, "{answer:?}, but the model says {best:?}"),
        }
        Ok(())
    }

    fn allocate_exactly(&mut self, (first, last): (usize, usize)) -> TestCaseResult {
        let range = self.range(first, last);
        let number = self.model.grants.len();
        let cells = &self.model.cells[first..=last];
        let outside = cells.iter().any(|cell| !cell.given);
        let taken = cells.iter().position(|cell| !cell.is_free());
        match self
            .pool
            .allocate(&request(Wish::Exactly(range)), holder(number))
        {
            Ok(granted) => {
                prop_assert!(!outside && taken.is_none());
                prop_assert_eq!(granted, range);
                self.model.grant(first, last);
            }
            Err(Refusal::PinnedOutside { .. }) => prop_assert!(outside),
            Err(Refusal::PinnedTaken { taken: part, .. }) => {
                prop_assert!(!outside);
                let at = self.model.setup.place.position(part.start());
                prop_assert_eq!(Some(at), taken.map(|offset| first + offset));
            }
            Err(other) => prop_assert!(false, "{other:?}"),
        }
        Ok(())
    }

    fn hold(&mut self, (first, last): (usize, usize)) -> TestCaseResult {
        let range = self.range(first, last);
        let number = self.model.grants.len();
        let held = self.model.cells[first..=last]
            .iter()
            .find_map(|cell| cell.holder);
        match self.pool.hold(&range, holder(number)) {
            Ok(()) => {
                prop_assert_eq!(held, None);
                self.model.grant(first, last);
            }
            Err(taken) => prop_assert_eq!(Some(*taken.by), held.map(holder)),
        }
        Ok(())
    }

    fn release(&mut self, which: usize) -> TestCaseResult {
        let held: Vec<_> = (0..self.model.grants.len())
            .filter(|&number| self.model.grants[number].is_some())
            .collect();
        if held.is_empty() {
            return Ok(());
        }
        let number = held[which % held.len()];
        let (first, last) = self.model.grants[number].take().expect("held");
        for cell in &mut self.model.cells[first..=last] {
            prop_assert_eq!(cell.holder.take(), Some(number));
        }
        prop_assert_eq!(
            self.pool.release(&self.range(first, last)),
            Ok(holder(number))
        );
        Ok(())
    }

    fn compare(&self) -> TestCaseResult {
        let numbers = self.pool.numbers();
        let free = self.model.runs(|cell| cell.is_free());
        let available = self.model.count(|cell| cell.is_free());
        let largest = free
            .iter()
            .map(|(_, length)| wide(*length))
            .max()
            .unwrap_or(0);
        prop_assert_eq!(numbers.total, self.model.count(|cell| cell.given));
        prop_assert_eq!(
            numbers.allocated,
            self.model.count(|cell| cell.holder.is_some())
        );
        prop_assert_eq!(numbers.available, available);
        prop_assert_eq!(numbers.largest_free, largest);
        prop_assert_eq!(
            numbers.allocations,
            self.model.grants.iter().flatten().count()
        );
        let scattered = if free.len() > 1 {
            (available - largest) * 100 / available
        } else {
            0
        };
        prop_assert_eq!(u128::from(numbers.fragmentation_percent), scattered);
        let outside = self.model.grants.iter().flatten().filter(|(first, last)| {
            self.model.cells[*first..=*last]
                .iter()
                .any(|cell| !cell.given)
        });
        prop_assert_eq!(numbers.outside, outside.count());
        Ok(())
    }

    /// Who holds each address, from both sides.
    fn compare_holders(&self) -> TestCaseResult {
        for (position, cell) in self.model.cells.iter().enumerate() {
            let address = self.model.setup.place.address(position);
            let by = self
                .pool
                .holder_of(address)
                .map(|(_, holder)| holder.clone());
            prop_assert_eq!(by, cell.holder.map(holder));
        }
        let held: Vec<_> = self.pool.held().map(|(range, _)| *range).collect();
        prop_assert!(held.windows(2).all(|pair| pair[0].end() < pair[1].start()));
        Ok(())
    }

    /// A pool rebuilt from the ledger in another order is the same pool.
    fn rebuild(&self) -> TestCaseResult {
        let mut rebuilt = Pool::new(self.pool.layout().clone());
        let held: Vec<_> = self.pool.held().collect();
        for (range, holder) in held.into_iter().rev() {
            prop_assert!(rebuilt.hold(range, holder.clone()).is_ok());
        }
        for &(first, last) in self.model.blocks.iter().rev() {
            rebuilt.block(&self.range(first, last), "somebody else");
        }
        prop_assert_eq!(rebuilt.numbers(), self.pool.numbers());
        for count in [1, 2, 3, 5, 8, 13, 21] {
            let request = request(Wish::Count(count));
            prop_assert_eq!(rebuilt.find(&request), self.pool.find(&request));
        }
        Ok(())
    }

    /// When all is given back, all that is not blocked is free again.
    fn release_all(&mut self) -> TestCaseResult {
        while self.model.grants.iter().any(Option::is_some) {
            self.release(0)?;
        }
        self.compare()
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: CASES,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_pool_does_what_the_naive_model_does(setup in setups(), operations in operations()) {
        let layout = Layout::of(&setup.spec()).expect("a valid pool");
        let mut pair = Pair { pool: Pool::new(layout), model: Model::new(setup) };
        pair.compare()?;
        for operation in &operations {
            pair.perform(operation)?;
            pair.compare()?;
        }
        pair.compare_holders()?;
        pair.rebuild()?;
        pair.release_all()?;
    }
}
