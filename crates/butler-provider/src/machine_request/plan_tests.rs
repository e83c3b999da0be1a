//! What is decided about machines, read as a reviewer would.

use butler_api::keys::annotations;
use butler_runtime::object::ObjectKey;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::{
    allocation::Allocation,
    attempts::{Attempt, Basis, Unreachable},
    fake::CAPABILITIES,
    provider::{AddressSource, Capabilities},
    testing::{at, told},
};

fn request(extra: Value) -> MachineRequest {
    let mut body = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "MachineRequest",
        "metadata": { "name": "worker-0", "namespace": "butler-system", "uid": "u-1", "generation": 1,
            "finalizers": ["machinerequest.butler.butlerlabs.dev/local-finalizer"] },
        "spec": {
            "providerRef": { "name": "local" }, "role": "worker",
            "cpu": 1, "memoryMB": 1024, "diskGB": 10,
        },
    });
    json_patch(&mut body, extra);
    serde_json::from_value(body).unwrap()
}

fn json_patch(body: &mut Value, extra: Value) {
    match (body, extra) {
        (Value::Object(body), Value::Object(extra)) => {
            for (key, value) in extra {
                json_patch(body.entry(key).or_insert(Value::Null), value);
            }
        }
        (body, extra) => *body = extra,
    }
}

fn world() -> World {
    World {
        capabilities: Capabilities {
            addresses: AddressSource::Infrastructure,
            ..CAPABILITIES
        },
        machine: Ok(None),
        user_data: UserDataSight::NotWanted,
        namespace: Some("butler-system".to_owned()),
        pools: vec!["blue".to_owned(), "red".to_owned()],
        allocations: Vec::new(),
        configuration: Some(1),
        secrets: Vec::new(),
        attempt: None,
    }
}

fn machine(state: MachineState) -> MachineObservation {
    MachineObservation {
        provider_id: "butler-local://u-1".to_owned(),
        state,
        addresses: vec!["10.213.73.9".parse().unwrap()],
        mac_address: None,
        has_user_data: false,
    }
}

fn with(machine: MachineObservation) -> World {
    World {
        machine: Ok(Some(machine)),
        ..world()
    }
}

fn from_pools() -> World {
    World {
        capabilities: CAPABILITIES,
        ..world()
    }
}

fn allocation(pool: &str, address: Option<&str>, refusal: Option<&str>) -> Allocation {
    Allocation {
        key: ObjectKey::namespaced("butler-system", format!("worker-0-{pool}")),
        uid: format!("uid-{pool}"),
        pool: pool.to_owned(),
        pinned: None,
        address: address.map(|address| address.parse().unwrap()),
        refusal: refusal.map(str::to_owned),
        over_quota: false,
        deleting: false,
        in_use: true,
    }
}

fn attempt(error: Option<ProviderError>) -> Attempt {
    Attempt {
        error,
        count: 1,
        at: at(0),
        basis: Basis {
            deed: "make",
            generation: Some(1),
            configuration: Some(1),
            secrets: Vec::new(),
        },
    }
}

fn shown(request: &MachineRequest, world: &World) -> String {
    told(&plan(request, world, at(0)))
}

/// The request after its plan was written down.
fn after(request: MachineRequest, world: &World) -> MachineRequest {
    let mut status = plan(&request, world, at(0)).status;
    status.observed_generation = request.metadata.generation;
    MachineRequest {
        status: Some(status),
        ..request
    }
}

#[test]
fn a_new_request_is_made() {
    insta::assert_snapshot!(shown(&request(json!({})), &world()));
}

#[test]
fn a_running_machine_is_ready() {
    insta::assert_snapshot!(shown(
        &request(json!({})),
        &with(machine(MachineState::Running))
    ));
}

#[test]
fn a_running_machine_that_is_looked_at_again_is_told_the_same() {
    let world = with(machine(MachineState::Running));
    let request = after(request(json!({})), &world);
    let again = plan(&request, &world, at(999));
    let mut status = again.status;
    status.observed_generation = Some(1);
    assert_eq!(Some(status), request.status);
    assert_eq!(again.notes, []);
}

#[test]
fn a_machine_without_an_address_is_waited_for() {
    let mut seen = machine(MachineState::Running);
    seen.addresses.clear();
    insta::assert_snapshot!(shown(&request(json!({})), &with(seen)));
}

#[test]
fn too_large_a_machine_stays_in_the_making_and_is_tried_again() {
    let refused = ProviderError::quota("machine worker-0 asks for 64 processors and there are 2");
    let world = World {
        attempt: Some(attempt(Some(refused))),
        ..world()
    };
    insta::assert_snapshot!(shown(&request(json!({})), &world));
}

#[test]
fn what_cannot_be_made_as_asked_has_failed_until_something_changes() {
    let refused = ProviderError::terminal("there is no such image; name another");
    let refused = World {
        attempt: Some(attempt(Some(refused))),
        ..world()
    };
    insta::assert_snapshot!(shown(&request(json!({})), &refused));
    let changed = request(json!({ "metadata": { "generation": 2 } }));
    let plan = plan(&changed, &refused, at(1));
    assert_eq!(plan.status.phase, Some(MachinePhase::Creating));
    assert_eq!(plan.effects.len(), 1, "a changed spec is tried at once");
}

#[test]
fn a_machine_that_vanished_has_failed_and_is_not_made_again() {
    let request = after(request(json!({})), &with(machine(MachineState::Running)));
    insta::assert_snapshot!(shown(&request, &world()));
}

#[test]
fn a_provider_that_is_silent_for_a_moment_changes_nothing() {
    let request = after(request(json!({})), &with(machine(MachineState::Running)));
    let silent = |count| World {
        machine: Err(Obstacle::Unreachable(Unreachable {
            error: ProviderError::retry("the infrastructure does not answer"),
            count,
        })),
        ..world()
    };
    let first = plan(&request, &silent(1), at(5));
    assert_eq!(first.status.phase, Some(MachinePhase::Running));
    insta::assert_snapshot!(shown(&request, &silent(3)));
}

#[test]
fn user_data_that_comes_later_is_handed_over() {
    let mut world = with(machine(MachineState::Running));
    world.user_data = UserDataSight::Present;
    insta::assert_snapshot!(shown(&request(json!({})), &world));
}

#[test]
fn a_machine_that_needs_its_user_data_waits_for_it() {
    let mut world = world();
    world.capabilities.user_data_later = false;
    world.user_data = UserDataSight::Missing(ObjectKey::namespaced("demo", "bootstrap"));
    insta::assert_snapshot!(shown(&request(json!({})), &world));
}

#[test]
fn an_address_is_asked_of_the_first_pool() {
    insta::assert_snapshot!(shown(&request(json!({})), &from_pools()));
}

#[test]
fn a_pool_that_refuses_is_followed_by_the_next() {
    let mut world = from_pools();
    world.allocations = vec![allocation("blue", None, Some("it is full"))];
    insta::assert_snapshot!(shown(&request(json!({})), &world));
    world
        .allocations
        .push(allocation("red", None, Some("it is full too")));
    insta::assert_snapshot!(shown(&request(json!({})), &world));
}

#[test]
fn a_granted_address_goes_into_the_order_and_what_is_not_needed_is_given_back() {
    let mut world = from_pools();
    world.allocations = vec![
        allocation("blue", None, Some("it is full")),
        allocation("red", Some("10.213.73.9"), None),
    ];
    insta::assert_snapshot!(shown(&request(json!({})), &world));
}

#[test]
fn an_adopted_machine_keeps_its_address() {
    let adopts =
        json!({ "metadata": { "annotations": { annotations::ADOPT_MACHINE_ID: "vm-7" } } });
    insta::assert_snapshot!(shown(&request(adopts.clone()), &from_pools()));
    let mut world = from_pools();
    world.machine = Ok(Some(machine(MachineState::Running)));
    insta::assert_snapshot!(shown(&request(adopts), &world));
}

#[test]
fn a_request_that_breaks_a_rule_is_told_the_field() {
    let wrong = json!({ "spec": { "memoryMB": 1 } });
    insta::assert_snapshot!(shown(&request(wrong), &world()));
}

#[test]
fn a_deleted_request_deletes_its_machine_and_then_lets_go() {
    let deleted = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let request = request(deleted);
    let mut world = from_pools();
    world.allocations = vec![allocation("blue", Some("10.213.73.9"), None)];
    world.machine = Ok(Some(machine(MachineState::Running)));
    insta::assert_snapshot!(shown(&request, &world));
    world.machine = Ok(None);
    insta::assert_snapshot!(shown(&request, &world));
}

#[test]
fn a_deletion_without_the_way_to_the_provider_says_what_to_do() {
    let deleted = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let world = World {
        machine: Err(Obstacle::Closed(ProviderError::credentials(
            "the Secret butler-system/login does not exist; create it",
        ))),
        ..world()
    };
    insta::assert_snapshot!(shown(&request(deleted), &world));
}
