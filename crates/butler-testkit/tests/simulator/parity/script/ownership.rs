//! Server-side apply: who owns which field, item and condition.

use butler_runtime::{api_server::Part, object::ObjectKey};
use butler_testkit::simulator::Operation;
use serde_json::{Value, json};

use super::{
    Script, apply, apply_status, at, body, condition, config_map, gadget, get, merge, widget,
};

pub(super) fn ownership(script: &mut Script) {
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
        "null is refused",
        apply(
            &kind,
            "owned",
            "one",
            json!({ "spec": { "size": 7, "color": null } }),
        ),
    );
}

/// What the engine does to objects of the whole cluster, whose namespace it gives as null.
pub(super) fn cluster_scoped(script: &mut Script) {
    let kind = gadget();
    let key = ObjectKey::cluster("gadget");
    let whole = |rest: Value| {
        let mut body = body(&gadget(), "gadget", rest);
        body["metadata"]["namespace"] = Value::Null;
        body
    };
    script.ask(
        "an object of the whole cluster is applied",
        Operation::Apply(
            kind.clone(),
            key.clone(),
            Part::Object,
            "one".to_owned(),
            whole(json!({ "spec": { "size": 1 } })),
        ),
    );
    script.ask(
        "and its status",
        Operation::Apply(
            kind.clone(),
            key.clone(),
            Part::Status,
            "one".to_owned(),
            whole(json!({ "status": { "phase": "Ready" } })),
        ),
    );
    script.ask(
        "a null in an object of Kubernetes' own says nothing",
        apply(
            &config_map(),
            "null",
            "one",
            json!({ "data": { "a": "1" }, "immutable": null }),
        ),
    );
    script.ask("it goes", Operation::delete(kind, key));
}

pub(super) fn lists(script: &mut Script) {
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

pub(super) fn statuses(script: &mut Script) {
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
    let guarded = |version: &str, status: Value| {
        let rest = json!({ "metadata": { "resourceVersion": version }, "status": status });
        let body = body(&widget(), "custom", rest);
        Operation::Apply(widget(), at("custom"), Part::Status, "one".to_owned(), body)
    };
    script.ask(
        "a status of an old version is refused",
        guarded("$version:first", json!({ "phase": "Ready" })),
    );
    script.remember("before", "its version is read", get(&widget(), "custom"));
    script.ask(
        "a status of the current version is taken",
        guarded("$version:before", json!({ "phase": "Ready" })),
    );
    script.ask(
        "a status of the version before is refused even if it says the same",
        guarded("$version:before", json!({ "phase": "Ready" })),
    );
    script.remember("after", "the new version is read", get(&widget(), "custom"));
    script.ask(
        "the same status of the current version is not a change",
        guarded("$version:after", json!({ "phase": "Ready" })),
    );
    script.ask(
        "another write leaves that version behind",
        merge(
            &widget(),
            "custom",
            json!({ "metadata": { "labels": { "c": "d" } } }),
        ),
    );
    script.ask(
        "so a status of it is refused",
        guarded("$version:after", json!({ "phase": "Late" })),
    );
    script.ask(
        "an unguarded one is taken whatever the version",
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
        Operation::Apply(
            widget(),
            at("custom"),
            Part::Status,
            "three".to_owned(),
            body,
        )
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
