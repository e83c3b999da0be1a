//! Ranges of addresses that are in order and apart from each other and from where machines are.

use butler_api::{
    conditions::{reasons, types},
    net::{AddressRange, Cidr},
    normalize::tenant_cluster::{LoadBalancerAddresses, network},
};
use kube::ResourceExt;

use super::{Breach, Case};

const POOL_FIELD: &str = "spec.networking.loadBalancerPool";

pub(super) fn breaches(case: &Case<'_>) -> Vec<Breach> {
    let network = network(case.cluster.spec.networking.as_ref());
    let written = [
        ("spec.networking.podCIDR", network.pod_cidr.as_str()),
        ("spec.networking.serviceCIDR", network.service_cidr.as_str()),
    ];
    let mut found = Vec::new();
    let mut own = Vec::new();
    for (field, text) in written {
        match text.parse::<Cidr>() {
            Ok(block) => own.push((field, text, block.range())),
            Err(error) => found.push(breach(reasons::VALIDATION_FAILED, field, error.to_string())),
        }
    }
    if let [(_, _, pods), (field, text, services)] = own.as_slice()
        && pods.overlaps(services)
    {
        let rule = format!("{text} overlaps the range of the pods: give both, and keep them apart");
        found.push(breach(reasons::OVERLAPS, field, rule));
    }
    for (place, range) in machines(case) {
        for (field, text, block) in own.iter().filter(|(_, _, block)| block.overlaps(&range)) {
            let rule = format!(
                "{text} overlaps {place}, where machines have their addresses: {} cannot be reached from the cluster then; \
                 choose another range",
                shared(block, &range)
            );
            found.push(breach(reasons::OVERLAPS, field, rule));
        }
    }
    if let LoadBalancerAddresses::Range(pool) = network.load_balancer_addresses {
        match AddressRange::from_texts(&pool.start, &pool.end) {
            Err(error) => found.push(breach(
                reasons::VALIDATION_FAILED,
                POOL_FIELD,
                error.to_string(),
            )),
            Ok(range) => {
                for (field, text, _) in own.iter().filter(|(_, _, block)| block.overlaps(&range)) {
                    let rule = format!(
                        "{range} overlaps {text} of {field}: nobody outside of the cluster could reach these addresses; choose \
                         others"
                    );
                    found.push(breach(reasons::OVERLAPS, POOL_FIELD, rule));
                }
            }
        }
    }
    found
}

fn breach(reason: &'static str, field: &str, rule: String) -> Breach {
    Breach::new((types::NETWORK_READY, reason), field, rule)
}

/// The addresses that two ranges share.
fn shared(one: &AddressRange, other: &AddressRange) -> String {
    let start = one.start().max(other.start());
    format!("{start}-{}", one.end().min(other.end()))
}

/// Where the provider's machines are: its own networks and those of its pools. One of many names is told.
fn machines(case: &Case<'_>) -> Vec<(String, AddressRange)> {
    let spec = case.provider.map(|provider| &provider.spec);
    let subnet = spec.and_then(|spec| spec.network.as_ref()?.subnet.clone());
    let bridge = spec.and_then(|spec| spec.local.as_ref()?.cidr.clone());
    let key = case.choice().key;
    let of_provider = [("network.subnet", subnet), ("local.cidr", bridge)];
    let of_provider = of_provider.into_iter().filter_map(|(field, text)| {
        let text = text?;
        Some((format!("{field} {text} of the ProviderConfig {key}"), text))
    });
    let of_pools = case.pools.iter().map(|pool| {
        let text = pool.spec.cidr.clone();
        (
            format!("{text} of the NetworkPool {}", pool.name_any()),
            text,
        )
    });
    // What is no block is reported where it is written.
    let blocks = of_provider.chain(of_pools).filter_map(|(place, text)| {
        let block: Cidr = text.parse().ok()?;
        Some((place, block.range()))
    });
    let mut found: Vec<(String, AddressRange)> = Vec::new();
    for (place, range) in blocks {
        if found.iter().all(|(_, known)| *known != range) {
            found.push((place, range));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::tenant_rules::testing::{Scene, cluster, pool};

    fn told(networking: &Value) -> String {
        let mut scene = Scene::new(cluster(&json!({"networking": networking})));
        scene.provide(&json!({
            "provider": "local", "local": {"cidr": "172.30.0.0/16"},
            "network": {"mode": "ipam", "subnet": "172.30.0.0/16", "poolRefs": [{"name": "lan"}]},
        }));
        scene.pools = vec![pool("lan", "10.40.0.0/16")];
        scene.told(super::breaches)
    }

    #[test]
    fn ranges_apart_from_each_other_and_from_the_machines_are_fine() {
        assert_eq!(told(&json!({})), "");
        assert_eq!(
            told(&json!({"loadBalancerPool": {"start": "10.40.1.100", "end": "10.40.1.150"}})),
            ""
        );
    }

    #[test]
    fn ranges_that_overlap_where_machines_are_say_with_what() {
        insta::assert_snapshot!(told(&json!({"podCIDR": "10.0.0.0/10", "serviceCIDR": "172.30.128.0/20"})), @r"
        spec.networking.serviceCIDR: 172.30.128.0/20 overlaps network.subnet 172.30.0.0/16 of the ProviderConfig butler-system/default, where machines have their addresses: 172.30.128.0-172.30.143.255 cannot be reached from the cluster then; choose another range
        spec.networking.podCIDR: 10.0.0.0/10 overlaps 10.40.0.0/16 of the NetworkPool lan, where machines have their addresses: 10.40.0.0-10.40.255.255 cannot be reached from the cluster then; choose another range
        ");
    }

    #[test]
    fn load_balancer_addresses_around_the_pods_are_refused() {
        insta::assert_snapshot!(told(&json!({"loadBalancerPool": {"start": "10.240.0.0", "end": "10.250.0.0"}})), @"spec.networking.loadBalancerPool: 10.240.0.0-10.250.0.0 overlaps 10.244.0.0/16 of spec.networking.podCIDR: nobody outside of the cluster could reach these addresses; choose others");
    }

    #[test]
    fn ipv6_addresses_in_reverse_are_refused() {
        insta::assert_snapshot!(told(&json!({
            "podCIDR": "fd00:10:244::/56", "serviceCIDR": "fd00:10:96::/112",
            "loadBalancerPool": {"start": "fd00:40::ff", "end": "fd00:40::1"},
        })), @r#"spec.networking.loadBalancerPool: address range "fd00:40::ff-fd00:40::1" is not valid: the start must not come after the end"#);
    }
}
