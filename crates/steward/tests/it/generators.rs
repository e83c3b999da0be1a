//! Generators of kubeconfigs: they touch what is theirs, whatever they are called, and renew it in time.

use butler_api::{conditions::types, keys::annotations};
use butler_runtime::object::ObjectKey;
use butler_testkit::simulator::{
    Deed, Failed, Moment, Operation, Simulation, for_seeds, players::text,
};
use jiff::SignedDuration;
use serde_json::{Value, json};
use steward::names::SecretRole;

use crate::{
    cast::{STEPS, assert_at_rest, assert_ready, create_deed, found, seeds, store_deed, world},
    scene::{self, here},
};

pub(crate) fn generator_deed(name: &str, parts: Value) -> (Moment, Deed) {
    let mut spec = json!({ "user": { "stringValue": name } });
    if let Value::Object(parts) = parts {
        spec.as_object_mut().unwrap().extend(parts);
    }
    let body = json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1", "kind": "KubeconfigGenerator",
        "metadata": { "name": name }, "spec": spec,
    });
    (Moment::Anytime, Deed::create(scene::generators(), body))
}

fn generator(simulation: &Simulation, name: &str) -> Value {
    found(simulation, &scene::generators(), &ObjectKey::cluster(name))
}

fn delete_generator(simulation: &mut Simulation, name: &str) {
    let delete = Operation::delete(scene::generators(), ObjectKey::cluster(name));
    simulation.store_mut().perform("bob", delete).unwrap();
}

fn secret(simulation: &Simulation, name: &str) -> Value {
    found(simulation, &scene::secrets(), &here(name))
}

fn ready_condition(generator: &Value) -> Option<&Value> {
    let conditions = generator["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.find(|condition| condition["type"] == types::READY)
}

/// What a generator says about a control plane.
fn error<'a>(generator: &'a Value, control_plane: &str) -> &'a str {
    let errors = generator
        .pointer("/status/errors")
        .and_then(Value::as_array);
    let mut errors = errors.into_iter().flatten();
    let resource = here(control_plane).to_string();
    errors
        .find(|error| error["resource"] == resource)
        .map_or("", |error| text(error, "/message"))
}

#[test]
fn generators_named_after_secrets_of_control_planes_leave_them_alone_and_say_so() {
    let roles = [
        SecretRole::Authority,
        SecretRole::ServiceAccount,
        SecretRole::AdminKubeconfig,
        SecretRole::StoreConfig,
    ];
    for_seeds(seeds(), |seed| {
        let (mut simulation, _) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        simulation.user("alice", vec![create_deed("shop", json!({}))]);
        for role in roles {
            simulation.user("bob", vec![generator_deed(role.as_str(), json!({}))]);
        }
        simulation.run(STEPS)?;
        assert_ready(&simulation, "shop");
        let kept = roles.map(|role| secret(&simulation, &format!("shop-{role}")));
        for (role, kept) in roles.into_iter().zip(&kept) {
            let generator = generator(&simulation, role.as_str());
            assert_eq!(scene::ready(&generator), "False NameTaken", "{generator}");
            let told = error(&generator, "shop");
            assert!(told.contains("is left alone"), "{told}");
            assert_eq!(
                text(kept, "/metadata/labels/steward.butlerlabs.dev~1component"),
                role.as_str()
            );
            assert_eq!(kept["data"]["value"], Value::Null);
        }
        assert_at_rest(&mut simulation)?;
        for role in roles {
            delete_generator(&mut simulation, role.as_str());
        }
        simulation.run(STEPS)?;
        assert_eq!(simulation.store().objects(&scene::generators()), []);
        assert_eq!(
            roles.map(|role| secret(&simulation, &format!("shop-{role}"))),
            kept
        );
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn of_two_ways_to_one_name_the_first_has_it_until_it_is_free() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, _) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        simulation.user(
            "alice",
            vec![create_deed("a", json!({})), create_deed("a-b", json!({}))],
        );
        simulation.user("bob", vec![generator_deed("c", json!({}))]);
        simulation.user("carol", vec![generator_deed("b-c", json!({}))]);
        simulation.run(STEPS)?;
        let made = secret(&simulation, "a-b-c");
        let by = text(&made, "/metadata/labels/steward.butlerlabs.dev~1managed-by").to_owned();
        let ((winner, served), (loser, waiting)) = match by.as_str() {
            "c" => (("c", "a-b"), ("b-c", "a")),
            "b-c" => (("b-c", "a"), ("c", "a-b")),
            other => panic!("{other}"),
        };
        assert_eq!(
            text(
                &made,
                "/metadata/labels/steward.butlerlabs.dev~1managed-for"
            ),
            served
        );
        assert_eq!(scene::ready(&generator(&simulation, winner)), "True Ready");
        let told = generator(&simulation, loser);
        assert_eq!(scene::ready(&told), "False NameTaken", "{told}");
        let words =
            format!("KubeconfigGenerator {winner}'s for the TenantControlPlane payments/{served}");
        assert!(error(&told, waiting).contains(&words), "{told}");
        assert_eq!(
            told["status"]["availableResources"], 1,
            "the other control plane has its own"
        );
        assert_at_rest(&mut simulation)?;

        delete_generator(&mut simulation, winner);
        simulation.run(STEPS)?;
        let made = secret(&simulation, "a-b-c");
        assert_eq!(
            text(&made, "/metadata/labels/steward.butlerlabs.dev~1managed-by"),
            loser
        );
        assert_eq!(scene::ready(&generator(&simulation, loser)), "True Ready");
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn what_somebody_made_under_the_name_of_a_kubeconfig_stays_and_holds_up_nobody() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, _) = world(seed);
        let mine = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "shop-monitoring", "namespace": scene::TEAM },
            "data": { "password": "c2VjcmV0" },
        });
        let create = Operation::create(scene::secrets(), mine);
        simulation.store_mut().perform("alice", create).unwrap();
        simulation.user("operator", vec![store_deed()]);
        simulation.user(
            "alice",
            vec![
                create_deed("shop", json!({})),
                create_deed("web", json!({})),
            ],
        );
        simulation.user("bob", vec![generator_deed("monitoring", json!({}))]);
        simulation.run(STEPS)?;
        let told = generator(&simulation, "monitoring");
        assert_eq!(scene::ready(&told), "False NameTaken", "{told}");
        assert!(
            error(&told, "shop").contains("is somebody else's and is left alone"),
            "{told}"
        );
        assert_eq!(told["status"]["availableResources"], 1);
        secret(&simulation, "web-monitoring");
        assert_eq!(
            secret(&simulation, "shop-monitoring")["data"],
            json!({ "password": "c2VjcmV0" })
        );
        assert_at_rest(&mut simulation)?;

        // When it is gone, nothing tells, but somebody looks.
        let remove = Operation::delete(scene::secrets(), here("shop-monitoring"));
        simulation.store_mut().perform("alice", remove).unwrap();
        let later = simulation
            .store()
            .now()
            .checked_add(SignedDuration::from_mins(20))
            .unwrap();
        simulation.store_mut().advance(later);
        simulation.run(STEPS)?;
        assert_eq!(
            scene::ready(&generator(&simulation, "monitoring")),
            "True Ready"
        );
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_kubeconfig_for_an_hour_is_renewed_before_its_end() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, _) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        simulation.user("alice", vec![create_deed("shop", json!({}))]);
        let hour = json!({ "expirationSeconds": 3600 });
        simulation.user("bob", vec![generator_deed("on-call", hour)]);
        simulation.run(STEPS)?;
        let end = |simulation: &Simulation| {
            let secret = secret(simulation, "shop-on-call");
            let end = &secret["metadata"]["annotations"][annotations::STEWARD_EXPIRATION];
            end.as_str().unwrap().parse::<jiff::Timestamp>().unwrap()
        };
        let first = end(&simulation);
        let ready = generator(&simulation, "on-call");
        assert_eq!(scene::ready(&ready), "True Ready", "{ready}");
        let shown = text(&ready, "/status/earliestExpiration").parse::<jiff::Timestamp>();
        assert_eq!(shown.unwrap().as_second(), first.as_second());
        let since = ready_condition(&ready).cloned();

        let later = simulation
            .store()
            .now()
            .checked_add(SignedDuration::from_mins(45))
            .unwrap();
        simulation.store_mut().advance(later);
        assert!(later < first, "it still works");
        simulation.run(STEPS)?;
        assert!(end(&simulation) > first);
        let ready = generator(&simulation, "on-call");
        assert_eq!(
            ready_condition(&ready).cloned(),
            since,
            "it was ready all the time"
        );
        assert_at_rest(&mut simulation)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}
