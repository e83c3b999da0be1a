//! What becomes of a machine on a bad day.

use std::{net::IpAddr, time::Duration};

use butler_api::{
    butler::{
        ip_allocation::IPAllocation, machine_request::MachinePhase, provider_config::ProviderConfig,
    },
    conditions::reasons,
    keys::annotations,
    normalize::machine_size::MachineSize,
};
use butler_provider::{
    ProviderError,
    fake::{CAPABILITIES, Call, FakeMachine, PASSWORD},
};
use butler_runtime::object::Kind;
use butler_testkit::simulator::{Chances, Deed, Moment, Operation};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::world::{
    STEPS, asks, configuration, encoded, key, machines, phase, request, secret, settles, shown,
    world,
};

#[test]
fn a_request_waits_for_its_provider_without_being_claimed() {
    let (mut simulation, _) = world(1, 1, CAPABILITIES);
    simulation.chances(Chances::calm());
    asks(&mut simulation, "worker");
    let ask = Deed::create(machines(), request("early", "late"));
    simulation.user("alice", vec![(Moment::Anytime, ask)]);
    simulation.run(STEPS).unwrap();
    let early = shown(&simulation, "early");
    assert_eq!(early.finalizers(), Vec::<String>::new());
    let status = early.status.unwrap();
    assert_eq!(status.phase, Some(MachinePhase::Pending));
    assert_eq!(status.failure_reason, None);
    assert_eq!(
        status.conditions[0].reason,
        reasons::PROVIDER_CONFIG_NOT_FOUND
    );
    let scene = [
        (
            Kind::of::<ProviderConfig>(),
            configuration("late", "nutanix"),
        ),
        (
            Kind::of::<Secret>(),
            secret("early-bootstrap", "value", "#cloud-config\n"),
        ),
    ];
    for (kind, body) in scene {
        let create = Operation::create(kind, body);
        simulation.store_mut().perform("admin", create).unwrap();
    }
    simulation.run(STEPS).unwrap();
    assert_eq!(phase(&simulation, "early"), Some(MachinePhase::Running));
}

#[test]
fn a_machine_that_vanished_is_told_and_made_again_only_when_asked() {
    let (mut simulation, cloud) = world(2, 1, CAPABILITIES);
    simulation.chances(Chances::calm());
    asks(&mut simulation, "worker");
    simulation.run(STEPS).unwrap();
    let uid = shown(&simulation, "worker").uid().unwrap();
    cloud.destroy(&uid);
    simulation.look_again();
    simulation.run(STEPS).unwrap();
    let status = shown(&simulation, "worker").status.unwrap();
    assert_eq!(status.phase, Some(MachinePhase::Failed));
    assert_eq!(status.failure_reason.as_deref(), Some(reasons::VM_DELETED));
    assert_eq!(cloud.machines(), []);
    settles(&mut simulation).unwrap();

    let mut changed = shown(&simulation, "worker");
    changed.spec.cpu = Some(2);
    let replace = Operation::Replace(machines(), key("worker"), json!(changed));
    simulation.store_mut().perform("admin", replace).unwrap();
    simulation.run(STEPS).unwrap();
    assert_eq!(phase(&simulation, "worker"), Some(MachinePhase::Running));
    assert_eq!(cloud.machines()[0].size.cpu, 2);
}

#[test]
fn a_machine_that_stopped_is_started_again() {
    let (mut simulation, cloud) = world(3, 1, CAPABILITIES);
    simulation.chances(Chances::calm());
    asks(&mut simulation, "worker");
    simulation.run(STEPS).unwrap();
    cloud.halt(&shown(&simulation, "worker").uid().unwrap());
    simulation.look_again();
    simulation.run(STEPS).unwrap();
    assert_eq!(phase(&simulation, "worker"), Some(MachinePhase::Running));
    assert!(cloud.machines()[0].running);
}

#[test]
fn a_refusal_is_told_and_forgotten_when_its_cause_is() {
    let (mut simulation, cloud) = world(4, 1, CAPABILITIES);
    simulation.chances(Chances::calm());
    let login = Operation::Merge(
        Kind::of::<Secret>(),
        key("login"),
        json!({ "data": { "password": encoded("wrong") } }),
    );
    simulation.store_mut().perform("admin", login).unwrap();
    asks(&mut simulation, "worker");
    simulation.run(STEPS).unwrap();
    let status = shown(&simulation, "worker").status.unwrap();
    assert_eq!(status.phase, Some(MachinePhase::Failed), "{status:?}");
    assert_eq!(
        status.failure_reason.as_deref(),
        Some(reasons::CREDENTIALS_INVALID)
    );
    assert_eq!(cloud.machines(), []);
    let login = Operation::Merge(
        Kind::of::<Secret>(),
        key("login"),
        json!({ "data": { "password": encoded(PASSWORD) } }),
    );
    simulation.store_mut().perform("admin", login).unwrap();
    simulation.run(STEPS).unwrap();
    let status = shown(&simulation, "worker").status.unwrap();
    assert_eq!(status.phase, Some(MachinePhase::Running), "{status:?}");
    assert_eq!(status.failure_reason, None);
}

#[test]
fn a_full_infrastructure_is_asked_again_until_there_is_room() {
    let (mut simulation, cloud) = world(5, 1, CAPABILITIES);
    simulation.chances(Chances::calm());
    for _ in 0..5 {
        let full = ProviderError::quota("there is no room; delete something");
        cloud.fail_next(Call::CreateMachine, full);
    }
    asks(&mut simulation, "worker");
    simulation.run(STEPS).unwrap();
    assert_eq!(phase(&simulation, "worker"), Some(MachinePhase::Running));
    let log = simulation.log().tail(4000).to_string();
    assert_eq!(log.matches("create worker").count(), 6, "{log}");
}

#[test]
fn a_machine_that_is_there_is_adopted_with_its_address() {
    let (mut simulation, cloud) = world(6, 1, CAPABILITIES);
    simulation.chances(Chances::calm());
    let mut body = request("first", "cloud");
    body["metadata"]["annotations"] = json!({ annotations::ADOPT_MACHINE_ID: "vm-first" });
    let ask = Deed::create(machines(), body);
    simulation.user("alice", vec![(Moment::Anytime, ask)]);
    simulation.horizon(Duration::from_secs(1));
    simulation.run(STEPS).unwrap();
    let status = shown(&simulation, "first").status.unwrap();
    assert_eq!(status.phase, Some(MachinePhase::Pending));
    assert_eq!(status.conditions[0].reason, reasons::MACHINE_NOT_FOUND);
    assert_eq!(cloud.machines(), [], "none is made instead");

    cloud.plant(FakeMachine {
        id: "vm-first".to_owned(),
        uid: String::new(),
        name: "first".to_owned(),
        size: MachineSize::default(),
        address: IpAddr::from([10, 213, 73, 77]),
        user_data: None,
        running: true,
    });
    simulation.look_again();
    simulation.run(STEPS).unwrap();
    let status = shown(&simulation, "first").status.unwrap();
    assert_eq!(status.phase, Some(MachinePhase::Running), "{status:?}");
    assert_eq!(status.provider_id.as_deref(), Some("fake://vm-first"));
    let allocations: Vec<IPAllocation> = simulation.store().all().unwrap();
    let granted: Vec<_> = allocations
        .iter()
        .filter_map(|allocation| allocation.status.as_ref()?.start_address.as_deref())
        .collect();
    assert_eq!(granted, ["10.213.73.77"]);
}
