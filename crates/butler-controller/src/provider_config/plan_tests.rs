//! When a provider can be used, and by how many.

use serde_json::{Value, json};

use PoolState::{Counted, Missing, Silent};

use super::super::{CredentialsShape, Usage};
use super::*;
use crate::testing::{at, told};

pub(super) fn provider(spec: Value) -> ProviderConfig {
    let mut body = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "ProviderConfig",
        "metadata": { "name": "rack", "namespace": "butler-system", "generation": 1 },
    });
    body["spec"] = spec;
    serde_json::from_value(body).unwrap()
}

fn nutanix() -> ProviderConfig {
    provider(json!({ "provider": "nutanix", "credentialsRef": { "name": "rack-login" } }))
}

fn local(mut spec: Value) -> ProviderConfig {
    spec["provider"] = "local".into();
    provider(spec)
}

pub(super) fn deleted(mut provider: ProviderConfig) -> ProviderConfig {
    provider.metadata.deletion_timestamp = Some(Time(at(5)));
    provider
}

/// How a pool that a provider names stands.
#[derive(Clone, Copy)]
enum PoolState {
    Missing,
    Silent,
    Counted(i32),
}

pub(super) fn pool(name: &str) -> ObjectKey {
    ObjectKey::namespaced("butler-system", name)
}

fn with_pools<const COUNT: usize>(pools: [(&str, PoolState); COUNT]) -> World {
    let pools = pools.map(|(name, state)| {
        let state = match state {
            PoolState::Missing => None,
            PoolState::Silent => Some(None),
            PoolState::Counted(left) => Some(Some(left)),
        };
        (pool(name), state)
    });
    World {
        pools: pools.into(),
        ..World::default()
    }
}

fn with_pool_refs(names: &[&str]) -> ProviderConfig {
    let references: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
    local(json!({ "network": { "mode": "ipam", "poolRefs": references } }))
}

#[test]
fn the_machine_butler_stands_on_is_ready_without_credentials() {
    let plan = plan(&local(json!({})), &World::default(), at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    CredentialsValid=True CredentialsNotRequired: the machine Butler stands on needs no credentials
    Ready=True Ready
    status.lastValidationTime: "1970-01-01T00:00:01Z"
    status.ready: true
    status.validated: true
    "#);
}

#[test]
fn a_provider_without_its_secret_waits_for_it() {
    let plan = plan(&nutanix(), &World::default(), at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    CredentialsValid=False CredentialsInvalid: spec.credentialsRef: the Secret butler-system/rack-login does not exist; create it
    Ready=False CredentialsInvalid: spec.credentialsRef: the Secret butler-system/rack-login does not exist; create it
    status.lastValidationTime: "1970-01-01T00:00:01Z"
    status.ready: false
    status.validated: false
    Warning CredentialsInvalid: spec.credentialsRef: the Secret butler-system/rack-login does not exist; create it
    "#);
}

#[test]
fn a_provider_that_names_no_secret_says_which_field_is_missing() {
    let plan = plan(
        &provider(json!({ "provider": "nutanix" })),
        &World::default(),
        at(1),
    );
    insta::assert_snapshot!(told(&plan), @r#"
    CredentialsValid=False CredentialsInvalid: spec.credentialsRef: required for this provider; name a Secret
    Ready=False CredentialsInvalid: spec.credentialsRef: required for this provider; name a Secret
    status.lastValidationTime: "1970-01-01T00:00:01Z"
    status.ready: false
    status.validated: false
    Warning CredentialsInvalid: spec.credentialsRef: required for this provider; name a Secret
    "#);
}

#[test]
fn a_secret_in_another_namespace_is_named_with_it() {
    let spec =
        json!({ "provider": "aws", "credentialsRef": { "name": "login", "namespace": "vault" } });
    let plan = plan(&provider(spec), &World::default(), at(1));
    assert!(
        plan.notes[0]
            .message
            .contains("the Secret vault/login does not exist"),
        "{}",
        told(&plan)
    );
}

#[test]
fn a_defective_secret_says_everything_that_is_wrong() {
    let defects = vec![
        "key username is missing".to_owned(),
        "key password is empty".to_owned(),
    ];
    let world = World {
        credentials: Some(CredentialsShape { defects }),
        ..World::default()
    };
    let plan = plan(&nutanix(), &world, at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    CredentialsValid=False CredentialsInvalid: the Secret butler-system/rack-login: key username is missing, key password is empty; correct it
    Ready=False CredentialsInvalid: the Secret butler-system/rack-login: key username is missing, key password is empty; correct it
    status.lastValidationTime: "1970-01-01T00:00:01Z"
    status.ready: false
    status.validated: false
    Warning CredentialsInvalid: the Secret butler-system/rack-login: key username is missing, key password is empty; correct it
    "#);
}

#[test]
fn good_credentials_make_a_provider_ready() {
    let world = World {
        credentials: Some(CredentialsShape::default()),
        ..World::default()
    };
    let plan = plan(&nutanix(), &world, at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    CredentialsValid=True CredentialsValid
    Ready=True Ready
    status.lastValidationTime: "1970-01-01T00:00:01Z"
    status.ready: true
    status.validated: true
    "#);
}

#[test]
fn a_team_provider_needs_its_team() {
    let unnamed = local(json!({ "scope": { "type": "team" } }));
    insta::assert_snapshot!(told(&plan(&unnamed, &World::default(), at(1))), @r#"
    CredentialsValid=True CredentialsNotRequired: the machine Butler stands on needs no credentials
    Ready=False ValidationFailed: spec.scope.teamRef: required when spec.scope.type is team
    status.lastValidationTime: "1970-01-01T00:00:01Z"
    status.ready: false
    status.validated: true
    Warning ValidationFailed: spec.scope.teamRef: required when spec.scope.type is team
    "#);
    let named = local(json!({ "scope": { "type": "team", "teamRef": { "name": "payments" } } }));
    insta::assert_snapshot!(told(&plan(&named, &World::default(), at(1))), @r#"
    CredentialsValid=True CredentialsNotRequired: the machine Butler stands on needs no credentials
    Ready=False TeamNotFound: spec.scope.teamRef: the Team payments does not exist; create it or correct the reference
    status.lastValidationTime: "1970-01-01T00:00:01Z"
    status.ready: false
    status.validated: true
    Warning TeamNotFound: spec.scope.teamRef: the Team payments does not exist; create it or correct the reference
    "#);
    let found = plan(
        &named,
        &World {
            team_exists: true,
            ..World::default()
        },
        at(1),
    );
    assert_eq!(found.status.ready, Some(true), "{}", told(&found));
}

#[test]
fn a_team_named_by_a_platform_provider_does_not_matter() {
    let platform =
        local(json!({ "scope": { "type": "platform", "teamRef": { "name": "payments" } } }));
    assert_eq!(
        plan(&platform, &World::default(), at(1)).status.ready,
        Some(true)
    );
}

#[test]
fn pools_that_are_not_named_or_not_there_keep_it_from_being_ready() {
    insta::assert_snapshot!(told(&plan(&with_pool_refs(&[]), &World::default(), at(1))), @r#"
    CredentialsValid=True CredentialsNotRequired: the machine Butler stands on needs no credentials
    PoolAvailable=False ValidationFailed: spec.network.poolRefs: required when spec.network.mode is ipam
    Ready=False ValidationFailed: spec.network.poolRefs: required when spec.network.mode is ipam
    status.lastValidationTime: "1970-01-01T00:00:01Z"
    status.ready: false
    status.validated: true
    Warning ValidationFailed: spec.network.poolRefs: required when spec.network.mode is ipam
    "#);
    let world = with_pools([
        ("a", Missing),
        ("b", Counted(3)),
        ("c", Missing),
        ("d", Missing),
        ("e", Missing),
    ]);
    insta::assert_snapshot!(told(&plan(&with_pool_refs(&["a", "b", "c", "d", "e"]), &world, at(1))), @r#"
    CredentialsValid=True CredentialsNotRequired: the machine Butler stands on needs no credentials
    PoolAvailable=False PoolNotFound: spec.network.poolRefs: no NetworkPool butler-system/a, butler-system/c, butler-system/d and 1 more; create it or correct the reference
    Ready=False PoolNotFound: spec.network.poolRefs: no NetworkPool butler-system/a, butler-system/c, butler-system/d and 1 more; create it or correct the reference
    status.lastValidationTime: "1970-01-01T00:00:01Z"
    status.ready: false
    status.validated: true
    Warning PoolNotFound: spec.network.poolRefs: no NetworkPool butler-system/a, butler-system/c, butler-system/d and 1 more; create it or correct the reference
    "#);
}

#[test]
fn a_pool_that_has_not_counted_yet_leaves_the_question_open() {
    let world = with_pools([("a", Silent), ("b", Counted(3))]);
    insta::assert_snapshot!(told(&plan(&with_pool_refs(&["a", "b"]), &world, at(1))), @r#"
    CredentialsValid=True CredentialsNotRequired: the machine Butler stands on needs no credentials
    PoolAvailable=Unknown NotYetReported: the NetworkPool butler-system/a has not counted its addresses yet
    Ready=True Ready
    status.lastValidationTime: "1970-01-01T00:00:01Z"
    status.ready: true
    status.validated: true
    "#);
}

#[test]
fn exhausted_pools_are_told_but_clusters_without_addresses_go_on() {
    let world = with_pools([("a", Counted(0)), ("b", Counted(0))]);
    insta::assert_snapshot!(told(&plan(&with_pool_refs(&["a", "b"]), &world, at(1))), @r#"
    CredentialsValid=True CredentialsNotRequired: the machine Butler stands on needs no credentials
    PoolAvailable=False PoolExhausted: no address is left in butler-system/a, butler-system/b; grow a pool or add another to spec.network.poolRefs
    Ready=True Ready
    status.capacity: {"availableIPs":0,"estimatedTenants":0}
    status.lastValidationTime: "1970-01-01T00:00:01Z"
    status.ready: true
    status.validated: true
    Warning PoolExhausted: no address is left in butler-system/a, butler-system/b; grow a pool or add another to spec.network.poolRefs
    "#);
}

#[test]
fn a_pool_that_gave_out_more_than_it_has_is_exhausted() {
    let world = with_pools([("a", Counted(-4))]);
    let plan = plan(&with_pool_refs(&["a"]), &world, at(1));
    assert!(
        told(&plan).contains("PoolAvailable=False PoolExhausted"),
        "{}",
        told(&plan)
    );
    assert_eq!(plan.status.capacity.unwrap().estimated_tenants, Some(0));
}

#[test]
fn capacity_is_what_the_addresses_are_enough_for() {
    let estimate = |spec: Value, addresses: &[i32]| {
        let world = World {
            pools: addresses
                .iter()
                .enumerate()
                .map(|(i, left)| (pool(&format!("p{i}")), Some(Some(*left))))
                .collect(),
            ..World::default()
        };
        let capacity = plan(&local(json!({ "network": spec })), &world, at(1))
            .status
            .capacity
            .unwrap();
        (
            capacity.available_ips.unwrap(),
            capacity.estimated_tenants.unwrap(),
        )
    };
    let ipam = json!({ "mode": "ipam", "poolRefs": [{ "name": "p0" }] });
    assert_eq!(
        estimate(ipam.clone(), &[130]),
        (130, 10),
        "five and eight each"
    );
    assert_eq!(estimate(ipam.clone(), &[12]), (12, 0));
    assert_eq!(
        estimate(ipam.clone(), &[6, 7]),
        (13, 1),
        "pools count together"
    );
    assert_eq!(estimate(ipam.clone(), &[i32::MAX, i32::MAX]).0, i32::MAX);
    let mut sized = ipam;
    sized["loadBalancer"] = json!({ "defaultPoolSize": 15 });
    assert_eq!(
        estimate(sized.clone(), &[100]),
        (100, 5),
        "five and fifteen each"
    );
    sized["loadBalancer"] = json!({ "defaultPoolSize": i32::MAX });
    assert_eq!(estimate(sized, &[100]), (100, 0));
}

#[test]
fn a_provider_that_gives_out_addresses_itself_has_no_capacity_of_ours() {
    let cloud = local(json!({ "network": { "mode": "cloud" } }));
    let plan = plan(&cloud, &World::default(), at(1));
    assert_eq!(plan.status.capacity, None);
    assert!(!told(&plan).contains("PoolAvailable"));
}

#[test]
fn teams_over_a_limit_are_named_with_their_numbers() {
    let limited = local(json!({ "limits": { "maxClustersPerTeam": 2, "maxNodesPerTeam": 10 } }));
    let usage = [
        (
            "greedy",
            Usage {
                clusters: 3,
                nodes: 11,
            },
        ),
        (
            "just",
            Usage {
                clusters: 2,
                nodes: 10,
            },
        ),
        (
            "large",
            Usage {
                clusters: 1,
                nodes: 12,
            },
        ),
    ];
    let usage = usage
        .into_iter()
        .map(|(team, usage)| (team.to_owned(), usage))
        .collect();
    let world = World {
        usage,
        ..World::default()
    };
    insta::assert_snapshot!(told(&plan(&limited, &world, at(1))), @r#"
    CredentialsValid=True CredentialsNotRequired: the machine Butler stands on needs no credentials
    QuotaSatisfied=False QuotaExceeded: spec.limits: team greedy has 3 of 2 clusters and 11 of 10 nodes; team large has 12 of 10 nodes; raise the limit or have clusters removed
    Ready=True Ready
    status.lastValidationTime: "1970-01-01T00:00:01Z"
    status.ready: true
    status.validated: true
    Warning QuotaExceeded: spec.limits: team greedy has 3 of 2 clusters and 11 of 10 nodes; team large has 12 of 10 nodes; raise the limit or have clusters removed
    "#);
}

#[test]
fn a_deleted_provider_waits_for_its_clusters() {
    let clusters = (1..=5)
        .map(|number| ObjectKey::namespaced("payments", format!("shop-{number}")))
        .collect();
    let world = World {
        clusters,
        ..World::default()
    };
    insta::assert_snapshot!(told(&plan(&deleted(local(json!({}))), &world, at(9))), @r#"
    CredentialsValid=True CredentialsNotRequired: the machine Butler stands on needs no credentials
    Ready=False DeletionBlocked: the deletion waits for the clusters that use the provider: payments/shop-1, payments/shop-2, payments/shop-3 and 2 more
    status.lastValidationTime: "1970-01-01T00:00:09Z"
    status.ready: false
    status.validated: true
    Warning DeletionBlocked: the deletion waits for the clusters that use the provider: payments/shop-1, payments/shop-2, payments/shop-3 and 2 more
    "#);
}

#[test]
fn a_deleted_provider_without_clusters_may_go_even_if_it_is_broken() {
    insta::assert_snapshot!(told(&plan(&deleted(nutanix()), &World::default(), at(9))), @r#"
    CredentialsValid=False CredentialsInvalid: spec.credentialsRef: the Secret butler-system/rack-login does not exist; create it
    Ready=False Deleting: the provider is being deleted
    status.lastValidationTime: "1970-01-01T00:00:09Z"
    status.ready: false
    status.validated: false
    Warning CredentialsInvalid: spec.credentialsRef: the Secret butler-system/rack-login does not exist; create it
    Warning Deleting: the provider is being deleted
    next: Done
    "#);
}

#[test]
fn the_validation_time_moves_with_the_verdict_or_the_spec_and_not_else() {
    let good = World {
        credentials: Some(CredentialsShape::default()),
        ..World::default()
    };
    let mut provider = nutanix();
    let observe = |provider: &mut ProviderConfig, world: &World, second| {
        let mut status = plan(provider, world, at(second)).status;
        // The engine's part.
        status.observed_generation = provider.metadata.generation;
        provider.status = Some(status.clone());
        status.last_validation_time.unwrap().0.as_second()
    };
    assert_eq!(observe(&mut provider, &good, 10), 10);
    assert_eq!(observe(&mut provider, &good, 20), 10, "nothing changed");
    assert_eq!(
        observe(&mut provider, &World::default(), 30),
        30,
        "the verdict changed"
    );
    provider.metadata.generation = Some(2);
    assert_eq!(
        observe(&mut provider, &World::default(), 40),
        40,
        "the spec changed"
    );
    assert_eq!(
        observe(&mut provider, &World::default(), 50),
        40,
        "nothing changed"
    );
}
