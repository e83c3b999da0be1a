//! Unsound controllers are found out, and a seed shows the same again and again.

use butler_runtime::{api_server::ApiServer, cache::Whole};
use butler_runtime::{
    failure::Failure,
    object::{Kind, ObjectKey},
    plan::Plan,
    reconciler::{Context, Reconciler, Sources},
};
use butler_testkit::simulator::{
    Chances, Deed, Failed, Moment, Problem, SimulatedApiServer, Simulation, for_seeds,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::json;

use crate::toy::{Greeter, Greeting, GreetingStatus, NAMESPACE, greeting, greeting_key, world};

const STEPS: u64 = 20_000;

/// Opens a ticket for each greeting if it sees none. The ticket's name is not derived from the greeting, so nothing keeps it
/// from opening two.
struct TicketOpener;

#[derive(Clone, Debug, PartialEq, Serialize)]
enum Open {
    Ticket(String),
}

impl Reconciler for TicketOpener {
    const NAME: &'static str = "opener";
    type Object = Greeting;
    type Status = GreetingStatus;
    type World = (bool, usize);
    type Effect = Open;

    fn sources(&self, sources: &mut Sources<'_, Greeting>) {
        sources.reads::<Whole<ConfigMap>>(|_, greetings| {
            greetings
                .list()
                .iter()
                .map(|cached| cached.facts.key.clone())
                .collect()
        });
    }

    async fn observe(
        &self,
        greeting: &Greeting,
        context: &Context,
    ) -> Result<(bool, usize), Failure> {
        let tickets = context.cache::<Whole<ConfigMap>>().list();
        let written = greeting
            .resource_version()
            .and_then(|version| version.parse().ok());
        Ok((tickets.is_empty(), written.unwrap_or_default()))
    }

    fn plan(
        &self,
        _: &Greeting,
        world: &(bool, usize),
        _: Timestamp,
    ) -> Plan<GreetingStatus, Open> {
        let mut plan = Plan::status(GreetingStatus::default());
        if world.0 {
            plan.effects
                .push(Open::Ticket(format!("ticket-{}", world.1)));
        }
        plan
    }

    async fn perform(&self, _: &Greeting, effect: &Open, context: &Context) -> Result<(), Failure> {
        let Open::Ticket(name) = effect;
        let key = ObjectKey::namespaced(NAMESPACE, name);
        let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": NAMESPACE } });
        context
            .api()
            .create(&Kind::of::<ConfigMap>(), &key, body)
            .await?;
        Ok(())
    }
}

fn tickets(seed: u64, chances: Chances) -> Simulation {
    let mut simulation = world(seed);
    simulation.chances(chances);
    simulation.controller("butler", || TicketOpener);
    simulation.user(
        "alice",
        vec![
            (
                Moment::Anytime,
                Deed::create(Kind::of::<Greeting>(), greeting("good day")),
            ),
            (
                Moment::Anytime,
                Deed::annotate(Kind::of::<Greeting>(), greeting_key(), "seen", "yes"),
            ),
        ],
    );
    simulation.invariant("there is one ticket at most", |store| {
        let tickets = store.objects(&Kind::of::<ConfigMap>()).len();
        if tickets <= 1 {
            Ok(())
        } else {
            Err(format!("there are {tickets}"))
        }
    });
    simulation
}

#[test]
fn an_effect_that_is_not_idempotent_is_found_out_and_the_seed_shows_it_again() {
    let run = |seed| tickets(seed, Chances::default()).run(STEPS).map(drop);
    let found = for_seeds(0..300, run).unwrap_err();
    let failed: Failed = run(found.seed).unwrap_err();
    assert!(
        matches!(&failed.problem, Problem::Broken { invariant, .. } if invariant == "there is one ticket at most")
    );
    assert_eq!(
        failed,
        run(found.seed).unwrap_err(),
        "the same seed, the same run"
    );
    let shown = failed.to_string();
    assert!(shown.contains(&format!("seed {}", found.seed)), "{shown}");
    assert!(shown.contains("create ConfigMap shop/ticket-"), "{shown}");
}

#[test]
fn the_same_effect_goes_unnoticed_in_a_calm_world() {
    for_seeds(0..50, |seed| {
        tickets(seed, Chances::calm()).run(STEPS).map(drop)
    })
    .unwrap();
}

#[test]
fn a_late_write_of_a_dead_process_leaks_what_has_no_owner_reference() {
    let run = |seed| {
        let mut simulation = world(seed);
        simulation.controller("butler", || Greeter {
            owner_references: false,
        });
        simulation.user(
            "alice",
            vec![
                (
                    Moment::Anytime,
                    Deed::create(Kind::of::<Greeting>(), greeting("good day")),
                ),
                (
                    Moment::Anytime,
                    Deed::delete(Kind::of::<Greeting>(), greeting_key()),
                ),
            ],
        );
        let outcome = simulation.run(STEPS).map_err(|failed| failed.to_string())?;
        let left = outcome.objects(&Kind::of::<ConfigMap>()).len();
        if left == 0 {
            Ok(())
        } else {
            Err(format!("{left} left behind\n{}", simulation.log()))
        }
    };
    let found = for_seeds(0..1000, run).unwrap_err();
    assert!(found.message.contains("nobody hears the answer"), "{found}");
}

#[test]
fn a_pass_can_die_before_its_request_is_handled_and_after() {
    let chances = Chances {
        crash: 0.2,
        crashes: 20,
        ..Chances::calm()
    };
    let (mut never, mut unheard) = (false, false);
    for seed in 0..40 {
        let mut simulation = tickets(seed, chances);
        // Whether it holds is not the question here.
        let _ = simulation.run(STEPS);
        let lines = simulation.log().lines();
        unheard |= lines
            .iter()
            .any(|line| line.contains("nobody hears the answer"));
        never |= lines
            .windows(2)
            .any(|pair| pair[0].contains("begins") && pair[1].contains("crashes"));
    }
    assert!(never && unheard);
}

#[test]
fn a_world_that_never_rests_is_reported() {
    let mut simulation = world(5);
    let mut count = 0;
    simulation.foreign("busybody", move |_| {
        count += 1;
        Some(format!("does thing {count}"))
    });
    let failed = simulation.run(50).unwrap_err();
    assert_eq!(failed.problem, Problem::Restless);
    assert!(
        failed
            .to_string()
            .starts_with("seed 5: no rest after 50 steps")
    );
}

#[test]
fn other_ports_can_use_the_wire() {
    let simulation = world(1);
    let api = SimulatedApiServer::on_wire("probe", simulation.wire());
    let (kind, key) = (Kind::of::<ConfigMap>(), greeting_key());
    let mut call = api.get(&kind, &key);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(
        call.as_mut().poll(&mut context).is_pending(),
        "nothing is answered before the scheduler says so"
    );
}
