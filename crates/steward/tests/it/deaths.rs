//! Processes die: after every single request of a story, and again and again. Whatever was under way is brought to its end.

use butler_runtime::object::ObjectKey;
use butler_testkit::simulator::{
    Chances, Deed, Failed, Moment, Operation, Problem, Simulation, for_seeds,
};
use serde_json::{Value, json};

use crate::{
    cast::{
        STEPS, assert_at_rest, assert_nothing_leaked, assert_ready, create_deed, found, left,
        seeds, seeds_of_a_life, store_deed, world,
    },
    database::Database,
    moving,
    scene::{self, here},
};

/// A world with one replica of Steward, in which nobody's mistakes but ours can decide.
const SEED: u64 = 0;
/// Every story here takes more requests than this; a world in which nothing happens would pass.
const FEWEST_REQUESTS: u64 = 5;
/// As often a process may die in a row before it is left alone.
const DEATHS: u32 = 30;
const ROTATE: &str = "certs.steward.butlerlabs.dev/rotate";

/// Tells a story once for each of its requests, with a death right after that one. `scene` gives the world in which somebody is
/// about to do something; `check` looks at what came of it.
fn after_every_request<W>(
    scene: impl Fn() -> Result<(Simulation, W), Failed>,
    check: impl Fn(&mut Simulation, &W) -> Result<(), Failed>,
) -> Result<(), Failed> {
    let mut requests = 1;
    loop {
        let (mut simulation, around) = scene()?;
        simulation.chances(Chances::calm());
        simulation.doom(requests);
        simulation.run(STEPS)?;
        let is_told = simulation.is_doomed();
        check(&mut simulation, &around)?;
        if is_told {
            assert!(
                requests > FEWEST_REQUESTS,
                "{requests} requests are no story"
            );
            return Ok(());
        }
        requests += 1;
    }
}

/// A store and somebody who is about to make a control plane.
fn about_to_be_made(parts: &Value) -> (Simulation, Database) {
    let (mut simulation, database) = world(SEED);
    simulation.chances(Chances::calm());
    simulation.user("operator", vec![store_deed()]);
    simulation.user("alice", vec![create_deed("shop", parts.clone())]);
    (simulation, database)
}

/// A control plane that serves.
fn serving(parts: &Value) -> Result<(Simulation, Database), Failed> {
    let (mut simulation, database) = about_to_be_made(parts);
    simulation.run(STEPS)?;
    assert_ready(&simulation, "shop");
    Ok((simulation, database))
}

/// It serves with one part of the store, and everybody is content.
fn assert_serves(simulation: &mut Simulation, database: &Database) -> Result<(), Failed> {
    assert_ready(simulation, "shop");
    assert_eq!(database.contents.lock().unwrap().len(), 1);
    assert_nothing_leaked(simulation, database);
    assert_at_rest(simulation)
}

/// Nothing of it is left, and the store is content.
fn assert_gone(simulation: &Simulation, database: &Database) {
    assert_eq!(left(simulation), [""; 0], "{}", simulation.log().tail(60));
    assert!(database.contents.lock().unwrap().is_empty());
    assert_nothing_leaked(simulation, database);
    let store = ObjectKey::cluster("default");
    let store = found(simulation, &scene::stores(), &store);
    assert_eq!(scene::ready(&store), "True Ready");
}

#[test]
fn a_death_after_any_request_of_a_creation_leaves_nothing_half_done() {
    let parts = json!({ "addons": { "konnectivity": {} } });
    after_every_request(|| Ok(about_to_be_made(&parts)), assert_serves).unwrap();
}

#[test]
fn a_death_after_any_request_of_an_upgrade_leaves_nothing_half_done() {
    let older = json!({ "kubernetes": { "version": "v1.35.4", "kubelet": {} } });
    let upgrading = || {
        let (mut simulation, database) = serving(&older)?;
        let upgrade = Deed::edit(scene::control_planes(), here("shop"), |body| {
            body["spec"]["kubernetes"]["version"] = "v1.36.3".into();
        });
        simulation.user("bob", vec![(Moment::Anytime, upgrade)]);
        Ok::<_, Failed>((simulation, database))
    };
    after_every_request(upgrading, assert_serves).unwrap();
}

#[test]
fn a_death_after_any_request_of_a_rotation_leaves_an_authority_that_all_trust() {
    let rotating = || {
        let (mut simulation, database) = serving(&json!({}))?;
        let annotate = |value| Deed::annotate(scene::secrets(), here("shop-ca"), ROTATE, value);
        simulation.user(
            "bob",
            vec![
                (Moment::Anytime, annotate("")),
                (Moment::AtRest, annotate("retire")),
            ],
        );
        let before = found(&simulation, &scene::secrets(), &here("shop-ca"));
        Ok::<_, Failed>((simulation, (database, before)))
    };
    after_every_request(rotating, |simulation, (database, before)| {
        let data = found(simulation, &scene::secrets(), &here("shop-ca"))["data"].clone();
        assert_ne!(data["tls.crt"], before["data"]["tls.crt"]);
        assert_eq!(data["ca.crt"], data["tls.crt"], "the old one is retired");
        assert_eq!(data.get("next.key"), None, "the new one signs");
        assert_serves(simulation, database)
    })
    .unwrap();
}

#[test]
fn a_death_after_any_request_of_a_move_loses_no_write() {
    let on_the_move = || {
        let (mut simulation, vault) = moving::world(SEED)?;
        simulation.user("alice", vec![moving::patience(), moving::move_to("silver")]);
        Ok::<_, Failed>((simulation, vault))
    };
    after_every_request(on_the_move, |simulation, vault| {
        moving::assert_lives_in(simulation, vault, "silver");
        assert_at_rest(simulation)
    })
    .unwrap();
}

#[test]
fn a_death_after_any_request_of_a_deletion_leaves_nothing_behind() {
    let deleting = || {
        let (mut simulation, database) = serving(&json!({}))?;
        let delete = Deed::delete(scene::control_planes(), here("shop"));
        simulation.user("bob", vec![(Moment::Anytime, delete)]);
        Ok::<_, Failed>((simulation, database))
    };
    after_every_request(deleting, |simulation, database| {
        assert_gone(simulation, database);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_control_plane_comes_to_serve_and_goes_again_whoever_dies_between_any_two_requests() {
    for_seeds(seeds_of_a_life(), |seed| {
        let (mut simulation, database) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        simulation.user("alice", vec![create_deed("shop", json!({}))]);
        simulation.run(STEPS)?;
        assert_ready(&simulation, "shop");
        assert_eq!(database.contents.lock().unwrap().len(), 1);
        assert_nothing_leaked(&simulation, &database);

        let delete = Operation::delete(scene::control_planes(), here("shop"));
        simulation.store_mut().perform("alice", delete).unwrap();
        simulation.run(STEPS)?;
        assert_gone(&simulation, &database);
        Ok::<(), Failed>(())
    })
    .unwrap();
}

/// Runs a world in which every process dies again and again, each time after as many steps.
fn run_dying(simulation: &mut Simulation, after: u64) -> Result<(), Failed> {
    for _ in 0..DEATHS {
        match simulation.run(after) {
            Ok(_) => return Ok(()),
            Err(failed) if failed.problem == Problem::Restless => simulation.restart(),
            Err(failed) => return Err(failed),
        }
    }
    simulation.run(STEPS).map(drop)
}

#[test]
fn a_process_that_dies_again_and_again_leaves_nothing_half_done() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, database) = world(seed);
        simulation.chances(Chances::calm());
        simulation.user("operator", vec![store_deed()]);
        simulation.user("alice", vec![create_deed("shop", json!({}))]);
        let after = seed + 1;
        run_dying(&mut simulation, after)?;
        assert_ready(&simulation, "shop");
        assert_eq!(database.contents.lock().unwrap().len(), 1);
        assert_nothing_leaked(&simulation, &database);

        let delete = Operation::delete(scene::control_planes(), here("shop"));
        simulation.store_mut().perform("alice", delete).unwrap();
        run_dying(&mut simulation, after)?;
        assert_gone(&simulation, &database);
        Ok::<(), Failed>(())
    })
    .unwrap();
}
