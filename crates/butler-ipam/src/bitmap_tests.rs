use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn span(first: u128, last: u128) -> Span {
    Span { first, last }
}

#[test]
fn half_of_ipv6_is_one_entry() {
    let mut bitmap = Bitmap::default();
    bitmap.set(span(1 << 127, u128::MAX));
    assert_eq!(bitmap.count(), 1 << 127);
    assert!(bitmap.pages.is_empty() && bitmap.all(span(1 << 127, u128::MAX)));
    bitmap.clear(span(u128::MAX, u128::MAX));
    assert_eq!(bitmap.count(), (1 << 127) - 1);
    assert!(!bitmap.any(span(u128::MAX, u128::MAX)));
    assert!(!bitmap.all(span(1 << 127, u128::MAX)) && bitmap.any(span(0, u128::MAX)));
    bitmap.clear(span(0, u128::MAX));
    assert_eq!(bitmap.count(), 0);
    assert!(!bitmap.any(span(0, u128::MAX)));
}

#[test]
fn a_page_that_is_empty_again_is_forgotten() {
    let mut bitmap = Bitmap::default();
    bitmap.set(span(4000, 4200));
    assert_eq!(bitmap.pages.len(), 2);
    bitmap.clear(span(4000, 4200));
    assert!(bitmap.pages.is_empty());
}

#[test]
fn a_page_filled_in_pieces_counts_as_full() {
    let mut bitmap = Bitmap::default();
    bitmap.set(span(0, 4094));
    assert!(!bitmap.all(span(0, 4095)));
    bitmap.set(span(4095, 12_287));
    assert!(bitmap.all(span(0, 12_287)) && !bitmap.all(span(0, 12_288)));
    assert_eq!(bitmap.count(), 12_288);
}

/// Spans whose ends lie near the edges of words and pages.
fn operations() -> impl Strategy<Value = (u128, Vec<(bool, u128, u128)>)> {
    let base = prop_oneof![Just(0), Just((1 << 64) - 64), Just(u128::MAX - 20_479)];
    let near = (0_u128..=160, 0_u128..128).prop_map(|(word, off)| word * 128 + off);
    let place = prop_oneof![
        near,
        (0_u128..=4, 0_u128..4).prop_map(|(page, off)| page * 4096 + off)
    ];
    let place = place.prop_map(|place| place.min(20_479)).boxed();
    let operation = (any::<bool>(), place.clone(), place);
    (base, prop::collection::vec(operation, 1..12))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_bitmap_is_a_set((base, operations) in operations()) {
        let mut bitmap = Bitmap::default();
        let mut model = BTreeSet::new();
        for (set, one, other) in operations {
            let span = span(base + one.min(other), base + one.max(other));
            let inside: u128 = model.range(span.first..=span.last).map(|_| 1).sum();
            prop_assert_eq!(bitmap.any(span), inside > 0);
            prop_assert_eq!(bitmap.all(span), inside == span.length());
            if set {
                bitmap.set(span);
                model.extend(span.first..=span.last);
                prop_assert!(bitmap.all(span));
            } else {
                bitmap.clear(span);
                model.retain(|&number| !span.contains(number));
                prop_assert!(!bitmap.any(span));
            }
            prop_assert_eq!(bitmap.count(), model.iter().map(|_| 1).sum::<u128>());
        }
    }
}
