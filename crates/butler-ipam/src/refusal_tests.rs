use pretty_assertions::assert_eq;

use crate::testing::{cluster, count, exactly, holder, pool, range};
use crate::{Pool, Quota, Request};

fn refused(pool: &Pool, request: &Request) -> (&'static str, &'static str, String) {
    let refusal = pool.find(request).expect_err("refused");
    (refusal.reason(), refusal.field(), refusal.to_string())
}

fn held(pool: &mut Pool, text: &str, allocation: &str, owner: &str) {
    pool.hold(&range(text), holder(allocation, owner))
        .expect("free");
}

#[test]
fn an_exhausted_pool_says_who_has_most_of_it() {
    let mut pool = pool("10.0.0.0/24", &[], &[]);
    held(&mut pool, "10.0.0.64-10.0.0.159", "1", "team-a/demo");
    held(&mut pool, "10.0.0.1-10.0.0.16", "2", "b/x");
    held(&mut pool, "10.0.0.17-10.0.0.31", "3", "c/y");
    held(&mut pool, "10.0.0.160-10.0.0.174", "4", "c/z");
    held(&mut pool, "10.0.0.206", "5", "c/small");
    pool.block(&range("10.0.0.40"), "gateway");
    assert_eq!(
        refused(&pool, &count(64)),
        (
            "PoolExhausted",
            "spec.count",
            "no run of 64 free addresses: 110 of 254 are free, the largest free block is 48 (10.0.0.207-10.0.0.254); \
             1 is in use by others than allocations; most are held by TenantCluster team-a/demo (96), \
             TenantCluster b/x (16), TenantCluster c/y (15); release some, ask for fewer, or widen the pool"
                .to_owned()
        )
    );
}

#[test]
fn a_pool_that_others_use_up_says_that_nobody_holds_any() {
    let mut pool = pool("10.0.0.0/30", &[], &[]);
    pool.block(&range("10.0.0.0/30"), "another pool");
    assert_eq!(
        refused(&pool, &count(1)).2,
        "no free address: 0 of 2 are free; 2 are in use by others than allocations; nobody holds any; \
         release some, ask for fewer, or widen the pool"
    );
}

#[test]
fn more_than_any_window_has_can_never_be_had() {
    let pool = pool(
        "10.0.0.0/24",
        &[],
        &["10.0.0.1-10.0.0.9", "10.0.0.20-10.0.0.30"],
    );
    assert_eq!(
        refused(&pool, &count(12)),
        (
            "CountTooLarge",
            "spec.count",
            "12 addresses can never be had in one run: the most this pool can give is 11; ask for fewer, or widen the pool"
                .to_owned()
        )
    );
    let nothing = crate::testing::pool("10.0.0.0/24", &["10.0.0.0/24"], &[]);
    assert_eq!(
        refused(&nothing, &count(1)).2,
        "the pool gives out no address at all; widen its windows or reserve less"
    );
}

#[test]
fn a_pinned_range_that_is_taken_says_by_whom_from_where_on() {
    let mut pool = pool("10.0.0.0/24", &[], &[]);
    held(&mut pool, "10.0.0.14-10.0.0.30", "1", "team-a/demo");
    pool.block(&range("10.0.0.8"), "Node worker-1");
    assert_eq!(
        refused(&pool, &exactly("10.0.0.10-10.0.0.19")),
        (
            "PinnedRangeTaken",
            "spec.pinnedRange",
            "10.0.0.10-10.0.0.19 cannot be had: 10.0.0.14-10.0.0.19 are held by TenantCluster team-a/demo; \
             pin other addresses, or release these"
                .to_owned()
        )
    );
    assert_eq!(
        refused(&pool, &exactly("10.0.0.1-10.0.0.19")).2,
        "10.0.0.1-10.0.0.19 cannot be had: 10.0.0.8 is in use: Node worker-1; pin other addresses, or release these"
    );
}

#[test]
fn a_pinned_range_outside_says_in_which_way() {
    let pool = pool(
        "10.0.0.0/24",
        &["10.0.0.64/26"],
        &["10.0.0.0-10.0.0.19", "10.0.0.30-10.0.0.99"],
    );
    for (pinned, message) in [
        (
            "10.0.1.4",
            "10.0.1.4 is not within the pool's network 10.0.0.0/24; pin addresses of that network",
        ),
        (
            "10.0.0.250-10.0.1.4",
            "10.0.0.250-10.0.1.4 is not within the pool's network 10.0.0.0/24; pin addresses of that network",
        ),
        (
            "fd00::1",
            "fd00::1 is not within the pool's network 10.0.0.0/24; pin addresses of that network",
        ),
        (
            "10.0.0.200-10.0.0.210",
            "10.0.0.200-10.0.0.210 is in the pool's network 10.0.0.0/24 but in none of its windows; \
             pin addresses of a window, or add one to the pool",
        ),
        (
            "10.0.0.25-10.0.0.30",
            "10.0.0.25-10.0.0.30 reaches beyond the window 10.0.0.30-10.0.0.99; pin addresses within it, or widen it",
        ),
        (
            "10.0.0.60-10.0.0.70",
            "10.0.0.60-10.0.0.70 touches 10.0.0.64-10.0.0.127, which the pool keeps reserved; pin other addresses",
        ),
        (
            "10.0.0.0-10.0.0.3",
            "10.0.0.0-10.0.0.3 has the first or last address of 10.0.0.0/24, which no host may have; pin other addresses",
        ),
    ] {
        assert_eq!(
            refused(&pool, &exactly(pinned)),
            ("PinnedRangeOutside", "spec.pinnedRange", message.to_owned())
        );
    }
}

#[test]
fn a_quota_holds_for_counts_and_pinned_ranges() {
    let pool = pool("10.0.0.0/24", &[], &[]);
    let quota = Some(Quota { most: 8, used: 6 });
    let message =
        "TenantCluster a/b may have 8 loadbalancer addresses and has 6; 4 more are too many";
    assert_eq!(
        refused(&pool, &Request { quota, ..count(4) }),
        ("QuotaExceeded", "spec.count", message.to_owned())
    );
    let four = Request {
        quota,
        ..exactly("10.0.0.4/30")
    };
    assert_eq!(
        refused(&pool, &four),
        ("QuotaExceeded", "spec.pinnedRange", message.to_owned())
    );
    assert!(pool.find(&Request { quota, ..count(2) }).is_ok());
    let full = Some(Quota { most: 8, used: 8 });
    assert_eq!(
        refused(
            &pool,
            &Request {
                quota: full,
                ..count(1)
            }
        )
        .2,
        "TenantCluster a/b may have 8 loadbalancer addresses and has 8; 1 more is too many"
    );
}

#[test]
fn what_can_never_be_is_said_before_what_may_change() {
    let pool = pool("10.0.0.0/24", &[], &[]);
    let quota = Some(Quota { most: 0, used: 0 });
    assert_eq!(
        refused(
            &pool,
            &Request {
                quota,
                ..count(300)
            }
        )
        .0,
        "CountTooLarge"
    );
    let outside = Request {
        quota,
        ..exactly("10.0.0.0")
    };
    assert_eq!(refused(&pool, &outside).0, "PinnedRangeOutside");
}

#[test]
fn owners_are_counted_over_all_their_allocations() {
    let mut pool = pool("10.0.0.0/24", &[], &[]);
    held(&mut pool, "10.0.0.1-10.0.0.4", "1", "a/one");
    held(&mut pool, "10.0.0.10-10.0.0.14", "2", "a/two");
    held(&mut pool, "10.0.0.20-10.0.0.21", "3", "a/one");
    let (one, two) = (cluster("a/one"), cluster("a/two"));
    assert_eq!(pool.owners(), [(&one, 6), (&two, 5)]);
    pool.release(&range("10.0.0.1-10.0.0.4")).expect("held");
    assert_eq!(pool.owners(), [(&two, 5), (&one, 2)]);
    pool.release(&range("10.0.0.20-10.0.0.21")).expect("held");
    assert_eq!(pool.owners(), [(&two, 5)]);
}
