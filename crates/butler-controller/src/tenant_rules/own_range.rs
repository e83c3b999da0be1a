//! The addresses that a cluster names itself for its Services: whether they can be had of its provider at all.
//!
//! Where some of them are addresses of a pool they are asked for there, exactly, and then the pool must have all of them and the
//! quota allow as many. Addresses of no pool are the cluster's own affair, but where the local provider serves Services.

use butler_api::{
    butler::{
        network_pool::NetworkPool,
        provider_config::{NetworkMode, Provider, ProviderConfig},
        tenant_cluster::{LoadBalancerProvider, TenantCluster},
    },
    conditions::{reasons, types},
    net::{AddressRange, Cidr},
    normalize::tenant_cluster::{LoadBalancerAddresses, Wish, addons, network},
};
use butler_runtime::object::ObjectKey;

use super::{Breach, Case, pools_of};

const FIELD: &str = "spec.networking.loadBalancerPool";

/// What the quota counts, by which two breaches of it are compared.
const LIMIT: &str = "addresses of a cluster";

pub(super) fn breaches(case: &Case<'_>) -> Vec<Breach> {
    let Some(provider) = case.provider else {
        return Vec::new();
    };
    // Of a pool that is not there yet, nobody knows what it will have.
    let is_there = |key: &ObjectKey| find(key, case.pools).is_some();
    if !pools_of(provider).iter().all(is_there) {
        return Vec::new();
    }
    let breach = own_range(case.cluster, provider, case.pools);
    breach.into_iter().collect()
}

/// Why a cluster cannot have the addresses that it names, if it cannot. What is no range is told where ranges are.
pub(crate) fn own_range(
    cluster: &TenantCluster,
    provider: &ProviderConfig,
    pools: &[NetworkPool],
) -> Option<Breach> {
    let spec = provider.spec.network.as_ref()?;
    let wished = network(cluster.spec.networking.as_ref()).load_balancer_addresses;
    let LoadBalancerAddresses::Range(range) = wished else {
        return None;
    };
    let balancer = match addons(cluster.spec.addons.as_ref()).load_balancer {
        Wish::Off => return None,
        Wish::Unstated => None,
        Wish::On(choice) => choice.provider,
    };
    if spec.mode != NetworkMode::Ipam {
        return None;
    }
    let range = AddressRange::from_texts(&range.start, &range.end).ok()?;
    let breach = |reason, rule| Breach::new((types::NETWORK_READY, reason), FIELD, rule);
    let Some((pool, block)) = pool_of(&range, provider, pools) else {
        let is_served = provider.spec.provider == Provider::Local
            && balancer != Some(LoadBalancerProvider::Metallb);
        let rule = format!(
            "{range} is of no pool of its provider, and only addresses of these are served on local machines: {}; name \
             addresses of a pool, or leave loadBalancerPool out",
            described(provider, pools)
        );
        return is_served.then(|| breach(reasons::PINNED_RANGE_OUTSIDE, rule));
    };
    if !(block.contains(range.start()) && block.contains(range.end())) {
        let rule = format!(
            "{range} goes beyond the pool {} ({block}) that its addresses are asked of; name addresses of one pool",
            pool.name
        );
        return Some(breach(reasons::PINNED_RANGE_OUTSIDE, rule));
    }
    let quota = spec.quota_per_tenant.as_ref();
    let most = quota.and_then(|quota| quota.max_load_balancer_ips)?;
    let excess = range
        .count()
        .saturating_sub(u128::try_from(most).unwrap_or_default());
    let rule = format!(
        "{range} has more than the {most} addresses that a cluster may have of its provider; name fewer"
    );
    let excess = i64::try_from(excess).unwrap_or(i64::MAX);
    (excess > 0).then(|| breach(reasons::QUOTA_EXCEEDED, rule).exceeding(LIMIT, excess))
}

/// The pool that some of the addresses are of, and its block.
pub(crate) fn pool_of(
    range: &AddressRange,
    provider: &ProviderConfig,
    pools: &[NetworkPool],
) -> Option<(ObjectKey, Cidr)> {
    pools_of(provider).into_iter().find_map(|key| {
        let block: Cidr = find(&key, pools)?.spec.cidr.parse().ok()?;
        block.range().overlaps(range).then_some((key, block))
    })
}

fn find<'a>(key: &ObjectKey, pools: &'a [NetworkPool]) -> Option<&'a NetworkPool> {
    pools.iter().find(|pool| ObjectKey::of(*pool) == *key)
}

/// The pools of a provider and their networks.
fn described(provider: &ProviderConfig, pools: &[NetworkPool]) -> String {
    let described = |key: &ObjectKey| match find(key, pools) {
        Some(pool) => format!("{} ({})", key.name, pool.spec.cidr),
        None => format!("{} (does not exist)", key.name),
    };
    let pools: Vec<_> = pools_of(provider).iter().map(described).collect();
    pools.join(", ")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use crate::tenant_rules::{
        new_breaches,
        testing::{Scene, cluster, pool},
    };

    fn naming(start: &str, end: &str, addons: &Value) -> Value {
        json!({
            "networking": { "loadBalancerPool": { "start": start, "end": end } },
            "addons": addons,
        })
    }

    /// What is said of a cluster on this provider, which has the pool `rack` and gives a cluster at most so many addresses.
    fn told(provider: &str, most: Option<i32>, spec: &Value) -> String {
        scene(provider, most, spec).told(super::breaches)
    }

    fn scene(provider: &str, most: Option<i32>, spec: &Value) -> Scene {
        let mut scene = Scene::new(cluster(spec));
        scene.provide(&json!({
            "provider": provider,
            "network": {
                "mode": "ipam", "poolRefs": [{ "name": "rack" }],
                "quotaPerTenant": { "maxLoadBalancerIPs": most },
            },
        }));
        scene.pools = vec![pool("rack", "10.40.0.0/16")];
        scene
    }

    #[test]
    fn addresses_of_a_pool_may_be_named_up_to_the_quota() {
        let named = naming("10.40.1.100", "10.40.1.150", &json!({}));
        assert_eq!(told("local", Some(51), &named), "");
        assert_eq!(told("local", None, &named), "");
        insta::assert_snapshot!(told("nutanix", Some(50), &named), @"spec.networking.loadBalancerPool: 10.40.1.100-10.40.1.150 has more than the 50 addresses that a cluster may have of its provider; name fewer");
    }

    #[test]
    fn on_local_machines_addresses_of_no_pool_are_refused_and_elsewhere_they_are_the_clusters_own()
    {
        let named = naming("192.168.7.10", "192.168.7.20", &json!({}));
        insta::assert_snapshot!(told("local", None, &named), @"spec.networking.loadBalancerPool: 192.168.7.10-192.168.7.20 is of no pool of its provider, and only addresses of these are served on local machines: rack (10.40.0.0/16); name addresses of a pool, or leave loadBalancerPool out");
        assert_eq!(told("nutanix", Some(1), &named), "");
        for own in ["metallb", "none"] {
            let addons = json!({ "loadBalancer": { "provider": own } });
            let named = naming("192.168.7.10", "192.168.7.20", &addons);
            assert_eq!(told("local", None, &named), "", "{own}");
        }
    }

    #[test]
    fn a_range_that_goes_beyond_its_pool_is_refused() {
        let named = naming("10.39.255.250", "10.40.0.5", &json!({}));
        insta::assert_snapshot!(told("nutanix", None, &named), @"spec.networking.loadBalancerPool: 10.39.255.250-10.40.0.5 goes beyond the pool rack (10.40.0.0/16) that its addresses are asked of; name addresses of one pool");
    }

    #[test]
    fn while_a_pool_is_not_there_nobody_is_refused() {
        let named = naming("192.168.7.10", "192.168.7.20", &json!({}));
        let mut scene = scene("local", None, &named);
        scene.pools.clear();
        assert_eq!(scene.told(super::breaches), "");
    }

    #[test]
    fn a_cluster_that_has_more_than_a_lowered_quota_may_change_otherwise_and_name_fewer() {
        let scene = scene(
            "local",
            Some(10),
            &naming("10.40.1.1", "10.40.1.20", &json!({})),
        );
        let more = cluster(&naming("10.40.1.1", "10.40.1.30", &json!({})));
        let refused = |old| new_breaches(&scene.case(), Some(old)).len();
        assert_eq!(refused(&scene.cluster), 0);
        assert_eq!(refused(&more), 0);
        let fewer = cluster(&naming("10.40.1.1", "10.40.1.15", &json!({})));
        assert_eq!(refused(&fewer), 1);
    }
}
