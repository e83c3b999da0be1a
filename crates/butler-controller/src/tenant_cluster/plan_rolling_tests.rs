//! A tenant cluster says that it changes until it is what was asked for.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::{
    tests::{applied, was_ready},
    *,
};
use crate::{
    cluster_api::MachineFacts,
    tenant_cluster::{
        facts::DeploymentFacts,
        related::{Related, Seen},
        scene::{after, condition, deployment, node, provider, ready, serving, shop, world},
    },
    testing::at,
};

/// The `MachineDeployment` of a pool.
fn pool<'a>(related: &'a mut Related, name: &str) -> &'a mut DeploymentFacts {
    &mut related.deployments.get_mut(name).unwrap().facts
}

fn told(plan: &Plan<TenantClusterStatus, Effect>) -> String {
    let ready = condition(plan, "Ready");
    let phase = plan.status.phase.unwrap();
    format!("{phase:?} ({ready}) {}", condition(plan, "RollingOut"))
}

#[test]
fn a_cluster_that_shrinks_changes_until_the_last_machine_is_gone() {
    let cluster = was_ready(&json!({ "workers": { "replicas": 1 } }));
    let mut related = ready();
    let mut stories = Vec::new();
    let mut status = cluster.clone();
    let mut pass = |related: &Related, second: i64| {
        let plan = plan(&status, &world(related.clone()), at(second));
        stories.push(told(&plan));
        status = after(cluster.clone(), &plan);
    };
    // Nobody has been told of the new number.
    pass(&related, 200);
    // Cluster API has not looked at it.
    let workers = pool(&mut related, "shop-workers");
    workers.wanted = Some(1);
    workers.is_observed = false;
    pass(&related, 201);
    // It counts the machine no more, which is drained meanwhile.
    *pool(&mut related, "shop-workers") = deployment("v1.36.3", 1, 1);
    let going = MachineFacts {
        deleting: true,
        ..node("v1.36.3")
    };
    related.machines.insert("shop-workers-b".to_owned(), going);
    pass(&related, 202);
    related.machines.remove("shop-workers-b");
    pass(&related, 203);
    insta::assert_snapshot!(stories.join("\n"), @r"
    Updating (True Ready: ) True RollingOut: pool workers: it goes from 2 to 1 machines
    Updating (True Ready: ) True RollingOut: pool workers: 2 machines are there, and 1 shall stay
    Updating (True Ready: ) True RollingOut: pool workers: 2 machines are there, and 1 shall stay
    Ready (True Ready: ) False Ready:
    ");
}

#[test]
fn a_pool_that_is_taken_away_is_told_until_it_is_gone() {
    let mut related = ready();
    let large = Seen {
        facts: deployment("v1.36.3", 1, 1),
        ..Seen::default()
    };
    related.deployments.insert("shop-large".to_owned(), large);
    let machine = MachineFacts {
        deployment: Some("shop-large".to_owned()),
        ..node("v1.36.3")
    };
    related.machines.insert("shop-large-a".to_owned(), machine);
    let cluster = was_ready(&json!({}));
    let first = plan(&cluster, &world(related.clone()), at(200));
    pool(&mut related, "shop-large").deleted_at = Some(at(200));
    let second = plan(&cluster, &world(related), at(201));
    let last = plan(&cluster, &world(ready()), at(202));
    let stories = [told(&first), told(&second), told(&last)];
    insta::assert_snapshot!(stories.join("\n"), @r"
    Updating (True Ready: ) True RollingOut: pool large: it goes from 1 to 0 machines
    Updating (True Ready: ) True RollingOut: pool large: it is being removed, machines left: 1
    Ready (True Ready: ) False Ready:
    ");
}

#[test]
fn machines_are_not_replaced_for_their_nodes_before_the_tenant_has_brought_a_network() {
    let own = shop(&json!({ "addons": { "cni": { "provider": "none" } } }));
    let judged = |cluster: &TenantCluster, world: &World| {
        let plan = plan(cluster, world, at(200));
        let checks = applied(&plan, "MachineHealthCheck")[0]["spec"]["checks"].clone();
        assert_eq!(checks["nodeStartupTimeoutSeconds"], 1200);
        let conditions = checks["unhealthyNodeConditions"].as_array();
        conditions.map(Vec::len)
    };
    // The nodes are there, and wait for a network.
    let mut world = world(serving());
    assert_eq!(judged(&own, &world), None);
    let local = shop(&json!({}));
    assert_eq!(judged(&local, &world), Some(2), "its network is ours");
    world.related = ready();
    assert_eq!(judged(&own, &world), Some(2), "a network was brought");
    // All nodes are lost at once, or the network is.
    world.related = serving();
    world.nodes_are_judged = true;
    assert_eq!(judged(&own, &world), Some(2), "it stays so");
}

#[test]
fn workers_that_were_refused_take_nothing_from_a_cluster_that_works() {
    let limited = json!({ "provider": "local", "limits": { "maxNodesPerTeam": 3 } });
    let mut world = world(ready());
    world.provider = Some(provider(&limited));
    let cluster = was_ready(&json!({ "workers": { "replicas": 9 } }));
    let refused = plan(&cluster, &world, at(200));
    assert_eq!(refused.status.phase, Some(TenantClusterPhase::Ready));
    let words = condition(&refused, "Ready");
    assert!(words.starts_with("True ReconcileDegraded: "), "{words}");
    assert_eq!(
        condition(&refused, "WorkersReady"),
        "False WorkersProvisioning: 2 of 9 workers are ready"
    );
    // A worker that was granted and is missing is missed all the same.
    *pool(&mut world.related, "shop-workers") = deployment("v1.36.3", 2, 1);
    let missing = plan(&cluster, &world, at(201));
    assert_eq!(missing.status.phase, Some(TenantClusterPhase::Updating));
}
