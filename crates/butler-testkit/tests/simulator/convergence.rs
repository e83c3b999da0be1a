//! Whatever goes wrong on the way, a sound controller gets there, and then stays.

use std::time::Duration;

use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{
    Chances, Deed, Failed, Moment, ObjectStore, Operation, Simulation, Turn, for_seeds,
};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::json;

use crate::toy::{Greeter, Greeting, NAMESPACE, greeting, greeting_key, world};

const STEPS: u64 = 20_000;
const SOUND: Greeter = Greeter {
    owner_references: true,
};

fn kind() -> Kind {
    Kind::of::<Greeting>()
}

/// Creates a greeting, changes its mind about it, and looks at it in between.
fn undecided_user() -> Vec<(Moment, Deed)> {
    let say = |text: &'static str| {
        Deed::edit(kind(), greeting_key(), move |body| {
            body["spec"]["text"] = text.into();
        })
    };
    vec![
        (Moment::Anytime, Deed::create(kind(), greeting("good day"))),
        (Moment::Anytime, say("good evening")),
        (
            Moment::Anytime,
            Deed::annotate(kind(), greeting_key(), "seen", "yes"),
        ),
        (Moment::Anytime, say("good night")),
    ]
}

fn is_shown(store: &ObjectStore) -> Result<(), String> {
    let greetings: Vec<Greeting> = store.all().map_err(|error| error.to_string())?;
    let shown = greetings
        .first()
        .and_then(|greeting| greeting.status.as_ref()?.shown.clone());
    if shown.as_deref() != Some("good night") {
        return Err(format!("the status shows {shown:?}"));
    }
    let config_maps: Vec<ConfigMap> = store.all().map_err(|error| error.to_string())?;
    let texts: Vec<_> = config_maps
        .iter()
        .filter_map(|config_map| config_map.data.as_ref()?.get("text"))
        .collect();
    if texts != ["good night"] {
        return Err(format!("the ConfigMaps say {texts:?}"));
    }
    Ok(())
}

fn nothing_remains(store: &ObjectStore) -> Result<(), String> {
    let kinds = [kind(), Kind::of::<ConfigMap>()];
    let left: Vec<_> = kinds.iter().flat_map(|kind| store.objects(kind)).collect();
    if left.is_empty() {
        Ok(())
    } else {
        Err(format!("{left:#?}"))
    }
}

#[test]
fn a_greeting_is_shown_and_goes_whatever_happens_to_two_replicas() {
    for_seeds(0..400, |seed| {
        let mut simulation = world(seed);
        simulation.controller("butler", || SOUND);
        simulation.controller("butler", || SOUND);
        simulation.invariant("one greeting has at most one ConfigMap", |store| {
            let count = store.objects(&Kind::of::<ConfigMap>()).len();
            if count <= 1 {
                Ok(())
            } else {
                Err(format!("there are {count}"))
            }
        });
        simulation.user("alice", undecided_user());
        let outcome = simulation.run(STEPS)?;
        is_shown(&outcome.store).unwrap_or_else(|error| panic!("{error}\n{}", simulation.log()));

        simulation.chances(Chances::calm());
        simulation.look_again();
        let outcome = simulation.run(STEPS)?;
        assert_eq!(
            outcome.writes,
            [],
            "another look changes nothing\n{}",
            simulation.log()
        );
        simulation.restart();
        let outcome = simulation.run(STEPS)?;
        assert_eq!(
            outcome.writes,
            [],
            "a restart changes nothing\n{}",
            simulation.log()
        );

        simulation.chances(Chances::default());
        simulation.user(
            "bob",
            vec![(Moment::Anytime, Deed::delete(kind(), greeting_key()))],
        );
        let outcome = simulation.run(STEPS)?;
        nothing_remains(&outcome.store)
            .unwrap_or_else(|error| panic!("{error}\n{}", simulation.log()));
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_greeting_deleted_and_made_again_in_haste_is_shown() {
    for_seeds(0..300, |seed| {
        let mut simulation = world(seed);
        simulation.controller("butler", || SOUND);
        simulation.user(
            "alice",
            vec![
                (Moment::Anytime, Deed::create(kind(), greeting("good day"))),
                (Moment::Anytime, Deed::delete(kind(), greeting_key())),
                // Refused while the first one is still on its way out; at rest it is gone.
                (
                    Moment::Anytime,
                    Deed::create(kind(), greeting("good night")),
                ),
                (Moment::AtRest, Deed::create(kind(), greeting("good night"))),
            ],
        );
        let outcome = simulation.run(STEPS)?;
        is_shown(&outcome.store).unwrap_or_else(|error| panic!("{error}\n{}", simulation.log()));
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_namespace_goes_with_the_greetings_in_it() {
    for_seeds(0..200, |seed| {
        let mut simulation = world(seed);
        simulation.controller("butler", || SOUND);
        simulation.user("alice", undecided_user());
        let namespace = Kind::of::<Namespace>();
        let shop = ObjectKey::cluster(NAMESPACE);
        // In half of the worlds the greeting is well under way by then.
        let moment = if seed % 2 == 0 {
            Moment::Anytime
        } else {
            Moment::After(Duration::from_secs(1))
        };
        simulation.user(
            "bob",
            vec![(moment, Deed::delete(namespace.clone(), shop.clone()))],
        );
        let outcome = simulation.run(STEPS)?;
        nothing_remains(&outcome.store)
            .unwrap_or_else(|error| panic!("{error}\n{}", simulation.log()));
        assert!(
            outcome.store.get(&namespace, &shop).is_none(),
            "{}",
            simulation.log()
        );
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn foreign_controllers_take_turns_with_ours() {
    let mut simulation = world(1);
    simulation.controller("butler", || SOUND);
    simulation.user("alice", undecided_user());
    let config_map = Kind::of::<ConfigMap>();
    simulation.foreign("labeller", move |store| {
        let object = store
            .objects(&config_map)
            .into_iter()
            .find(|object| object["metadata"]["labels"]["seen"].is_null())?;
        let key = ObjectKey::in_body(&object);
        let patch = json!({ "metadata": { "labels": { "seen": "yes" } } });
        let operation = Operation::Merge(config_map.clone(), key, patch);
        let words = operation.to_string();
        store.perform("labeller", operation).ok()?;
        Some(words)
    });
    let outcome = simulation.run(STEPS).unwrap();
    is_shown(&outcome.store).unwrap();
    let object = outcome
        .store
        .get(&Kind::of::<ConfigMap>(), &greeting_key())
        .unwrap();
    assert_eq!(
        object["metadata"]["labels"]["seen"], "yes",
        "what is not ours is left alone"
    );
    assert_eq!(outcome.writes_by("labeller").len(), 1);
}

#[test]
fn a_foreign_controller_that_waits_is_woken_when_its_time_has_come() {
    let mut simulation = Simulation::new(1);
    let (begin, patience) = (simulation.store().now(), SignedDuration::from_mins(5));
    let mut looks = 0;
    simulation.foreign("patient", move |store| {
        looks += 1;
        let due = begin + patience;
        if store.now() < due {
            return Turn::Waits(due);
        }
        if looks > 2 {
            return Turn::Rests;
        }
        Turn::Did(format!("acts at its look {looks}"))
    });
    simulation.run(STEPS).unwrap();
    assert_eq!(simulation.store().now(), begin + patience);
    let log = simulation.log().tail(1).to_string();
    assert!(log.contains("acts at its look 2"), "{log}");
}

#[test]
fn a_run_reads_as_a_story() {
    let mut simulation = world(3);
    simulation.chances(Chances::calm());
    simulation.controller("butler", || SOUND);
    simulation.user(
        "alice",
        vec![
            (Moment::Anytime, Deed::create(kind(), greeting("good day"))),
            (Moment::AtRest, Deed::delete(kind(), greeting_key())),
        ],
    );
    simulation.run(STEPS).unwrap();
    insta::assert_snapshot!(simulation.log());
}

fn deaths(simulation: &Simulation) -> usize {
    let lines = simulation.log().lines().iter();
    lines.filter(|line| line.contains("crashes")).count()
}

#[test]
fn what_is_begun_after_a_rest_is_as_rough_as_what_came_before() {
    let mut simulation = world(1);
    let crashes = 3;
    // As rough as can be: every crash that may happen does.
    simulation.chances(Chances {
        crash: 1.0,
        crashes,
        ..Chances::calm()
    });
    simulation.controller("butler", || SOUND);
    let seen = || Deed::annotate(kind(), greeting_key(), "seen", "again");
    simulation.user(
        "alice",
        vec![
            (Moment::Anytime, Deed::create(kind(), greeting("good day"))),
            (Moment::AtRest, seen()),
        ],
    );
    simulation.run(STEPS).unwrap();
    let most = usize::try_from(crashes).unwrap();
    assert_eq!(deaths(&simulation), 2 * most, "{}", simulation.log());
    simulation.user(
        "bob",
        vec![(Moment::Anytime, Deed::delete(kind(), greeting_key()))],
    );
    let outcome = simulation.run(STEPS).unwrap();
    assert_eq!(deaths(&simulation), 3 * most, "{}", simulation.log());
    nothing_remains(&outcome.store).unwrap();
}

#[test]
fn a_death_can_come_after_each_request_of_a_story() {
    let mut requests = 0;
    loop {
        requests += 1;
        let mut simulation = world(2);
        simulation.chances(Chances::calm());
        simulation.controller("butler", || SOUND);
        simulation.user("alice", undecided_user());
        simulation.doom(requests);
        let outcome = simulation.run(STEPS).unwrap();
        is_shown(&outcome.store).unwrap_or_else(|error| panic!("{error}\n{}", simulation.log()));
        if simulation.is_doomed() {
            assert_eq!(deaths(&simulation), 0, "{}", simulation.log());
            break;
        }
        assert_eq!(deaths(&simulation), 1, "{}", simulation.log());
    }
    assert!(requests > 3, "a greeting takes more than {requests}");
}
