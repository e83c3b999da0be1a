//! Composes the one status write of a pass: the plan's status, `observedGeneration`, and the engine's own conditions.

use butler_api::conditions::{reasons, types};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use crate::{conditions::Conditions, failure::Failure};

/// Adds the engine's words to a status.
///
/// `before` is the status as it stands; its conditions give the transition times.
pub(super) fn compose(
    status: Value,
    before: &Value,
    generation: Option<i64>,
    failure: Option<&Failure>,
    now: Timestamp,
) -> Value {
    let mut status = with_verdict(status, before, generation, failure, now);
    observe_generation(&mut status, generation);
    status
}

/// The status of an object whose pass failed before there was a plan: as it was, and that it failed. What it says is still
/// about the generation it was about before.
pub(super) fn unplanned(before: &Value, generation: Option<i64>, failure: &Failure, now: Timestamp) -> Value {
    with_verdict(before.clone(), before, generation, Some(failure), now)
}

fn with_verdict(
    mut status: Value,
    before: &Value,
    generation: Option<i64>,
    failure: Option<&Failure>,
    now: Timestamp,
) -> Value {
    let previous = conditions_of(before);
    let said = Conditions::since(&previous, generation, now);
    let said = match failure {
        None => said.say(types::RECONCILED, true, reasons::SUCCEEDED, ""),
        Some(failure) => said.say(types::RECONCILED, false, failure.reason, &failure.message),
    };
    set(
        &mut status,
        &[types::PAUSED, types::RECONCILED],
        said.finish(),
    );
    status
}

/// The status of an object that is paused: as it was, and that it is paused.
pub(super) fn paused(before: &Value, generation: Option<i64>, now: Timestamp) -> Value {
    let mut status = before.clone();
    let previous = conditions_of(before);
    let message = format!(
        "remove the annotation {} to go on",
        butler_api::keys::annotations::PAUSED
    );
    let said = Conditions::since(&previous, generation, now).say(
        types::PAUSED,
        true,
        reasons::PAUSED,
        message,
    );
    set(&mut status, &[types::PAUSED], said.finish());
    status
}

/// The status of an object that does not fit its type: that, and nothing else.
pub(super) fn malformed(error: &str, now: Timestamp) -> Value {
    let message = malformed_words(error);
    let said = Conditions::since(&[], None, now).say(
        types::RECONCILED,
        false,
        reasons::MALFORMED,
        message,
    );
    json!({ "conditions": said.finish() })
}

/// How an object is told that it does not fit its type.
pub(super) fn malformed_words(error: &str) -> String {
    format!("the object cannot be read: {error}; correct the named field")
}

fn set(status: &mut Value, replaced: &[&str], said: Vec<Condition>) {
    if !status.is_object() {
        *status = json!({});
    }
    let mut conditions = conditions_of(status);
    conditions.retain(|condition| !replaced.contains(&condition.type_.as_str()));
    conditions.extend(said);
    status["conditions"] = json!(conditions);
}

fn observe_generation(status: &mut Value, generation: Option<i64>) {
    if let Some(generation) = generation {
        status["observedGeneration"] = generation.into();
    }
}

fn conditions_of(status: &Value) -> Vec<Condition> {
    let conditions = status
        .get("conditions")
        .cloned()
        .unwrap_or_else(|| json!([]));
    serde_json::from_value(conditions).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_shown_beside_what_the_plan_said() {
        let failure = Failure::retry(reasons::APPLY_FAILED, "could not apply Namespace x: no");
        let status = compose(
            json!({ "ready": true }),
            &json!({}),
            Some(3),
            Some(&failure),
            Timestamp::UNIX_EPOCH,
        );
        insta::assert_json_snapshot!(status, @r#"
        {
          "conditions": [
            {
              "lastTransitionTime": "1970-01-01T00:00:00Z",
              "message": "could not apply Namespace x: no",
              "observedGeneration": 3,
              "reason": "ApplyFailed",
              "status": "False",
              "type": "Reconciled"
            }
          ],
          "observedGeneration": 3,
          "ready": true
        }
        "#);
    }

    #[test]
    fn a_failure_before_the_plan_does_not_claim_to_have_observed_the_spec() {
        let failure = Failure::retry(reasons::OBSERVE_FAILED, "no answer");
        let before = json!({ "ready": true, "observedGeneration": 1 });
        let status = unplanned(&before, Some(2), &failure, Timestamp::UNIX_EPOCH);
        assert_eq!(status["observedGeneration"], 1);
        assert_eq!(status["conditions"][0]["observedGeneration"], 2);
        assert_eq!(status["conditions"][0]["reason"], reasons::OBSERVE_FAILED);
    }

    #[test]
    fn a_paused_object_keeps_its_status_and_says_so() {
        let before = json!({ "ready": true, "observedGeneration": 1 });
        let status = paused(&before, Some(2), Timestamp::UNIX_EPOCH);
        assert_eq!(status["ready"], true);
        assert_eq!(status["observedGeneration"], 1);
        assert_eq!(status["conditions"][0]["type"], types::PAUSED);
    }

    #[test]
    fn a_composed_status_is_no_longer_paused() {
        let before = paused(&json!({}), Some(2), Timestamp::UNIX_EPOCH);
        let status = compose(
            before.clone(),
            &before,
            Some(2),
            None,
            Timestamp::UNIX_EPOCH,
        );
        let types: Vec<_> = conditions_of(&status)
            .into_iter()
            .map(|condition| condition.type_)
            .collect();
        assert_eq!(types, [types::RECONCILED]);
    }
}
