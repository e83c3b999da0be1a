//! Finalizers, namesakes, owners and namespaces.

use butler_runtime::{
    api_server::{Part, Preconditions},
    object::ObjectKey,
};
use butler_testkit::simulator::Operation;
use serde_json::{Value, json};

use super::{
    NAMESPACE, Script, apply, apply_status, at, body, config_map, create, delete, get, merge,
    namespace, widget,
};

pub(super) fn deletion(script: &mut Script) {
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
    script.ask("but its status lands on the namesake", {
        let body = body(
            &kind,
            "held",
            json!({ "metadata": { "uid": "$uid:held" }, "status": { "phase": "Ready" } }),
        );
        Operation::Apply(
            kind.clone(),
            at("held"),
            Part::Status,
            "one".to_owned(),
            body,
        )
    });
    script.ask("unless it names the version", {
        let body = body(
            &kind,
            "held",
            json!({ "metadata": { "uid": "$uid:held", "resourceVersion": "$version:held" }, "status": { "phase": "Late" } }),
        );
        Operation::Apply(
            kind.clone(),
            at("held"),
            Part::Status,
            "one".to_owned(),
            body,
        )
    });
    script.ask("nor does its deletion", deletion(Some("$uid:held"), None));
    script.ask("nor do its finalizers", merge(&kind, "held", json!({ "metadata": { "uid": "$uid:held", "resourceVersion": "$version:held", "finalizers": [] } })));
    script.ask(
        "an object without finalizers goes at once",
        delete(&kind, "held"),
    );
    script.ask("it is gone", get(&kind, "held"));
    let status_of_the_gone = |metadata: Value| {
        let rest = json!({ "metadata": metadata, "status": { "phase": "Ready" } });
        let body = body(&widget(), "held", rest);
        Operation::Apply(widget(), at("held"), Part::Status, "one".to_owned(), body)
    };
    script.ask(
        "a status of what is gone is refused",
        status_of_the_gone(json!({ "uid": "$uid:held" })),
    );
    script.ask(
        "also if it names the version",
        status_of_the_gone(json!({ "uid": "$uid:held", "resourceVersion": "$version:held" })),
    );
}

pub(super) fn garbage(script: &mut Script) {
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

pub(super) fn namespaces(script: &mut Script) {
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
