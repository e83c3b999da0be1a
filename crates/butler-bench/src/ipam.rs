//! What the book of a pool costs, without a cluster: granting, giving back and opening it, and how that grows.
//!
//! Sizes are drawn from a seed, so that every run does the same work. Owners and holders are written before the clock runs:
//! they are the caller's. A pool that grants before anything was given back has one free run and is the easy case; all but
//! the first measurement therefore run on aged pools, of which as many allocations were given back as are live.

use std::{
    collections::BTreeMap,
    hint::black_box,
    net::IpAddr,
    time::{Duration, Instant},
};

use anyhow::{anyhow, ensure};
use butler_api::{
    butler::{ip_allocation::AllocationType, network_pool::NetworkPoolSpec},
    net::AddressRange,
};
use butler_ipam::{Holder, Layout, Owner, Pool, Request, Wish};
use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::SliceRandom};

use crate::{
    progress,
    report::{Bar, Row, Unit, median, number},
};

const SEED: u64 = 10;
const LARGEST: u32 = 64;
const MANY: usize = 100_000;
const RUNS: usize = 5;
const LARGE: Network = Network { prefix_length: 8 };
const SLOWEST_MILLISECONDS: f64 = 1000.0;

/// Neither more addresses nor a longer life make a pool harder to search, so 1 is what is expected. The rest is for a busy
/// machine: what looks at every address would show 16 in the next larger network.
const FLAT_BAR: Bar = Bar::AtMost(2.0);

/// From small to large; each has 16 times the addresses of the one before.
const SIZES: [Network; 4] = [
    Network { prefix_length: 20 },
    Network { prefix_length: 16 },
    Network { prefix_length: 12 },
    LARGE,
];
/// As many as the smallest network surely has room for.
const SIZES_GROUND: Ground = Ground {
    turns: 1000,
    batch: 16,
};
const SIZES_LIVE: usize = 32;
/// From few to many; each is ten times the one before.
const CROWDS: [usize; 3] = [1_000, 10_000, MANY];
const CROWDS_GROUND: Ground = Ground {
    turns: 100,
    batch: 250,
};
/// A hundredfold makes trees 1.7 times as deep, and no longer fits into the caches of a processor. What looks at every
/// allocation would show 100, and even the root of that would be 10.
const CROWDS_BAR: Bar = Bar::AtMost(3.0);

/// Twice everything that is live.
const RENEWED: usize = 2 * MANY;
/// Few enough for a young pool to remain one.
const CHURN_GROUND: Ground = Ground {
    turns: 50,
    batch: 200,
};

/// How a comparison is made: in turns, so that a busy moment of the machine hits all, and in batches, so that the clock
/// itself costs nothing.
struct Ground {
    turns: usize,
    batch: usize,
}

/// Measures the book of a pool.
pub(crate) fn measure() -> anyhow::Result<Vec<Row>> {
    progress(&format!(
        "granting {MANY} ranges of 1 to {LARGEST} addresses in a /8, giving back, opening the book, each {RUNS} times"
    ));
    let mut rows = granting()?;
    rows.extend(growth_with_the_network()?);
    rows.extend(growth_with_the_crowd()?);
    rows.extend(opening()?);
    rows.extend(churn()?);
    Ok(rows)
}

/// An empty pool, filled.
fn granting() -> anyhow::Result<Vec<Row>> {
    let (mut granting, mut writing) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let mut book = Book::empty(LARGE)?;
        granting.push(book.grant(MANY)?);
        writing.push(write_down(book.grants()));
    }
    let (granting, writing) = (median(granting), median(writing));
    Ok(vec![
        Row::milliseconds(
            format!("{MANY} allocations of 1 to {LARGEST} addresses in a /8"),
            granting,
        )
        .held_to(Bar::Below(SLOWEST_MILLISECONDS)),
        Row::milliseconds("merely writing these grants into a map", writing),
        Row::ratio("allocating : merely writing", granting, writing),
    ])
}

/// The same allocations in ever larger networks.
fn growth_with_the_network() -> anyhow::Result<Vec<Row>> {
    let books = SIZES
        .into_iter()
        .map(|network| Book::aged(network, SIZES_LIVE));
    let named = SIZES.map(|network| format!("/{}", network.prefix_length));
    growth(
        &format!("allocation in a /20, {SIZES_LIVE} live"),
        &named,
        books.collect::<anyhow::Result<_>>()?,
        &SIZES_GROUND,
        FLAT_BAR,
    )
}

/// The same network with ever more allocations.
fn growth_with_the_crowd() -> anyhow::Result<Vec<Row>> {
    let books = CROWDS.into_iter().map(|live| Book::aged(LARGE, live));
    let [few, ..] = CROWDS;
    growth(
        &format!("allocation in a /8, {few} live"),
        &CROWDS.map(|live| format!("{live} live")),
        books.collect::<anyhow::Result<_>>()?,
        &CROWDS_GROUND,
        CROWDS_BAR,
    )
}

/// What an allocation costs in the first book, and in each of the others compared to that.
fn growth(
    first: &str,
    names: &[String],
    mut books: Vec<Book>,
    ground: &Ground,
    bar: Bar,
) -> anyhow::Result<Vec<Row>> {
    let mut times = vec![Vec::new(); books.len()];
    for _ in 0..ground.turns {
        for (book, times) in books.iter_mut().zip(&mut times) {
            book.give_back(ground.batch)?;
            times.push(book.grant(ground.batch)?);
        }
    }
    let mut measured = names.iter().zip(times.into_iter().map(median));
    let (least, smallest) = measured
        .next()
        .ok_or_else(|| anyhow!("there is nothing to compare"))?;
    let mut rows = vec![Row::new(
        first,
        each(smallest, ground.batch),
        Unit::Nanoseconds,
    )];
    rows.extend(measured.map(|(name, took)| {
        Row::ratio(format!("allocation, {name} : {least}"), took, smallest).held_to(bar)
    }));
    Ok(rows)
}

/// A pool made anew from what is held, as after a start. A ledger is not in the order of addresses.
fn opening() -> anyhow::Result<Vec<Row>> {
    let book = Book::aged(LARGE, MANY)?;
    let mut ledger = book.grants();
    ledger.shuffle(&mut SmallRng::seed_from_u64(SEED));
    let (mut opening, mut writing) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (layout, grants) = (LARGE.layout()?, ledger.clone());
        let started = Instant::now();
        let mut pool = Pool::new(layout);
        for (range, holder) in grants {
            pool.hold(&range, holder)?;
        }
        opening.push(started.elapsed());
        ensure!(
            pool.numbers() == book.pool.numbers(),
            "the book that was opened is not the one that was closed"
        );
        writing.push(write_down(ledger.clone()));
    }
    let (opening, writing) = (median(opening), median(writing));
    Ok(vec![
        Row::milliseconds(format!("opening a book of {MANY} held ranges"), opening),
        Row::ratio(
            "opening : merely writing these into a map",
            opening,
            writing,
        ),
    ])
}

/// A crowded pool that goes on living, and one that did so for long.
fn churn() -> anyhow::Result<Vec<Row>> {
    let (mut young, mut old) = (Book::aged(LARGE, MANY)?, Book::aged(LARGE, MANY)?);
    old.renew(RENEWED)?;
    let (mut of_young, mut of_old) = (Vec::new(), Vec::new());
    for _ in 0..CHURN_GROUND.turns {
        of_young.push(young.renew(CHURN_GROUND.batch)?);
        of_old.push(old.renew(CHURN_GROUND.batch)?);
    }
    let (young, old) = (median(of_young), median(of_old));
    Ok(vec![
        Row::new(
            format!("one given back and one allocated, {MANY} live"),
            each(young, CHURN_GROUND.batch),
            Unit::Nanoseconds,
        ),
        Row::ratio(
            format!("the same, after {RENEWED} of them : before"),
            old,
            young,
        )
        .held_to(FLAT_BAR),
    ])
}

/// Nanoseconds for one of so many.
fn each(took: Duration, count: usize) -> f64 {
    took.as_secs_f64() * 1e9 / number(count)
}

/// How long the least takes that any book must do: to keep who has what, by address.
fn write_down(grants: Vec<(AddressRange, Holder)>) -> Duration {
    let started = Instant::now();
    let mut map: BTreeMap<IpAddr, (AddressRange, Holder)> = BTreeMap::new();
    for (range, holder) in grants {
        map.insert(range.start(), (range, holder));
    }
    let took = started.elapsed();
    black_box(map);
    took
}

/// A network that begins at 10.0.0.0.
#[derive(Clone, Copy)]
struct Network {
    prefix_length: u8,
}

impl Network {
    fn layout(self) -> anyhow::Result<Layout> {
        let spec = NetworkPoolSpec {
            cidr: format!("10.0.0.0/{}", self.prefix_length),
            ..NetworkPoolSpec::default()
        };
        Layout::of(&spec).map_err(|violations| anyhow!("no pool: {violations:?}"))
    }
}

/// A pool, what is live in it, and what is asked of it next.
struct Book {
    pool: Pool,
    live: Vec<AddressRange>,
    random: SmallRng,
    asked: usize,
}

impl Book {
    fn empty(network: Network) -> anyhow::Result<Self> {
        Ok(Self {
            pool: Pool::new(network.layout()?),
            live: Vec::new(),
            random: SmallRng::seed_from_u64(SEED),
            asked: 0,
        })
    }

    /// A pool with so many live allocations and holes between them.
    fn aged(network: Network, live: usize) -> anyhow::Result<Self> {
        let mut book = Self::empty(network)?;
        book.grant(2 * live)?;
        book.give_back(live)?;
        Ok(book)
    }

    /// Allocates: how long all took.
    fn grant(&mut self, count: usize) -> anyhow::Result<Duration> {
        let (requests, holders) = self.wishes(count);
        self.live.reserve(count);
        let started = Instant::now();
        for (request, holder) in requests.iter().zip(holders) {
            self.live.push(self.pool.allocate(request, holder)?);
        }
        let took = started.elapsed();
        self.check()?;
        Ok(took)
    }

    /// Gives back any of those that are live.
    fn give_back(&mut self, count: usize) -> anyhow::Result<()> {
        for _ in 0..count {
            let index = self.random.random_range(..self.live.len());
            self.pool.release(&self.live.swap_remove(index))?;
        }
        Ok(())
    }

    /// Gives any back and allocates another, so many times: how long all took.
    fn renew(&mut self, count: usize) -> anyhow::Result<Duration> {
        let (requests, holders) = self.wishes(count);
        let indices: Vec<usize> = (0..count)
            .map(|_| self.random.random_range(..self.live.len()))
            .collect();
        let started = Instant::now();
        for ((index, request), holder) in indices.into_iter().zip(&requests).zip(holders) {
            self.pool.release(&self.live[index])?;
            self.live[index] = self.pool.allocate(request, holder)?;
        }
        let took = started.elapsed();
        self.check()?;
        Ok(took)
    }

    /// Two for each cluster: one for its machines, one for its load balancers.
    fn wishes(&mut self, count: usize) -> (Vec<Request>, Vec<Holder>) {
        let numbers = self.asked..self.asked + count;
        self.asked = numbers.end;
        numbers
            .map(|number| {
                let cluster = number / 2;
                let owner = Owner {
                    kind: "TenantCluster".to_owned(),
                    namespace: Some(format!("team-{}", cluster % 500)),
                    name: format!("cluster-{cluster}"),
                };
                let request = Request {
                    kind: if number.is_multiple_of(2) {
                        AllocationType::Nodes
                    } else {
                        AllocationType::Loadbalancer
                    },
                    wish: Wish::Count(self.random.random_range(1..=LARGEST)),
                    owner: owner.clone(),
                    quota: None,
                };
                let allocation = format!("00000000-0000-4000-8000-{number:012}");
                (request, Holder { allocation, owner })
            })
            .unzip()
    }

    /// What is held, as a ledger has it.
    fn grants(&self) -> Vec<(AddressRange, Holder)> {
        self.pool
            .held()
            .map(|(range, holder)| (*range, holder.clone()))
            .collect()
    }

    /// A book that is fast because it forgets is none.
    fn check(&self) -> anyhow::Result<()> {
        let held = self.pool.numbers().allocations;
        ensure!(
            held == self.live.len(),
            "{held} allocations are held and {} were granted",
            self.live.len()
        );
        Ok(())
    }
}
