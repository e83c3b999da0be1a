//! The operations, as data.

use butler_runtime::{
    api_server::Preconditions,
    object::{Kind, ObjectKey},
};
use butler_testkit::simulator::Operation;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::{Value, json};

use super::runner::{Act, Line, STATUS};

const NAMESPACE: &str = "parity";

/// A custom kind with a status, conditions and a few fields.
pub(super) fn widget() -> Kind {
    Kind {
        group: "parity.butler.test".to_owned(),
        version: "v1".to_owned(),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
        namespaced: true,
    }
}

fn config_map() -> Kind {
    Kind::of::<ConfigMap>()
}

fn namespace() -> Kind {
    Kind::of::<Namespace>()
}

fn at(name: &str) -> ObjectKey {
    ObjectKey::namespaced(NAMESPACE, name)
}

/// A body with its identity.
fn body(kind: &Kind, name: &str, rest: Value) -> Value {
    let mut body = rest;
    body["apiVersion"] = kind.api_version().into();
    body["kind"] = kind.kind.clone().into();
    body["metadata"]["name"] = name.into();
    if kind.namespaced {
        body["metadata"]["namespace"] = NAMESPACE.into();
    }
    body
}

fn create(kind: &Kind, name: &str, rest: Value) -> Operation {
    Operation::create(kind.clone(), body(kind, name, rest))
}

fn apply(kind: &Kind, name: &str, manager: &str, rest: Value) -> Operation {
    Operation::apply(kind.clone(), manager, body(kind, name, rest))
}

fn apply_status(name: &str, manager: &str, status: &Value) -> Operation {
    let kind = widget();
    let body = body(&kind, name, json!({ "status": status }));
    Operation::Apply(kind, at(name), STATUS, manager.to_owned(), body)
}

fn merge(kind: &Kind, name: &str, patch: Value) -> Operation {
    Operation::Merge(kind.clone(), at(name), patch)
}

fn replace(kind: &Kind, name: &str, rest: Value) -> Operation {
    Operation::Replace(kind.clone(), at(name), body(kind, name, rest))
}

fn get(kind: &Kind, name: &str) -> Operation {
    Operation::Get(kind.clone(), at(name))
}

fn delete(kind: &Kind, name: &str) -> Operation {
    Operation::delete(kind.clone(), at(name))
}

fn condition(type_: &str, status: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": "Because", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// Collects lines.
#[derive(Default)]
struct Script(Vec<Line>);

impl Script {
    fn ask(&mut self, story: &'static str, operation: Operation) {
        self.0.push(Line {
            story,
            remember: None,
            act: Act::Ask(operation),
        });
    }

    fn remember(&mut self, name: &'static str, story: &'static str, operation: Operation) {
        self.0.push(Line {
            story,
            remember: Some(name),
            act: Act::Ask(operation),
        });
    }

    fn until_gone(&mut self, kind: &Kind, key: ObjectKey) {
        self.0.push(Line {
            story: "",
            remember: None,
            act: Act::UntilGone(kind.clone(), key),
        });
    }
}

/// The whole script.
pub(super) fn script() -> Vec<Line> {
    let mut script = Script::default();
    script.ask(
        "an object in a missing namespace is not created",
        create(&config_map(), "early", json!({})),
    );
    script.ask(
        "an object in a missing namespace is not applied",
        apply(&config_map(), "early", "one", json!({})),
    );
    script.ask(
        "a namespace is created",
        Operation::create(namespace(), body(&namespace(), NAMESPACE, json!({}))),
    );
    plain_writes(&mut script);
    custom_objects(&mut script);
    ownership(&mut script);
    lists(&mut script);
    statuses(&mut script);
    deletion(&mut script);
    garbage(&mut script);
    namespaces(&mut script);
    script.0
}

fn plain_writes(script: &mut Script) {
    let kind = config_map();
    let data = |value: &str| json!({ "data": { "a": value } });
    script.remember(
        "first",
        "an object is created",
        create(&kind, "plain", data("1")),
    );
    script.ask(
        "the second of a name is refused",
        create(&kind, "plain", data("2")),
    );
    script.ask("a merge changes it", merge(&kind, "plain", data("2")));
    script.ask(
        "a merge that says the same does not",
        merge(&kind, "plain", data("2")),
    );
    script.ask(
        "a merge of an old version is refused",
        merge(
            &kind,
            "plain",
            json!({ "metadata": { "resourceVersion": "$version:first" }, "data": { "a": "3" } }),
        ),
    );
    script.ask("a merge for another object is refused", merge(&kind, "plain", json!({ "metadata": { "uid": "11111111-1111-4111-8111-111111111111" }, "data": { "a": "3" } })));
    script.ask(
        "a merge removes with null",
        merge(&kind, "plain", json!({ "data": { "a": null, "b": "1" } })),
    );
    script.ask(
        "a replacement of an old version is refused",
        replace(
            &kind,
            "plain",
            json!({ "metadata": { "resourceVersion": "$version:first" }, "data": { "a": "3" } }),
        ),
    );
    script.remember("now", "it is read", get(&kind, "plain"));
    script.remember(
        "now",
        "a replacement of the current version is taken",
        replace(
            &kind,
            "plain",
            json!({ "metadata": { "resourceVersion": "$version:now" }, "data": { "c": "3" } }),
        ),
    );
    script.ask(
        "a replacement that says the same is not a change",
        replace(
            &kind,
            "plain",
            json!({ "metadata": { "resourceVersion": "$version:now" }, "data": { "c": "3" } }),
        ),
    );
    script.ask("a replacement for another object is refused", replace(&kind, "plain", json!({ "metadata": { "uid": "11111111-1111-4111-8111-111111111111" }, "data": { "c": "4" } })));
    script.ask(
        "a merge into nothing is refused",
        merge(&kind, "absent", data("1")),
    );
    script.ask(
        "a replacement of nothing is refused",
        replace(&kind, "absent", data("1")),
    );
    script.ask(
        "a replacement of an object that is gone is refused",
        replace(
            &kind,
            "absent",
            json!({ "metadata": { "uid": "$uid:first", "resourceVersion": "$version:first" } }),
        ),
    );
    script.ask("nothing is read", get(&kind, "absent"));
    script.ask("deleting nothing is fine", delete(&kind, "absent"));
    script.ask(
        "labels are set",
        merge(
            &kind,
            "plain",
            json!({ "metadata": { "labels": { "team": "red" } } }),
        ),
    );
    let list = |labels: &str| {
        Operation::List(
            config_map(),
            Some(NAMESPACE.to_owned()),
            Some(labels.to_owned()),
        )
    };
    script.ask("a label is found by being there", list("team"));
    script.ask("a label is found by its value", list("team=red"));
    script.ask("a label of another value is not", list("team=blue"));
}

fn custom_objects(script: &mut Script) {
    let kind = widget();
    let spec = |size: i64| json!({ "spec": { "size": size } });
    script.remember(
        "widget",
        "a custom object is created, without its status",
        create(
            &kind,
            "custom",
            json!({ "spec": { "size": 1 }, "status": { "phase": "Ready" } }),
        ),
    );
    script.ask(
        "a merge changes its generation",
        merge(&kind, "custom", spec(2)),
    );
    script.ask(
        "labels do not",
        merge(
            &kind,
            "custom",
            json!({ "metadata": { "labels": { "a": "b" } } }),
        ),
    );
    script.ask(
        "a merge does not reach the status",
        merge(&kind, "custom", json!({ "status": { "phase": "Ready" } })),
    );
    script.ask(
        "a replacement without a version is refused",
        replace(&kind, "custom", spec(3)),
    );
    script.remember("widget", "it is read", get(&kind, "custom"));
    script.ask(
        "a replacement with the version is taken",
        replace(
            &kind,
            "custom",
            json!({ "metadata": { "resourceVersion": "$version:widget" }, "spec": { "size": 3 } }),
        ),
    );
}

fn ownership(script: &mut Script) {
    let kind = widget();
    script.ask("an apply creates", apply(&kind, "owned", "one", json!({ "metadata": { "labels": { "a": "1" } }, "spec": { "size": 1, "color": "red", "limits": { "x": "1", "y": "2" } } })));
    script.ask("the same apply is not a change", apply(&kind, "owned", "one", json!({ "metadata": { "labels": { "a": "1" } }, "spec": { "size": 1, "color": "red", "limits": { "x": "1", "y": "2" } } })));
    script.ask(
        "another manager shares a field and adds one",
        apply(
            &kind,
            "owned",
            "two",
            json!({ "spec": { "color": "red", "limits": { "z": "3" } } }),
        ),
    );
    script.ask(
        "what one manager drops goes, what is shared stays",
        apply(&kind, "owned", "one", json!({ "spec": { "size": 1 } })),
    );
    script.ask(
        "force takes a field over",
        apply(
            &kind,
            "owned",
            "two",
            json!({ "spec": { "size": 2, "limits": { "z": "3" } } }),
        ),
    );
    script.ask(
        "who lost a field does not remove it",
        apply(
            &kind,
            "owned",
            "one",
            json!({ "metadata": { "labels": { "b": "2" } } }),
        ),
    );
    script.ask(
        "a plain write takes a field over",
        merge(&kind, "owned", json!({ "spec": { "size": 3 } })),
    );
    script.ask(
        "so dropping it does not remove it",
        apply(
            &kind,
            "owned",
            "two",
            json!({ "spec": { "color": "blue" } }),
        ),
    );
    script.ask(
        "a list without keys is one value",
        apply(
            &kind,
            "owned",
            "one",
            json!({ "spec": { "tags": ["a", "b"] } }),
        ),
    );
    script.ask(
        "and replaced as one",
        apply(&kind, "owned", "two", json!({ "spec": { "tags": ["c"] } })),
    );
    script.ask(
        "an empty apply gives up everything",
        apply(&kind, "owned", "two", json!({})),
    );
    script.ask(
        "an apply with an old version is refused",
        apply(
            &kind,
            "owned",
            "one",
            json!({ "metadata": { "resourceVersion": "$version:first" } }),
        ),
    );
    script.ask(
        "an apply for another object is refused",
        apply(
            &kind,
            "owned",
            "one",
            json!({ "metadata": { "uid": "$uid:first" } }),
        ),
    );
    script.ask(
        "an apply for an object that is gone is refused",
        apply(
            &kind,
            "absent",
            "one",
            json!({ "metadata": { "uid": "$uid:first" }, "spec": { "size": 1 } }),
        ),
    );
    script.ask(
        "null says nothing",
        apply(
            &kind,
            "owned",
            "one",
            json!({ "spec": { "size": 7, "color": null } }),
        ),
    );
}

fn lists(script: &mut Script) {
    let kind = config_map();
    let owner = |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "plain", "uid": name });
    script.ask(
        "finalizers are a set",
        apply(
            &kind,
            "lists",
            "one",
            json!({ "metadata": { "finalizers": ["butler.test/a", "butler.test/b"] } }),
        ),
    );
    script.ask(
        "which managers share",
        apply(
            &kind,
            "lists",
            "two",
            json!({ "metadata": { "finalizers": ["butler.test/c", "butler.test/a"] } }),
        ),
    );
    script.ask(
        "and leave one by one",
        apply(
            &kind,
            "lists",
            "one",
            json!({ "metadata": { "finalizers": ["butler.test/b"] } }),
        ),
    );
    script.ask(
        "the last applier of one removes it",
        apply(
            &kind,
            "lists",
            "two",
            json!({ "metadata": { "finalizers": ["butler.test/c"] } }),
        ),
    );
    script.ask(
        "owners are told apart by their UID",
        apply(
            &kind,
            "lists",
            "one",
            json!({ "metadata": { "ownerReferences": [owner("$uid:first")] } }),
        ),
    );
    script.ask(
        "and shared",
        apply(
            &kind,
            "lists",
            "two",
            json!({ "metadata": { "ownerReferences": [owner("$uid:first")] } }),
        ),
    );
    script.ask(
        "so dropping one by one manager keeps it",
        apply(&kind, "lists", "one", json!({ "data": { "a": "1" } })),
    );
}

fn statuses(script: &mut Script) {
    let conditions = |conditions: &[Value]| json!({ "conditions": conditions });
    script.ask(
        "a status of nothing is refused",
        apply_status("absent", "one", &json!({ "phase": "Ready" })),
    );
    script.ask("a status is applied", apply_status("custom", "one", &json!({ "phase": "Ready", "conditions": [condition("A", "True"), condition("B", "True")] })));
    script.ask("the same status is not a change", apply_status("custom", "one", &json!({ "phase": "Ready", "conditions": [condition("A", "True"), condition("B", "True")] })));
    script.ask(
        "conditions of another manager join, in its order",
        apply_status(
            "custom",
            "two",
            &conditions(&[condition("C", "True"), condition("B", "False")]),
        ),
    );
    script.ask(
        "a condition taken over stays with its new manager",
        apply_status("custom", "one", &conditions(&[condition("A", "False")])),
    );
    script.ask(
        "a status that says nothing takes all back",
        apply_status("custom", "one", &json!({})),
    );
    script.ask(
        "an apply of the object does not reach the status",
        apply(
            &widget(),
            "custom",
            "three",
            json!({ "spec": { "color": "red" }, "status": { "phase": "Broken" } }),
        ),
    );
    script.ask("an apply of the status does not reach the object", {
        let body = body(
            &widget(),
            "custom",
            json!({ "spec": { "color": "blue" }, "status": { "phase": "Ready" } }),
        );
        Operation::Apply(widget(), at("custom"), STATUS, "three".to_owned(), body)
    });
    script.ask(
        "a plain write leaves the status alone",
        merge(
            &widget(),
            "custom",
            json!({ "spec": { "size": 9 }, "status": null }),
        ),
    );
}

fn deletion(script: &mut Script) {
    let kind = widget();
    let held = json!({ "metadata": { "finalizers": ["butler.test/a"] }, "spec": { "size": 1 } });
    script.remember(
        "held",
        "an object with a finalizer is created",
        create(&kind, "held", held),
    );
    let deletion = |uid: Option<&str>, version: Option<&str>| {
        let preconditions = Preconditions {
            uid: uid.map(str::to_owned),
            resource_version: version.map(str::to_owned),
        };
        Operation::Delete(widget(), at("held"), preconditions)
    };
    script.ask(
        "a deletion of another object is refused",
        deletion(Some("$uid:first"), None),
    );
    script.ask(
        "a deletion of an old version is refused",
        deletion(None, Some("$version:first")),
    );
    script.ask(
        "a deletion of this object is taken",
        deletion(Some("$uid:held"), None),
    );
    script.ask("it waits for its finalizer", get(&kind, "held"));
    script.ask("a second deletion is fine", delete(&kind, "held"));
    script.ask("and changes nothing", get(&kind, "held"));
    script.ask(
        "no finalizer can be added by a merge",
        merge(
            &kind,
            "held",
            json!({ "metadata": { "finalizers": ["butler.test/a", "butler.test/b"] } }),
        ),
    );
    script.ask(
        "nor by an apply",
        apply(
            &kind,
            "held",
            "one",
            json!({ "metadata": { "finalizers": ["butler.test/b"] } }),
        ),
    );
    script.ask(
        "its status can still be told",
        apply_status("held", "one", &json!({ "phase": "Leaving" })),
    );
    script.ask(
        "a namesake is refused while it is there",
        create(&kind, "held", json!({ "spec": { "size": 2 } })),
    );
    script.ask(
        "its last finalizer goes",
        merge(&kind, "held", json!({ "metadata": { "finalizers": null } })),
    );
    script.ask("and so does it", get(&kind, "held"));
    script.ask(
        "the namesake is taken now",
        create(&kind, "held", json!({ "spec": { "size": 2 } })),
    );
    script.ask(
        "what means the first one is refused",
        apply(
            &kind,
            "held",
            "one",
            json!({ "metadata": { "uid": "$uid:held" }, "spec": { "size": 3 } }),
        ),
    );
    script.ask("and its status too", {
        let body = body(
            &kind,
            "held",
            json!({ "metadata": { "uid": "$uid:held" }, "status": { "phase": "Ready" } }),
        );
        Operation::Apply(kind.clone(), at("held"), STATUS, "one".to_owned(), body)
    });
    script.ask("and its deletion", deletion(Some("$uid:held"), None));
    script.ask("and its finalizers", merge(&kind, "held", json!({ "metadata": { "uid": "$uid:held", "resourceVersion": "$version:held", "finalizers": [] } })));
    script.ask(
        "an object without finalizers goes at once",
        delete(&kind, "held"),
    );
    script.ask("it is gone", get(&kind, "held"));
    script.ask("a status of what is gone is refused by its UID", {
        let body = body(
            &kind,
            "held",
            json!({ "metadata": { "uid": "$uid:held" }, "status": { "phase": "Ready" } }),
        );
        Operation::Apply(kind, at("held"), STATUS, "one".to_owned(), body)
    });
}

fn garbage(script: &mut Script) {
    let kind = config_map();
    let owned = |owners: &[&str]| {
        let owner = |name: &&str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": format!("$uid:{name}") });
        json!({ "metadata": { "ownerReferences": owners.iter().map(owner).collect::<Vec<_>>() } })
    };
    script.remember("mother", "one owner", create(&kind, "mother", json!({})));
    script.remember(
        "father",
        "another owner",
        create(&kind, "father", json!({})),
    );
    script.ask(
        "an object of both",
        create(&kind, "child", owned(&["mother", "father"])),
    );
    script.ask(
        "an object of one",
        create(&kind, "stepchild", owned(&["mother"])),
    );
    script.ask("one owner goes", delete(&kind, "mother"));
    script.until_gone(&kind, at("stepchild"));
    script.ask(
        "what has another owner stays",
        merge(
            &kind,
            "child",
            json!({ "data": { "alive": "yes" }, "metadata": { "ownerReferences": null } }),
        ),
    );
}

fn namespaces(script: &mut Script) {
    let key = ObjectKey::cluster(NAMESPACE);
    script.ask(
        "a finalizer within a namespace",
        merge(
            &config_map(),
            "lists",
            json!({ "metadata": { "finalizers": ["butler.test/c"] } }),
        ),
    );
    script.ask(
        "the namespace is deleted",
        Operation::delete(namespace(), key.clone()),
    );
    script.until_gone(&config_map(), at("plain"));
    script.ask(
        "nothing is created in it",
        create(&config_map(), "late", json!({})),
    );
    script.ask(
        "nothing is applied into being in it",
        apply(&widget(), "late", "one", json!({ "spec": { "size": 1 } })),
    );
    script.ask(
        "what is held is still there",
        Operation::List(
            config_map(),
            Some(NAMESPACE.to_owned()),
            Some("!istio".to_owned()),
        ),
    );
    script.ask(
        "the last finalizer goes",
        merge(
            &config_map(),
            "lists",
            json!({ "metadata": { "finalizers": null } }),
        ),
    );
    script.until_gone(&namespace(), key);
}
