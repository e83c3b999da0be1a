//! What the store promises, one by one. That a real API server promises the same is shown by `parity`.

use butler_runtime::{
    api_server::{Cause, Part, Preconditions},
    fields::{hash_of_intent, managed_hashes},
    object::{Kind, ObjectKey},
};
use butler_testkit::simulator::{EPOCH, ObjectStore, Operation};
use jiff::SignedDuration;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Service},
};
use serde_json::{Value, json};

use crate::toy::Greeting;

fn key() -> ObjectKey {
    ObjectKey::namespaced("default", "a")
}

fn body(rest: Value) -> Value {
    let mut body = rest;
    body["metadata"]["name"] = "a".into();
    body["metadata"]["namespace"] = "default".into();
    body
}

fn ask(store: &mut ObjectStore, operation: Operation) -> Result<Value, Cause> {
    let answer = store
        .perform("user", operation)
        .map_err(|error| error.cause)?;
    Ok(answer.into_object().unwrap_or_default())
}

fn apply(store: &mut ObjectStore, kind: &Kind, manager: &str, rest: Value) -> Value {
    ask(store, Operation::apply(kind.clone(), manager, body(rest))).expect("applied")
}

fn status(store: &mut ObjectStore, manager: &str, status: &Value) -> Value {
    let operation = Operation::Apply(
        Kind::of::<Greeting>(),
        key(),
        Part::Status,
        manager.to_owned(),
        body(json!({ "status": status })),
    );
    ask(store, operation).expect("applied")
}

fn version(body: &Value) -> u64 {
    let version = body["metadata"]["resourceVersion"].as_str();
    version
        .and_then(|version| version.parse().ok())
        .expect("a version")
}

#[test]
fn versions_grow_and_generations_count_what_is_described() {
    let mut store = ObjectStore::new();
    let kind = Kind::of::<Greeting>();
    let first = ask(
        &mut store,
        Operation::create(
            kind.clone(),
            body(json!({ "spec": { "text": "a" }, "status": { "shown": "no" } })),
        ),
    )
    .unwrap();
    assert_eq!(first["metadata"]["generation"], 1);
    assert!(
        first.get("status").is_none(),
        "a status is not created with its object"
    );
    let labelled = ask(
        &mut store,
        Operation::Merge(
            kind.clone(),
            key(),
            json!({ "metadata": { "labels": { "a": "b" } } }),
        ),
    )
    .unwrap();
    assert!(version(&labelled) > version(&first));
    assert_eq!(labelled["metadata"]["generation"], 1);
    let told = status(&mut store, "controller", &json!({ "shown": "a" }));
    assert_eq!(told["metadata"]["generation"], 1);
    let changed = ask(
        &mut store,
        Operation::Merge(
            kind.clone(),
            key(),
            json!({ "spec": { "text": "b" }, "status": null }),
        ),
    )
    .unwrap();
    assert_eq!(changed["metadata"]["generation"], 2);
    assert_eq!(
        changed["status"]["shown"], "a",
        "a plain write does not reach the status"
    );
    let same = ask(
        &mut store,
        Operation::Merge(kind, key(), json!({ "spec": { "text": "b" } })),
    )
    .unwrap();
    assert_eq!(
        version(&same),
        version(&changed),
        "what changes nothing is not a change"
    );
}

#[test]
fn a_write_with_an_old_version_or_another_uid_is_a_conflict() {
    let mut store = ObjectStore::new();
    let kind = Kind::of::<ConfigMap>();
    let first = ask(&mut store, Operation::create(kind.clone(), body(json!({})))).unwrap();
    let mut second = first.clone();
    second["data"] = json!({ "a": "b" });
    let second = ask(&mut store, Operation::Replace(kind.clone(), key(), second)).unwrap();
    assert_eq!(
        ask(
            &mut store,
            Operation::Replace(kind.clone(), key(), first.clone())
        ),
        Err(Cause::Conflict)
    );
    let stale = json!({ "metadata": { "resourceVersion": first["metadata"]["resourceVersion"], "labels": { "a": "b" } } });
    assert_eq!(
        ask(&mut store, Operation::Merge(kind.clone(), key(), stale)),
        Err(Cause::Conflict)
    );
    let stranger = body(json!({ "metadata": { "uid": "other" } }));
    assert_eq!(
        ask(
            &mut store,
            Operation::apply(kind.clone(), "m", stranger.clone())
        ),
        Err(Cause::Conflict)
    );
    let uid = Preconditions {
        uid: Some("other".into()),
        resource_version: None,
    };
    assert_eq!(
        ask(&mut store, Operation::Delete(kind.clone(), key(), uid)),
        Err(Cause::Conflict)
    );
    ask(&mut store, Operation::Replace(kind.clone(), key(), second)).unwrap();
    ask(&mut store, Operation::delete(kind.clone(), key())).unwrap();
    assert_eq!(
        ask(&mut store, Operation::apply(kind.clone(), "m", stranger)),
        Err(Cause::Conflict),
        "it would come back"
    );
    assert_eq!(
        ask(&mut store, Operation::Merge(kind, key(), json!({}))),
        Err(Cause::NotFound)
    );
}

#[test]
fn a_finalizer_holds_a_deleted_object() {
    let mut store = ObjectStore::new();
    let kind = Kind::of::<Greeting>();
    let create = Operation::create(
        kind.clone(),
        body(json!({ "metadata": { "finalizers": ["x/a"] }, "spec": { "text": "" } })),
    );
    ask(&mut store, create).unwrap();
    store.advance(EPOCH + SignedDuration::from_millis(7_600));
    ask(&mut store, Operation::delete(kind.clone(), key())).unwrap();
    let deleted = store.get(&kind, &key()).unwrap();
    assert_eq!(
        deleted["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:07Z"
    );
    assert_eq!(deleted["metadata"]["generation"], 2);
    let revision = store.revision();
    ask(&mut store, Operation::delete(kind.clone(), key())).unwrap();
    assert_eq!(store.revision(), revision, "once is enough");
    let more = json!({ "metadata": { "finalizers": ["x/a", "x/b"] } });
    assert_eq!(
        ask(&mut store, Operation::Merge(kind.clone(), key(), more)),
        Err(Cause::Invalid)
    );
    ask(
        &mut store,
        Operation::Merge(
            kind.clone(),
            key(),
            json!({ "metadata": { "finalizers": null } }),
        ),
    )
    .unwrap();
    assert!(store.get(&kind, &key()).is_none());
    assert!(store.revision() > revision, "going is a change");
}

#[test]
fn what_a_manager_no_longer_applies_goes_unless_somebody_else_does() {
    let mut store = ObjectStore::new();
    let kind = Kind::of::<ConfigMap>();
    apply(
        &mut store,
        &kind,
        "one",
        json!({ "data": { "mine": "1", "both": "2" } }),
    );
    apply(&mut store, &kind, "two", json!({ "data": { "both": "2" } }));
    let left = apply(
        &mut store,
        &kind,
        "one",
        json!({ "metadata": { "labels": { "a": "b" } } }),
    );
    assert_eq!(left["data"], json!({ "both": "2" }));
    let left = apply(&mut store, &kind, "two", json!({}));
    assert!(left.get("data").is_none(), "{left}");
    assert_eq!(left["metadata"]["labels"], json!({ "a": "b" }));
}

#[test]
fn force_takes_a_field_over_and_a_plain_write_does_too() {
    let mut store = ObjectStore::new();
    let kind = Kind::of::<ConfigMap>();
    let intent = |value: &str| json!({ "data": { "a": value } });
    let applied = |object: &Value, manager: &str| {
        let hashes = managed_hashes(object);
        hashes
            .into_iter()
            .find(|entry| entry.manager == manager)
            .map(|entry| entry.hash)
    };
    let first = apply(&mut store, &kind, "one", intent("1"));
    assert_eq!(applied(&first, "one"), Some(hash_of_intent(&intent("1"))));
    let second = apply(&mut store, &kind, "two", intent("2"));
    assert_eq!(applied(&second, "one"), None);
    assert_eq!(applied(&second, "two"), Some(hash_of_intent(&intent("2"))));
    let third = ask(
        &mut store,
        Operation::Merge(kind.clone(), key(), intent("3")),
    )
    .unwrap();
    assert_eq!(applied(&third, "two"), None);
    let fourth = apply(&mut store, &kind, "two", intent("2"));
    let again = apply(&mut store, &kind, "two", intent("2"));
    assert_eq!(
        version(&fourth),
        version(&again),
        "an apply that changes nothing is not a change"
    );
}

#[test]
fn conditions_of_two_managers_live_side_by_side() {
    let mut store = ObjectStore::new();
    let kind = Kind::of::<Greeting>();
    ask(
        &mut store,
        Operation::create(kind, body(json!({ "spec": { "text": "" } }))),
    )
    .unwrap();
    let condition = |type_: &str, status: &str| json!({ "type": type_, "status": status });
    status(
        &mut store,
        "one",
        &json!({ "conditions": [condition("A", "True"), condition("B", "True")] }),
    );
    let both = status(
        &mut store,
        "two",
        &json!({ "conditions": [condition("C", "True"), condition("B", "False")] }),
    );
    let expected = json!([
        condition("A", "True"),
        condition("C", "True"),
        condition("B", "False")
    ]);
    assert_eq!(both["status"]["conditions"], expected);
    let one = status(&mut store, "one", &json!({ "shown": "a" }));
    let expected = json!([condition("C", "True"), condition("B", "False")]);
    assert_eq!(
        one["status"]["conditions"], expected,
        "B went to the other manager by force"
    );
}

#[test]
fn ports_and_containers_are_told_apart_by_their_keys_and_other_lists_are_one_value() {
    let mut store = ObjectStore::new();
    let service = Kind::of::<Service>();
    apply(
        &mut store,
        &service,
        "one",
        json!({ "spec": { "ports": [{ "port": 80, "name": "http" }] } }),
    );
    let both = apply(
        &mut store,
        &service,
        "two",
        json!({ "spec": { "ports": [{ "port": 443, "protocol": "TCP" }, { "port": 80, "protocol": "TCP", "nodePort": 1 }] } }),
    );
    assert_eq!(
        both["spec"]["ports"],
        json!([
            { "port": 443, "protocol": "TCP" },
            { "port": 80, "protocol": "TCP", "name": "http", "nodePort": 1 },
        ])
    );
    let deployment = Kind::of::<Deployment>();
    let containers = |containers: Value| json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    apply(
        &mut store,
        &deployment,
        "one",
        containers(json!([{ "name": "a", "args": ["x", "y"] }])),
    );
    let both = apply(
        &mut store,
        &deployment,
        "two",
        containers(json!([{ "name": "a", "args": ["z"] }, { "name": "b" }])),
    );
    assert_eq!(
        both["spec"]["template"]["spec"]["containers"],
        json!([{ "name": "a", "args": ["z"] }, { "name": "b" }])
    );
}

#[test]
fn namespaces_admit_hold_and_take_along() {
    let mut store = ObjectStore::new();
    let (namespace, config_map) = (Kind::of::<Namespace>(), Kind::of::<ConfigMap>());
    let shop = ObjectKey::cluster("shop");
    let in_shop = |finalizers: Value| json!({ "metadata": { "name": "a", "namespace": "shop", "finalizers": finalizers } });
    assert_eq!(
        ask(
            &mut store,
            Operation::apply(config_map.clone(), "m", in_shop(json!([])))
        ),
        Err(Cause::NotFound)
    );
    ask(
        &mut store,
        Operation::create(namespace.clone(), json!({ "metadata": { "name": "shop" } })),
    )
    .unwrap();
    ask(
        &mut store,
        Operation::apply(config_map.clone(), "m", in_shop(json!(["x/y"]))),
    )
    .unwrap();
    ask(
        &mut store,
        Operation::delete(namespace.clone(), shop.clone()),
    )
    .unwrap();
    store.housekeep();
    let late = json!({ "metadata": { "name": "b", "namespace": "shop" } });
    assert_eq!(
        ask(&mut store, Operation::create(config_map.clone(), late)),
        Err(Cause::NamespaceTerminating)
    );
    assert!(
        store.get(&namespace, &shop).is_some(),
        "a finalizer within holds the namespace"
    );
    ask(
        &mut store,
        Operation::apply(config_map, "m", in_shop(json!([]))),
    )
    .unwrap();
    store.housekeep();
    assert!(store.get(&namespace, &shop).is_none());
}

#[test]
fn an_object_goes_with_its_last_owner_but_not_for_an_owner_elsewhere() {
    let mut store = ObjectStore::new();
    let kind = Kind::of::<ConfigMap>();
    let named = |name: &str, owners: &[&Value]| {
        let owners: Vec<_> = owners
            .iter()
            .map(|owner| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"] }))
            .collect();
        Operation::create(
            Kind::of::<ConfigMap>(),
            json!({ "metadata": { "name": name, "namespace": "default", "ownerReferences": owners } }),
        )
    };
    let one = ask(&mut store, named("one", &[])).unwrap();
    let two = ask(&mut store, named("two", &[])).unwrap();
    ask(&mut store, named("both", &[&one, &two])).unwrap();
    ask(&mut store, named("first", &[&one])).unwrap();
    ask(
        &mut store,
        Operation::delete(kind.clone(), ObjectKey::namespaced("default", "one")),
    )
    .unwrap();
    store.housekeep();
    assert!(
        store
            .get(&kind, &ObjectKey::namespaced("default", "first"))
            .is_none()
    );
    let both = store
        .get(&kind, &ObjectKey::namespaced("default", "both"))
        .unwrap();
    assert_eq!(both["metadata"]["ownerReferences"][0]["name"], "two");
    ask(
        &mut store,
        Operation::create(
            Kind::of::<Namespace>(),
            json!({ "metadata": { "name": "far" } }),
        ),
    )
    .unwrap();
    let far = json!({ "metadata": { "name": "far", "namespace": "far", "ownerReferences": [
        { "apiVersion": "v1", "kind": "ConfigMap", "name": "two", "uid": two["metadata"]["uid"] },
    ] } });
    ask(&mut store, Operation::create(kind.clone(), far)).unwrap();
    store.housekeep();
    assert!(
        store
            .get(&kind, &ObjectKey::namespaced("far", "far"))
            .is_none(),
        "owners do not reach across namespaces"
    );
}
