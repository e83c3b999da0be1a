//! Machines whose user data is written for them.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::{
    tests::{asked, machine_with, owner, ready, running_request, world},
    *,
};
use crate::{
    butler_machine::UserDataSight,
    testing::{at, told},
};

fn machine() -> ButlerMachine {
    machine_with(json!({ "userDataFormat": "bottlerocket" }))
}

fn with(user_data: UserDataSight, world: World) -> World {
    World { user_data, ..world }
}

#[test]
fn a_machine_is_asked_for_when_what_it_shall_read_is_written() {
    let first = plan(&machine(), &with(UserDataSight::Writable, world()), at(1));
    insta::assert_yaml_snapshot!(first.effects, @r"
    - WriteUserData:
        bootstrap_data: shop-1-data
        cluster: shop
    ");
    insta::assert_snapshot!(ready(&first), @"False Creating: what the machine shall read first is written");
    let then = plan(&machine(), &with(UserDataSight::Written, world()), at(2));
    let [Effect::Request(request)] = &then.effects[..] else {
        panic!("{:?}", then.effects);
    };
    let named = request.spec.user_data_secret_ref.as_ref().unwrap();
    assert_eq!(named.name, "shop-1-user-data");
    assert_eq!(named.key.as_deref(), Some("value"));
}

#[test]
fn a_machine_that_cannot_be_told_what_to_do_is_not_asked_for_and_says_why() {
    let why = "the bootstrap data in the Secret payments/shop-1-data cannot be told to a machine that reads bottlerocket: it has commands";
    let obstacle = Finding::new(false, reasons::BOOTSTRAP_DATA_UNUSABLE, why);
    let obstructed = with(UserDataSight::Obstructed(obstacle), world());
    let plan_now = plan(&machine(), &obstructed, at(1));
    assert_eq!(plan_now.effects, []);
    insta::assert_snapshot!(told(&plan_now), @r#"
    BootstrapDataReady=False BootstrapDataUnusable: the bootstrap data in the Secret payments/shop-1-data cannot be told to a machine that reads bottlerocket: it has commands
    MachineProvisioned=False BootstrapDataUnusable: the bootstrap data in the Secret payments/shop-1-data cannot be told to a machine that reads bottlerocket: it has commands
    Ready=False BootstrapDataUnusable: the bootstrap data in the Secret payments/shop-1-data cannot be told to a machine that reads bottlerocket: it has commands
    Paused=False NotPaused
    status.initialization: {"provisioned":false}
    status.ready: false
    Warning BootstrapDataUnusable: the bootstrap data in the Secret payments/shop-1-data cannot be told to a machine that reads bottlerocket: it has commands
    "#);
    let foreign = plan(&machine(), &with(UserDataSight::Foreign, world()), at(1));
    assert_eq!(foreign.effects, []);
    insta::assert_snapshot!(ready(&foreign), @"False NameTaken: a Secret payments/shop-1-user-data exists and is not this machine's; delete it, or this machine");
}

#[test]
fn a_machine_is_known_by_what_it_was_told_whatever_its_provider_calls_it() {
    let request = MachineRequestFacts {
        provider_id: Some("proxmox://pve-1/100".to_owned()),
        ..running_request()
    };
    let world = with(UserDataSight::Written, asked(request));
    let plan = plan(&machine(), &world, at(1));
    assert_eq!(
        plan.apply[0].body["spec"]["providerID"],
        "butler-local://machine-uid"
    );
}

#[test]
fn user_data_that_somebody_deleted_is_written_again_while_the_machine_may_need_it() {
    let world = with(
        UserDataSight::Writable,
        asked(MachineRequestFacts::default()),
    );
    let plan = plan(&machine(), &world, at(1));
    let cluster = owner().cluster;
    let bootstrap_data = owner().bootstrap_data.unwrap();
    assert_eq!(
        plan.effects,
        [Effect::WriteUserData {
            bootstrap_data,
            cluster
        }]
    );
}
