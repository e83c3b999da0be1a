//! A cluster that names its addresses itself. Where these are addresses of a pool, they are asked for there: what is not in the
//! books of a pool could be given to somebody else. Addresses of no pool are the cluster's own affair, but on local machines, where
//! only addresses of pools are served.

use butler_api::{
    butler::{
        ip_allocation::{
            AllocationClusterReference, AllocationType, IPAllocation, IPAllocationSpec, PinnedRange,
        },
        provider_config::ProviderConfig,
        tenant_cluster::{LoadBalancerPool, TenantCluster},
    },
    conditions::reasons,
    keys::values,
    net::AddressRange,
    reference::LocalReference,
};
use butler_ipam::Standing;
use butler_runtime::object::ObjectKey;
use kube::ResourceExt;

use super::{Decision, Sight, first, granted, key, manifest, settled, waiting};
use crate::tenant_rules::{own_range, pool_of};

/// What is done for the range that a cluster names.
pub(super) fn plan(sight: &Sight<'_>, range: &LoadBalancerPool) -> Decision {
    let own = || settled("the cluster brings its own addresses");
    // What is no range was refused before.
    let Ok(addresses) = AddressRange::from_texts(&range.start, &range.end) else {
        return own();
    };
    if let Some(first) = sight.first {
        return standing(sight.cluster, first, &addresses);
    }
    // What slipped through admission is told here, and the rest of the cluster goes on.
    if let Some(breach) = own_range(sight.cluster, sight.provider, sight.pools) {
        let waiting = waiting(breach.reason, breach.message()).needs_somebody();
        return Decision::new(Vec::new(), Some(waiting), first::not_yet());
    }
    match pool_of(&addresses, sight.provider, sight.pools) {
        Some((pool, _)) => ask(sight, range, &addresses, &pool),
        // Somebody else serves them.
        None => own(),
    }
}

fn ask(
    sight: &Sight<'_>,
    range: &LoadBalancerPool,
    addresses: &AddressRange,
    pool: &ObjectKey,
) -> Decision {
    let allocation = wish(sight.cluster, sight.provider, pool, range);
    let why = format!("{addresses} of the pool {} are asked for", pool.name);
    let manifest = manifest(sight.cluster, &allocation, values::ALLOCATION_ROLE_INITIAL);
    let waiting = waiting(reasons::NETWORK_NOT_READY, why);
    Decision::new(vec![manifest], Some(waiting), first::not_yet())
}

/// What becomes of a range that is there. One that is granted does not change under the Services that use it.
fn standing(cluster: &TenantCluster, found: &IPAllocation, addresses: &AddressRange) -> Decision {
    let pinned = found.spec.pinned_range.as_ref();
    let pinned = pinned.and_then(|pinned| {
        AddressRange::from_texts(&pinned.start_address, &pinned.end_address).ok()
    });
    let is_wished = pinned == Some(*addresses);
    match butler_ipam::standing(Some(found)) {
        Standing::Granted { range } if range == *addresses => granted(cluster, found),
        Standing::Granted { range } => {
            let why = format!(
                "spec.networking.loadBalancerPool: the cluster has {range}, which does not become {addresses} under the Services \
                 that use it"
            );
            let advice = format!(
                "set it back, or delete the IPAllocation {}: its Services lose their addresses, and get others of the new range",
                ObjectKey::of(found)
            );
            let waiting = waiting(reasons::VALIDATION_FAILED, why).advise(advice);
            Decision {
                waiting: Some(waiting.needs_somebody()),
                ..granted(cluster, found)
            }
        }
        Standing::Releasing | Standing::Missing => first::releasing(found),
        Standing::Waiting { .. } | Standing::Refused { .. } if !is_wished => {
            first::given_back(found, &format!("{addresses} is asked for now"))
        }
        Standing::Waiting { .. } => first::awaited(cluster, found),
        Standing::Refused { reason, message } => first::refused(cluster, found, &reason, &message),
    }
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

    fn on(
        provider: Value,
        range: [&str; 2],
        most: Option<i32>,
        first: Option<&IPAllocation>,
    ) -> Decision {
        let cluster = scene::shop(&json!({ "networking": {
            "loadBalancerPool": { "start": range[0], "end": range[1] },
        } }));
        let mut provider = provider;
        provider["network"] = json!({
            "mode": "ipam", "poolRefs": [{ "name": "rack" }, { "name": "lost" }],
            "quotaPerTenant": { "maxLoadBalancerIPs": most },
        });
        let provider = scene::provider(&provider);
        let pool = serde_json::from_value(json!({
            "metadata": { "name": "rack", "namespace": "butler-system" },
            "spec": { "cidr": "10.40.0.0/16" },
        }));
        let sight = Sight {
            cluster: &cluster,
            provider: &provider,
            pools: &[pool.unwrap()],
            first,
            added: &[],
            demand: None,
        };
        addresses::plan(&sight, jiff::Timestamp::UNIX_EPOCH)
    }

    fn decided(range: [&str; 2], most: Option<i32>, first: Option<&IPAllocation>) -> Decision {
        on(json!({ "provider": "local" }), range, most, first)
    }

    fn said(decision: &Decision) -> String {
        let waiting = decision.waiting.as_ref();
        waiting.map(Waiting::message).unwrap_or_default()
    }

    const RANGE: [&str; 2] = ["10.40.1.100", "10.40.1.150"];

    /// The range that was asked for, as the API server has it, with this status.
    fn found(status: Value) -> IPAllocation {
        let mut body = decided(RANGE, None, None).manifests[0].body.clone();
        body["status"] = status;
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn addresses_of_a_pool_are_asked_for_exactly() {
        let decision = decided(RANGE, Some(51), None);
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
        let partly = decided(["10.39.255.250", "10.40.0.5"], None, None);
        assert_eq!(partly.manifests.len(), 0);
        insta::assert_snapshot!(said(&partly), @"spec.networking.loadBalancerPool: 10.39.255.250-10.40.0.5 goes beyond the pool rack (10.40.0.0/16) that its addresses are asked of; name addresses of one pool");
    }

    #[test]
    fn addresses_of_nobody_are_the_clusters_own_where_somebody_else_serves_them() {
        let elsewhere = json!({ "provider": "nutanix", "credentialsRef": { "name": "login" } });
        let decision = on(elsewhere, ["192.168.7.10", "192.168.7.20"], None, None);
        assert_eq!((decision.manifests.len(), decision.waiting), (0, None));
        assert_eq!(
            decision.finding.message,
            "the cluster brings its own addresses"
        );
    }

    #[test]
    fn on_local_machines_addresses_of_no_pool_are_told_to_be_nobodys() {
        let decision = decided(["192.168.7.10", "192.168.7.20"], None, None);
        assert_eq!(decision.manifests, []);
        insta::assert_snapshot!(said(&decision), @"spec.networking.loadBalancerPool: 192.168.7.10-192.168.7.20 is of no pool of its provider, and only addresses of these are served on local machines: rack (10.40.0.0/16), lost (does not exist); name addresses of a pool, or leave loadBalancerPool out");
    }

    #[test]
    fn more_addresses_than_a_cluster_may_have_are_refused_in_words() {
        let decision = decided(RANGE, Some(50), None);
        assert_eq!(decision.manifests.len(), 0);
        assert_eq!(
            said(&decision),
            "spec.networking.loadBalancerPool: 10.40.1.100-10.40.1.150 has more than the 50 addresses that a cluster may \
             have of its provider; name fewer"
        );
    }

    #[test]
    fn a_range_that_is_granted_does_not_become_another_and_that_is_told() {
        let granted = found(json!({
            "phase": "Allocated", "startAddress": "10.40.1.100", "endAddress": "10.40.1.150", "allocatedCount": 51,
        }));
        let same = decided(RANGE, None, Some(&granted));
        assert_eq!((same.waiting, same.effects), (None, vec![]));
        assert_eq!(same.finding.message, "10.40.1.100-10.40.1.150");
        let other = decided(["10.40.2.1", "10.40.2.9"], None, Some(&granted));
        assert_eq!(other.manifests, same.manifests, "it keeps what it has");
        assert_eq!(other.effects, []);
        insta::assert_snapshot!(said(&other), @"spec.networking.loadBalancerPool: the cluster has 10.40.1.100-10.40.1.150, which does not become 10.40.2.1-10.40.2.9 under the Services that use it; set it back, or delete the IPAllocation butler-system/butler-tenants-shop-lb-fedcbdc4: its Services lose their addresses, and get others of the new range");
    }

    #[test]
    fn a_range_that_was_refused_is_given_back_when_another_is_named() {
        let refused = found(json!({ "phase": "Failed", "conditions": [{
            "type": "Ready", "status": "False", "reason": "PinnedRangeTaken", "message": "TenantCluster payments/bank has 10.40.1.100",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }] }));
        let same = decided(RANGE, None, Some(&refused));
        assert_eq!((same.manifests.len(), same.effects.len()), (1, 0));
        assert_eq!(
            said(&same),
            "the IPAllocation butler-tenants-shop-lb-fedcbdc4: TenantCluster payments/bank has 10.40.1.100"
        );
        let other = decided(["10.40.2.1", "10.40.2.9"], None, Some(&refused));
        assert_eq!((other.manifests.len(), other.effects.len()), (0, 1));
        assert_eq!(
            said(&other),
            "the IPAllocation butler-tenants-shop-lb-fedcbdc4 is given back: 10.40.2.1-10.40.2.9 is asked for now"
        );
    }

    #[test]
    fn where_the_infrastructure_gives_out_addresses_a_range_is_told_to_have_no_effect() {
        let cluster = scene::shop(&json!({ "networking": {
            "loadBalancerPool": { "start": RANGE[0], "end": RANGE[1] },
        } }));
        let provider = scene::provider(&json!({
            "provider": "nutanix", "credentialsRef": { "name": "login" }, "network": { "mode": "cloud" },
        }));
        let sight = Sight {
            cluster: &cluster,
            provider: &provider,
            pools: &[],
            first: None,
            added: &[],
            demand: None,
        };
        let decision = addresses::plan(&sight, jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(decision.waiting, None);
        insta::assert_snapshot!(decision.finding.message, @"the infrastructure gives out addresses: spec.networking.loadBalancerPool has no effect, since network.mode of the ProviderConfig is not ipam");
    }
}
