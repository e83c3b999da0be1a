//! Whatever the order of events and whatever goes wrong on the way: a Cluster gets its control plane, and nothing of it is left.

use butler_runtime::object::Kind;
use butler_testkit::simulator::{Deed, Failed, Moment, Operation, Simulation, for_seeds};
use serde_json::{Value, json};

use super::{
    cast::{seen, world},
    scene::{self, CLUSTER},
};
use crate::{
    cast::{
        STEPS, assert_at_rest, assert_nothing_leaked, assert_ready, found, left, seeds, store_deed,
    },
    scene::{condition, here, secrets},
};

const PORT: u16 = 40443;

/// The infrastructure of a world; some have none.
fn infrastructure_of(seed: u64) -> Option<Kind> {
    match seed % 3 {
        0 => Some(scene::butler_clusters()),
        1 => Some(scene::nutanix_clusters()),
        _ => None,
    }
}

/// The name of a world's control plane: that of its Cluster, or another.
fn name_of(seed: u64) -> &'static str {
    if seed % 4 < 2 { CLUSTER } else { "hosted" }
}

/// Everybody makes their part, in any order.
fn deeds(simulation: &mut Simulation, seed: u64) {
    let infrastructure = infrastructure_of(seed);
    let cluster = scene::cluster(name_of(seed), infrastructure.as_ref(), PORT);
    simulation.user("operator", vec![store_deed()]);
    simulation.user(
        "alice",
        vec![(
            Moment::Anytime,
            Deed::create(scene::clusters(), seen(cluster)),
        )],
    );
    let control_plane = scene::control_plane(name_of(seed), json!({}));
    simulation.user(
        "bob",
        vec![(
            Moment::Anytime,
            Deed::create(scene::control_planes(), control_plane),
        )],
    );
    if let Some(kind) = infrastructure {
        let body = scene::infrastructure(&kind);
        simulation.user("carol", vec![(Moment::Anytime, Deed::create(kind, body))]);
    }
}

fn assert_handed_on(simulation: &Simulation, seed: u64) {
    assert_ready(simulation, name_of(seed));
    let log = || simulation.log().tail(80);
    let endpoint = json!({ "host": "192.0.2.4", "port": PORT });
    let cluster = found(simulation, &scene::clusters(), &here(CLUSTER));
    assert_eq!(
        cluster["status"]["initialization"]["controlPlaneInitialized"],
        true,
        "{}",
        log()
    );
    assert_eq!(cluster["spec"]["controlPlaneEndpoint"], endpoint);
    let control_plane = found(simulation, &scene::control_planes(), &here(name_of(seed)));
    let status = &control_plane["status"];
    for step in [
        "Available",
        "TenantControlPlaneCreated",
        "InfrastructureClusterPatched",
        "ControlPlaneEndpointPatched",
        "KubeadmResourcesCreated",
        "StewardControlPlaneIsInitialized",
        "StewardControlPlaneIsReady",
    ] {
        let said = condition(&control_plane, step);
        assert!(
            said.starts_with("True"),
            "{step} {said}: {status}\n{}",
            log()
        );
    }
    assert_eq!(status["version"], "v1.36.3");
    assert_eq!(status["replicas"], 2);
    assert_eq!(
        status["selector"],
        format!("steward.butlerlabs.dev/name={}", name_of(seed))
    );
    if let Some(kind) = infrastructure_of(seed) {
        let told = found(simulation, &kind, &here(CLUSTER));
        assert_eq!(told["spec"]["controlPlaneEndpoint"], endpoint, "{}", log());
        if kind.kind == "NutanixCluster" {
            assert_eq!(told["status"]["ready"], true);
        }
    }
    let source = found(
        simulation,
        &secrets(),
        &here(&format!("{}-admin-kubeconfig", name_of(seed))),
    );
    let copy = found(simulation, &secrets(), &here("shop-kubeconfig"));
    assert_eq!(copy["data"]["value"], source["data"]["admin.conf"]);
    let authority = found(simulation, &secrets(), &here("shop-ca"));
    let signing = found(
        simulation,
        &secrets(),
        &here(&format!("{}-ca", name_of(seed))),
    );
    assert_eq!(authority["data"]["tls.key"], signing["data"]["tls.key"]);
}

#[test]
fn a_cluster_gets_its_control_plane_and_takes_it_along() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, database) = world(seed);
        deeds(&mut simulation, seed);
        simulation.run(STEPS)?;
        assert_handed_on(&simulation, seed);
        assert_eq!(database.contents.lock().unwrap().len(), 1);
        assert_nothing_leaked(&simulation, &database);
        assert_at_rest(&mut simulation)?;
        let delete = Operation::delete(scene::clusters(), here(CLUSTER));
        simulation.store_mut().perform("alice", delete).unwrap();
        simulation.run(STEPS)?;
        assert_eq!(left(&simulation), Vec::<String>::new());
        assert!(database.contents.lock().unwrap().is_empty());
        assert_nothing_leaked(&simulation, &database);
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn secrets_come_back_and_what_somebody_changed_is_set_right() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, _) = world(seed);
        deeds(&mut simulation, seed);
        let kubeconfig = || here("shop-kubeconfig");
        let spoil = |body: &mut Value| body["data"]["value"] = "c3BvaWx0".into();
        simulation.user(
            "meddler",
            vec![
                (Moment::Anytime, Deed::delete(secrets(), kubeconfig())),
                (Moment::AtRest, Deed::delete(secrets(), kubeconfig())),
                (Moment::AtRest, Deed::edit(secrets(), kubeconfig(), spoil)),
            ],
        );
        simulation.run(STEPS)?;
        assert_handed_on(&simulation, seed);
        assert_at_rest(&mut simulation)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_control_plane_sleeps_at_zero_and_wakes_as_it_was() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, _) = world(seed);
        deeds(&mut simulation, seed);
        let scale = |replicas: i32| {
            let edit = move |body: &mut Value| body["spec"]["replicas"] = replicas.into();
            Deed::edit(scene::control_planes(), here(name_of(seed)), edit)
        };
        simulation.run(STEPS)?;
        simulation.user("dave", vec![(Moment::Anytime, scale(0))]);
        simulation.run(STEPS)?;
        let asleep = found(&simulation, &scene::control_planes(), &here(name_of(seed)));
        assert_eq!(condition(&asleep, "Available"), "False Sleeping");
        let status = &asleep["status"];
        assert_eq!(
            (&status["ready"], &status["initialized"]),
            (&json!(false), &json!(true))
        );
        assert_eq!(status["replicas"], 0);
        assert_at_rest(&mut simulation)?;
        simulation.user("erin", vec![(Moment::Anytime, scale(2))]);
        simulation.run(STEPS)?;
        assert_handed_on(&simulation, seed);
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_paused_cluster_is_left_alone_until_it_goes_on() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, _) = world(seed);
        deeds(&mut simulation, seed);
        simulation.run(STEPS)?;
        let pause = |paused: bool| {
            let patch = json!({ "spec": { "paused": paused } });
            Operation::Merge(scene::clusters(), here(CLUSTER), patch)
        };
        simulation
            .store_mut()
            .perform("alice", pause(true))
            .unwrap();
        simulation.run(STEPS)?;
        let scale = |body: &mut Value| body["spec"]["replicas"] = 3.into();
        let scale = Deed::edit(scene::control_planes(), here(name_of(seed)), scale);
        simulation.user("dave", vec![(Moment::Anytime, scale)]);
        simulation.run(STEPS)?;
        let tenants = crate::scene::control_planes();
        let replicas = |simulation: &Simulation| {
            let tenant = found(simulation, &tenants, &here(name_of(seed)));
            tenant["spec"]["controlPlane"]["deployment"]["replicas"].clone()
        };
        assert_eq!(replicas(&simulation), 2);
        let paused = found(&simulation, &scene::control_planes(), &here(name_of(seed)));
        assert_eq!(condition(&paused, "Paused"), "True Paused");
        simulation
            .store_mut()
            .perform("alice", pause(false))
            .unwrap();
        simulation.run(STEPS)?;
        assert_eq!(replicas(&simulation), 3);
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn what_is_somebody_elses_stays_so() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, _) = world(seed);
        let theirs = crate::scene::control_plane(&here(name_of(seed)), json!({}));
        let create = Operation::create(crate::scene::control_planes(), theirs);
        simulation.store_mut().perform("theirs", create).unwrap();
        deeds(&mut simulation, seed);
        simulation.run(STEPS)?;
        let refused = found(&simulation, &scene::control_planes(), &here(name_of(seed)));
        assert_eq!(
            condition(&refused, "TenantControlPlaneCreated"),
            "False NameTaken"
        );
        let delete = Operation::delete(scene::clusters(), here(CLUSTER));
        simulation.store_mut().perform("alice", delete).unwrap();
        simulation.run(STEPS)?;
        assert_ready(&simulation, name_of(seed));
        Ok::<(), Failed>(())
    })
    .unwrap();
}
