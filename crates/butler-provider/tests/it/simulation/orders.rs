//! Whatever the order of events, and whoever is killed between any two of them: never two machines for one request, and none
//! is left after its end.

use std::time::Duration;

use butler_api::{
    butler::{
        ip_allocation::IPAllocation,
        load_balancer_request::{LoadBalancerPhase, LoadBalancerRequest},
        machine_request::{MachinePhase, MachineRequest},
    },
    keys::annotations,
};
use butler_provider::fake::CAPABILITIES;
use butler_runtime::object::Kind;
use butler_testkit::simulator::{Chances, Deed, Failed, Moment, Operation, for_seeds};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::world::{
    STEPS, SYSTEM, asks, capabilities, key, load_balancers, machines, request, secret, settles,
    shown, world,
};

#[test]
fn requests_become_machines_and_a_world_at_rest_stays_at_rest() {
    for_seeds(0..300, |seed| {
        let (mut simulation, cloud) =
            world(seed, 1 + usize::from(seed % 5 == 0), capabilities(seed));
        for name in ["worker-0", "worker-1", "worker-2"] {
            asks(&mut simulation, name);
        }
        simulation.run(STEPS)?;
        for name in ["worker-0", "worker-1", "worker-2"] {
            let request = shown(&simulation, name);
            let status = request.status.clone().unwrap_or_default();
            let tail = || simulation.log().tail(80);
            assert_eq!(
                status.phase,
                Some(MachinePhase::Running),
                "{status:?}\n{}",
                tail()
            );
            let machines = cloud.machines();
            let uid = request.uid().unwrap();
            let machine = machines.iter().find(|machine| machine.uid == uid).unwrap();
            assert_eq!(status.ip_address, Some(machine.address.to_string()));
            assert!(
                machine.user_data.is_some(),
                "it has its user data\n{}",
                tail()
            );
        }
        settles(&mut simulation)
    })
    .unwrap();
}

#[test]
fn requests_deleted_at_any_time_leave_nothing() {
    for_seeds(0..400, |seed| {
        let (mut simulation, cloud) =
            world(seed, 1 + usize::from(seed % 4 == 0), capabilities(seed));
        simulation.chances(Chances {
            crash: 0.04,
            crashes: 12,
            unavailable: 0.05,
            ..Chances::default()
        });
        for (index, name) in ["worker-0", "worker-1", "worker-2"].into_iter().enumerate() {
            let moment = match (seed + u64::try_from(index).unwrap()) % 3 {
                0 => Moment::Anytime,
                1 => Moment::After(Duration::from_secs(1)),
                _ => Moment::AtRest,
            };
            let bootstrap = secret(&format!("{name}-bootstrap"), "value", "#cloud-config\n");
            let steps = vec![
                (
                    Moment::Anytime,
                    Deed::create(Kind::of::<Secret>(), bootstrap),
                ),
                (
                    Moment::Anytime,
                    Deed::create(machines(), request(name, "cloud")),
                ),
                (moment, Deed::delete(machines(), key(name))),
                // The same name once more: another machine.
                (
                    Moment::Anytime,
                    Deed::create(machines(), request(name, "cloud")),
                ),
                (moment, Deed::delete(machines(), key(name))),
            ];
            simulation.user(name, steps);
        }
        let outcome = simulation.run(STEPS)?;
        let mut left: Vec<MachineRequest> = outcome.store.all().unwrap();
        if !left.is_empty() {
            // The second was asked for while the first was still there.
            for request in &left {
                let delete = Operation::delete(machines(), key(&request.name_any()));
                simulation.store_mut().perform("admin", delete).unwrap();
            }
            left = simulation.run(STEPS)?.store.all().unwrap();
        }
        let tail = simulation.log().tail(80);
        assert_eq!(left, [], "{tail}");
        assert_eq!(cloud.machines(), [], "{tail}");
        let allocations: Vec<IPAllocation> = simulation.store().all().unwrap();
        let held = allocations
            .iter()
            .filter(|allocation| allocation.metadata.deletion_timestamp.is_none());
        // What a second replica asked for after the end is collected by the controller of allocations.
        assert!(
            seed % 4 == 0 || held.count() == 0,
            "{allocations:?}\n{tail}"
        );
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn load_balancers_follow_their_requests() {
    for_seeds(0..300, |seed| {
        let (mut simulation, cloud) = world(seed, 1 + usize::from(seed % 5 == 0), capabilities(seed));
        let body = json!({
            "metadata": { "name": "lb", "namespace": SYSTEM },
            "spec": { "clusterName": "demo", "providerConfigRef": { "name": "cloud" }, "port": 6443 },
        });
        let set = |targets: Value| {
            Deed::edit(load_balancers(), key("lb"), move |body| {
                body["spec"]["targets"] = targets.clone();
            })
        };
        let one = json!([{ "ip": "10.213.73.9" }]);
        let two = json!([{ "ip": "10.213.73.9" }, { "ip": "10.213.73.10" }]);
        simulation.user(
            "alice",
            vec![
                (Moment::Anytime, Deed::create(load_balancers(), body)),
                (Moment::Anytime, set(one)),
                (Moment::AtRest, set(two)),
            ],
        );
        simulation.run(STEPS)?;
        let object = simulation.store().get(&load_balancers(), &key("lb")).unwrap();
        let shown: LoadBalancerRequest = serde_json::from_value(object.as_ref().clone()).unwrap();
        let status = shown.status.unwrap_or_default();
        let tail = simulation.log().tail(80);
        assert_eq!(status.phase, Some(LoadBalancerPhase::Ready), "{status:?}\n{tail}");
        assert_eq!(status.registered_targets, Some(2), "{tail}");
        let made = cloud.load_balancers();
        assert_eq!(made.len(), 1, "{tail}");
        assert_eq!(status.endpoint, Some(made[0].address.to_string()));
        settles(&mut simulation)?;

        simulation.chances(Chances::default());
        let delete = Operation::delete(load_balancers(), key("lb"));
        simulation.store_mut().perform("admin", delete).unwrap();
        let outcome = simulation.run(STEPS)?;
        let tail = simulation.log().tail(80);
        assert!(outcome.objects(&load_balancers()).is_empty(), "{tail}");
        assert_eq!(cloud.load_balancers(), [], "{tail}");
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn requests_of_other_providers_are_not_touched() {
    for_seeds(0..100, |seed| {
        let (mut simulation, cloud) = world(seed, 1, CAPABILITIES);
        let foreign = request("foreign", "elsewhere");
        let mut paused = request("paused", "elsewhere");
        paused["metadata"]["annotations"] = json!({ annotations::PAUSED: "true" });
        let steps = [foreign, paused].map(|body| (Moment::Anytime, Deed::create(machines(), body)));
        simulation.user("alice", steps.into());
        simulation.run(STEPS)?;
        for name in ["foreign", "paused"] {
            let request = shown(&simulation, name);
            assert_eq!(request.status, None);
            assert_eq!(request.finalizers(), Vec::<String>::new());
        }
        assert_eq!(cloud.machines(), []);
        Ok::<(), Failed>(())
    })
    .unwrap();
}
