//! Whatever happens, ranges stay apart and within the quota.

use butler_api::{
    butler::{ip_allocation::AllocationType, network_pool::NetworkPoolSpec},
    net::AddressRange,
};
use butler_ipam::{Holder, Layout, Owner, Pool, Quota, Request, Wish};
use proptest::{collection::vec, prelude::*};

use super::{
    tests::{asked, grant, refuse, set_in_use},
    *,
};
use crate::testing::at;

/// What happens to the Services of a cluster.
#[derive(Clone, Debug)]
enum Happening {
    Waits(usize, u32),
    Used(usize, usize, bool),
    Asks(usize, Option<i32>),
    Passes(i64),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => (0..2_usize, 0..4_u32).prop_map(|(cluster, count)| Happening::Waits(cluster, count)),
        3 => (0..2_usize, 0..5_usize, any::<bool>())
            .prop_map(|(cluster, range, is)| Happening::Used(cluster, range, is)),
        1 => (0..2_usize, proptest::option::of(1..10_i32))
            .prop_map(|(cluster, asked)| Happening::Asks(cluster, asked)),
        3 => (1..900_i64).prop_map(Happening::Passes),
    ]
}

/// A cluster with its ranges.
struct Cluster {
    name: &'static str,
    first: IPAllocation,
    added: Vec<IPAllocation>,
    asked: Option<i32>,
    demand: Option<Demand>,
}

const MOST: u32 = 7;

/// The pool decides about a range that is asked for.
fn decide(pool: &mut Pool, cluster: &str, used: u32, range: &mut IPAllocation, now: Timestamp) {
    let owner = Owner {
        kind: "TenantCluster".to_owned(),
        namespace: Some("team".to_owned()),
        name: cluster.to_owned(),
    };
    let request = Request {
        kind: AllocationType::Loadbalancer,
        wish: Wish::Count(u32::try_from(range.spec.count.unwrap()).unwrap()),
        owner: owner.clone(),
        quota: Some(Quota { most: MOST, used }),
    };
    let allocation = range.name_any();
    match pool.allocate(&request, Holder { allocation, owner }) {
        Ok(granted) => grant(range, &granted, now),
        Err(refusal) => refuse(range, refusal.reason(), &refusal.to_string()),
    }
}

fn granted(range: &IPAllocation) -> Option<AddressRange> {
    match standing(Some(range)) {
        Standing::Granted { range } => Some(range),
        _ => None,
    }
}

impl Cluster {
    fn ranges(&self) -> impl Iterator<Item = &IPAllocation> {
        std::iter::once(&self.first).chain(&self.added)
    }

    fn held(&self) -> u32 {
        let held = self.ranges().filter(|range| granted(range).is_some());
        held.map(|range| u32::try_from(size(range)).unwrap()).sum()
    }

    /// One pass, and what the pool makes of it. Says whether anything was written.
    fn pass(&mut self, pool: &mut Pool, now: Timestamp) -> Result<bool, TestCaseError> {
        let numbers = pool.numbers();
        let candidates = [Candidate {
            name: "rack",
            priority: 0,
            available: Some(numbers.available),
            largest_free: Some(numbers.largest_free),
        }];
        let case = Case {
            first: &self.first,
            added: &self.added,
            asked: self.asked,
            most: Some(i32::try_from(MOST).unwrap()),
            increment: Some(2),
            is_served: true,
            demand: self.demand,
            pools: &candidates,
        };
        let course = case.course(now);
        prop_assert!(course.next.is_none_or(|next| next > now), "{course:?}");
        prop_assert_eq!(course.keep.len() + course.give_back.len(), self.added.len());
        let mut gone = Vec::new();
        for range in &course.give_back {
            prop_assert!(!is_in_use(range), "{range:?} is in use");
            if let Some(range) = granted(range) {
                pool.release(&range).unwrap();
            }
            gone.push(range.name_any());
        }
        let new = course.ask.map(|ask| {
            let name = format!("{}-{}", self.name, ask.index);
            asked(&name, &ask.pool, ask.count)
        });
        let wrote = new.is_some() || !gone.is_empty();
        self.added.retain(|range| !gone.contains(&range.name_any()));
        let used = self.held();
        if let Some(mut new) = new {
            let name = new.name_any();
            prop_assert!(
                self.added.iter().all(|range| range.name_any() != name),
                "{name}"
            );
            decide(pool, self.name, used, &mut new, now);
            self.added.push(new);
        }
        Ok(wrote)
    }
}

proptest! {
    #[test]
    fn whatever_happens_ranges_are_apart_within_the_quota_and_come_to_rest(
        events in vec(happening(), 1..60),
    ) {
        let spec = NetworkPoolSpec { cidr: "10.9.0.0/28".to_owned(), ..NetworkPoolSpec::default() };
        let mut pool = Pool::new(Layout::of(&spec).unwrap());
        let mut now = at(1000);
        let mut clusters = ["one", "two"].map(|name| {
            let mut first = asked(name, "rack", 2);
            decide(&mut pool, name, 0, &mut first, now);
            Cluster { name, first, added: Vec::new(), asked: None, demand: None }
        });
        for event in events {
            match event {
                Happening::Waits(at, services) => {
                    clusters[at].demand = (services > 0).then_some(Demand { services, since: now });
                }
                Happening::Used(at, range, is) => {
                    let cluster = &mut clusters[at];
                    let mut ranges = std::iter::once(&mut cluster.first).chain(&mut cluster.added);
                    if let Some(range) = ranges.nth(range).filter(|range| granted(range).is_some()) {
                        set_in_use(range, (!is).then_some(now));
                    }
                }
                Happening::Asks(at, asked) => clusters[at].asked = asked,
                Happening::Passes(seconds) => now = later(now, SignedDuration::from_secs(seconds)),
            }
            for cluster in &mut clusters {
                // What is given back or asked for can make another pass worth it, but not for ever.
                let mut passes = 0;
                while cluster.pass(&mut pool, now)? {
                    passes += 1;
                    prop_assert!(passes < 6, "it does not come to rest");
                }
                prop_assert!(granted(&cluster.first).is_some());
                prop_assert!(cluster.held() <= MOST, "{} has {}", cluster.name, cluster.held());
            }
            let ranges: Vec<_> = clusters.iter().flat_map(Cluster::ranges).filter_map(granted).collect();
            for (index, one) in ranges.iter().enumerate() {
                prop_assert!(ranges[..index].iter().all(|other| !other.overlaps(one)), "{ranges:?}");
            }
        }
    }
}
