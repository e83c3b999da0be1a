use butler_api::butler::{network_pool::NetworkPool, provider_config::ProviderConfig};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::{
    tenant_cluster::{Effect, addresses, scene, why::Waiting},
    testing::at,
};

/// A pool with so many addresses, and the longest run of them.
fn pool(name: &str, available: i32, largest: i32) -> NetworkPool {
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "butler-system" },
        "spec": { "cidr": "10.40.0.0/16" },
        "status": { "availableIPs": available, "largestFreeBlock": largest },
    }))
    .unwrap()
}

fn provider() -> ProviderConfig {
    scene::provider(&json!({ "provider": "local", "network": {
        "mode": "ipam",
        "poolRefs": [{ "name": "spare" }, { "name": "rack", "priority": 1 }],
        "quotaPerTenant": { "maxLoadBalancerIPs": 16 },
    } }))
}

fn decided(size: Option<i32>, pools: &[NetworkPool], first: Option<&IPAllocation>) -> Decision {
    let cluster = scene::shop(&json!({ "networking": { "lbPoolSize": size } }));
    let sight = Sight {
        cluster: &cluster,
        provider: &provider(),
        pools,
        first,
        added: &[],
        demand: None,
    };
    addresses::plan(&sight, at(1))
}

fn said(decision: &Decision) -> String {
    let waiting = decision.waiting.as_ref();
    waiting.map_or_else(|| decision.finding.message.clone(), Waiting::message)
}

/// What was asked for, as the API server has it, with this status.
fn found(asked: &Decision, status: Value) -> IPAllocation {
    let mut body = asked.manifests[0].body.clone();
    body["metadata"]["uid"] = json!("uid");
    body["metadata"]["resourceVersion"] = json!("7");
    body["status"] = status;
    serde_json::from_value(body).unwrap()
}

fn failed(reason: &str) -> Value {
    json!({ "phase": "Failed", "conditions": [{
        "type": "Ready", "status": "False", "reason": reason, "message": "no run of 8 free addresses",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    }] })
}

fn pool_asked(decision: &Decision) -> &Value {
    &decision.manifests[0].body["spec"]["poolRef"]["name"]
}

#[test]
fn the_pool_that_has_the_addresses_in_one_run_is_asked_and_not_the_one_that_has_them_scattered() {
    let scattered = [pool("rack", 20, 4), pool("spare", 9, 9)];
    assert_eq!(pool_asked(&decided(None, &scattered, None)), "spare");
    let both = [pool("rack", 20, 8), pool("spare", 9, 9)];
    assert_eq!(pool_asked(&decided(None, &both, None)), "rack");
}

#[test]
fn when_no_pool_has_so_many_each_says_what_it_has() {
    let mut ill = pool("spare", 90, 90);
    ill.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("1970-01-01T00:00:01Z")).unwrap());
    let decision = decided(None, &[pool("rack", 20, 4), ill], None);
    assert_eq!(decision.manifests, []);
    insta::assert_snapshot!(said(&decision), @"no pool of its provider has 8 addresses left in one run: rack has 4, spare gives out none; enlarge a pool, add one to the ProviderConfig, or ask for fewer in spec.networking.lbPoolSize");
    insta::assert_snapshot!(said(&decided(None, &[], None)), @"no pool of its provider has 8 addresses left in one run: rack does not exist, spare does not exist; enlarge a pool, add one to the ProviderConfig, or ask for fewer in spec.networking.lbPoolSize");
}

#[test]
fn a_first_range_that_is_refused_moves_to_the_pool_that_has_room() {
    let full = [pool("rack", 20, 8), pool("spare", 0, 0)];
    let asked = decided(None, &full, None);
    let refused = found(&asked, failed("PoolExhausted"));
    // Somebody else was faster, and no other pool has room.
    let nowhere = [pool("rack", 12, 4), pool("spare", 0, 0)];
    let stays = decided(None, &nowhere, Some(&refused));
    assert_eq!(
        (stays.manifests, stays.effects),
        (asked.manifests.clone(), vec![])
    );
    let stays = decided(None, &nowhere, Some(&refused));
    assert_eq!(
        said(&stays),
        "the IPAllocation butler-tenants-shop-lb-fedcbdc4: no run of 8 free addresses"
    );
    // The pool that it asked may have room again: it grants without our doing.
    let again = decided(None, &full, Some(&refused));
    assert_eq!((again.manifests.len(), again.effects.len()), (1, 0));
    // Another one has room.
    let elsewhere = [pool("rack", 12, 4), pool("spare", 30, 30)];
    let moved = decided(None, &elsewhere, Some(&refused));
    assert_eq!(moved.manifests, []);
    assert_eq!(
        moved.effects,
        [Effect::GiveBack {
            key: butler_runtime::object::ObjectKey::of(&refused),
            uid: "uid".to_owned(),
            version: "7".to_owned(),
        }]
    );
    assert_eq!(
        said(&moved),
        "the IPAllocation butler-tenants-shop-lb-fedcbdc4 is given back: the pool spare has room for it"
    );
    let mut going = refused;
    going.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("1970-01-01T00:00:01Z")).unwrap());
    let waits = decided(None, &elsewhere, Some(&going));
    assert_eq!((waits.manifests.len(), waits.effects.len()), (0, 0));
    assert_eq!(pool_asked(&decided(None, &elsewhere, None)), "spare");
}

#[test]
fn a_first_range_that_is_refused_is_asked_for_anew_when_the_cluster_asks_for_fewer() {
    let pools = [pool("rack", 20, 8), pool("spare", 0, 0)];
    let asked = decided(Some(8), &pools, None);
    let refused = found(&asked, failed("PoolExhausted"));
    let short = [pool("rack", 12, 4), pool("spare", 0, 0)];
    let fewer = decided(Some(4), &short, Some(&refused));
    assert_eq!(
        said(&fewer),
        "the IPAllocation butler-tenants-shop-lb-fedcbdc4 is given back: the cluster asks for something else now"
    );
    assert_eq!(fewer.effects.len(), 1);
    let anew = decided(Some(4), &short, None);
    assert_eq!(anew.manifests[0].body["spec"]["count"], 4);
}

#[test]
fn what_is_granted_is_never_given_back_whatever_is_asked_for() {
    let pools = [pool("rack", 0, 0), pool("spare", 30, 30)];
    let asked = decided(Some(8), &[pool("rack", 20, 8)], None);
    let status = json!({
        "phase": "Allocated", "startAddress": "10.40.0.8", "endAddress": "10.40.0.15", "allocatedCount": 8,
    });
    let granted = found(&asked, status);
    for size in [1, 8] {
        let decision = decided(Some(size), &pools, Some(&granted));
        assert_eq!((decision.effects, decision.waiting), (vec![], None));
        assert_eq!(decision.manifests, asked.manifests);
    }
    // Nor is it asked for another time while somebody takes it back.
    let mut going = granted;
    going.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("1970-01-01T00:00:01Z")).unwrap());
    assert_eq!(decided(Some(8), &pools, Some(&going)).effects, []);
}

#[test]
fn a_wish_beyond_the_quota_is_met_as_far_as_it_may_be_and_that_is_told() {
    let pools = [pool("rack", 40, 40)];
    let asked = decided(Some(20), &pools, None);
    assert_eq!(asked.manifests[0].body["spec"]["count"], 16);
    insta::assert_snapshot!(said(&asked), @"16 addresses of the pool rack are asked for; spec.networking.lbPoolSize asks for 20 addresses, and quotaPerTenant.maxLoadBalancerIPs of its provider allows 16");
    let status = json!({
        "phase": "Allocated", "startAddress": "10.40.0.16", "endAddress": "10.40.0.31", "allocatedCount": 16,
    });
    let granted = found(&asked, status);
    let has = decided(Some(20), &pools, Some(&granted));
    insta::assert_snapshot!(said(&has), @"10.40.0.16-10.40.0.31; spec.networking.lbPoolSize asks for 20 addresses, and quotaPerTenant.maxLoadBalancerIPs of its provider allows 16");
    assert_eq!(has.finding.reason, reasons::QUOTA_EXCEEDED);
    assert_eq!(
        decided(Some(16), &pools, Some(&granted)).finding.reason,
        reasons::READY
    );
}
