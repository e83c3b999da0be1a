use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use butler_api::name::ObjectName;

use super::*;
use crate::testing::range;

fn tenant(namespace: &str, name: &str, uid: &str) -> ClaimOwner {
    ClaimOwner::TenantCluster {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}

fn claim(owner: ClaimOwner) -> Claim {
    Claim {
        namespace: "butler-system".to_owned(),
        pool: "rack-1".to_owned(),
        owner,
        kind: AllocationType::Loadbalancer,
        role: Role::Initial,
        wish: ClaimWish::Count(8),
        team: Some("payments".to_owned()),
    }
}

fn machine(namespace: Option<&str>) -> ClaimOwner {
    ClaimOwner::Object {
        api_version: "butler.butlerlabs.dev/v1alpha1".to_owned(),
        kind: "MachineRequest".to_owned(),
        namespace: namespace.map(str::to_owned),
        name: "demo-worker-0".to_owned(),
        uid: "uid-7".to_owned(),
    }
}

#[test]
fn a_cluster_claims_addresses_for_its_load_balancers() {
    let claim = claim(tenant("payments", "production", "uid-1"));
    assert_eq!(
        serde_json::to_value(claim.wanted()).expect("writes"),
        json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1",
            "kind": "IPAllocation",
            "metadata": {
                "name": "payments-production-lb-0b1269d4",
                "namespace": "butler-system",
                "labels": {
                    "butler.butlerlabs.dev/network-pool": "rack-1",
                    "butler.butlerlabs.dev/team": "payments",
                    "butler.butlerlabs.dev/tenant": "production",
                    "butler.butlerlabs.dev/allocation-type": "loadbalancer",
                    "butler.butlerlabs.dev/allocation-role": "initial",
                },
                "finalizers": ["butler.butlerlabs.dev/addresses-in-use"],
            },
            "spec": {
                "poolRef": { "name": "rack-1" },
                "tenantClusterRef": { "name": "production", "namespace": "payments" },
                "type": "loadbalancer",
                "count": 8,
            },
        })
    );
}

#[test]
fn a_machine_pins_its_address_and_takes_it_along_when_it_goes() {
    let claim = Claim {
        kind: AllocationType::Nodes,
        role: Role::Growth(3),
        wish: ClaimWish::Exactly(range("10.0.0.7")),
        team: None,
        ..claim(machine(Some("butler-system")))
    };
    assert_eq!(
        serde_json::to_value(claim.wanted()).expect("writes"),
        json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1",
            "kind": "IPAllocation",
            "metadata": {
                "name": "butler-system-demo-worker-0-nodes-14539a89-3",
                "namespace": "butler-system",
                "labels": {
                    "butler.butlerlabs.dev/network-pool": "rack-1",
                    "butler.butlerlabs.dev/allocation-type": "nodes",
                    "butler.butlerlabs.dev/allocation-role": "growth",
                },
                "finalizers": ["butler.butlerlabs.dev/addresses-in-use"],
                "ownerReferences": [{
                    "apiVersion": "butler.butlerlabs.dev/v1alpha1",
                    "kind": "MachineRequest",
                    "name": "demo-worker-0",
                    "uid": "uid-7",
                    "controller": false,
                    "blockOwnerDeletion": false,
                }],
            },
            "spec": {
                "poolRef": { "name": "rack-1" },
                "ownerRef": {
                    "apiVersion": "butler.butlerlabs.dev/v1alpha1",
                    "kind": "MachineRequest",
                    "name": "demo-worker-0",
                    "namespace": "butler-system",
                    "uid": "uid-7",
                },
                "type": "nodes",
                "pinnedRange": { "startAddress": "10.0.0.7", "endAddress": "10.0.0.7" },
            },
        })
    );
}

#[test]
fn owner_references_do_not_cross_namespaces() {
    let references = |owner| claim(owner).wanted().metadata.owner_references;
    assert_eq!(references(machine(Some("elsewhere"))), None);
    assert!(references(machine(None)).is_some());
    assert!(references(tenant("butler-system", "x", "u")).is_some());
}

#[test]
fn names_keep_apart_what_reads_the_same_when_joined() {
    let names: BTreeSet<_> = [
        tenant("a-b", "c", "1"),
        tenant("a", "b-c", "1"),
        tenant("a", "b-c", "2"),
        ClaimOwner::Object {
            api_version: "butler.butlerlabs.dev/v1alpha1".to_owned(),
            kind: "Workspace".to_owned(),
            namespace: Some("a".to_owned()),
            name: "b-c".to_owned(),
            uid: "1".to_owned(),
        },
    ]
    .map(|owner| claim(owner).name())
    .into();
    assert_eq!(names.len(), 4);
    assert!(names.iter().all(|name| name.starts_with("a-b-c-lb-")));
}

#[test]
fn a_claimer_that_changes_its_mind_does_not_get_a_second_allocation() {
    let one = claim(tenant("a", "b", "1"));
    let other = Claim {
        pool: "rack-2".to_owned(),
        wish: ClaimWish::Default,
        team: None,
        ..one.clone()
    };
    assert_eq!(one.name(), other.name());
    let grown = Claim {
        role: Role::Growth(1),
        ..one.clone()
    };
    assert_eq!(grown.name(), format!("{}-1", one.name()));
}

#[test]
fn a_name_that_does_not_fit_a_label_is_left_out_of_the_labels() {
    let claim = Claim {
        pool: "p".repeat(64),
        ..claim(tenant("a", "b", "1"))
    };
    let wanted = claim.wanted();
    assert!(
        !wanted
            .metadata
            .labels
            .expect("labels")
            .contains_key(labels::NETWORK_POOL)
    );
    assert_eq!(wanted.spec.pool_ref.name.len(), 64);
}

/// The claim's allocation as the API server has it.
fn existing(claim: &Claim, deleted: bool) -> IPAllocation {
    let mut object = serde_json::to_value(claim.wanted()).expect("writes");
    object["metadata"]["uid"] = "uid-of-allocation".into();
    object["metadata"]["resourceVersion"] = "7".into();
    if deleted {
        object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    serde_json::from_value(object).expect("reads")
}

#[test]
fn who_lets_go_gives_up_everything_but_the_key_and_the_spec() {
    let claim = claim(tenant("a", "b", "1"));
    let rest = let_go(&existing(&claim, true)).expect("in use");
    assert_eq!(
        serde_json::to_value(&rest).expect("writes"),
        json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1",
            "kind": "IPAllocation",
            "metadata": {
                "name": claim.name(),
                "namespace": "butler-system",
                "uid": "uid-of-allocation",
            },
            "spec": serde_json::to_value(claim.wanted().spec).expect("writes"),
        })
    );
}

#[test]
fn there_is_nothing_to_let_go_of_while_it_lives_or_when_it_is_let_go() {
    let claim = claim(tenant("a", "b", "1"));
    assert_eq!(let_go(&existing(&claim, false)), None);
    let mut gone = existing(&claim, true);
    gone.metadata.finalizers = Some(vec!["butler.butlerlabs.dev/ipallocation".to_owned()]);
    assert_eq!(let_go(&gone), None);
}

#[test]
fn growth_takes_the_smallest_number_that_is_free() {
    let grown = |index| {
        let claim = Claim {
            role: Role::Growth(index),
            ..claim(tenant("a", "b", "1"))
        };
        existing(&claim, false)
    };
    let initial = existing(&claim(tenant("a", "b", "1")), false);
    let named = |name: &str| {
        let mut allocation = initial.clone();
        allocation.metadata.name = Some(name.to_owned());
        allocation
    };
    assert_eq!(next_growth_index([].iter()), 1);
    assert_eq!(next_growth_index([initial.clone()].iter()), 1);
    // Two exist; their count would be a name that is in use.
    assert_eq!(next_growth_index([initial.clone(), grown(2)].iter()), 1);
    assert_eq!(next_growth_index([grown(1), grown(2), grown(4)].iter()), 3);
    assert_eq!(
        next_growth_index([named("a-b-lb"), named("a-b-lb-1")].iter()),
        2
    );
}

#[test]
fn an_owner_finds_its_allocations_also_those_named_by_older_releases() {
    let owner = tenant("a", "b", "1");
    let mine = existing(&claim(owner.clone()), false);
    let mut older = mine.clone();
    older.metadata.name = Some("a-b-lb".to_owned());
    older.metadata.labels = None;
    let mut left_behind = mine.clone();
    left_behind.metadata.labels.get_or_insert_default().extend([
        (labels::OWNER_KIND.to_owned(), "TenantCluster".to_owned()),
        (labels::OWNER_UID.to_owned(), "0".to_owned()),
    ]);
    let mut nodes = mine.clone();
    nodes.spec.kind = AllocationType::Nodes;
    let joined = existing(&claim(tenant("a-b", "c", "1")), false);
    let machine_owner = machine(Some("butler-system"));
    let of_machine = existing(&claim(machine_owner.clone()), false);
    let mut of_earlier_machine = of_machine.clone();
    of_earlier_machine
        .spec
        .owner_ref
        .as_mut()
        .expect("owner")
        .uid = Some("uid-6".to_owned());
    let all = [
        mine,
        older,
        left_behind,
        nodes,
        joined,
        of_machine,
        of_earlier_machine,
    ];
    let found = |owner: &ClaimOwner| {
        of_owner(owner, AllocationType::Loadbalancer, &all)
            .map(|one| {
                all.iter()
                    .position(|other| std::ptr::eq(one, other))
                    .expect("of all")
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(found(&owner), [0, 1]);
    assert_eq!(found(&machine_owner), [5]);
}

proptest! {
    #[test]
    fn every_name_is_a_name(
        namespace in "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
        name in "[a-z0-9]([-a-z0-9.:]{0,250}[a-z0-9])?",
        nodes in any::<bool>(),
        index in any::<Option<u32>>(),
    ) {
        let claim = Claim {
            kind: if nodes { AllocationType::Nodes } else { AllocationType::Loadbalancer },
            role: index.map_or(Role::Initial, Role::Growth),
            ..claim(tenant(&namespace, &name, "uid"))
        };
        prop_assert!(claim.name().parse::<ObjectName>().is_ok(), "{}", claim.name());
    }
}
