use super::*;
use crate::testing::{holder, pool, range};

fn held(pool: &mut Pool, text: &str, owner: &str) {
    pool.hold(&range(text), holder(text, owner)).expect("free");
}

#[test]
fn a_small_pool_shows_each_address() {
    let mut pool = pool("10.0.0.0/26", &["10.0.0.0/30"], &["10.0.0.0-10.0.0.47"]);
    held(&mut pool, "10.0.0.8-10.0.0.15", "team-a/demo");
    held(&mut pool, "10.0.0.18", "b/x");
    pool.block(&range("10.0.0.20-10.0.0.21"), "Node one");
    held(&mut pool, "10.0.0.46-10.0.0.49", "b/old");
    insta::assert_snapshot!(map(&pool, 16), @r"
    10.0.0.0/26: gives 44 addresses, 31 free in runs of up to 24, 13 in 3 allocations; a cell is 1 address
    10.0.0.0   ####....AAAAAAAA
    10.0.0.16  ..C.!!..........
    10.0.0.32  ..............BB
    10.0.0.48  BB-------------#
    . free   # reserved or never given   ! in use by others than allocations   - not managed
    A TenantCluster team-a/demo: 8 addresses
    B TenantCluster b/old: 4 addresses
    C TenantCluster b/x: 1 address
    1 range is held that the pool does not give out now
    ");
}

#[test]
fn cells_of_several_addresses_show_who_has_any_of_them() {
    let mut pool = pool("10.0.0.0/22", &["10.0.3.0/24"], &[]);
    held(&mut pool, "10.0.0.1-10.0.0.64", "team-a/demo");
    held(&mut pool, "10.0.0.70-10.0.0.98", "b/x");
    held(&mut pool, "10.0.0.99-10.0.0.101", "c/y");
    held(&mut pool, "10.0.2.200", "c/y");
    pool.block(&range("10.0.1.1"), "Node one");
    insta::assert_snapshot!(map(&pool, 32), @r"
    10.0.0.0/22: gives 767 addresses, 669 free in runs of up to 454, 97 in 4 allocations; a cell is 2 addresses
    10.0.0.0    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    10.0.0.64   A..BBBBBBBBBBBBBB*C.............
    10.0.0.128  ................................
    10.0.0.192  ................................
    10.0.1.0    !...............................
    10.0.1.64   ................................
    …
    10.0.2.192  ....C...........................
    10.0.3.0    ################################
    …
    . free   # reserved or never given   ! in use by others than allocations   * several owners
    A TenantCluster team-a/demo: 64 addresses
    B TenantCluster b/x: 29 addresses
    C TenantCluster c/y: 4 addresses
    ");
}

#[test]
fn a_large_pool_is_folded() {
    let mut pool = pool("10.0.0.0/8", &[], &["10.0.0.0-10.127.255.255"]);
    held(&mut pool, "10.0.0.1-10.0.16.0", "team-a/demo");
    held(&mut pool, "10.64.0.1", "b/x");
    insta::assert_snapshot!(map(&pool, 64), @r"
    10.0.0.0/8: gives 8388607 addresses, 8384510 free in runs of up to 4194302, 4097 in 2 allocations; a cell is 16384 addresses
    10.0.0.0    A...............................................................
    10.16.0.0   ................................................................
    …
    10.64.0.0   B...............................................................
    10.80.0.0   ................................................................
    …
    10.128.0.0  ----------------------------------------------------------------
    …
    . free   - not managed
    A TenantCluster team-a/demo: 4096 addresses
    B TenantCluster b/x: 1 address
    ");
}

#[test]
fn an_ipv6_pool_has_more_addresses_than_cells() {
    let mut pool = pool("fd00::/64", &["fd00::/72"], &[]);
    held(
        &mut pool,
        "fd00:0:0:0:8000::-fd00:0:0:0:8000::ffff",
        "team-a/demo",
    );
    insta::assert_snapshot!(map(&pool, 32), @r"
    fd00::/64: gives 18374686479671623680 addresses, 18374686479671558144 free in runs of up to 9223372036854710272, 65536 in 1 allocation; a cell is 2^55 addresses
    fd00::            ##..............................
    fd00::1000:0:0:0  ................................
    …
    fd00::8000:0:0:0  A...............................
    fd00::9000:0:0:0  ................................
    …
    . free   # reserved or never given
    A TenantCluster team-a/demo: 65536 addresses
    ");
}

#[test]
fn the_legend_names_the_biggest_owners_and_counts_the_rest() {
    let mut pool = pool("10.0.0.0/24", &[], &[]);
    for index in 1..=60 {
        held(
            &mut pool,
            &format!("10.0.0.{}", index * 2),
            &format!("team/{index:02}"),
        );
    }
    let text = map(&pool, 64);
    assert!(
        text.contains("\nJ TenantCluster team/10: 1 address\nand 50 more\n"),
        "{text}"
    );
    assert!(text.contains("+ a smaller owner"), "{text}");
}

#[test]
fn no_width_and_no_network_makes_it_fail() {
    for cidr in [
        "10.0.0.0/32",
        "10.0.0.0/31",
        "128.0.0.0/1",
        "8000::/1",
        "ffff::/128",
    ] {
        for width in [0, 1, 3, 7, 80, usize::MAX] {
            let text = map(&pool(cidr, &[], &[]), width);
            assert!(text.lines().count() <= 20, "{cidr} {width}: {text}");
        }
    }
}
