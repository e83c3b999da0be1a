//! The rules catch what they are for.

use super::replay::{Broken, Change, Claim, Fact, Numbers, Rule, range, replay};

fn claim(uid: &str, start: &str, end: &str) -> Claim {
    Claim {
        range: range(start, end),
        uid: uid.to_owned(),
    }
}

fn shows(claim: &Claim) -> Fact {
    Fact::Allocation {
        uid: claim.uid.clone(),
        shows: Some(claim.range),
        refused: None,
    }
}

fn shows_nothing(claim: &Claim) -> Fact {
    Fact::Allocation {
        uid: claim.uid.clone(),
        shows: None,
        refused: None,
    }
}

fn is_refused(claim: &Claim) -> Fact {
    Fact::Allocation {
        uid: claim.uid.clone(),
        shows: None,
        refused: Some(claim.range),
    }
}

fn page(name: &str, grants: &[&Claim]) -> Fact {
    let grants = grants.iter();
    Fact::Page {
        name: name.to_owned(),
        grants: grants
            .map(|grant| (grant.range, grant.uid.clone()))
            .collect(),
    }
}

fn pool(says: u128) -> Fact {
    Fact::Pool { says }
}

/// The facts, each a revision after the one before.
fn told(facts: Vec<Fact>) -> Vec<Change> {
    let changes = (1..).zip(facts);
    changes
        .map(|(revision, fact)| Change { revision, fact })
        .collect()
}

fn broken(revision: u64, rule: Rule) -> Result<(), Broken> {
    Err(Broken { revision, rule })
}

#[test]
fn addresses_that_are_given_back_first_can_be_had_by_another() {
    let first = claim("first", "10.60.0.4", "10.60.0.7");
    let second = claim("second", "10.60.0.6", "10.60.0.9");
    let facts = vec![
        pool(4),
        page("a", &[&first]),
        shows(&first),
        shows_nothing(&first),
        page("a", &[]),
        page("a", &[&second]),
        shows(&second),
    ];
    assert_eq!(replay(told(facts), Numbers::Exact), Ok(()));
}

#[test]
fn two_allocations_with_one_address_are_a_double_booking() {
    let first = claim("first", "10.60.0.4", "10.60.0.7");
    let second = claim("second", "10.60.0.7", "10.60.0.7");
    let granted = vec![
        page("a", &[&first]),
        shows(&first),
        page("a", &[&first, &second]),
    ];
    assert_eq!(
        replay(told(granted), Numbers::Loose),
        broken(
            3,
            Rule::GrantedTwice([second.clone(), first.clone()].into())
        )
    );
    let across = vec![page("a", &[&first]), page("b", &[&second])];
    assert_eq!(
        replay(told(across), Numbers::Loose),
        broken(
            2,
            Rule::GrantedTwice([second.clone(), first.clone()].into())
        )
    );
    let shown = vec![page("a", &[&first]), shows(&first), shows(&second)];
    assert_eq!(
        replay(told(shown), Numbers::Loose),
        broken(3, Rule::ShownTwice([second, first.clone()].into()))
    );
    let twice = vec![page("a", &[&first, &first])];
    assert_eq!(
        replay(told(twice), Numbers::Loose),
        broken(1, Rule::GrantedTwice([first.clone(), first].into()))
    );
}

#[test]
fn an_allocation_that_shows_more_than_its_grant_is_caught() {
    let first = claim("first", "10.60.0.4", "10.60.0.7");
    let other = claim("first", "10.60.0.4", "10.60.0.8");
    let made_up = vec![page("a", &[&first]), shows(&other)];
    assert_eq!(
        replay(told(made_up), Numbers::Loose),
        broken(2, Rule::ShownWithoutGrant(other))
    );
    let taken_back = vec![page("a", &[&first]), shows(&first), page("a", &[])];
    assert_eq!(
        replay(told(taken_back), Numbers::Loose),
        broken(3, Rule::ShownWithoutGrant(first))
    );
}

#[test]
fn a_pool_that_says_less_than_is_shown_is_caught_at_the_very_revision() {
    let first = claim("first", "10.60.0.4", "10.60.0.7");
    let less = Rule::SaysLess { says: 3, shown: 4 };
    let late = vec![
        pool(3),
        page("a", &[&first]),
        shows(&first),
        pool(4),
        pool(5),
    ];
    assert_eq!(
        replay(told(late.clone()), Numbers::Exact),
        broken(3, less.clone())
    );
    assert_eq!(replay(told(late), Numbers::Loose), Ok(()));
    let lowered = vec![pool(4), page("a", &[&first]), shows(&first), pool(3)];
    assert_eq!(replay(told(lowered), Numbers::Exact), broken(4, less));
}

#[test]
fn the_order_in_which_changes_are_heard_of_does_not_matter() {
    let first = claim("first", "10.60.0.4", "10.60.0.7");
    let mut changes = told(vec![pool(4), page("a", &[&first]), shows(&first)]);
    changes.reverse();
    assert_eq!(replay(changes, Numbers::Exact), Ok(()));
}

#[test]
fn a_refusal_of_addresses_that_only_the_refused_one_was_granted_is_caught() {
    let first = claim("first", "10.60.0.4", "10.60.0.7");
    let second = claim("second", "10.60.0.6", "10.60.0.9");
    let by_another = vec![page("a", &[&first]), page("a", &[]), is_refused(&second)];
    assert_eq!(replay(told(by_another), Numbers::Loose), Ok(()));
    let by_itself = vec![page("a", &[&second]), is_refused(&second)];
    assert_eq!(
        replay(told(by_itself), Numbers::Loose),
        broken(2, Rule::RefusedForNothing(second))
    );
}
