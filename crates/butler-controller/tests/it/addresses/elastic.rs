//! Ranges of tenant clusters that grow and shrink by need, whatever the order of events.

use std::time::Duration;

use butler_api::{
    butler::{
        ip_allocation::{AllocationPhase, IPAllocation},
        tenant_cluster::TenantCluster,
    },
    cluster_api::butler_cluster::ButlerCluster,
    keys::{annotations, finalizers, labels, names},
};
use butler_controller::{run::COMPONENT, tenant_cluster::TenantClusterReconciler};
use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{
    Deed, Failed, Moment, ObjectStore, Operation, Simulation, for_seeds,
};
use kube::ResourceExt;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use serde_json::{Value, json};

use super::{
    scene::{allocation_kind, comes_to_rest, controllers, holds_always, pool, put},
    truth::Truth,
};
use crate::scene::{self, SYSTEM, system};

const TENANTS: &str = names::DEFAULT_TENANT_NAMESPACE;
const CLUSTERS: [&str; 2] = ["shop", "bank"];
const HOST: &str = "host";
/// How many Services of type `LoadBalancer` a cluster of the story has.
const SERVICES: &str = "story/services";
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
    simulation.foreign(HOST, |store| {
        let clusters = store.all::<TenantCluster>().unwrap();
        clusters.iter().find_map(|cluster| serve(store, cluster))
    });
    holds_always(&mut simulation, "no address twice", Truth::nothing_twice);
    simulation.invariant("what is used stays", used_ranges_stay);
    simulation
}

/// The ranges of a cluster, in the order in which they are filled.
fn ranges(store: &ObjectStore, cluster: &str) -> Vec<IPAllocation> {
    let mut ranges = store.all::<IPAllocation>().unwrap();
    ranges.retain(|range| {
        let owner = range.spec.tenant_cluster_ref.as_ref();
        owner.is_some_and(|owner| owner.name == cluster)
    });
    ranges.sort_by_key(|range| (is_growth(range), range.name_any()));
    ranges
}

fn is_growth(range: &IPAllocation) -> bool {
    range
        .labels()
        .get(labels::ALLOCATION_ROLE)
        .is_some_and(|role| role == "growth")
}

fn is_granted(range: &IPAllocation) -> bool {
    let phase = range.status.as_ref().and_then(|status| status.phase);
    phase == Some(AllocationPhase::Allocated)
}

fn is_marked(range: &IPAllocation) -> bool {
    range
        .finalizers()
        .contains(&finalizers::ADDRESSES_IN_USE.to_owned())
}

fn services(cluster: &TenantCluster) -> i32 {
    let wanted = cluster.annotations().get(SERVICES);
    let wanted = wanted
        .and_then(|text| text.parse().ok())
        .unwrap_or_default();
    if cluster.metadata.deletion_timestamp.is_some() {
        0
    } else {
        wanted
    }
}

/// Plays the process that serves Services: marks what it uses, and says how many wait.
fn serve(store: &mut ObjectStore, cluster: &TenantCluster) -> Option<String> {
    let name = cluster.name_any();
    let mut left = services(cluster);
    for range in ranges(store, &name) {
        let open = is_granted(&range) && range.metadata.deletion_timestamp.is_none();
        let is_used = open && left > 0;
        if open {
            left -= range.spec.count.unwrap_or_default();
        }
        if is_used != is_marked(&range) {
            return Some(mark(store, &range, is_used));
        }
    }
    let namespace = cluster.status.as_ref()?.tenant_namespace.clone()?;
    let infrastructure = (
        Kind::of::<ButlerCluster>(),
        ObjectKey::namespaced(namespace, &name),
    );
    let found = store.get(&infrastructure.0, &infrastructure.1)?;
    let said = found
        .pointer("/metadata/annotations")
        .cloned()
        .unwrap_or_default();
    let waiting = (left > 0).then(|| left.to_string());
    if said[annotations::WAITING_LOAD_BALANCERS].as_str() == waiting.as_deref() {
        return None;
    }
    let since = &said[annotations::WAITING_LOAD_BALANCERS_SINCE];
    let since = match &waiting {
        None => Value::Null,
        Some(_) if since.is_string() => since.clone(),
        Some(_) => json!(store.now().to_string()),
    };
    let patch = json!({ "metadata": { "annotations": {
        annotations::WAITING_LOAD_BALANCERS: waiting,
        annotations::WAITING_LOAD_BALANCERS_SINCE: since,
    } } });
    let (kind, key) = infrastructure;
    store
        .perform(HOST, Operation::Merge(kind, key, patch))
        .unwrap();
    Some(format!("says that {left} of {name} wait"))
}

fn mark(store: &mut ObjectStore, range: &IPAllocation, is_used: bool) -> String {
    let mut held = range.finalizers().to_vec();
    held.retain(|held| held != finalizers::ADDRESSES_IN_USE);
    let since = (!is_used).then(|| store.now().to_string());
    if is_used {
        held.push(finalizers::ADDRESSES_IN_USE.to_owned());
    }
    let patch = json!({ "metadata": {
        "resourceVersion": range.resource_version(),
        "finalizers": held,
        "annotations": { annotations::ADDRESSES_UNUSED_SINCE: since },
    } });
    let merge = Operation::Merge(allocation_kind(), ObjectKey::of(range), patch);
    store.perform(HOST, merge).unwrap();
    format!("marks {}: {is_used}", range.name_any())
}

/// No range is taken from Services that use it, as long as its cluster is there.
fn used_ranges_stay(store: &ObjectStore) -> Result<(), String> {
    let clusters = store.all::<TenantCluster>().unwrap();
    let living = clusters
        .iter()
        .filter(|cluster| cluster.metadata.deletion_timestamp.is_none());
    for cluster in living {
        for range in ranges(store, &cluster.name_any()) {
            if is_marked(&range) && range.metadata.deletion_timestamp.is_some() {
                return Err(format!("{} is in use and going", range.name_any()));
            }
        }
    }
    Ok(())
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
        let wanted = services(&cluster);
        let (granted, refused): (Vec<_>, Vec<_>) = ranges(store, &cluster.name_any())
            .into_iter()
            .partition(is_granted);
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
            .find(|range| is_growth(range) && !is_marked(range))
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
