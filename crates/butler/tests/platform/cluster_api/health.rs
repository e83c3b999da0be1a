//! The `MachineHealthCheck`: a machine whose node was there and reports no more is replaced, unless too many are like that. Of a
//! tenant that does not answer it knows nothing, and replaces none.

use butler_runtime::object::ObjectKey;
use butler_testkit::simulator::{
    ObjectStore,
    players::{is_deleting, text},
};
use serde_json::Value;

use super::{Answers, count, delete, first, health_checks, holds, machines};

pub(super) fn keep(store: &mut ObjectStore, answers: Answers) -> Option<String> {
    first(store, &health_checks(), |store, check| {
        if !answers(store, text(check, "/metadata/namespace")) {
            return None;
        }
        let watched: Vec<_> = store
            .objects(&machines())
            .into_iter()
            .filter(|machine| is_selected(machine, check) && !is_deleting(machine))
            .collect();
        let ill: Vec<_> = watched.iter().filter(|machine| is_ill(machine)).collect();
        let limit = count(
            check,
            "/spec/remediation/triggerIf/unhealthyLessThanOrEqualTo",
        );
        if ill.len() > usize::try_from(limit).unwrap() {
            return None;
        }
        let machine = ill.first()?;
        Some(delete(store, &machines(), &ObjectKey::in_body(machine)))
    })
}

fn is_selected(machine: &Value, check: &Value) -> bool {
    let selector = check.pointer("/spec/selector/matchLabels");
    let selector = selector.and_then(Value::as_object);
    let labels = &machine["metadata"]["labels"];
    machine["metadata"]["namespace"] == check["metadata"]["namespace"]
        && selector.is_some_and(|wanted| wanted.iter().all(|(key, value)| labels[key] == *value))
}

fn is_ill(machine: &Value) -> bool {
    let has_joined = !text(machine, "/status/nodeRef/name").is_empty();
    has_joined && holds(machine, "NodeReady") == Some(false)
}
