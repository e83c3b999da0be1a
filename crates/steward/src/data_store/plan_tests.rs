use butler_api::steward::data_store::DataStoreDriver;
use butler_pki::{Authority, Validity};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::{
    store::{Shows, StoreError},
    testing::{now, told},
};

const PERIOD: Duration = Duration::from_mins(1);

fn store() -> DataStore {
    let body = json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1", "kind": "DataStore",
        "metadata": { "name": "default", "uid": "1", "generation": 1 },
        "spec": { "driver": "etcd", "endpoints": ["etcd:2379"] },
    });
    serde_json::from_value(body).unwrap()
}

fn deleted() -> DataStore {
    let mut store = store();
    store.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    store
}

fn world() -> World {
    World {
        users: vec![ObjectKey::namespaced("payments", "shop")],
        facts: Ok(StoreFacts {
            name: "default".to_owned(),
            driver: DataStoreDriver::Etcd,
            endpoints: vec!["etcd:2379".to_owned()],
            authority_pem: None,
            shows: Shows::Nothing,
            fingerprint: "f".to_owned(),
            deleting: false,
        }),
        health: None,
    }
}

fn answered(answer: Result<(), StoreError>) -> World {
    World {
        health: Some(Health {
            fingerprint: "f".to_owned(),
            at: now(),
            answer,
        }),
        ..world()
    }
}

#[test]
fn a_new_store_is_asked_how_it_is() {
    let plan = plan(&store(), &world(), PERIOD, now());
    insta::assert_snapshot!(told(&plan), @"
    DataStoreValidated=True Ready: all that it refers to is there
    Ready=Unknown NotYetReported: it is being asked
    next: After(1ms)
    ");
    assert_eq!(plan.effects.len(), 1);
}

#[test]
fn a_store_that_answers_is_ready_and_asked_again_in_time() {
    let plan = plan(&store(), &answered(Ok(())), PERIOD, now());
    insta::assert_snapshot!(told(&plan), @"
    DataStoreValidated=True Ready: all that it refers to is there
    Ready=True Ready: it answers and accepts the credentials
    next: After(60s)
    ");
    assert_eq!(plan.effects, []);
}

#[test]
fn a_store_that_does_not_answer_says_so() {
    let answer = Err(StoreError {
        kind: StoreErrorKind::Unreachable,
        message: "connecting to etcd:2379 timed out; check the endpoint".to_owned(),
    });
    let plan = plan(&store(), &answered(answer), PERIOD, now());
    insta::assert_snapshot!(told(&plan), @"
    DataStoreValidated=True Ready: all that it refers to is there
    Ready=False DataStoreUnreachable: connecting to etcd:2379 timed out; check the endpoint
    Warning DataStoreUnreachable: connecting to etcd:2379 timed out; check the endpoint
    next: After(15s)
    ");
}

#[test]
fn an_answer_to_other_credentials_counts_for_nothing() {
    let mut world = answered(Ok(()));
    world.health.as_mut().unwrap().fingerprint = "older".to_owned();
    assert_eq!(plan(&store(), &world, PERIOD, now()).effects.len(), 1);
}

#[test]
fn after_a_restart_what_was_said_stays_until_there_is_an_answer() {
    let mut known = store();
    known.status = Some(plan(&store(), &answered(Ok(())), PERIOD, now()).status);
    let plan = plan(&known, &world(), PERIOD, now());
    assert_eq!(Some(&plan.status), known.status.as_ref());
}

#[test]
fn a_store_in_use_does_not_go() {
    let plan = plan(&deleted(), &answered(Ok(())), PERIOD, now());
    insta::assert_snapshot!(told(&plan), @"
    DataStoreValidated=True Ready: all that it refers to is there
    Ready=False DeletionBlocked: control planes keep their state in it: payments/shop; delete them first
    next: After(60s)
    ");
}

#[test]
fn a_store_that_nobody_uses_goes() {
    let world = World {
        users: Vec::new(),
        ..world()
    };
    assert_eq!(plan(&deleted(), &world, PERIOD, now()).next, Next::Done);
}

#[test]
fn the_end_of_a_stores_authority_is_told_in_time() {
    let life = SignedDuration::from_hours(24 * 3650);
    let authority = Authority::new("stores", Validity::starting(now(), life)).unwrap();
    let mut world = answered(Ok(()));
    let facts = world.facts.as_mut().unwrap();
    facts.authority_pem = Some(authority.certificate_pem().to_owned());
    let validated = |days: i64| {
        let later = now() + SignedDuration::from_hours(24 * days);
        let mut world = world.clone();
        world.health.as_mut().unwrap().at = later;
        let plan = plan(&store(), &world, PERIOD, later);
        let condition = plan.status.conditions[0].clone();
        assert_eq!(condition.status, "True", "it still works");
        (condition.reason, plan.notes.len())
    };
    assert_eq!(validated(3194), ("Ready".to_owned(), 0));
    assert_eq!(validated(3196), ("AuthorityEnds".to_owned(), 1));
}

#[test]
fn members_that_control_planes_do_not_use_are_told_until_they_are_taken_back() {
    let with = |driver: &str, endpoints: &[&str]| {
        let mut store = store();
        let spec = json!({ "driver": driver, "endpoints": endpoints });
        store.spec = serde_json::from_value(spec).unwrap();
        store
    };
    let mut galera = with("MySQL", &["db-0:3306", "db-1:3306"]);
    let plan_of = |store: &DataStore| plan(store, &answered(Ok(())), PERIOD, now());
    let told_of = plan_of(&galera);
    insta::assert_snapshot!(told(&told_of), @"
    DataStoreValidated=True Ready: all that it refers to is there
    FeaturesAvailable=False Unsupported: spec.endpoints: kine connects to one server of MySQL, so control planes use db-0:3306 alone, and stop with it; name one address that leads to whichever server works, such as that of a proxy
    Ready=True Ready: it answers and accepts the credentials
    next: After(60s)
    ");
    galera.status = Some(told_of.status);
    galera.spec.endpoints.truncate(1);
    let is_of_features = |store: &DataStore| {
        let plan = plan_of(store);
        let mut conditions = plan.status.conditions.iter();
        conditions.any(|condition| condition.type_ == types::FEATURES_AVAILABLE)
    };
    assert!(!is_of_features(&galera));
    for driver in ["PostgreSQL", "NATS", "etcd"] {
        assert!(!is_of_features(&with(driver, &["a:1", "b:2"])), "{driver}");
    }
}
