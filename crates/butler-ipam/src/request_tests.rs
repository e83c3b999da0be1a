use butler_api::butler::ip_allocation::{AllocationOwnerReference, PinnedRange};

use super::*;
use crate::testing::{allocation_spec, cluster, layout, range};

fn pinned(start: &str, end: &str) -> IPAllocationSpec {
    IPAllocationSpec {
        pinned_range: Some(PinnedRange {
            start_address: start.to_owned(),
            end_address: end.to_owned(),
        }),
        count: Some(3),
        ..allocation_spec()
    }
}

fn counted(count: i32) -> IPAllocationSpec {
    IPAllocationSpec {
        count: Some(count),
        ..allocation_spec()
    }
}

fn wish(spec: &IPAllocationSpec) -> Result<Wish, String> {
    Request::of(spec, &layout("10.0.0.0/8", &[], &[]), None)
        .map(|request| request.wish)
        .map_err(|violation| violation.to_string())
}

#[test]
fn an_allocation_that_does_not_say_gets_the_default() {
    assert_eq!(wish(&allocation_spec()), Ok(Wish::Count(8)));
    assert_eq!(wish(&counted(3)), Ok(Wish::Count(3)));
}

#[test]
fn a_pinned_range_wins_over_a_count() {
    assert_eq!(
        wish(&pinned("10.0.0.7", "10.0.0.9")),
        Ok(Wish::Exactly(range("10.0.0.7-10.0.0.9")))
    );
}

#[test]
fn what_cannot_be_read_names_its_field() {
    for (spec, message) in [
        (counted(0), "spec.count: ask for at least one address"),
        (counted(-4), "spec.count: ask for at least one address"),
        (
            counted(65_537),
            "spec.count: 65537 addresses are more than one allocation may have; ask for at most 65536",
        ),
        (
            pinned("10.0.0.0", "10.1.0.0"),
            "spec.pinnedRange: 65537 addresses are more than one allocation may have; ask for at most 65536",
        ),
        (
            pinned("10.0.0.9", "10.0.0.7"),
            "spec.pinnedRange: address range \"10.0.0.9-10.0.0.7\" is not valid: the start must not come after the end",
        ),
    ] {
        assert_eq!(wish(&spec), Err(message.to_owned()));
    }
    assert_eq!(wish(&counted(65_536)), Ok(Wish::Count(65_536)));
}

#[test]
fn addresses_belong_to_the_cluster_before_any_other_owner() {
    let mut spec = allocation_spec();
    spec.owner_ref = Some(AllocationOwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: "x".to_owned(),
        namespace: None,
        uid: None,
    });
    assert_eq!(Owner::of(&spec), cluster("a/b"));
    assert_eq!(Owner::of(&spec).to_string(), "TenantCluster a/b");
    spec.tenant_cluster_ref = None;
    assert_eq!(Owner::of(&spec).to_string(), "Node x");
}
