//! Create, replace, merge, list.

use butler_testkit::simulator::Operation;
use serde_json::json;

use super::{NAMESPACE, Script, config_map, create, delete, get, merge, replace, widget};

pub(super) fn plain_writes(script: &mut Script) {
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

pub(super) fn custom_objects(script: &mut Script) {
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
