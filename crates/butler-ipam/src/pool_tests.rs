use pretty_assertions::assert_eq;

use super::*;
use crate::testing::{count, exactly, holder, pool, range};

fn granted(pool: &mut Pool, request: &Request, allocation: &str) -> String {
    let range = pool.allocate(request, holder(allocation, "a/b"));
    range.expect("granted").to_string()
}

#[test]
fn clusters_get_addresses_one_after_the_other() {
    let mut pool = pool("10.0.0.0/24", &["10.0.0.0/28"], &[]);
    assert_eq!(granted(&mut pool, &count(8), "1"), "10.0.0.16-10.0.0.23");
    assert_eq!(granted(&mut pool, &count(4), "2"), "10.0.0.24-10.0.0.27");
    assert_eq!(
        granted(&mut pool, &exactly("10.0.0.100"), "3"),
        "10.0.0.100-10.0.0.100"
    );
    let held: Vec<_> = pool
        .held()
        .map(|(_, holder)| holder.allocation.as_str())
        .collect();
    assert_eq!(held, ["1", "2", "3"]);
}

#[test]
fn to_find_changes_nothing() {
    let pool = pool("10.0.0.0/24", &[], &[]);
    let before = pool.numbers();
    assert_eq!(pool.find(&count(8)), pool.find(&count(8)));
    assert_eq!(pool.numbers(), before);
}

#[test]
fn a_hole_of_the_right_size_is_filled_before_a_large_run_is_cut() {
    let mut pool = pool("10.0.0.0/24", &[], &[]);
    for allocation in 0..4 {
        granted(&mut pool, &count(8), &allocation.to_string());
    }
    pool.release(&range("10.0.0.9-10.0.0.16")).expect("held");
    assert_eq!(granted(&mut pool, &count(8), "again"), "10.0.0.9-10.0.0.16");
}

#[test]
fn a_grant_of_a_narrowed_pool_is_kept_and_its_addresses_do_not_become_free() {
    let mut pool = pool("10.0.0.0/24", &[], &["10.0.0.10-10.0.0.19"]);
    let old = range("10.0.0.18-10.0.0.25");
    pool.hold(&old, holder("old", "a/b")).expect("free");
    pool.hold(&range("192.168.0.1-192.168.0.4"), holder("older", "a/b"))
        .expect("free");
    let numbers = pool.numbers();
    assert_eq!(
        (numbers.total, numbers.available, numbers.allocated),
        (10, 8, 12)
    );
    assert_eq!((numbers.allocations, numbers.outside), (2, 2));
    pool.release(&old).expect("held");
    let numbers = pool.numbers();
    assert_eq!(
        (numbers.available, numbers.allocated, numbers.outside),
        (10, 4, 1)
    );
}

#[test]
fn a_ledger_may_even_name_the_other_family() {
    // fd00::/120 has the numbers of no IPv4 address, ::a00:0 has those of 10.0.0.0.
    let mut pool = pool("10.0.0.0/24", &[], &[]);
    let foreign = range("::a00:1-::a00:8");
    pool.hold(&foreign, holder("foreign", "a/b")).expect("free");
    pool.block(&range("::a00:0/120"), "nothing of ours");
    assert_eq!(pool.find(&count(8)), Ok(range("10.0.0.1-10.0.0.8")));
    assert_eq!((pool.numbers().allocated, pool.numbers().outside), (8, 1));
    assert_eq!(pool.holder_of("10.0.0.1".parse().unwrap()), None);
    assert!(pool.holder_of("::a00:1".parse().unwrap()).is_some());
    pool.release(&foreign).expect("held");
    assert_eq!(pool.numbers().allocated, 0);
}

#[test]
fn addresses_are_held_once() {
    let mut pool = pool("10.0.0.0/24", &[], &[]);
    let range_held = range("10.0.0.10-10.0.0.19");
    pool.hold(&range_held, holder("1", "a/b")).expect("free");
    pool.hold(&range_held, holder("1", "a/b"))
        .expect("the same again");
    assert_eq!(pool.numbers().allocations, 1);
    for (overlapping, taken) in [
        ("10.0.0.19-10.0.0.30", "10.0.0.19-10.0.0.19"),
        ("10.0.0.1-10.0.0.10", "10.0.0.10-10.0.0.10"),
        ("10.0.0.1-10.0.0.30", "10.0.0.10-10.0.0.19"),
        ("10.0.0.12", "10.0.0.12-10.0.0.12"),
    ] {
        let error = pool.hold(&range(overlapping), holder("2", "c/d"));
        assert_eq!(
            error.expect_err("held").to_string(),
            format!("{taken} is held by TenantCluster a/b already (allocation 1)")
        );
    }
    assert_eq!(pool.numbers().allocated, 10);
}

#[test]
fn what_is_released_is_what_was_granted() {
    let mut pool = pool("10.0.0.0/24", &[], &[]);
    let held = range("10.0.0.10-10.0.0.19");
    pool.hold(&held, holder("1", "a/b")).expect("free");
    for not_held in ["10.0.0.10-10.0.0.18", "10.0.0.11-10.0.0.19", "10.0.0.50"] {
        let range = range(not_held);
        assert_eq!(pool.release(&range), Err(NotHeld { range }));
    }
    assert_eq!(pool.release(&held), Ok(holder("1", "a/b")));
    assert_eq!(pool.release(&held), Err(NotHeld { range: held }));
}

#[test]
fn what_is_blocked_is_not_given_also_after_a_release() {
    let mut pool = pool("10.0.0.0/28", &[], &[]);
    let held = range("10.0.0.1-10.0.0.8");
    pool.hold(&held, holder("1", "a/b")).expect("free");
    pool.block(&range("10.0.0.4-10.0.0.20"), "Node one");
    pool.block(&range("10.0.0.4-10.0.0.20"), "Node one");
    assert_eq!(pool.numbers().available, 0);
    pool.release(&held).expect("held");
    assert_eq!(pool.numbers().available, 3);
    assert_eq!(pool.find(&count(3)), Ok(range("10.0.0.1-10.0.0.3")));
    assert_eq!(
        pool.find(&count(4)).expect_err("blocked").reason(),
        "PoolExhausted"
    );
}

#[test]
fn where_blocks_overlap_the_first_word_counts() {
    let mut pool = pool("10.0.0.0/24", &[], &[]);
    pool.block(&range("10.0.0.10"), "Node one");
    pool.block(&range("10.0.0.5-10.0.0.15"), "Service two");
    let by = |address: &str| match pool.find(&exactly(address)) {
        Err(Refusal::PinnedTaken {
            by: TakenBy::Other(what),
            ..
        }) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(by("10.0.0.9"), "Service two");
    assert_eq!(by("10.0.0.10"), "Node one");
    assert_eq!(by("10.0.0.11-10.0.0.30"), "Service two");
}

#[test]
fn the_holder_of_an_address_is_known() {
    let mut pool = pool("10.0.0.0/24", &[], &[]);
    let held = range("10.0.0.10-10.0.0.19");
    pool.hold(&held, holder("1", "a/b")).expect("free");
    for address in ["10.0.0.10", "10.0.0.15", "10.0.0.19"] {
        let (range, by) = pool.holder_of(address.parse().unwrap()).expect("held");
        assert_eq!((range, by.allocation.as_str()), (&held, "1"));
    }
    for address in ["10.0.0.9", "10.0.0.20", "fd00::1"] {
        assert_eq!(pool.holder_of(address.parse().unwrap()), None);
    }
}

#[test]
fn numbers_account_for_the_whole_network() {
    let mut pool = pool(
        "10.0.0.0/24",
        &["10.0.0.0/28", "10.0.0.96/28"],
        &["10.0.0.64-10.0.0.127"],
    );
    pool.hold(&range("10.0.0.72-10.0.0.79"), holder("1", "a/b"))
        .expect("free");
    assert_eq!(
        pool.numbers(),
        Numbers {
            total: 48,
            allocated: 8,
            available: 40,
            allocations: 1,
            fragmentation_percent: 60,
            largest_free: 16,
            size: 256,
            reserved: 32,
            // All but the reserved 16 and the window below 128, and of the upper half all but the broadcast address.
            unmanaged: 48 + 127,
            outside: 0,
        }
    );
}

#[test]
fn free_addresses_in_one_piece_are_not_fragmented() {
    assert_eq!(fragmentation(0, 0, 0), 0);
    assert_eq!(fragmentation(10, 10, 1), 0);
    assert_eq!(fragmentation(2, 3, 2), 33);
    assert_eq!(fragmentation(1, 1000, 1000), 99);
    assert_eq!(fragmentation(1 << 126, 1 << 127, 2), 50);
}

#[test]
fn the_last_addresses_of_both_families_are_given() {
    for (cidr, last) in [
        ("255.255.255.254/31", "255.255.255.255"),
        ("255.255.255.255/32", "255.255.255.255"),
        (
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ),
        (
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ),
    ] {
        let mut pool = pool(cidr, &[], &[]);
        let before = pool.numbers();
        granted(&mut pool, &exactly(last), "1");
        assert!(pool.holder_of(last.parse().unwrap()).is_some());
        pool.release(&range(last)).expect("held");
        assert_eq!(pool.numbers(), before);
    }
}

#[test]
fn whole_ipv6_windows_are_cut_like_small_ones() {
    let mut pool = pool("ff00::/8", &["ff00::/16"], &[]);
    assert_eq!(granted(&mut pool, &count(65_536), "1"), "ff01::-ff01::ffff");
    pool.block(&range("ff02::/16"), "another pool");
    pool.hold(&range("ff80::/9"), holder("huge", "a/b"))
        .expect("free");
    let numbers = pool.numbers();
    assert_eq!(numbers.allocated, (1 << 119) + 65_536);
    assert_eq!(numbers.largest_free, 0x7d << 112);
    assert_eq!(numbers.available, (0x7d << 112) + (1 << 112) - 65_536,);
    pool.release(&range("ff80::/9")).expect("held");
    assert_eq!(pool.numbers().allocated, 65_536);
}

#[test]
fn more_than_an_allocation_may_have_is_never_found() {
    let pool = pool("10.0.0.0/8", &[], &[]);
    assert_eq!(
        pool.find(&count(65_537)),
        Err(Refusal::CountTooLarge {
            count: 65_537,
            most: 65_536
        })
    );
}

#[test]
fn a_mistake_in_the_index_of_free_runs_books_no_address_twice() {
    let mut pool = pool("10.0.0.0/28", &[], &[]);
    pool.hold(&range("10.0.0.1-10.0.0.4"), holder("1", "a/b"))
        .expect("free");
    pool.block(&range("10.0.0.5"), "Node one");
    for wrong in ["10.0.0.1-10.0.0.3", "10.0.0.5", "10.0.0.15"] {
        let mut mistaken = pool.clone();
        mistaken.free = [Span::of(&range(wrong))].into_iter().collect();
        assert_eq!(mistaken.find(&count(1)), Ok(range("10.0.0.6")), "{wrong}");
    }
}
