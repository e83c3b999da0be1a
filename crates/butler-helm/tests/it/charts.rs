//! What the chart `butler` makes of sets of values. The default is shown in full; the others by what they do differently.

use serde_json::{Value, json};

use crate::support::{Workshop, difference, rendered, shown, value_sets};

#[tokio::test]
async fn each_set_of_values_renders_what_it_is_known_for() {
    let workshop = Workshop::offline().await;
    let sets = value_sets();
    let [(_, default), others @ ..] = &sets;
    let usual = rendered(&workshop, "butler", default.clone()).await;
    insta::assert_snapshot!("default", shown(&usual));
    for (name, values) in others {
        let objects = rendered(&workshop, "butler", values.clone()).await;
        let text = difference(&usual, objects);
        insta::assert_snapshot!(*name, text);
    }
}

#[tokio::test]
async fn a_controller_that_is_switched_off_leaves_the_providers() {
    let workshop = Workshop::offline().await;
    let values = serde_json::json!({ "controller": { "enabled": false }, "steward": { "enabled": false }, "local": { "enabled": true } });
    let objects = rendered(&workshop, "butler", values).await;
    assert!(
        objects
            .keys()
            .all(|title| title.contains("butler-provider-local")),
        "{:?}",
        objects.keys()
    );
}

#[tokio::test]
async fn where_everybody_may_read_metrics_no_account_may_ask_about_readers() {
    let workshop = Workshop::offline().await;
    let values = json!({ "metrics": { "authorization": false }, "providers": { "harvester": {} } });
    let objects = rendered(&workshop, "butler", values).await;
    let text = json!(objects).to_string();
    assert!(text.contains("--metrics-bind-address=:8080"), "{text}");
    for word in [
        "tokenreviews",
        "subjectaccessreviews",
        "butler-metrics-reader",
        "--metrics-require-authorization",
    ] {
        assert!(!text.contains(word), "{word} is in {text}");
    }
}

#[tokio::test]
async fn every_pod_is_confined() {
    let workshop = Workshop::offline().await;
    let mut pods = 0;
    for (name, values) in value_sets() {
        for (title, object) in rendered(&workshop, "butler", values).await {
            let Some(pod) = object.pointer("/spec/template/spec") else {
                continue;
            };
            pods += 1;
            let is = |pointer: &str, expected: Value| {
                assert_eq!(
                    pod.pointer(pointer),
                    Some(&expected),
                    "{name}: {title}: {pointer}"
                );
            };
            is("/securityContext/runAsNonRoot", true.into());
            is("/securityContext/runAsUser", 65532.into());
            is(
                "/securityContext/seccompProfile/type",
                "RuntimeDefault".into(),
            );
            is(
                "/containers/0/securityContext/allowPrivilegeEscalation",
                false.into(),
            );
            is(
                "/containers/0/securityContext/readOnlyRootFilesystem",
                true.into(),
            );
            is(
                "/containers/0/securityContext/capabilities/drop/0",
                "ALL".into(),
            );
            is(
                "/containers/0/livenessProbe/httpGet/path",
                "/healthz".into(),
            );
            is(
                "/containers/0/readinessProbe/httpGet/path",
                "/readyz".into(),
            );
        }
    }
    assert!(pods >= 7, "{pods}");
}

/// What lets the controller give teams a look at the namespaces of their clusters, and nothing but that. The API server keeps it from
/// granting what it does not have itself, and it may bind one role of others, by name.
fn lets_teams_look(title: &str, rule: &Value) -> bool {
    let known = [
        json!({
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["roles", "rolebindings"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        }),
        json!({
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["clusterroles"],
            "resourceNames": ["view"],
            "verbs": ["bind"],
        }),
    ];
    title == "ClusterRole butler-controller" && known.contains(rule)
}

/// The one rule without resources: a path, for whoever collects metrics.
fn lets_metrics_be_read(title: &str, rule: &Value) -> bool {
    let known = json!({ "nonResourceURLs": ["/metrics"], "verbs": ["get"] });
    title == "ClusterRole butler-metrics-reader" && *rule == known
}

#[tokio::test]
async fn no_role_has_a_wildcard_or_a_verb_that_leads_to_more() {
    let workshop = Workshop::offline().await;
    let mut rules = 0;
    for (name, values) in value_sets() {
        for (title, object) in rendered(&workshop, "butler", values).await {
            for rule in object["rules"].as_array().into_iter().flatten() {
                rules += 1;
                if lets_teams_look(&title, rule) || lets_metrics_be_read(&title, rule) {
                    continue;
                }
                let words = ["apiGroups", "resources", "verbs", "resourceNames"];
                let words = words
                    .iter()
                    .flat_map(|field| rule[*field].as_array().into_iter().flatten());
                for word in words.filter_map(Value::as_str) {
                    let leads_to_more =
                        ["escalate", "bind", "impersonate", "deletecollection"].contains(&word);
                    assert!(
                        !word.contains('*') && !leads_to_more,
                        "{name}: {title}: {rule}"
                    );
                }
                let resources = rule["resources"].as_array().into_iter().flatten();
                let groups = rule["apiGroups"].as_array().into_iter().flatten();
                let touches_roles = groups
                    .clone()
                    .any(|group| group == "rbac.authorization.k8s.io");
                assert!(!touches_roles, "{name}: {title}: {rule}");
                assert!(resources.count() > 0, "{name}: {title}: {rule}");
            }
        }
    }
    assert!(rules > 50, "{rules}");
}
