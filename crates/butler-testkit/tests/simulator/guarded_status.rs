//! A status is never put over one that was concluded from more, however late requests land and however far caches lag.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use butler_runtime::{
    api_server::Cause,
    cache::Metadata,
    failure::Failure,
    object::{Kind, ObjectKey},
    plan::{Next, Plan},
    reconciler::{Context, Reconciler, Sources},
};
use butler_testkit::simulator::{Chances, Deed, Failed, Moment, ObjectStore, for_seeds};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};

use crate::toy::{Greeter, Greeting, GreetingStatus, NAMESPACE, greeting, greeting_key, world};

const STEPS: u64 = 20_000;
const SIGNED: &str = "butler.test/signed";
const GUESTS: usize = 12;
/// Requests of processes that died, or gave up, are under way in most of these worlds.
const DEADLY: Chances = Chances {
    crash: 0.1,
    crashes: 40,
    unavailable: 0.02,
    relist: 0.01,
    cut_off: 0.05,
    delay: 0.1,
};

/// Signs each greeting, and shows in it how many guests have come. A guest is a `ConfigMap`.
struct Counter;

#[derive(Clone, Debug, PartialEq, Serialize)]
enum Sign {
    Greeting,
}

impl Reconciler for Counter {
    const NAME: &'static str = "counter";
    const FINALIZER: Option<&'static str> = Some("butler.test/counter");
    type Object = Greeting;
    type Status = GreetingStatus;
    type World = usize;
    type Effect = Sign;

    fn sources(&self, sources: &mut Sources<'_, Greeting>) {
        sources.reads::<Metadata<ConfigMap>>(|_, greetings| greetings.keys());
    }

    async fn observe(&self, _: &Greeting, context: &Context) -> Result<usize, Failure> {
        Ok(context.cache::<Metadata<ConfigMap>>().len())
    }

    fn plan(
        &self,
        greeting: &Greeting,
        guests: &usize,
        _: Timestamp,
    ) -> Plan<GreetingStatus, Sign> {
        let mut plan = Plan::status(GreetingStatus {
            shown: Some(guests.to_string()),
            ..GreetingStatus::default()
        });
        if greeting.meta().deletion_timestamp.is_some() {
            plan.next = Next::Done;
        } else if !greeting.annotations().contains_key(SIGNED) {
            plan.effects.push(Sign::Greeting);
        }
        plan
    }

    async fn perform(
        &self,
        greeting: &Greeting,
        _: &Sign,
        context: &Context,
    ) -> Result<(), Failure> {
        let patch =
            json!({ "metadata": { "uid": greeting.uid(), "annotations": { SIGNED: "yes" } } });
        let (kind, key) = (Kind::of::<Greeting>(), ObjectKey::of(greeting));
        context.api().merge(&kind, &key, patch).await?;
        Ok(())
    }
}

fn host() -> Vec<(Moment, Deed)> {
    vec![(
        Moment::Anytime,
        Deed::create(Kind::of::<Greeting>(), greeting("good day")),
    )]
}

/// Guests come one by one, and none leaves.
fn guests() -> Vec<(Moment, Deed)> {
    let guest = |number| {
        let metadata = json!({ "name": format!("guest-{number}"), "namespace": NAMESPACE });
        let body = json!({ "metadata": metadata });
        (Moment::Anytime, Deed::create(Kind::of::<ConfigMap>(), body))
    };
    (0..GUESTS).map(guest).collect()
}

fn count(store: &ObjectStore) -> Option<usize> {
    let greeting = store.get(&Kind::of::<Greeting>(), &greeting_key())?;
    greeting.pointer("/status/shown")?.as_str()?.parse().ok()
}

#[test]
fn a_count_never_goes_backwards_whatever_happens_to_the_process() {
    for_seeds(0..600, |seed| {
        let mut simulation = world(seed);
        simulation.chances(DEADLY);
        simulation.controller("butler", || Counter);
        simulation.user("alice", host());
        simulation.user("guests", guests());
        let highest = Cell::new(0);
        simulation.invariant("the count does not go backwards", move |store| {
            let (before, now) = (highest.get(), count(store).unwrap_or_default());
            highest.set(before.max(now));
            if now >= before {
                Ok(())
            } else {
                Err(format!("{before} had come, and now {now}"))
            }
        });
        let outcome = simulation.run(STEPS)?;
        assert_eq!(count(&outcome.store), Some(GUESTS), "{}", simulation.log());
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn our_own_writes_to_the_object_do_not_stand_in_the_way_of_its_status() {
    for_seeds(0..50, |seed| {
        let mut simulation = world(seed);
        simulation.chances(Chances::calm());
        simulation.controller("butler", || Counter);
        simulation.user("alice", host());
        let outcome = simulation.run(STEPS)?;
        let ours = outcome.writes_by("counter[0]");
        let words: Vec<_> = ours.iter().map(|write| write.words.as_str()).collect();
        let expected = [
            "change Greeting shop/hello",
            "change Greeting shop/hello",
            "write the status of Greeting shop/hello",
        ];
        assert_eq!(words, expected, "a finalizer, a signature and a status");
        assert!(ours.iter().all(|write| write.changed), "{ours:?}");
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_status_speaks_of_the_spec_it_is_written_beside() {
    let refusals = AtomicUsize::new(0);
    for_seeds(0..400, |seed| {
        let mut simulation = world(seed);
        let greeter = || Greeter {
            owner_references: true,
        };
        simulation.controller("butler", greeter);
        simulation.controller("butler", greeter);
        simulation.user("alice", host());
        let edits = (0..5).map(|number| {
            let say = move |body: &mut Value| body["spec"]["text"] = format!("{number}").into();
            let edit = Deed::edit(Kind::of::<Greeting>(), greeting_key(), say);
            (Moment::Anytime, edit)
        });
        simulation.user("bob", edits.collect());
        let spoken_of = RefCell::new(BTreeMap::new());
        simulation.invariant("a new status is about the spec as it is", move |store| {
            for object in store.objects(&Kind::of::<Greeting>()) {
                let generation = object["metadata"]["generation"].clone();
                let observed = object["status"]["observedGeneration"].clone();
                let uid = object["metadata"]["uid"].to_string();
                let before = spoken_of.borrow_mut().insert(uid, observed.clone());
                if before.unwrap_or_default() != observed && observed != generation {
                    return Err(format!("it speaks of {observed}, and is {generation}"));
                }
            }
            Ok(())
        });
        let outcome = simulation.run(STEPS)?;
        let refused = outcome.writes.iter().filter(|write| {
            write.words.starts_with("write the status") && write.refused == Some(Cause::Conflict)
        });
        refusals.fetch_add(refused.count(), Ordering::Relaxed);
        Ok::<(), Failed>(())
    })
    .unwrap();
    let refusals = refusals.into_inner();
    assert!(refusals > 0, "no world was rough enough to show it");
}
