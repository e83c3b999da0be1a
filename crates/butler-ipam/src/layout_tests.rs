use butler_api::butler::network_pool::ReservedBlock;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::testing::{layout, range, spec, texts};

fn violations(spec: &NetworkPoolSpec) -> Vec<String> {
    let violations = Layout::of(spec).expect_err("not valid");
    violations.iter().map(ToString::to_string).collect()
}

#[test]
fn a_pool_without_windows_gives_its_network_but_not_the_first_and_last_address() {
    let layout = layout("10.0.0.0/24", &[], &[]);
    assert_eq!(texts(&layout.given()), ["10.0.0.1-10.0.0.254"]);
    assert_eq!(layout.windows(), [range("10.0.0.0/24")]);
    assert!(layout.unmanaged().is_empty());
    assert_eq!(layout.largest_window(), 254);
}

#[test]
fn an_ipv6_network_keeps_only_the_anycast_address_of_its_routers() {
    assert_eq!(
        texts(&layout("fd00::/120", &[], &[]).given()),
        ["fd00::1-fd00::ff"]
    );
}

#[test]
fn networks_of_one_or_two_addresses_give_all_of_them() {
    for cidr in [
        "10.0.0.6/31",
        "10.0.0.6/32",
        "255.255.255.254/31",
        "255.255.255.255/32",
        "fd00::/127",
        "fd00::/128",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
    ] {
        assert_eq!(texts(&layout(cidr, &[], &[]).given()), [cidr]);
    }
    assert_eq!(
        texts(&layout("10.0.0.4/30", &[], &[]).given()),
        ["10.0.0.5-10.0.0.6"]
    );
}

#[test]
fn what_is_reserved_is_not_given_also_in_a_window() {
    let layout = layout(
        "10.0.0.0/24",
        &[
            "10.0.0.0/28",
            "10.0.0.104/29",
            "10.0.0.8/29",
            "10.0.0.16/32",
        ],
        &["10.0.0.10-10.0.0.20", "10.0.0.100-10.0.0.255"],
    );
    assert_eq!(
        texts(&layout.given()),
        [
            "10.0.0.17-10.0.0.20",
            "10.0.0.100/30",
            "10.0.0.112-10.0.0.254"
        ]
    );
    assert_eq!(
        texts(layout.reserved()),
        ["10.0.0.0-10.0.0.16", "10.0.0.104/29"]
    );
    assert_eq!(texts(&layout.unmanaged()), ["10.0.0.21-10.0.0.99"]);
}

#[test]
fn windows_that_meet_give_one_run() {
    let layout = layout(
        "10.0.0.0/24",
        &[],
        &["10.0.0.10-10.0.0.19", "10.0.0.20-10.0.0.29"],
    );
    assert_eq!(texts(&layout.given()), ["10.0.0.10-10.0.0.29"]);
    assert_eq!(layout.windows().len(), 2);
}

#[test]
fn the_single_window_counts_only_where_no_ranges_are_given() {
    let mut spec = spec("10.0.0.0/24", &[], &["10.0.0.10-10.0.0.19"]);
    let allocation = spec.tenant_allocation.as_mut().unwrap();
    allocation.start = Some("nonsense".to_owned());
    assert_eq!(
        texts(&Layout::of(&spec).unwrap().given()),
        ["10.0.0.10-10.0.0.19"]
    );
    let allocation = spec.tenant_allocation.as_mut().unwrap();
    allocation.ranges.clear();
    allocation.start = Some("10.0.0.30".to_owned());
    allocation.end = Some("10.0.0.31".to_owned());
    assert_eq!(texts(&Layout::of(&spec).unwrap().given()), ["10.0.0.30/31"]);
}

#[test]
fn half_a_window_is_refused() {
    let mut spec = spec("10.0.0.0/24", &[], &[]);
    spec.tenant_allocation = Some(TenantAllocation {
        end: Some("10.0.0.9".to_owned()),
        ..TenantAllocation::default()
    });
    assert_eq!(
        violations(&spec),
        ["spec.tenantAllocation: end is given but start is not; write both, or ranges"]
    );
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let spec = spec(
        "10.0.0.0/24",
        &["10.0.0.0/28", "10.1.0.0/28", "10.0.0.9/28", "fd00::/64"],
        &[
            "10.0.0.50-10.0.0.60",
            "10.0.0.60-10.0.0.70",
            "10.0.0.20-10.0.0.30",
            "10.0.0.80-10.0.0.75",
            "here-there",
            "10.0.0.200-10.0.1.5",
            "192.168.0.1-192.168.0.2",
            "10.0.0.200-fd00::1",
        ],
    );
    assert_eq!(
        violations(&spec),
        [
            "spec.reserved[1].cidr: 10.1.0.0/28 lies outside of the network 10.0.0.0/24",
            "spec.reserved[2].cidr: CIDR \"10.0.0.9/28\" is not valid: the address has bits beyond the prefix; did you mean 10.0.0.0/28?",
            "spec.reserved[3].cidr: fd00::/64 lies outside of the network 10.0.0.0/24",
            "spec.tenantAllocation.ranges[1]: 10.0.0.60-10.0.0.70 overlaps 10.0.0.50-10.0.0.60, the window before it; join them or keep them apart",
            "spec.tenantAllocation.ranges[2]: 10.0.0.20-10.0.0.30 comes after 10.0.0.60-10.0.0.70 but lies below it; write the windows in ascending order",
            "spec.tenantAllocation.ranges[3]: address range \"10.0.0.80-10.0.0.75\" is not valid: the start must not come after the end",
            "spec.tenantAllocation.ranges[4]: address \"here\" is not valid: write an IPv4 or IPv6 address, for example 10.40.1.100 or fd00::10",
            "spec.tenantAllocation.ranges[4]: address \"there\" is not valid: write an IPv4 or IPv6 address, for example 10.40.1.100 or fd00::10",
            "spec.tenantAllocation.ranges[5]: 10.0.0.200-10.0.1.5 reaches beyond the network 10.0.0.0/24",
            "spec.tenantAllocation.ranges[6]: 192.168.0.1-192.168.0.2 lies outside of the network 10.0.0.0/24",
            "spec.tenantAllocation.ranges[7]: address range \"10.0.0.200-fd00::1\" is not valid: both ends must be IPv4 or both IPv6",
        ]
    );
}

#[test]
fn without_a_network_the_rest_is_still_read() {
    let mut spec = spec("10.0.0.0", &["nonsense", "10.9.0.0/24"], &[]);
    assert_eq!(violations(&spec).len(), 2);
    for everything in ["0.0.0.0/0", "::/0"] {
        spec.cidr = everything.to_owned();
        assert!(
            violations(&spec)[0].starts_with("spec.cidr: "),
            "{everything}"
        );
    }
}

#[test]
fn networks_of_any_size_are_laid_out_at_once() {
    let wide = layout("fd00::/8", &["fd00::/64"], &[]);
    assert_eq!(wide.largest_window(), (1 << 120) - (1 << 64));
    let half = layout("128.0.0.0/1", &["255.255.255.255/32"], &[]);
    assert_eq!(half.largest_window(), (1 << 31) - 2);
    let last = layout("ff00::/8", &[], &[]);
    assert_eq!(last.largest_window(), (1 << 120) - 1);
}

#[test]
fn the_pool_says_how_many_addresses_are_given_by_default() {
    let mut spec = spec("10.0.0.0/24", &[], &[]);
    let counts = |spec: &NetworkPoolSpec| {
        let layout = Layout::of(spec).unwrap();
        [AllocationType::Nodes, AllocationType::Loadbalancer].map(|kind| layout.default_count(kind))
    };
    assert_eq!(counts(&spec), [5, 8]);
    spec.tenant_allocation = Some(TenantAllocation {
        defaults: Some(AllocationDefaults {
            nodes_per_tenant: 3,
            lb_pool_per_tenant: 0,
        }),
        ..TenantAllocation::default()
    });
    assert_eq!(counts(&spec), [3, 8]);
}

#[test]
fn pools_overlap_where_both_give() {
    let one = layout("10.0.0.0/24", &[], &["10.0.0.10-10.0.0.99"]);
    let other = layout("10.0.0.0/16", &["10.0.0.64/26"], &[]);
    assert_eq!(texts(&overlap(&one, &other)), ["10.0.0.10-10.0.0.63"]);
    assert_eq!(overlap(&one, &other), overlap(&other, &one));
    let apart = layout("10.0.0.0/24", &[], &["10.0.0.100-10.0.0.110"]);
    assert!(overlap(&one, &apart).is_empty());
    // 10.0.0.0/24 and ::a00:0/120 are the same numbers.
    assert!(overlap(&one, &layout("::a00:0/120", &[], &[])).is_empty());
}

proptest! {
    #[test]
    fn no_reserved_and_no_forbidden_address_is_ever_given(
        ipv6 in any::<bool>(),
        prefix in 1_u8..=32,
        at in any::<u128>(),
        reserved in prop::collection::vec((0_u8..=32, any::<u128>()), 0..6),
        cuts in prop::collection::vec(any::<u128>(), 0..8),
    ) {
        // The network and everything in it, by the number of bits behind the prefix.
        let family = if ipv6 { Family::V6 } else { Family::V4 };
        let prefix = if ipv6 { prefix * 4 } else { prefix };
        let host = u128::MAX.checked_shr(128 - family.bits() + u32::from(prefix)).unwrap_or(0)
            & (u128::MAX >> (128 - family.bits()));
        let all = u128::MAX >> (128 - family.bits());
        let first = at & all & !host;
        let network = Span { first, last: first | host };
        let block = |(more, at): (u8, u128)| {
            let length = u32::from(prefix) + u32::from(more) * (family.bits() - u32::from(prefix)) / 32;
            let inner = (all.checked_shr(length).unwrap_or(0)) & all;
            (format!("{}/{length}", family.address(first | (at & host & !inner))), inner)
        };
        let mut spec = spec(&format!("{}/{prefix}", family.address(first)), &[], &[]);
        spec.reserved = reserved
            .into_iter()
            .map(|reserved| ReservedBlock { cidr: block(reserved).0, description: None })
            .collect();
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| first | (cut & host)).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let windows: Vec<_> = cuts
            .chunks_exact(2)
            .map(|ends| butler_api::butler::network_pool::PoolRange {
                start: family.address(ends[0]).to_string(),
                end: family.address(ends[1]).to_string(),
            })
            .collect();
        spec.tenant_allocation =
            Some(TenantAllocation { ranges: windows, ..TenantAllocation::default() });
        let layout = Layout::of(&spec).unwrap();
        let given = layout.given();
        for range in &given {
            prop_assert!(!layout.reserved().iter().any(|block| block.overlaps(range)));
            prop_assert!(layout.windows().iter().any(|window| window.overlaps(range)));
            prop_assert!(!layout.is_never_given(range.start()) && !layout.is_never_given(range.end()));
            prop_assert!(network.contains(crate::number::number(range.end())));
        }
        prop_assert!(given.windows(2).all(|pair| pair[0].end() < pair[1].start()));
        // Each address of the network is exactly one of: given, reserved, unmanaged, forbidden to hosts.
        let count = |ranges: &[AddressRange]| ranges.iter().map(AddressRange::count).sum::<u128>();
        let forbidden = never_given(layout.cidr())
            .filter(|span| !layout.reserved().iter().any(|block| Span::of(block).overlaps(*span)))
            .map(|_| 1)
            .sum::<u128>();
        prop_assert_eq!(
            count(&given) + count(layout.reserved()) + count(&layout.unmanaged()) + forbidden,
            network.length()
        );
    }
}
