use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn span(first: u128, last: u128) -> Span {
    Span { first, last }
}

#[test]
fn runs_that_meet_become_one() {
    let set: SpanSet = [span(1, 3), span(7, 9), span(4, 6)].into_iter().collect();
    assert_eq!(set.iter().collect::<Vec<_>>(), [span(1, 9)]);
}

#[test]
fn the_ends_of_all_numbers_are_numbers_like_others() {
    let all = span(0, u128::MAX);
    let mut set: SpanSet = [all].into_iter().collect();
    assert!(set.gaps(all).is_empty());
    set.remove(span(0, 0));
    set.remove(span(u128::MAX, u128::MAX));
    assert_eq!(set.gaps(all), [span(0, 0), span(u128::MAX, u128::MAX)]);
    assert_eq!(set.count(), u128::MAX - 1);
    set.insert(span(u128::MAX, u128::MAX));
    set.insert(span(0, 0));
    assert!(set.contains(all));
}

/// Spans of a small space that lies at the beginning, in the middle or at the end of all numbers.
fn operations() -> impl Strategy<Value = (u128, Vec<(bool, u128, u128)>)> {
    let base = prop_oneof![Just(0), Just(1 << 64), Just(u128::MAX - 63)];
    let operation = (any::<bool>(), 0_u128..64, 0_u128..64);
    (base, prop::collection::vec(operation, 1..40))
}

proptest! {
    #[test]
    fn a_set_of_runs_is_a_set((base, operations) in operations()) {
        let mut set = SpanSet::default();
        let mut model = BTreeSet::new();
        for (insert, one, other) in operations {
            let span = span(base + one.min(other), base + one.max(other));
            let numbers = span.first..=span.last;
            let inside = model.range(numbers.clone()).map(|_| 1).sum::<u128>();
            prop_assert_eq!(set.count_within(span), inside);
            prop_assert_eq!(set.overlaps(span), inside > 0);
            prop_assert_eq!(set.contains(span), inside == span.length());
            let gaps: u128 = set.gaps(span).into_iter().map(Span::length).sum();
            prop_assert_eq!(gaps + inside, span.length());
            if insert {
                set.insert(span);
                model.extend(numbers);
            } else {
                set.remove(span);
                model.retain(|number| !numbers.contains(number));
            }
            let members: BTreeSet<u128> = set.iter().flat_map(|run| run.first..=run.last).collect();
            prop_assert_eq!(&members, &model);
            let runs: Vec<_> = set.iter().collect();
            prop_assert!(runs.windows(2).all(|pair| pair[0].last + 1 < pair[1].first));
        }
    }
}
