//! The operations, as data.

mod endings;
mod ownership;
mod writes;

use butler_runtime::{
    api_server::Part,
    object::{Kind, ObjectKey},
};
use butler_testkit::simulator::Operation;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::{Value, json};

use super::runner::{Act, Line};

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

/// A custom kind that is not in namespaces.
pub(super) fn gadget() -> Kind {
    Kind {
        kind: "Gadget".to_owned(),
        plural: "gadgets".to_owned(),
        namespaced: false,
        ..widget()
    }
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
    Operation::Apply(kind, at(name), Part::Status, manager.to_owned(), body)
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
    writes::plain_writes(&mut script);
    writes::custom_objects(&mut script);
    ownership::ownership(&mut script);
    ownership::cluster_scoped(&mut script);
    ownership::lists(&mut script);
    ownership::statuses(&mut script);
    endings::deletion(&mut script);
    endings::garbage(&mut script);
    endings::namespaces(&mut script);
    script.0
}
