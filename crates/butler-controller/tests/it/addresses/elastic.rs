//! Ranges of tenant clusters that grow and shrink by need, whatever the order of events.

use std::time::Duration;

use butler_api::{
    butler::{ip_allocation::IPAllocation, tenant_cluster::TenantCluster},
    keys::names,
};
use butler_controller::{run::COMPONENT, tenant_cluster::TenantClusterReconciler};
use butler_runtime::object::ObjectKey;
use butler_testkit::simulator::{Deed, Failed, Moment, ObjectStore, Simulation, for_seeds};
use kube::ResourceExt;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use serde_json::json;

use super::{
    host::{self, HOST, SERVICES},
    scene::{comes_to_rest, controllers, holds_always, pool, put},
    truth::Truth,
};
use crate::scene::{self, SYSTEM, system};

const TENANTS: &str = names::DEFAULT_TENANT_NAMESPACE;
const CLUSTERS: [&str; 2] = ["shop", "bank"];
/// How many addresses a cluster may have.
const MOST: i32 = 5;

fn key(cluster: &str) -> ObjectKey {
    ObjectKey::namespaced(TENANTS, cluster)
}

/// Two clusters on one pool, whose ranges grow by need.
fn world(seed: u64) -> Simulation {
    let mut simulation = Simulation::new(seed);
    simulation.horizon(Duration::from_mins(30));
    let provider = scene::provider(
        &system("local"),
        json!({ "provider": "local", "network": {
            "mode": "ipam",
            "poolRefs": [{ "name": "rack" }],
            "loadBalancer": { "allocationMode": "elastic" },
            "quotaPerTenant": { "maxLoadBalancerIPs": MOST },
        } }),
    );
    for name in [SYSTEM, TENANTS] {
        put(
            &mut simulation,
            scene::namespace_kind(),
            scene::namespace(name),
        );
    }
    put(
        &mut simulation,
        scene::pool_kind(),
        pool("rack", &json!({ "cidr": "10.42.0.0/28" })),
    );
    put(&mut simulation, scene::provider_kind(), provider);
    for name in CLUSTERS {
        let cluster = scene::cluster(&key(name), Some(&system("local")), 0);
        put(&mut simulation, scene::cluster_kind(), cluster);
    }
    controllers(&mut simulation, 1);
    simulation.controller(COMPONENT, TenantClusterReconciler::default);
    simulation.foreign(HOST, host::serve);
    holds_always(&mut simulation, "no address twice", Truth::nothing_twice);
    simulation.invariant("what is used stays", host::used_ranges_stay);
    simulation
}

fn network_ready(cluster: &TenantCluster) -> (String, String) {
    let status = cluster.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.into_iter();
    let found = conditions.find(|found| found.type_ == "NetworkReady");
    found
        .map(|found| (found.reason, found.message))
        .unwrap_or_default()
}

/// At rest everybody has as much as is needed and allowed, and no more.
fn has_what_it_needs(store: &ObjectStore) -> Result<(), String> {
    for cluster in store.all::<TenantCluster>().unwrap() {
        let wanted = host::services(&cluster);
        let (granted, refused): (Vec<_>, Vec<_>) = host::ranges(store, &cluster.name_any())
            .into_iter()
            .partition(host::is_granted);
        let count: i32 = granted.iter().filter_map(|range| range.spec.count).sum();
        let told = network_ready(&cluster);
        let what = format!(
            "{} wants {wanted} and has {count}: {told:?}",
            cluster.name_any()
        );
        if count > MOST || count < wanted.min(MOST) {
            return Err(what);
        }
        if let Some(idle) = granted
            .iter()
            .find(|range| host::is_growth(range) && !host::is_marked(range))
        {
            return Err(format!("{what}; nobody uses {}", idle.name_any()));
        }
        let is_told = told.1.contains("cannot be had");
        if is_told != (wanted > MOST) || refused.is_empty() == is_told {
            return Err(format!("{what}; refused are {}", refused.len()));
        }
    }
    Ok(())
}

fn settles(simulation: &mut Simulation) -> Result<(), Failed> {
    comes_to_rest(simulation)?;
    let told = has_what_it_needs(simulation.store());
    told.unwrap_or_else(|lie| panic!("{lie}\n{}", simulation.log().tail(60)));
    Ok(())
}

#[test]
fn ranges_follow_the_services_of_their_cluster_and_are_all_given_back() {
    for_seeds(0..60, |seed| {
        let mut simulation = world(seed);
        let mut random = SmallRng::seed_from_u64(seed);
        for name in CLUSTERS {
            let steps = (0..5).map(|_| {
                let count = random.random_range(0..8).to_string();
                let moment = if random.random_bool(0.5) {
                    Moment::AtRest
                } else {
                    Moment::After(Duration::from_secs(random.random_range(1..900)))
                };
                (
                    moment,
                    Deed::annotate(scene::cluster_kind(), key(name), SERVICES, &count),
                )
            });
            simulation.user(&format!("{name}-team"), steps.collect());
        }
        settles(&mut simulation)?;
        for name in CLUSTERS {
            let delete = Deed::delete(scene::cluster_kind(), key(name));
            simulation.user(&format!("{name}-owner"), vec![(Moment::Anytime, delete)]);
        }
        comes_to_rest(&mut simulation)?;
        let left = simulation.store().all::<IPAllocation>().unwrap();
        assert_eq!(left, [], "{}", simulation.log().tail(60));
        assert_eq!(simulation.store().all::<TenantCluster>().unwrap(), []);
        Ok::<(), Failed>(())
    })
    .unwrap();
}
