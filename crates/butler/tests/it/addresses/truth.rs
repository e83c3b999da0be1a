//! What must hold of a pool when nothing is left to do.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use butler_api::{
    butler::{
        ip_allocation::{AllocationPhase, IPAllocation},
        network_pool::NetworkPool,
        network_pool_ledger::NetworkPoolLedger,
    },
    conditions::{reasons, types},
    net::AddressRange,
};
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::{
    orders::{POOL, RESERVED, WINDOWS},
    record::{Present, presence},
    replay::range,
};

/// A page with all that can be in it stays far below what the API server stores.
const PAGE_BYTES: usize = 500_000;

/// All there is, at rest.
pub(crate) struct Truth {
    pool: NetworkPool,
    pages: Vec<NetworkPoolLedger>,
    allocations: Vec<IPAllocation>,
}

impl Truth {
    /// Reads it from the API server.
    pub(crate) async fn read(client: &Client) -> Self {
        let everything = ListParams::default();
        let pools = Api::default_namespaced(client.clone());
        let pages = Api::default_namespaced(client.clone());
        let allocations = Api::default_namespaced(client.clone());
        Self {
            pool: pools.get(POOL).await.unwrap(),
            pages: pages.list(&everything).await.unwrap().items,
            allocations: allocations.list(&everything).await.unwrap().items,
        }
    }

    /// Which objects there are, in which version.
    pub(crate) fn present(&self) -> Present {
        let pool = [presence(&self.pool)];
        let pages = self.pages.iter().map(presence);
        let allocations = self.allocations.iter().map(presence);
        pool.into_iter().chain(pages).chain(allocations).collect()
    }

    /// All allocations that should be there are, granted or refused for a reason, and all numbers agree.
    pub(crate) fn check(&self, expected: &BTreeSet<String>) {
        let names: BTreeSet<_> = self.allocations.iter().map(ResourceExt::name_any).collect();
        assert_eq!(&names, expected, "whoever was not deleted is there");
        let shown = self.shown();
        self.pages_say(&shown);
        self.numbers_say(&shown);
        self.refusals_are_right(&shown);
        for page in &self.pages {
            let size = serde_json::to_vec(page).unwrap().len();
            assert!(size < PAGE_BYTES, "{} has {size} bytes", page.name_any());
        }
    }

    /// What the allocations have.
    fn shown(&self) -> BTreeMap<AddressRange, String> {
        let mut shown = BTreeMap::new();
        for allocation in &self.allocations {
            let name = allocation.name_any();
            let deletion = &allocation.metadata.deletion_timestamp;
            assert!(deletion.is_none(), "{name} is still being deleted");
            let status = allocation.status.as_ref().unwrap();
            match status.phase {
                Some(AllocationPhase::Allocated) => {
                    let start = status.start_address.as_deref().unwrap();
                    let range = range(start, status.end_address.as_deref().unwrap());
                    let count = status
                        .allocated_count
                        .map(|count| u128::try_from(count).unwrap());
                    assert_eq!(count, Some(range.count()), "{name}");
                    let other = shown.insert(range, allocation.uid().unwrap());
                    assert_eq!(other, None, "{name} has what another has");
                }
                Some(AllocationPhase::Failed) => {}
                phase => panic!("{name} is {phase:?}"),
            }
        }
        shown
    }

    /// Every page has what touches its slice, and nothing else.
    fn pages_say(&self, shown: &BTreeMap<AddressRange, String>) {
        let mut homes = 0;
        for page in &self.pages {
            let slice = range(&page.spec.start_address, &page.spec.end_address);
            let touching = shown.iter().filter(|(range, _)| range.overlaps(&slice));
            let expected: Vec<_> = touching.map(|(range, uid)| (*range, uid.clone())).collect();
            let entries = page.spec.entries.iter();
            let mut found: Vec<_> = entries
                .map(|entry| {
                    let range = range(&entry.start_address, &entry.end_address);
                    (range, entry.allocation.uid.clone())
                })
                .collect();
            found.sort();
            assert_eq!(found, expected, "{}", page.name_any());
            let here = found
                .iter()
                .filter(|(range, _)| slice.contains(range.start()));
            homes += here.count();
        }
        assert_eq!(homes, shown.len(), "every grant has one home");
    }

    fn numbers_say(&self, shown: &BTreeMap<AddressRange, String>) {
        let status = self.pool.status.as_ref().unwrap();
        let number = |count: Option<i32>| u128::try_from(count.unwrap()).unwrap();
        let allocated: u128 = shown.keys().map(AddressRange::count).sum();
        let free = free(shown);
        let available: u128 = free.iter().map(AddressRange::count).sum();
        let largest = free.iter().map(AddressRange::count).max();
        assert_eq!(number(status.allocated_ips), allocated);
        assert_eq!(number(status.available_ips), available);
        assert_eq!(
            number(status.total_ips),
            allocated + available,
            "none is lost"
        );
        assert_eq!(
            number(status.allocation_count),
            u128::try_from(shown.len()).unwrap()
        );
        assert_eq!(
            number(status.largest_free_block),
            largest.unwrap_or_default()
        );
    }

    /// Only what does not fit is refused, and the condition says why.
    fn refusals_are_right(&self, shown: &BTreeMap<AddressRange, String>) {
        let free = free(shown);
        let largest = free.iter().map(AddressRange::count).max();
        for allocation in &self.allocations {
            let status = allocation.status.as_ref().unwrap();
            if status.phase != Some(AllocationPhase::Failed) {
                continue;
            }
            let name = allocation.name_any();
            let mut conditions = status.conditions.iter();
            let ready = conditions.find(|condition| condition.type_ == types::READY);
            let reason = &ready.unwrap().reason;
            if let Some(pinned) = &allocation.spec.pinned_range {
                let pinned = range(&pinned.start_address, &pinned.end_address);
                let fits = |free: &AddressRange| {
                    free.contains(pinned.start()) && free.contains(pinned.end())
                };
                assert!(
                    !free.iter().any(fits),
                    "{name} fits and is refused: {reason}"
                );
                // What nobody has is reserved.
                let taken = shown.keys().any(|held| held.overlaps(&pinned));
                let outside = pinned.overlaps(&range(RESERVED.0, RESERVED.1));
                let right = (taken && reason == reasons::PINNED_RANGE_TAKEN)
                    || (outside && reason == reasons::PINNED_RANGE_OUTSIDE);
                assert!(right, "{name} is refused: {reason}");
            } else {
                let count = allocation.spec.count.unwrap_or(1);
                let fits = u128::try_from(count).unwrap() <= largest.unwrap_or_default();
                assert!(!fits, "{name} fits and is refused: {reason}");
                assert_eq!(reason, reasons::POOL_EXHAUSTED, "{name}");
            }
        }
    }
}

/// The free runs of the pool, found by going through all of its addresses.
fn free(shown: &BTreeMap<AddressRange, String>) -> Vec<AddressRange> {
    let reserved = range(RESERVED.0, RESERVED.1);
    let mut free = Vec::new();
    for (start, end) in WINDOWS {
        let window = range(start, end);
        let mut next = window.start();
        let held = shown.keys().copied().chain([reserved]);
        let mut held: Vec<_> = held.filter(|held| held.overlaps(&window)).collect();
        held.sort();
        for held in held {
            free.extend(before(held.start()).and_then(|last| AddressRange::new(next, last).ok()));
            next = after(held.end());
        }
        free.extend(AddressRange::new(next, window.end()));
    }
    free
}

fn number(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => panic!("{address} is of no window"),
    }
}

fn before(address: IpAddr) -> Option<IpAddr> {
    let before = number(address).checked_sub(1);
    before.map(|number| IpAddr::V4(number.into()))
}

fn after(address: IpAddr) -> IpAddr {
    IpAddr::V4((number(address) + 1).into())
}
