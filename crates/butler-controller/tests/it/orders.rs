//! Whatever the order of events and whatever goes wrong on the way: at rest, every status tells the truth.

use std::time::Duration;

use butler_api::keys::labels;
use butler_controller::{
    butler_config::ButlerConfigReconciler, provider_config::ProviderConfigReconciler,
    run::COMPONENT,
};
use butler_runtime::{
    api_server::Part,
    object::{Kind, ObjectKey},
};
use butler_testkit::simulator::{Chances, Deed, Failed, Moment, Operation, Simulation, for_seeds};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use serde_json::{Value, json};

use crate::{
    oracle::Oracle,
    scene::{self, SYSTEM, TEAM, system},
};

const STEPS: u64 = 30_000;

/// A world with the platform's namespace, a team's, and as many replicas of each controller.
fn world(seed: u64, replicas: usize) -> Simulation {
    let mut simulation = Simulation::new(seed);
    for name in [SYSTEM, TEAM, "kube-system"] {
        let create = Operation::create(scene::namespace_kind(), scene::namespace(name));
        simulation.store_mut().perform("admin", create).unwrap();
    }
    for _ in 0..replicas {
        simulation.controller(COMPONENT, || ButlerConfigReconciler);
        simulation.controller(COMPONENT, ProviderConfigReconciler::default);
    }
    simulation
}

/// Runs to rest, and sees that the statuses are true.
fn tells_the_truth(simulation: &mut Simulation) -> Result<(), Failed> {
    let outcome = simulation.run(STEPS)?;
    let told = Oracle(&outcome.store).check();
    told.unwrap_or_else(|lie| panic!("{lie}\n{}", simulation.log().tail(60)));
    Ok(())
}

/// The same, and that neither another look nor a restart writes anything.
fn settles(simulation: &mut Simulation) -> Result<(), Failed> {
    tells_the_truth(simulation)?;
    let rough = Chances::default();
    simulation.chances(Chances::calm());
    simulation.look_again();
    let outcome = simulation.run(STEPS)?;
    assert_eq!(
        outcome.writes,
        [],
        "another look changes nothing\n{}",
        simulation.log().tail(60)
    );
    simulation.restart();
    let outcome = simulation.run(STEPS)?;
    assert_eq!(
        outcome.writes,
        [],
        "a restart changes nothing\n{}",
        simulation.log().tail(60)
    );
    simulation.chances(rough);
    Ok(())
}

/// Somebody who picks from a menu at random.
struct Whim(SmallRng);

impl Whim {
    fn new(seed: u64, person: u64) -> Self {
        Self(SmallRng::seed_from_u64(
            seed.wrapping_mul(31).wrapping_add(person),
        ))
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.0.random_range(0..from.len())].clone()
    }

    fn steps(mut self, count: usize, menu: impl Fn(&mut Self) -> Deed) -> Vec<(Moment, Deed)> {
        let moments = [
            Moment::Anytime,
            Moment::Anytime,
            Moment::Anytime,
            Moment::After(Duration::from_secs(1)),
            Moment::AtRest,
        ];
        (0..count)
            .map(|_| (self.pick(&moments), menu(&mut self)))
            .collect()
    }
}

fn set(kind: Kind, key: ObjectKey, field: &'static str, value: Value) -> Deed {
    Deed::edit(kind, key, move |body| body["spec"][field] = value.clone())
}

/// Makes, changes and deletes providers of every sort.
fn provider_deed(whim: &mut Whim) -> Deed {
    let key = system(whim.pick(&["rack", "default", "pooled", "of-team"]));
    let kind = scene::provider_kind();
    match whim.0.random_range(0..6) {
        0..=2 => Deed::create(
            kind,
            match key.name.as_str() {
                "rack" => scene::provider_with_login(&key),
                "pooled" => {
                    let references = [
                        json!([{ "name": "blue" }]),
                        json!([{ "name": "blue" }, { "name": "red" }]),
                    ];
                    let network = json!({ "mode": "ipam", "poolRefs": whim.pick(&references) });
                    scene::provider(&key, json!({ "provider": "local", "network": network }))
                }
                "of-team" => {
                    let scope = json!({ "type": "team", "teamRef": { "name": TEAM } });
                    scene::provider(&key, json!({ "provider": "local", "scope": scope }))
                }
                _ => scene::provider(&key, json!({ "provider": "local" })),
            },
        ),
        3 | 4 => set(
            kind,
            key,
            "limits",
            json!({ "maxClustersPerTeam": whim.pick(&[1, 2]) }),
        ),
        _ => Deed::delete(kind, key),
    }
}

/// Makes Secrets, good and bad, and addresses.
fn supply_deed(whim: &mut Whim) -> Deed {
    let pool = whim.pick(&["blue", "red"]);
    match whim.0.random_range(0..7) {
        0 | 1 => Deed::create(
            scene::secret_kind(),
            scene::login(SYSTEM, whim.pick(&["", "secret"])),
        ),
        2 => Deed::edit(scene::secret_kind(), system("login"), |secret| {
            secret["data"]["password"] = "".into();
        }),
        3 => Deed::delete(scene::secret_kind(), system("login")),
        4 => Deed::create(scene::pool_kind(), scene::pool(pool)),
        5 => Deed::delete(scene::pool_kind(), system(pool)),
        _ => {
            let counted = json!({ "availableIPs": whim.pick(&[0, 12, 40]) });
            let body = scene::object(
                &scene::pool_kind(),
                &system(pool),
                json!({ "status": counted }),
            );
            let manager = "counter".to_owned();
            Deed::Request(Operation::Apply(
                scene::pool_kind(),
                system(pool),
                Part::Status,
                manager,
                body,
            ))
        }
    }
}

/// Makes and deletes teams and clusters.
fn tenant_deed(whim: &mut Whim) -> Deed {
    let cluster = ObjectKey::namespaced(whim.pick(&[TEAM, SYSTEM]), whim.pick(&["shop", "bank"]));
    let provider = whim.pick(&[
        None,
        Some(system("rack")),
        Some(system("pooled")),
        Some(system("default")),
    ]);
    match whim.0.random_range(0..6) {
        0..=2 => Deed::create(
            scene::cluster_kind(),
            scene::cluster(&cluster, provider.as_ref(), 3),
        ),
        3 => Deed::delete(scene::cluster_kind(), cluster),
        4 => Deed::create(scene::team_kind(), scene::team(TEAM)),
        _ => Deed::delete(scene::team_kind(), ObjectKey::cluster(TEAM)),
    }
}

/// Changes the platform's settings and meddles with its namespace.
fn settings_deed(whim: &mut Whim) -> Deed {
    let (kind, key) = (scene::config_kind(), ObjectKey::cluster("butler"));
    let namespaces = ["butler-tenants", "playground", "kube-own"];
    let namespace = ObjectKey::cluster(whim.pick(&["butler-tenants", "playground"]));
    match whim.0.random_range(0..9) {
        0..=2 => Deed::create(
            kind,
            scene::config(json!({ "defaultNamespace": whim.pick(&namespaces) })),
        ),
        3 => set(kind, key, "defaultNamespace", whim.pick(&namespaces).into()),
        4 => set(
            kind,
            key,
            "defaultProviderConfigRef",
            json!({ "name": whim.pick(&["rack", "default"]) }),
        ),
        5 => set(
            kind,
            key,
            "multiTenancy",
            json!({ "mode": whim.pick(&["Enforced", "Optional"]) }),
        ),
        6 => Deed::delete(kind, key),
        7 => Deed::delete(scene::namespace_kind(), namespace),
        _ if whim.0.random_bool(0.5) => {
            Deed::create(scene::namespace_kind(), scene::namespace(&namespace.name))
        }
        _ => Deed::edit(scene::namespace_kind(), namespace, |namespace| {
            namespace["metadata"]["labels"][labels::OWNER_UID] = "somebody".into();
        }),
    }
}

#[test]
fn every_status_tells_the_truth_whatever_people_do() {
    for_seeds(0..300, |seed| {
        // With one replica there are more seeds in which a single mishap decides.
        let mut simulation = world(seed, if seed % 2 == 0 { 2 } else { 1 });
        simulation.user("engineer", Whim::new(seed, 1).steps(6, provider_deed));
        simulation.user("supplier", Whim::new(seed, 2).steps(6, supply_deed));
        simulation.user("tenant", Whim::new(seed, 3).steps(5, tenant_deed));
        simulation.user("operator", Whim::new(seed, 4).steps(5, settings_deed));
        settles(&mut simulation)
    })
    .unwrap();
}

#[test]
fn a_provider_in_use_stays_until_its_last_cluster_is_gone() {
    for_seeds(0..60, |seed| {
        let mut simulation = world(seed, 2);
        let (provider, kind) = (system("default"), scene::provider_kind());
        let clusters = ["shop", "bank"].map(|name| ObjectKey::namespaced(TEAM, name));
        let steps = vec![
            (
                Moment::Anytime,
                Deed::create(
                    kind.clone(),
                    scene::provider(&provider, json!({ "provider": "local" })),
                ),
            ),
            (
                Moment::Anytime,
                Deed::create(scene::cluster_kind(), scene::cluster(&clusters[0], None, 1)),
            ),
            (
                Moment::Anytime,
                Deed::create(
                    scene::cluster_kind(),
                    scene::cluster(&clusters[1], Some(&provider), 1),
                ),
            ),
        ];
        simulation.user("tenant", steps);
        simulation.run(STEPS)?;

        let guarded = (kind.clone(), provider.clone());
        simulation.invariant("a provider in use stays", move |store| {
            let used = !store.objects(&scene::cluster_kind()).is_empty();
            if used && store.get(&guarded.0, &guarded.1).is_none() {
                return Err("it is gone while clusters use it".to_owned());
            }
            Ok(())
        });
        simulation.user(
            "engineer",
            vec![(
                Moment::Anytime,
                Deed::delete(kind.clone(), provider.clone()),
            )],
        );
        tells_the_truth(&mut simulation)?;
        simulation.user(
            "tenant-2",
            vec![(
                Moment::Anytime,
                Deed::delete(scene::cluster_kind(), clusters[0].clone()),
            )],
        );
        tells_the_truth(&mut simulation)?;
        let held = simulation
            .store()
            .get(&kind, &provider)
            .expect("one cluster is left");
        assert!(
            held["status"].to_string().contains("payments/bank"),
            "{held:#}"
        );

        simulation.user(
            "tenant-3",
            vec![(
                Moment::Anytime,
                Deed::delete(scene::cluster_kind(), clusters[1].clone()),
            )],
        );
        settles(&mut simulation)?;
        assert!(
            simulation.store().get(&kind, &provider).is_none(),
            "{}",
            simulation.log().tail(60)
        );
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_namespace_that_was_going_away_when_the_settings_came_is_made_anew() {
    for_seeds(0..60, |seed| {
        let mut simulation = world(seed, 1);
        let tenants = ObjectKey::cluster("butler-tenants");
        simulation.user(
            "operator",
            vec![
                (
                    Moment::Anytime,
                    Deed::create(scene::namespace_kind(), scene::namespace(&tenants.name)),
                ),
                (
                    Moment::Anytime,
                    Deed::delete(scene::namespace_kind(), tenants),
                ),
                (
                    Moment::Anytime,
                    Deed::create(
                        scene::config_kind(),
                        scene::config(json!({ "defaultNamespace": "butler-tenants" })),
                    ),
                ),
            ],
        );
        settles(&mut simulation)
    })
    .unwrap();
}
