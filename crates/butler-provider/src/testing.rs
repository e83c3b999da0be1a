//! How tests of plans show them: as the lines a reviewer reads.

use butler_runtime::plan::{Next, Plan};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

/// A time that is easy to recognise.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A plan as lines: its conditions, the rest of its status, what it applies and does, what it tells, and what comes next.
pub(crate) fn told<S: Serialize, E: Serialize>(plan: &Plan<S, E>) -> String {
    let mut status = json!(plan.status);
    let conditions = status["conditions"].take();
    let mut lines: Vec<_> = conditions
        .as_array()
        .into_iter()
        .flatten()
        .map(condition)
        .collect();
    for (name, value) in status
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, value)| !value.is_null() && *name != "lastUpdated")
    {
        lines.push(format!("status.{name}: {value}"));
    }
    lines.extend(plan.apply.iter().map(|manifest| {
        let spec = &manifest.body["spec"];
        let (pool, pinned) = (
            &spec["poolRef"]["name"],
            &spec["pinnedRange"]["startAddress"],
        );
        format!("apply {} {} {pool} {pinned}", manifest.kind, manifest.key)
    }));
    for effect in &plan.effects {
        let mut effect = json!(effect);
        for body in effect.as_object_mut().into_iter().flatten() {
            if let Some(body) = body.1.as_object_mut() {
                body.remove("basis");
                body.remove("at");
            }
        }
        lines.push(format!("do {effect}"));
    }
    lines.extend(
        plan.notes
            .iter()
            .map(|note| format!("{:?} {}: {}", note.severity, note.reason, note.message)),
    );
    match plan.next {
        Next::AwaitChange => {}
        next => lines.push(format!("next: {next:?}")),
    }
    lines.join("\n")
}

fn condition(condition: &Value) -> String {
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    let words = format!("{}={} {}", text("type"), text("status"), text("reason"));
    match text("message") {
        "" => words,
        message => format!("{words}: {message}"),
    }
}
