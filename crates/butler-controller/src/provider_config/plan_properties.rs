//! What holds for every provider in every world.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{CredentialsShape, Usage};
use super::tests::{deleted, pool, provider};
use super::*;
use crate::testing::at;

fn any_provider() -> impl Strategy<Value = ProviderConfig> {
    let kind = prop::sample::select(vec!["local", "nutanix", "gcp"]);
    let scope = prop::sample::select(vec![
        Value::Null,
        json!({ "type": "platform" }),
        json!({ "type": "team" }),
        json!({ "type": "team", "teamRef": { "name": "payments" } }),
    ]);
    let network = prop::sample::select(vec![
        Value::Null,
        json!({ "mode": "cloud" }),
        json!({ "mode": "ipam" }),
        json!({ "mode": "ipam", "poolRefs": [{ "name": "a" }] }),
        json!({ "mode": "ipam", "poolRefs": [{ "name": "a" }], "loadBalancer": { "defaultPoolSize": i32::MAX } }),
    ]);
    let limits = prop::option::of((any::<Option<i32>>(), any::<Option<i32>>()));
    (
        kind,
        any::<bool>(),
        scope,
        network,
        limits,
        any::<bool>(),
        1..3_i64,
    )
        .prop_map(
            |(kind, referenced, scope, network, limits, deleting, generation)| {
                let mut spec = json!({ "provider": kind });
                if referenced {
                    spec["credentialsRef"] = json!({ "name": "login" });
                }
                for (field, value) in [("scope", scope), ("network", network)] {
                    if !value.is_null() {
                        spec[field] = value;
                    }
                }
                let mut provider = provider(spec);
                provider.spec.limits = limits.map(|(clusters, nodes)| {
                    butler_api::butler::provider_config::ProviderLimits {
                        max_clusters_per_team: clusters,
                        max_nodes_per_team: nodes,
                    }
                });
                provider.metadata.generation = Some(generation);
                if deleting {
                    deleted(provider)
                } else {
                    provider
                }
            },
        )
}

fn any_world() -> impl Strategy<Value = World> {
    let shape = prop::collection::vec(Just("key password is empty".to_owned()), 0..2);
    let credentials = prop::option::of(shape.prop_map(|defects| CredentialsShape { defects }));
    let pools = prop::collection::btree_map("[ab]", any::<Option<Option<i32>>>(), 0..3);
    let usage =
        (any::<i32>(), any::<i32>()).prop_map(|(clusters, nodes)| Usage { clusters, nodes });
    let usage = prop::collection::btree_map("[a-e]", usage, 0..6);
    (credentials, any::<bool>(), pools, usage, 0..6_usize).prop_map(
        |(credentials, team_exists, pools, usage, users)| World {
            credentials,
            team_exists,
            pools: pools
                .into_iter()
                .map(|(name, state)| (pool(&name), state))
                .collect(),
            usage,
            clusters: (0..users)
                .map(|number| ObjectKey::namespaced("payments", format!("c{number}")))
                .collect(),
        },
    )
}

proptest! {
    #[test]
    fn planning_again_says_the_same(provider in any_provider(), earlier in any_world(), now in any_world()) {
        let mut provider = provider;
        let generation = provider.metadata.generation;
        let mut observe = |world: &World, second| {
            let made = plan(&provider, world, at(second));
            let mut status = made.status.clone();
            status.observed_generation = generation;
            provider.status = Some(status);
            made
        };
        observe(&earlier, 1);
        let first = observe(&now, 100);
        prop_assert_eq!(observe(&now, 10_000), first);
    }

    #[test]
    fn what_is_ready_has_no_obstacle_and_what_is_not_says_which(provider in any_provider(), world in any_world()) {
        let plan = plan(&provider, &world, at(1));
        let ready = plan.status.conditions.iter().find(|condition| condition.type_ == types::READY).unwrap();
        prop_assert_eq!(plan.status.ready == Some(true), ready.status == "True");
        prop_assert_eq!(ready.message.is_empty(), ready.status == "True");
        if ready.status == "True" {
            prop_assert_eq!(plan.status.validated, Some(true));
            prop_assert!(provider.metadata.deletion_timestamp.is_none());
        } else {
            prop_assert!(plan.notes.iter().any(|note| note.message == ready.message), "people are told");
        }
        let may_go = provider.metadata.deletion_timestamp.is_some() && world.clusters.is_empty();
        prop_assert_eq!(plan.next == Next::Done, may_go);
        if let Some(capacity) = plan.status.capacity {
            prop_assert!(capacity.available_ips.unwrap() >= 0 && capacity.estimated_tenants.unwrap() >= 0);
        }
    }
}
