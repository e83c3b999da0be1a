//! A pool of a few hundred addresses as one cell for each: slow, and too simple to be wrong.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use butler_api::butler::ip_allocation::AllocationType;
use butler_api::butler::network_pool::{
    NetworkPoolSpec, PoolRange, ReservedBlock, TenantAllocation,
};
use butler_api::net::AddressRange;
use butler_ipam::{Holder, Layout, Owner, Pool, Refusal, Request, Wish};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

const CASES: u32 = 500;
const OPERATIONS: usize = 240;

/// Where the small networks lie: also at the very ends of both families.
const PLACES: [Place; 5] = [
    Place {
        ipv6: false,
        base: 0x0a00_0000,
    },
    Place {
        ipv6: false,
        base: 0x0000_0000,
    },
    Place {
        ipv6: false,
        base: 0xffff_ff00,
    },
    Place {
        ipv6: true,
        base: 0xfd00 << 112,
    },
    Place {
        ipv6: true,
        base: u128::MAX - 0xff,
    },
];

fn wide(number: usize) -> u128 {
    u128::try_from(number).expect("fits")
}

#[derive(Clone, Copy, Debug)]
struct Place {
    ipv6: bool,
    base: u128,
}

impl Place {
    fn address(self, position: usize) -> IpAddr {
        let number = self.base + wide(position);
        if self.ipv6 {
            Ipv6Addr::from_bits(number).into()
        } else {
            Ipv4Addr::from_bits(u32::try_from(number).expect("IPv4")).into()
        }
    }

    fn range(self, first: usize, last: usize) -> AddressRange {
        AddressRange::new(self.address(first), self.address(last)).expect("forwards")
    }

    fn position(self, address: IpAddr) -> usize {
        let number = match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        usize::try_from(number - self.base).expect("small")
    }

    fn prefix(self, host_bits: u32) -> u32 {
        (if self.ipv6 { 128 } else { 32 }) - host_bits
    }
}

#[derive(Clone, Debug)]
struct Setup {
    place: Place,
    host_bits: u32,
    /// Host bits and position.
    reserved: Vec<(u32, usize)>,
    /// First and last position, ascending.
    windows: Vec<(usize, usize)>,
}

impl Setup {
    fn size(&self) -> usize {
        1 << self.host_bits
    }

    fn spec(&self) -> NetworkPoolSpec {
        let block = |host_bits, position| {
            format!(
                "{}/{}",
                self.place.address(position),
                self.place.prefix(host_bits)
            )
        };
        NetworkPoolSpec {
            cidr: block(self.host_bits, 0),
            reserved: self
                .reserved
                .iter()
                .map(|&(host_bits, position)| ReservedBlock {
                    cidr: block(host_bits, position),
                    description: None,
                })
                .collect(),
            tenant_allocation: Some(TenantAllocation {
                ranges: self
                    .windows
                    .iter()
                    .map(|&(first, last)| PoolRange {
                        start: self.place.address(first).to_string(),
                        end: self.place.address(last).to_string(),
                    })
                    .collect(),
                ..TenantAllocation::default()
            }),
        }
    }

    fn is_given(&self, position: usize) -> bool {
        let reserved = self
            .reserved
            .iter()
            .any(|&(host_bits, first)| (first..first + (1 << host_bits)).contains(&position));
        let window = self.windows.is_empty()
            || self
                .windows
                .iter()
                .any(|&(first, last)| first <= position && position <= last);
        let forbidden = self.host_bits >= 2
            && (position == 0 || (!self.place.ipv6 && position == self.size() - 1));
        window && !reserved && !forbidden
    }
}

fn setups() -> impl Strategy<Value = Setup> {
    let place = prop::sample::select(PLACES.to_vec());
    // Mostly networks with room for something to happen.
    let host_bits = prop_oneof![1 => 0_u32..=4, 3 => 5_u32..=8];
    (place, host_bits)
        .prop_flat_map(|(place, host_bits)| {
            let size = 1_usize << host_bits;
            let reserved = (0..=host_bits.saturating_sub(2), 0..size);
            let reserved = prop::collection::vec(reserved, 0..4);
            let cuts = prop::collection::btree_set(0..size, 0..=6);
            (Just((place, host_bits)), reserved, cuts)
        })
        .prop_map(|((place, host_bits), reserved, cuts)| {
            let cuts: Vec<_> = cuts.into_iter().collect();
            Setup {
                // The last block of a family does not begin at its base for smaller networks; any base will do.
                place: Place {
                    base: place.base & !((1 << host_bits) - 1),
                    ..place
                },
                host_bits,
                reserved: reserved
                    .into_iter()
                    .map(|(bits, at)| (bits, at >> bits << bits))
                    .collect(),
                windows: cuts
                    .chunks_exact(2)
                    .map(|ends| (ends[0], ends[1]))
                    .collect(),
            }
        })
}

#[derive(Clone, Debug)]
enum Operation {
    Allocate(u32),
    AllocateExactly(usize, usize),
    Hold(usize, usize),
    Release(usize),
    ReleaseAnything(usize, usize),
    Block(usize, usize),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let place = || (0_usize..256, 0_usize..12);
    let operation = prop_oneof![
        8 => (1_u32..=24).prop_map(Operation::Allocate),
        1 => (1_u32..=300).prop_map(Operation::Allocate),
        3 => place().prop_map(|(at, length)| Operation::AllocateExactly(at, length)),
        2 => place().prop_map(|(at, length)| Operation::Hold(at, length)),
        8 => (0_usize..1000).prop_map(Operation::Release),
        1 => place().prop_map(|(at, length)| Operation::ReleaseAnything(at, length)),
        1 => (0_usize..256, 0_usize..3).prop_map(|(at, length)| Operation::Block(at, length)),
    ];
    prop::collection::vec(operation, OPERATIONS)
}

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
