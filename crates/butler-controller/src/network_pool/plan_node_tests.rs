//! A machine that was there before it was asked for: its node has the address that is pinned for it.

use butler_api::{
    butler::network_pool::{InfrastructureAllocation, InfrastructureSource},
    reference::LocalReference,
};
use serde_json::json;

use super::{
    tests::{asks, deeds, quiet, small, with},
    *,
};
use crate::{ipam::claimant::Claimant, testing::at};

const ADDRESS: &str = "10.40.0.6";

/// Pins the address of the node `worker-1` for something of this kind and name.
fn pins(second: i64, api_version: &str, kind: &str, name: &str) -> Claimant {
    let mut claimant = asks(
        "pinned",
        second,
        json!({ "pinnedRange": { "startAddress": ADDRESS, "endAddress": ADDRESS } }),
    );
    claimant.spec.tenant_cluster_ref = None;
    claimant.tenant = None;
    claimant.spec.owner_ref = serde_json::from_value(json!({
        "apiVersion": api_version, "kind": kind, "name": name, "namespace": "butler-system",
    }))
    .unwrap();
    claimant
}

/// What the pool does for it, while the node is there.
fn done_for(claimant: Claimant) -> String {
    let pool = small();
    let mut world = with(quiet(&pool), [claimant]);
    let node = InfrastructureAllocation {
        ip: ADDRESS.to_owned(),
        source: InfrastructureSource::Node,
        service_ref: None,
        node_ref: Some(LocalReference {
            name: "worker-1".to_owned(),
        }),
        machine_ref: None,
    };
    let address = ADDRESS.parse().unwrap();
    world.around.infrastructure.insert(address, node);
    deeds(&plan(&pool, &world, at(10)))
}

#[test]
fn the_address_of_a_node_is_granted_to_the_request_of_its_machine_alone() {
    let butler = "butler.butlerlabs.dev/v1alpha1";
    let granted = done_for(pins(1, butler, "MachineRequest", "worker-1"));
    assert!(granted.contains("pinned=10.40.0.6/32"), "{granted}");
    for (api_version, kind, name) in [
        (butler, "MachineRequest", "worker-2"),
        (butler, "LoadBalancerRequest", "worker-1"),
        ("example.org/v1", "MachineRequest", "worker-1"),
    ] {
        let refused = done_for(pins(1, api_version, kind, name));
        assert!(!refused.contains("pinned="), "{kind} {name}: {refused}");
    }
}
