//! Which allocations a request needs.

use pretty_assertions::assert_eq;

use super::*;

fn claimant<'a>(owner: &'a ObjectKey, pools: &'a [String]) -> Claimant<'a> {
    Claimant {
        kind: Kind::of::<IPAllocation>(),
        owner,
        uid: "u-1",
        purpose: AllocationType::Nodes,
        tenant: None,
        namespace: Some("butler-system"),
        pools,
    }
}

fn granted(name: &str, pool: &str, address: &str) -> Allocation {
    Allocation {
        key: ObjectKey::namespaced("butler-system", name),
        uid: format!("uid-{name}"),
        pool: pool.to_owned(),
        pinned: None,
        address: Some(address.parse().unwrap()),
        refusal: None,
        over_quota: false,
        deleting: false,
        in_use: true,
    }
}

#[test]
fn names_follow_from_what_is_asked_for_and_fit_the_longest_owner() {
    let long = ObjectKey::namespaced("demo", "x".repeat(253));
    let pools = ["blue".to_owned()];
    let claimant = claimant(&long, &pools);
    let name = |pinned: Option<&str>| {
        let pinned = pinned.map(|address| address.parse().unwrap());
        claimant.manifest("blue", pinned).key.name
    };
    assert!(name(None).len() <= 253);
    assert_eq!(name(None), name(None));
    assert!(name(None) != name(Some("10.213.73.9")));
}

#[test]
fn the_address_that_is_in_use_wins_over_the_order_of_the_pools() {
    let owner = ObjectKey::namespaced("demo", "worker");
    let pools = ["blue".to_owned(), "red".to_owned()];
    let claimant = claimant(&owner, &pools);
    let both = [
        granted("first", "blue", "10.213.73.8"),
        granted("second", "red", "10.213.73.9"),
    ];
    let free = decide(&claimant, &both, None);
    assert_eq!(free.address, Some("10.213.73.8".parse().unwrap()));
    let bound = decide(&claimant, &both, Some("10.213.73.9".parse().unwrap()));
    assert_eq!(bound.address, Some("10.213.73.9".parse().unwrap()));
    assert_eq!(bound.release, [Release::of(&both[0])]);
}

#[test]
fn an_allocation_that_is_going_away_is_not_built_on() {
    let owner = ObjectKey::namespaced("demo", "worker");
    let pools = ["blue".to_owned()];
    let mut leaving = granted("first", "blue", "10.213.73.8");
    leaving.deleting = true;
    let decided = decide(&claimant(&owner, &pools), &[leaving.clone()], None);
    assert_eq!(decided.address, None);
    assert_eq!(decided.finding.reason, reasons::AWAITING_GRANT);
    // Our mark is still on it: it has to be taken off at the end.
    assert_eq!(release_all(std::slice::from_ref(&leaving)).len(), 1);
    leaving.in_use = false;
    assert_eq!(release_all(&[leaving]).len(), 0);
}

#[test]
fn an_allocation_names_the_tenant_cluster_that_it_counts_for() {
    let owner = ObjectKey::namespaced("shop-1a2b3c4d", "worker");
    let pools = ["blue".to_owned()];
    let tenant = ObjectKey::namespaced("payments", "shop");
    let counted = Claimant {
        tenant: Some(&tenant),
        ..claimant(&owner, &pools)
    };
    let manifest = counted.manifest("blue", None);
    assert_eq!(
        manifest.body["metadata"]["labels"],
        json!({
            "butler.butlerlabs.dev/tenant": "shop",
            "butler.butlerlabs.dev/source-namespace": "payments",
            "butler.butlerlabs.dev/source-name": "shop",
        })
    );
    // It belongs to its machine as before, and an older release has given it the same name.
    let uncounted = claimant(&owner, &pools).manifest("blue", None);
    assert_eq!(uncounted.body["metadata"]["labels"], Value::Null);
    assert_eq!(manifest.body["spec"], uncounted.body["spec"]);
    assert_eq!(manifest.key, uncounted.key);
}

#[test]
fn a_tenant_that_may_have_no_more_is_told_so_once_and_no_other_pool_is_asked() {
    let owner = ObjectKey::namespaced("demo", "worker");
    let pools = ["blue".to_owned(), "red".to_owned()];
    let mut asked = granted("first", "blue", "10.213.73.8");
    asked.address = None;
    asked.over_quota = true;
    asked.refusal = Some(
        "TenantCluster payments/shop may have 3 node addresses and has 3; 1 more is too many"
            .to_owned(),
    );
    let decided = decide(&claimant(&owner, &pools), &[asked.clone()], None);
    assert_eq!(decided.apply.len(), 1);
    assert_eq!(decided.finding.reason, reasons::QUOTA_EXCEEDED);
    insta::assert_snapshot!(decided.finding.message, @"TenantCluster payments/shop may have 3 node addresses and has 3; 1 more is too many; ask for less, or raise network.quotaPerTenant.maxNodeIPs of the ProviderConfig");
    // A pool that is merely full is no reason not to ask the next.
    asked.over_quota = false;
    let decided = decide(&claimant(&owner, &pools), &[asked], None);
    assert_eq!(decided.apply.len(), 2);
    assert_eq!(decided.finding.reason, reasons::AWAITING_GRANT);
}
