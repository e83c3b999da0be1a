use proptest::prelude::*;

use butler_api::net::Cidr;

use super::*;
use crate::testing::range;

#[test]
fn a_range_that_is_one_block_is_written_as_a_block() {
    for (given, written) in [
        ("10.0.0.0-10.0.0.255", "10.0.0.0/24"),
        ("10.0.0.8-10.0.0.15", "10.0.0.8/29"),
        ("10.0.0.7-10.0.0.7", "10.0.0.7/32"),
        ("10.0.0.4-10.0.0.11", "10.0.0.4-10.0.0.11"),
        ("10.0.0.0-10.0.0.4", "10.0.0.0-10.0.0.4"),
        ("0.0.0.0-255.255.255.255", "0.0.0.0/0"),
        ("255.255.255.255-255.255.255.255", "255.255.255.255/32"),
        ("fd00::-fd00::ffff", "fd00::/112"),
        ("fd00::1-fd00::2", "fd00::1-fd00::2"),
        ("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::/0"),
    ] {
        assert_eq!(range_text(&range(given)), written);
    }
}

#[test]
fn ranges_of_two_families_have_nothing_in_common() {
    assert_eq!(intersection(&range("0.0.0.0/0"), &range("::/0")), None);
    assert_eq!(
        intersection(&range("10.0.0.0/24"), &range("10.0.0.250-10.0.1.5")),
        Some(range("10.0.0.250-10.0.0.255"))
    );
    assert_eq!(
        intersection(&range("10.0.0.0/24"), &range("10.0.1.0/24")),
        None
    );
}

#[test]
fn slices_reach_the_last_address_of_either_family() {
    let last = "255.255.255.255";
    assert_eq!(slice_of(last.parse().unwrap()), range("255.255.252.0/22"));
    assert_eq!(slices(&range(last)).count(), 1);
    let last = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    assert_eq!(
        slice_of(last.parse().unwrap()).end(),
        last.parse::<IpAddr>().unwrap()
    );
    assert_eq!(
        slices(&range(last)).last(),
        Some(slice_of(last.parse().unwrap()))
    );
}

#[test]
fn slices_of_all_of_ipv6_come_one_at_a_time() {
    let first: Vec<_> = slices(&range("::/0")).take(2).collect();
    assert_eq!(first, [range("::/118"), range("::400/118")]);
}

/// Any range of either family, often a short one, often at an end of the family.
fn ranges() -> impl Strategy<Value = AddressRange> {
    let ends = prop_oneof![
        any::<(u128, u128)>(),
        (any::<u128>(), 0_u128..10_000).prop_map(|(at, length)| (at, at.saturating_add(length))),
        (0_u128..10_000).prop_map(|length| (u128::MAX - length, u128::MAX)),
        (0_u32..128, any::<u128>()).prop_map(|(bits, at)| {
            let host = (1 << bits) - 1;
            (at & !host, at | host)
        }),
    ];
    (ends, any::<bool>()).prop_map(|((one, other), short)| {
        let (family, shift) = if short {
            (Family::V4, 96)
        } else {
            (Family::V6, 0)
        };
        // A short address is made of the high bits, or of the low ones where the ends would be the same.
        let (one, other) = if one >> shift == other >> shift && short {
            (one & 0xffff_ffff, other & 0xffff_ffff)
        } else {
            (one >> shift, other >> shift)
        };
        family.range(Span {
            first: one.min(other),
            last: one.max(other),
        })
    })
}

proptest! {
    #[test]
    fn the_text_of_a_range_reads_back(range in ranges()) {
        let text = range_text(&range);
        let read = text.parse::<Cidr>().map(|block| block.range()).or_else(|_| text.parse());
        prop_assert_eq!(read.unwrap(), range);
    }

    #[test]
    fn slices_partition_a_range(range in ranges()) {
        let mut next = Some(number(range.start()));
        for slice in slices(&range).take(100) {
            prop_assert_eq!(slice.count(), u128::from(SLICE_ADDRESSES));
            prop_assert_eq!(number(slice.start()) % u128::from(SLICE_ADDRESSES), 0);
            let part = Span::of(&intersection(&slice, &range).unwrap());
            prop_assert_eq!(Some(part.first), next);
            next = part.last.checked_add(1).filter(|&next| next <= number(range.end()));
            prop_assert_eq!(slice_of(slice.end()), slice);
        }
        let rest = next.map_or(0, |next| number(range.end()) - next);
        prop_assert!(next.is_none() || rest > 0 || range.count() > 100 * 1024);
    }

    #[test]
    fn what_two_ranges_share_lies_in_both(one in ranges(), other in ranges()) {
        let shared = intersection(&one, &other);
        prop_assert_eq!(shared, intersection(&other, &one));
        prop_assert_eq!(shared.is_some(), one.overlaps(&other));
        if let Some(shared) = shared {
            for address in [shared.start(), shared.end()] {
                prop_assert!(one.contains(address) && other.contains(address));
            }
        }
    }
}
