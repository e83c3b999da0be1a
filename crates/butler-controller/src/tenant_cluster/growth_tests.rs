use butler_api::{butler::ip_allocation::IPAllocationStatus, net::AddressRange};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::testing::at;

/// A range of so many addresses that nobody has looked at.
pub(super) fn asked(name: &str, pool: &str, count: i32) -> IPAllocation {
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "butler-system", "uid": name, "resourceVersion": "1" },
        "spec": { "poolRef": { "name": pool }, "type": "loadbalancer", "count": count },
    }))
    .unwrap()
}

pub(super) fn grant(allocation: &mut IPAllocation, range: &AddressRange, now: Timestamp) {
    let status: IPAllocationStatus = serde_json::from_value(json!({
        "phase": "Allocated",
        "startAddress": range.start(), "endAddress": range.end(),
        "allocatedCount": allocation.spec.count, "allocatedAt": now.to_string(),
    }))
    .unwrap();
    allocation.status = Some(status);
}

pub(super) fn refuse(allocation: &mut IPAllocation, reason: &str, message: &str) {
    let status = json!({
        "phase": "Failed",
        "conditions": [{
            "type": "Ready", "status": "False", "reason": reason, "message": message,
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }],
    });
    allocation.status = Some(serde_json::from_value(status).unwrap());
}

pub(super) fn set_in_use(allocation: &mut IPAllocation, now: Option<Timestamp>) {
    let annotations = allocation.metadata.annotations.get_or_insert_default();
    annotations.remove(annotations::ADDRESSES_UNUSED_SINCE);
    allocation.metadata.finalizers = match now {
        None => Some(vec![finalizers::ADDRESSES_IN_USE.to_owned()]),
        Some(now) => {
            let key = annotations::ADDRESSES_UNUSED_SINCE.to_owned();
            annotations.insert(key, now.to_string());
            None
        }
    };
}

/// A range that was granted at the beginning and is in use: the addresses from 10.9.0.`first` on.
fn used(name: &str, first: u8, count: u8) -> IPAllocation {
    let mut allocation = asked(name, "rack", i32::from(count));
    let range = format!("10.9.0.{first}-10.9.0.{}", first + count - 1);
    grant(&mut allocation, &range.parse().unwrap(), at(0));
    set_in_use(&mut allocation, None);
    allocation
}

fn pool(name: &str, largest_free: u128) -> Candidate<'_> {
    Candidate {
        name,
        priority: 0,
        available: Some(largest_free),
        largest_free: Some(largest_free),
    }
}

fn waiting(services: u32, since: i64) -> Demand {
    Demand {
        services,
        since: at(since),
    }
}

/// A cluster on local machines whose ranges grow by two, with nothing but its first range.
fn case<'a>(first: &'a IPAllocation, pools: &'a [Candidate<'a>]) -> Case<'a> {
    Case {
        first,
        added: &[],
        asked: None,
        most: Some(8),
        increment: Some(2),
        is_served: true,
        demand: None,
        pools,
    }
}

fn ask(index: u32, pool: &str, count: i32) -> Ask {
    Ask {
        index,
        pool: pool.to_owned(),
        count,
    }
}

#[test]
fn a_range_grows_when_a_service_has_waited_for_a_while() {
    let first = used("shop-lb", 0, 2);
    let pools = [pool("rack", 100)];
    let calm = case(&first, &pools);
    assert_eq!(calm.course(at(1000)), Course::default());
    let waits = Case {
        demand: Some(waiting(1, 100)),
        ..calm.clone()
    };
    let early = waits.course(at(129));
    assert_eq!((early.ask, early.next), (None, Some(at(130))));
    assert_eq!(waits.course(at(130)).ask, Some(ask(1, "rack", 2)));
    let many = Case {
        demand: Some(waiting(5, 100)),
        ..calm.clone()
    };
    assert_eq!(many.course(at(130)).ask, Some(ask(1, "rack", 5)));
    // Where nobody of ours serves Services, what they say counts for nothing; nor where ranges are fixed.
    let elsewhere = Case {
        is_served: false,
        ..many.clone()
    };
    assert_eq!(elsewhere.course(at(130)), Course::default());
    let fixed = Case {
        increment: None,
        ..many
    };
    assert_eq!(fixed.course(at(130)), Course::default());
}

#[test]
fn what_was_added_is_waited_for_before_more_is() {
    let first = used("shop-lb", 0, 2);
    let pools = [pool("rack", 100)];
    let course = |added: &[IPAllocation], second: i64| {
        let case = Case {
            added,
            demand: Some(waiting(1, 100)),
            ..case(&first, &pools)
        };
        let course = case.course(at(second));
        (course.ask, course.next)
    };
    let mut added = asked("shop-lb-1", "rack", 2);
    assert_eq!(
        course(std::slice::from_ref(&added), 500),
        (None, None),
        "it is asked for"
    );
    grant(&mut added, &"10.9.0.8-10.9.0.9".parse().unwrap(), at(500));
    assert_eq!(
        course(std::slice::from_ref(&added), 900),
        (None, None),
        "nobody uses it yet"
    );
    set_in_use(&mut added, None);
    assert_eq!(
        course(std::slice::from_ref(&added), 520),
        (None, Some(at(530))),
        "those who waited have perhaps got theirs"
    );
    assert_eq!(course(&[added], 530).0, Some(ask(2, "rack", 2)));
}

#[test]
fn a_range_that_was_added_goes_when_it_is_unused_for_long_and_the_first_never() {
    let mut first = used("shop-lb", 0, 2);
    set_in_use(&mut first, Some(at(0)));
    let mut added = [used("shop-lb-1", 2, 2), used("shop-lb-2", 4, 2)];
    let pools = [pool("rack", 100)];
    set_in_use(&mut added[1], Some(at(100)));
    let shrinking = Case {
        added: &added,
        ..case(&first, &pools)
    };
    let early = shrinking.course(at(699));
    assert_eq!((early.give_back, early.next), (vec![], Some(at(700))));
    let ripe = shrinking.course(at(700));
    assert_eq!(ripe.give_back, [&added[1]], "the other is in use");
    assert_eq!((ripe.keep, ripe.next), (vec![&added[0]], None));
    for stays in [
        Case {
            demand: Some(waiting(1, 600)),
            ..shrinking.clone()
        },
        Case {
            asked: Some(6),
            ..shrinking.clone()
        },
        Case {
            is_served: false,
            ..shrinking.clone()
        },
    ] {
        assert_eq!(
            stays.course(at(10_000)).give_back,
            Vec::<&IPAllocation>::new(),
            "{stays:?}"
        );
    }
    let fewer = Case {
        asked: Some(4),
        ..shrinking
    };
    assert_eq!(fewer.course(at(700)).give_back, [&added[1]]);
}

#[test]
fn a_cluster_that_asks_for_more_than_it_has_gets_it_at_once_on_any_provider() {
    let first = used("shop-lb", 0, 2);
    let pools = [pool("rack", 100)];
    let raised = Case {
        asked: Some(6),
        increment: None,
        is_served: false,
        ..case(&first, &pools)
    };
    assert_eq!(raised.course(at(1)).ask, Some(ask(1, "rack", 4)));
    let limited = Case {
        most: Some(5),
        ..raised
    };
    assert_eq!(limited.course(at(1)).ask, Some(ask(1, "rack", 3)));
}

#[test]
fn what_cannot_be_had_is_asked_for_so_that_the_pool_says_why() {
    let first = used("shop-lb", 0, 8);
    let full = [pool("rack", 0), pool("spare", 0)];
    let poor = [pool("rack", 0), pool("spare", 1)];
    let waits = Case {
        demand: Some(waiting(3, 0)),
        ..case(&first, &full)
    };
    assert_eq!(
        waits.course(at(60)).ask,
        Some(ask(1, "rack", 1)),
        "the quota is used up"
    );
    let unlimited = Case {
        most: None,
        ..waits
    };
    assert_eq!(unlimited.course(at(60)).ask, Some(ask(1, "rack", 3)));
    let mut refused = [asked("shop-lb-1", "rack", 3)];
    refuse(
        &mut refused[0],
        "PoolExhausted",
        "no run of 3 free addresses",
    );
    let told = Case {
        added: &refused,
        ..unlimited
    };
    let course = told.course(at(90));
    assert_eq!(course.keep, [&refused[0]]);
    let words = course.refused.map(|refused| refused.message);
    assert_eq!(words.as_deref(), Some("no run of 3 free addresses"));
    // Less than was wished is better than nothing, and what nobody needs any more is not asked for.
    let offered = Case {
        pools: &poor,
        ..told.clone()
    };
    assert_eq!(offered.course(at(120)).give_back, [&refused[0]]);
    let anew = Case {
        added: &[],
        ..offered
    };
    assert_eq!(anew.course(at(121)).ask, Some(ask(1, "spare", 1)));
    let over = Case {
        demand: None,
        ..told
    };
    assert_eq!(over.course(at(120)).give_back, [&refused[0]]);
}
