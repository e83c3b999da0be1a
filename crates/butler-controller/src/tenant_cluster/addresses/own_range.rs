//! A cluster that names its addresses itself. Where these are addresses of a pool, they are asked for there: what is not in the
//! books of a pool could be given to somebody else. Addresses of no pool are the cluster's own affair.

use butler_api::{
    butler::{
        ip_allocation::{
            AllocationClusterReference, AllocationType, IPAllocation, IPAllocationSpec, PinnedRange,
        },
        network_pool::NetworkPool,
        provider_config::{ProviderConfig, ProviderNetwork},
        tenant_cluster::{LoadBalancerPool, TenantCluster},
    },
    conditions::reasons,
    keys::values,
    net::{AddressRange, Cidr},
    reference::LocalReference,
};
use butler_runtime::{conditions::Finding, object::ObjectKey};
use kube::ResourceExt;

use super::{Decision, Sight, key, manifest, preferred, standing, waiting};

/// What is done for the range of a cluster; nothing if it is of no pool.
pub(super) fn plan(
    sight: &Sight<'_>,
    network: &ProviderNetwork,
    range: &LoadBalancerPool,
) -> Option<Decision> {
    let Sight {
        cluster,
        provider,
        pools,
        ..
    } = *sight;
    if let Some(allocation) = sight.first {
        return Some(standing(cluster, allocation));
    }
    // What is no range was refused before.
    let addresses = AddressRange::from_texts(&range.start, &range.end).ok()?;
    let pool = pool_of(&addresses, provider, pools)?;
    let finding = Finding::new(false, reasons::NETWORK_NOT_READY, "");
    let quota = network.quota_per_tenant.as_ref();
    let most = quota.and_then(|quota| quota.max_load_balancer_ips);
    if let Some(most) = most.filter(|most| !fits(&addresses, *most)) {
        let why = format!(
            "spec.networking.loadBalancerPool: {addresses} has more than the {most} addresses that a cluster may have of its \
             provider"
        );
        let waiting = waiting(reasons::QUOTA_EXCEEDED, why).advise("name fewer");
        let waiting = Some(waiting.needs_somebody());
        return Some(Decision::new(Vec::new(), waiting, finding));
    }
    let allocation = wish(cluster, provider, &pool, range);
    let why = format!("{addresses} of the pool {} are asked for", pool.name);
    let manifest = manifest(cluster, &allocation, values::ALLOCATION_ROLE_INITIAL);
    let waiting = waiting(reasons::NETWORK_NOT_READY, why);
    Some(Decision::new(vec![manifest], Some(waiting), finding))
}

/// The pool that some of the addresses are of. If not all of them are, it says so.
fn pool_of(
    addresses: &AddressRange,
    provider: &ProviderConfig,
    pools: &[NetworkPool],
) -> Option<ObjectKey> {
    preferred(provider).into_iter().find(|key| {
        let mut pools = pools.iter();
        let pool = pools.find(|pool| ObjectKey::of(*pool) == *key);
        let block = pool.and_then(|pool| pool.spec.cidr.parse::<Cidr>().ok());
        block.is_some_and(|block| block.range().overlaps(addresses))
    })
}

/// Whether a range has no more addresses than that.
fn fits(addresses: &AddressRange, most: i32) -> bool {
    let number = |address| match address {
        std::net::IpAddr::V4(address) => u128::from(address.to_bits()),
        std::net::IpAddr::V6(address) => address.to_bits(),
    };
    let further = number(addresses.end()).saturating_sub(number(addresses.start()));
    u128::try_from(most).is_ok_and(|most| further < most)
}

fn wish(
    cluster: &TenantCluster,
    provider: &ProviderConfig,
    pool: &ObjectKey,
    range: &LoadBalancerPool,
) -> IPAllocation {
    let spec = IPAllocationSpec {
        pool_ref: LocalReference {
            name: pool.name.clone(),
        },
        tenant_cluster_ref: Some(AllocationClusterReference {
            name: cluster.name_any(),
            namespace: cluster.namespace().unwrap_or_default(),
        }),
        owner_ref: None,
        kind: AllocationType::Loadbalancer,
        count: None,
        pinned_range: Some(PinnedRange {
            start_address: range.start.clone(),
            end_address: range.end.clone(),
        }),
    };
    let mut allocation = IPAllocation::new(&key(cluster, provider).name, spec);
    allocation.metadata.namespace.clone_from(&pool.namespace);
    allocation
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::tenant_cluster::{addresses, scene, why::Waiting};

    fn decided(range: [&str; 2], most: Option<i32>) -> Decision {
        let cluster = scene::shop(&json!({ "networking": {
            "loadBalancerPool": { "start": range[0], "end": range[1] },
        } }));
        let provider = scene::provider(&json!({ "provider": "local", "network": {
            "mode": "ipam", "poolRefs": [{ "name": "rack" }],
            "quotaPerTenant": { "maxLoadBalancerIPs": most },
        } }));
        let pool = serde_json::from_value(json!({
            "metadata": { "name": "rack", "namespace": "butler-system" },
            "spec": { "cidr": "10.40.0.0/16" },
        }));
        let sight = Sight {
            cluster: &cluster,
            provider: &provider,
            pools: &[pool.unwrap()],
            first: None,
            added: &[],
            demand: None,
        };
        addresses::plan(&sight, jiff::Timestamp::UNIX_EPOCH)
    }

    fn said(decision: &Decision) -> String {
        let waiting = decision.waiting.as_ref();
        waiting.map(Waiting::message).unwrap_or_default()
    }

    #[test]
    fn addresses_of_a_pool_are_asked_for_exactly() {
        let decision = decided(["10.40.1.100", "10.40.1.150"], Some(51));
        let body = &decision.manifests[0].body;
        assert_eq!(
            body["spec"],
            json!({
                "poolRef": { "name": "rack" }, "type": "loadbalancer",
                "tenantClusterRef": { "name": "shop", "namespace": "butler-tenants" },
                "pinnedRange": { "startAddress": "10.40.1.100", "endAddress": "10.40.1.150" },
            })
        );
        assert_eq!(body["metadata"]["namespace"], Value::from("butler-system"));
        assert_eq!(
            said(&decision),
            "10.40.1.100-10.40.1.150 of the pool rack are asked for"
        );
        let partly = decided(["10.39.255.250", "10.40.0.5"], None);
        assert_eq!(partly.manifests.len(), 1, "the pool says what is wrong");
    }

    #[test]
    fn addresses_of_nobody_are_the_clusters_own() {
        let decision = decided(["192.168.7.10", "192.168.7.20"], None);
        assert_eq!((decision.manifests.len(), decision.waiting), (0, None));
        assert_eq!(
            decision.finding.message,
            "the cluster brings its own addresses"
        );
    }

    #[test]
    fn more_addresses_than_a_cluster_may_have_are_refused_in_words() {
        let decision = decided(["10.40.1.100", "10.40.1.150"], Some(50));
        assert_eq!(decision.manifests.len(), 0);
        assert_eq!(
            said(&decision),
            "spec.networking.loadBalancerPool: 10.40.1.100-10.40.1.150 has more than the 50 addresses that a cluster may \
             have of its provider; name fewer"
        );
    }
}
