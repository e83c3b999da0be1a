use super::*;

fn span(first: u128, last: u128) -> Span {
    Span { first, last }
}

#[test]
fn the_smallest_run_that_fits_is_used_and_the_lowest_of_equals() {
    let runs: FreeRuns = [span(0, 9), span(20, 23), span(30, 33), span(40, 42)]
        .into_iter()
        .collect();
    assert_eq!(runs.best_fit(4), Some(span(20, 23)));
    assert_eq!(runs.best_fit(3), Some(span(40, 42)));
    assert_eq!(runs.best_fit(5), Some(span(0, 4)));
    assert_eq!(runs.best_fit(11), None);
}

#[test]
fn what_is_given_back_merges_with_its_neighbours() {
    let mut runs: FreeRuns = [span(0, 9)].into_iter().collect();
    runs.take(span(3, 5));
    assert_eq!((runs.number_of_runs(), runs.total()), (2, 7));
    assert_eq!(runs.largest(), Some(span(6, 9)));
    runs.give_back(span(3, 5));
    assert_eq!((runs.number_of_runs(), runs.total()), (1, 10));
    assert_eq!(runs.largest(), Some(span(0, 9)));
}

#[test]
fn to_take_what_is_taken_or_give_what_is_free_changes_nothing() {
    let mut runs: FreeRuns = [span(0, 9)].into_iter().collect();
    runs.take(span(5, 20));
    runs.take(span(5, 20));
    assert_eq!((runs.number_of_runs(), runs.total()), (1, 5));
    runs.give_back(span(2, 4));
    assert_eq!((runs.number_of_runs(), runs.total()), (1, 5));
    assert!(runs.overlaps(span(4, 6)) && !runs.overlaps(span(5, 6)));
}

#[test]
fn of_equally_long_runs_the_lowest_is_called_the_largest() {
    let runs: FreeRuns = [span(10, 13), span(0, 3)].into_iter().collect();
    assert_eq!(runs.largest(), Some(span(0, 3)));
    assert_eq!(FreeRuns::default().largest(), None);
}
