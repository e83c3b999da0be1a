//! What a machine shows and does, one step of its life at a time.

use butler_api::{butler::provider_config::Provider, reference::NamespacedReference};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::{
    butler_machine::UserDataSight,
    cluster_api::MachineFacts,
    testing::{at, told},
};

pub(super) fn machine_with(spec: Value) -> ButlerMachine {
    let mut body = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "ButlerMachine",
        "metadata": { "name": "shop-1", "namespace": "payments", "uid": "machine-uid", "generation": 1 },
        "spec": { "cpu": 4, "memory": "8Gi", "disk": "50Gi" },
    });
    if let Value::Object(more) = spec {
        body["spec"].as_object_mut().unwrap().extend(more);
    }
    serde_json::from_value(body).unwrap()
}

fn machine() -> ButlerMachine {
    machine_with(json!({}))
}

fn deleted(mut machine: ButlerMachine) -> ButlerMachine {
    let now = json!("2026-01-01T00:00:00Z");
    machine.metadata.deletion_timestamp = serde_json::from_value(now).unwrap();
    machine
}

/// A machine that was provisioned, as it stands.
fn provisioned() -> ButlerMachine {
    let mut machine = machine_with(json!({ "providerID": "butler-local://request-uid" }));
    machine.status = Some(plan(&machine, &asked(running_request()), at(1)).status);
    machine
}

pub(super) fn owner() -> MachineFacts {
    MachineFacts {
        cluster: "shop".to_owned(),
        bootstrap_data: Some("shop-1-data".to_owned()),
        ..MachineFacts::default()
    }
}

/// A world in which the machine can be asked for.
pub(super) fn world() -> World {
    World {
        machine: MachineSight::Found(owner()),
        infrastructure_provisioned: Some(true),
        provider: ProviderSight::Found {
            reference: NamespacedReference {
                name: "rack".to_owned(),
                namespace: Some("butler-system".to_owned()),
            },
            provider: Provider::Local,
        },
        request: RequestSight::Absent,
        user_data: UserDataSight::NotWanted,
    }
}

/// A world in which it was asked for.
pub(super) fn asked(request: MachineRequestFacts) -> World {
    let labels = machine_labels(&machine(), &owner());
    World {
        request: RequestSight::Ours {
            uid: "request-uid".to_owned(),
            deleting: false,
            request: MachineRequestFacts { labels, ..request },
        },
        ..world()
    }
}

pub(super) fn running_request() -> MachineRequestFacts {
    MachineRequestFacts {
        phase: Some(MachinePhase::Running),
        addresses: vec!["172.30.0.7".to_owned()],
        ..MachineRequestFacts::default()
    }
}

fn in_phase(phase: MachinePhase) -> World {
    asked(MachineRequestFacts {
        phase: Some(phase),
        ..MachineRequestFacts::default()
    })
}

/// What `Ready` says.
pub(super) fn ready(plan: &Plan<ButlerMachineStatus, Effect>) -> String {
    let mut conditions = plan.status.conditions.iter();
    let ready = conditions.find(|condition| condition.type_ == types::READY);
    let ready = ready.unwrap();
    format!("{} {}: {}", ready.status, ready.reason, ready.message)
}

#[test]
fn a_machine_that_nobody_owns_waits() {
    let plan = plan(&machine(), &World::default(), at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    MachineProvisioned=False WaitingForDependencies: waiting for a Machine that names it in spec.infrastructureRef
    Ready=False WaitingForDependencies: waiting for a Machine that names it in spec.infrastructureRef
    Paused=False NotPaused
    status.initialization: {"provisioned":false}
    status.ready: false
    "#);
    assert_eq!(plan.effects, []);
}

#[test]
fn each_thing_that_is_missing_is_waited_for_by_name() {
    let without_data = MachineFacts {
        bootstrap_data: None,
        ..owner()
    };
    let going = MachineFacts {
        deleting: true,
        ..owner()
    };
    let worlds = [
        World {
            machine: MachineSight::Missing(ObjectKey::namespaced("payments", "shop-1")),
            ..world()
        },
        World {
            machine: MachineSight::Found(going),
            ..world()
        },
        World {
            infrastructure_provisioned: None,
            ..world()
        },
        World {
            infrastructure_provisioned: Some(false),
            ..world()
        },
        World {
            machine: MachineSight::Found(without_data),
            ..world()
        },
        World {
            provider: ProviderSight::Unnamed,
            ..world()
        },
        World {
            provider: ProviderSight::Missing(ObjectKey::namespaced("butler-system", "rack")),
            ..world()
        },
        World {
            request: RequestSight::Foreign { deleting: true },
            ..world()
        },
        World {
            request: RequestSight::Foreign { deleting: false },
            ..world()
        },
    ];
    let said = worlds.map(|world| {
        let plan = plan(&machine(), &world, at(1));
        assert_eq!(plan.effects, [], "nothing is asked for");
        ready(&plan)
    });
    insta::assert_snapshot!(said.join("\n"), @"
    False WaitingForDependencies: waiting for its Machine payments/shop-1
    False WaitingForDependencies: its Machine is being deleted; no machine is made for it
    False WaitingForDependencies: waiting for its Cluster shop
    False WaitingForDependencies: waiting for the infrastructure of its Cluster shop
    False WaitingForDependencies: waiting for the bootstrap data of its Machine
    False WaitingForDependencies: spec.providerRef: waiting for the ButlerCluster of the Cluster shop, whose provider it comes from
    False ProviderConfigNotFound: spec.providerRef: the ProviderConfig butler-system/rack does not exist; create it or correct the reference
    False WaitingForDependencies: waiting until a former MachineRequest payments/shop-1 is gone
    False NameTaken: a MachineRequest payments/shop-1 exists and is not this machine's; delete it, or this machine
    ");
}

#[test]
fn a_machine_is_asked_for_when_all_is_there() {
    let machine = machine_with(json!({
        "image": "ubuntu",
        "extraDisks": [{ "size": "1500M", "storageClass": "fast" }],
        "labels": { "cost-centre": "shop" },
        "network": { "networkData": "version: 2" },
        "failureDomain": "rack-2",
    }));
    let plan = plan(&machine, &world(), at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    BootstrapDataReady=True Ready
    MachineProvisioned=False Creating: the machine is asked for
    Ready=False Creating: the machine is asked for
    Paused=False NotPaused
    status.initialization: {"provisioned":false}
    status.ready: false
    "#);
    insta::assert_yaml_snapshot!(plan.effects, @r#"
    - Request:
        apiVersion: butler.butlerlabs.dev/v1alpha1
        kind: MachineRequest
        metadata:
          labels:
            app.kubernetes.io/managed-by: butler
            butler.butlerlabs.dev/owner-kind: ButlerMachine
            butler.butlerlabs.dev/owner-uid: machine-uid
            butler.butlerlabs.dev/role: worker
            cluster.x-k8s.io/cluster-name: shop
          name: shop-1
          namespace: payments
          ownerReferences:
            - apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
              controller: true
              kind: ButlerMachine
              name: shop-1
              uid: machine-uid
        spec:
          providerRef:
            name: rack
            namespace: butler-system
          role: worker
          resources:
            cpu: "4"
            memory: 8Gi
            disk: 50Gi
          extraDisks:
            - sizeGB: 2
              storageClass: fast
          image: ubuntu
          userDataSecretRef:
            name: shop-1-data
            key: value
          networkData: "version: 2"
          labels:
            butler.butlerlabs.dev/role: worker
            cluster.x-k8s.io/cluster-name: shop
            cost-centre: shop
            topology.kubernetes.io/zone: rack-2
    "#);
}

#[test]
fn a_machine_of_a_control_plane_is_asked_for_as_one() {
    let owner = MachineFacts {
        control_plane: true,
        failure_domain: Some("rack-1".to_owned()),
        ..owner()
    };
    let world = World {
        machine: MachineSight::Found(owner),
        ..world()
    };
    let plan = plan(&machine(), &world, at(1));
    let [Effect::Request(request)] = &plan.effects[..] else {
        panic!("{:?}", plan.effects);
    };
    assert_eq!(json!(request.spec.role), "control-plane");
    let labels = &request.spec.labels;
    assert_eq!(labels["butler.butlerlabs.dev/role"], "control-plane");
    assert_eq!(labels["topology.kubernetes.io/zone"], "rack-1");
}

#[test]
fn a_spec_that_no_provider_could_serve_is_refused_in_the_machines_own_words() {
    let specs = [
        json!({ "memory": "512Mi", "disk": "1Gi" }),
        json!({ "extraDisks": [{ "size": "much" }] }),
        json!({ "network": { "name": "default/vlan40" } }),
    ];
    let said = specs.map(|spec| {
        let plan = plan(&machine_with(spec), &world(), at(1));
        assert_eq!(plan.effects, [], "nothing is asked for");
        assert_eq!(plan.notes.len(), 1, "somebody has to act");
        ready(&plan)
    });
    insta::assert_snapshot!(said.join("\n"), @"
    False ValidationFailed: spec.memory must be at least 1024 MiB; spec.disk must be at least 10 GiB
    False ValidationFailed: spec.extraDisks[0].size must be a quantity such as 100Gi
    False NotYetImplemented: spec.network.name: a machine is on the network of its ProviderConfig in this version; leave it out, or name another ProviderConfig in spec.providerRef
    ");
}

#[test]
fn a_name_that_no_host_can_have_is_refused() {
    let mut machine = machine();
    machine.metadata.name = Some("shop.1".to_owned());
    let plan = plan(&machine, &world(), at(1));
    assert_eq!(plan.effects, []);
    insta::assert_snapshot!(ready(&plan), @"False ValidationFailed: metadata.name must be a DNS label of at most 63 characters, because it names the machine");
}

#[test]
fn a_machine_that_runs_gets_its_identity_before_it_is_provisioned() {
    let plan = plan(&machine(), &asked(running_request()), at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    BootstrapDataReady=True Ready
    MachineProvisioned=False Creating: the provider is making the machine
    Ready=False Creating: the provider is making the machine
    Paused=False NotPaused
    status.initialization: {"provisioned":false}
    status.ready: false
    apply ButlerMachine payments/shop-1
    "#);
    insta::assert_yaml_snapshot!(plan.apply, @r#"
    - apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
      kind: ButlerMachine
      metadata:
        name: shop-1
        namespace: payments
      spec:
        providerID: "butler-local://request-uid"
    "#);
    assert_eq!(plan.effects, []);
}

#[test]
fn a_machine_with_its_identity_is_provisioned() {
    let plan = plan(&provisioned(), &asked(running_request()), at(2));
    insta::assert_snapshot!(told(&plan), @r#"
    BootstrapDataReady=True Ready
    MachineProvisioned=True Ready
    Ready=True Ready
    Paused=False NotPaused
    status.addresses: [{"address":"172.30.0.7","type":"InternalIP"},{"address":"shop-1","type":"Hostname"}]
    status.initialization: {"provisioned":true}
    status.ready: true
    "#);
    assert_eq!(plan.effects, []);
}

#[test]
fn a_machine_whose_provider_is_not_known_waits_for_its_identity() {
    let world = World {
        provider: ProviderSight::Unnamed,
        ..asked(running_request())
    };
    let plan = plan(&machine(), &world, at(1));
    assert_eq!(plan.apply, []);
    insta::assert_snapshot!(ready(&plan), @"False WaitingForDependencies: spec.providerRef: the ButlerCluster whose provider it comes from is not there");
}

#[test]
fn the_provider_tells_how_it_gets_on() {
    let waiting = MachineRequestFacts {
        phase: Some(MachinePhase::Creating),
        message: Some("the pool has no free address".to_owned()),
        ..MachineRequestFacts::default()
    };
    let worlds = [
        asked(MachineRequestFacts::default()),
        asked(waiting),
        in_phase(MachinePhase::Running),
        in_phase(MachinePhase::Unknown),
        in_phase(MachinePhase::Deleted),
        in_phase(MachinePhase::Failed),
    ];
    let said = worlds.map(|world| ready(&plan(&machine(), &world, at(1))));
    insta::assert_snapshot!(said.join("\n"), @"
    False Creating: the provider is making the machine
    False Creating: the provider is making the machine: the pool has no free address
    False Creating: the machine has no address yet
    Unknown Pending: the provider cannot be asked for the machine
    False MachineGone: the provider has removed the machine
    False Failed: the MachineRequest payments/shop-1 failed
    ");
}

#[test]
fn a_failure_is_told_in_the_providers_words_and_nothing_is_taken_back() {
    let world = asked(MachineRequestFacts {
        phase: Some(MachinePhase::Failed),
        failure_reason: Some("QuotaExceeded".to_owned()),
        message: Some("the host has 2 processors left, 4 are asked for".to_owned()),
        ..MachineRequestFacts::default()
    });
    let plan = plan(&provisioned(), &world, at(2));
    insta::assert_snapshot!(told(&plan), @r#"
    BootstrapDataReady=True Ready
    MachineProvisioned=True Ready
    Ready=False QuotaExceeded: the host has 2 processors left, 4 are asked for
    Paused=False NotPaused
    status.addresses: [{"address":"172.30.0.7","type":"InternalIP"},{"address":"shop-1","type":"Hostname"}]
    status.initialization: {"provisioned":true}
    status.ready: true
    Warning QuotaExceeded: the host has 2 processors left, 4 are asked for
    "#);
}

#[test]
fn a_reason_that_the_api_server_would_refuse_becomes_a_plain_one() {
    for reason in ["no quota", "", "1st", "Quota-", "Größe"] {
        let world = asked(MachineRequestFacts {
            phase: Some(MachinePhase::Failed),
            failure_reason: Some(reason.to_owned()),
            ..MachineRequestFacts::default()
        });
        let plan = plan(&machine(), &world, at(1));
        assert!(ready(&plan).starts_with("False Failed"), "{reason}");
    }
}

#[test]
fn a_lost_machine_is_not_made_again() {
    let plan = plan(&provisioned(), &world(), at(2));
    assert_eq!(plan.effects, []);
    insta::assert_snapshot!(ready(&plan), @"False MachineGone: the MachineRequest payments/shop-1 was deleted, and the machine with it; delete the Machine, so that another is made");
}

#[test]
fn labels_follow_the_machine() {
    let mut world = asked(running_request());
    if let RequestSight::Ours { request, .. } = &mut world.request {
        request.labels.insert("rack".to_owned(), "a".to_owned());
    }
    let machine = machine_with(json!({ "labels": { "cost-centre": "shop" } }));
    let plan = plan(&machine, &world, at(1));
    insta::assert_yaml_snapshot!(plan.effects, @r"
    - Relabel:
        uid: request-uid
        labels:
          cost-centre: shop
          rack: ~
    ");
}

#[test]
fn a_deleted_machine_deletes_its_request_once_and_waits() {
    let plan_now = plan(&deleted(provisioned()), &asked(running_request()), at(2));
    insta::assert_yaml_snapshot!(plan_now.effects, @r"
    - Remove:
        uid: request-uid
    ");
    assert_eq!(plan_now.next, Next::AwaitChange);

    let mut world = asked(running_request());
    if let RequestSight::Ours { deleting, .. } = &mut world.request {
        *deleting = true;
    }
    let plan = plan(&deleted(provisioned()), &world, at(2));
    assert_eq!(plan.effects, []);
    assert_eq!(plan.next, Next::AwaitChange);
    insta::assert_snapshot!(ready(&plan), @"False Deleting: waiting until the MachineRequest payments/shop-1 is gone");
}

#[test]
fn a_deleted_machine_without_a_request_of_its_own_goes_at_once() {
    for request in [
        RequestSight::Absent,
        RequestSight::Foreign { deleting: false },
    ] {
        let world = World { request, ..world() };
        let plan = plan(&deleted(machine()), &world, at(1));
        assert_eq!(plan.next, Next::Done);
        assert_eq!(plan.effects, [], "what is somebody else's stays");
    }
}
