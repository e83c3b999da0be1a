//! Players do one thing at a time, and then nothing.

use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{ObjectStore, Operation, players};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use serde_json::{Value, json};

fn create(store: &mut ObjectStore, kind: &Kind, name: &str, spec: &Value) {
    let metadata = json!({ "name": name, "namespace": "default" });
    let body = json!({ "metadata": metadata, "spec": spec });
    let create = Operation::create(kind.clone(), body);
    let created = store.perform("alice", create);
    created.expect("what is new can be created");
}

fn found(store: &ObjectStore, kind: &Kind, name: &str) -> Value {
    let found = store.get(kind, &ObjectKey::namespaced("default", name));
    found.expect("it is there").as_ref().clone()
}

#[test]
fn no_two_services_have_an_address() {
    let (mut store, kind) = (ObjectStore::new(), Kind::of::<Service>());
    let balanced = json!({ "type": "LoadBalancer" });
    create(&mut store, &kind, "one", &balanced);
    create(&mut store, &kind, "other", &balanced);
    create(&mut store, &kind, "plain", &json!({ "type": "ClusterIP" }));
    let mut steps = 0;
    while players::services(&mut store).is_some() {
        steps += 1;
    }
    assert_eq!(
        steps, 5,
        "an address inside for three, and one outside for two"
    );
    let shown = ["one", "other", "plain"].map(|name| {
        let service = found(&store, &kind, name);
        let balanced = players::text(&service, "/status/loadBalancer/ingress/0/ip").to_owned();
        (
            players::text(&service, "/spec/clusterIP").to_owned(),
            balanced,
        )
    });
    let expected = [
        ("10.0.0.7", "192.0.2.4"),
        ("10.0.0.8", "192.0.2.5"),
        ("10.0.0.9", ""),
    ];
    assert_eq!(
        shown,
        expected.map(|(inside, outside)| (inside.to_owned(), outside.to_owned()))
    );
}

#[test]
fn the_pods_of_a_deployment_exist_before_they_serve() {
    let (mut store, kind) = (ObjectStore::new(), Kind::of::<Deployment>());
    create(&mut store, &kind, "web", &json!({ "replicas": 2 }));
    players::deployments(&mut store).unwrap();
    let status = found(&store, &kind, "web")["status"].clone();
    assert_eq!(
        (&status["replicas"], &status["readyReplicas"]),
        (&json!(2), &json!(0))
    );
    players::deployments(&mut store).unwrap();
    assert_eq!(found(&store, &kind, "web")["status"]["readyReplicas"], 2);
    assert_eq!(players::deployments(&mut store), None);
}

#[test]
fn pods_that_cannot_serve_any_more_are_counted_no_more() {
    let (mut store, kind) = (ObjectStore::new(), Kind::of::<Deployment>());
    create(&mut store, &kind, "web", &json!({ "replicas": 2 }));
    while players::deployments(&mut store).is_some() {}
    let dead = |_: &ObjectStore, _: &Value| false;
    players::deployments_that(&mut store, dead).unwrap();
    let status = found(&store, &kind, "web")["status"].clone();
    assert_eq!(
        (&status["replicas"], &status["readyReplicas"]),
        (&json!(2), &json!(0))
    );
    assert_eq!(players::deployments_that(&mut store, dead), None);
}
