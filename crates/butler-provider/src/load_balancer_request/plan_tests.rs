//! What is decided about load balancers, read as a reviewer would.

use butler_runtime::object::ObjectKey;
use serde_json::{Value, json};

use super::*;
use crate::{
    allocation::Allocation,
    attempts::{Attempt, Basis},
    fake::CAPABILITIES,
    provider::{AddressSource, Capabilities},
    testing::{at, told},
};

fn request(metadata: &Value) -> LoadBalancerRequest {
    let mut body = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "LoadBalancerRequest",
        "metadata": { "name": "demo", "namespace": "butler-system", "uid": "u-1", "generation": 1 },
        "spec": { "clusterName": "demo", "providerConfigRef": { "name": "local" } },
    });
    for (key, value) in metadata.as_object().into_iter().flatten() {
        body["metadata"][key] = value.clone();
    }
    serde_json::from_value(body).unwrap()
}

fn world() -> World {
    World {
        capabilities: Capabilities {
            addresses: AddressSource::Infrastructure,
            ..CAPABILITIES
        },
        load_balancer: Ok(None),
        namespace: Some("butler-system".to_owned()),
        pools: vec!["blue".to_owned()],
        allocations: Vec::new(),
        configuration: Some(1),
        secrets: Vec::new(),
        attempt: None,
    }
}

fn seen(in_step: bool) -> World {
    World {
        load_balancer: Ok(Some(LoadBalancerObservation {
            resource_id: "lb-1".to_owned(),
            endpoint: Some("10.213.73.20".to_owned()),
            registered_targets: 0,
            in_step,
        })),
        ..world()
    }
}

fn shown(request: &LoadBalancerRequest, world: &World) -> String {
    told(&plan(request, world, at(0)))
}

#[test]
fn a_new_request_is_made() {
    insta::assert_snapshot!(shown(&request(&json!({})), &world()));
}

#[test]
fn it_is_ready_with_its_endpoint_before_it_has_a_target() {
    insta::assert_snapshot!(shown(&request(&json!({})), &seen(true)));
}

#[test]
fn targets_that_are_not_in_step_do_not_make_it_unready() {
    insta::assert_snapshot!(shown(&request(&json!({})), &seen(false)));
    let refused = Attempt {
        error: Some(ProviderError::retry("the infrastructure does not answer")),
        count: 1,
        at: at(0),
        basis: Basis {
            deed: "ensure",
            generation: Some(1),
            configuration: Some(1),
            secrets: Vec::new(),
        },
    };
    let world = World {
        attempt: Some(refused),
        ..seen(false)
    };
    insta::assert_snapshot!(shown(&request(&json!({})), &world));
}

#[test]
fn a_provider_without_load_balancers_says_so() {
    let mut world = world();
    world.capabilities.load_balancers = false;
    insta::assert_snapshot!(shown(&request(&json!({})), &world));
}

#[test]
fn an_address_is_asked_of_the_pool() {
    let mut world = world();
    world.capabilities = CAPABILITIES;
    insta::assert_snapshot!(shown(&request(&json!({})), &world));
}

#[test]
fn a_deleted_request_deletes_it_and_then_lets_go() {
    let deleted = request(&json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }));
    insta::assert_snapshot!(shown(&deleted, &seen(true)));
    let mut world = world();
    world.allocations = vec![Allocation {
        key: ObjectKey::namespaced("butler-system", "demo-1"),
        uid: "a-1".to_owned(),
        pool: "blue".to_owned(),
        pinned: None,
        address: Some("10.213.73.20".parse().unwrap()),
        refusal: None,
        over_quota: false,
        deleting: false,
        in_use: true,
    }];
    insta::assert_snapshot!(shown(&deleted, &world));
}
