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
    mut status: Value,
    before: &Value,
    generation: Option<i64>,
    failure: Option<&Failure>,
    now: Timestamp,
) -> Value {
    set(&mut status, verdict(before, generation, failure, now));
    observe_generation(&mut status, generation);
    status
}

/// What is said of an object whose pass failed before there was a plan, beside what its status said before: that is still
/// about the generation it was about.
pub(super) fn unplanned(
    before: &Value,
    generation: Option<i64>,
    failure: &Failure,
    now: Timestamp,
) -> Value {
    json!({ "conditions": verdict(before, generation, Some(failure), now) })
}

fn verdict(
    before: &Value,
    generation: Option<i64>,
    failure: Option<&Failure>,
    now: Timestamp,
) -> Vec<Condition> {
    let previous = conditions_of(before);
    let mut said = Conditions::since(&previous, generation, now);
    if previous
        .iter()
        .any(|condition| condition.type_ == types::PAUSED)
    {
        // It was said by another manager of ours; taking it over is how it is taken back.
        said = said.say(types::PAUSED, false, reasons::NOT_PAUSED, "");
    }
    let said = match failure {
        None => said.say(types::RECONCILED, true, reasons::SUCCEEDED, ""),
        Some(failure) => said.say(types::RECONCILED, false, failure.reason, &failure.message),
    };
    said.finish()
}

/// What is said of an object that is paused, beside what its status said before.
pub(super) fn paused(
    before: &Value,
    generation: Option<i64>,
    how_to_go_on: &str,
    now: Timestamp,
) -> Value {
    let previous = conditions_of(before);
    let said = Conditions::since(&previous, generation, now);
    let said = said.say(types::PAUSED, true, reasons::PAUSED, how_to_go_on);
    json!({ "conditions": said.finish() })
}

/// What is said of an object that does not fit its type, beside what its status said before.
pub(super) fn malformed(error: &str, before: &Value, now: Timestamp) -> Value {
    let previous = conditions_of(before);
    let message = format!("the object cannot be read: {error}; correct the named field");
    let said = Conditions::since(&previous, None, now);
    json!({ "conditions": said.say(types::RECONCILED, false, reasons::MALFORMED, message).finish() })
}

/// Puts the engine's conditions beside those of the plan.
fn set(status: &mut Value, said: Vec<Condition>) {
    if !status.is_object() {
        *status = json!({});
    }
    let mut conditions = conditions_of(status);
    conditions.retain(|condition| said.iter().all(|ours| ours.type_ != condition.type_));
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
        assert_eq!(status.get("observedGeneration"), None);
        assert_eq!(status["conditions"][0]["observedGeneration"], 2);
        assert_eq!(status["conditions"][0]["reason"], reasons::OBSERVE_FAILED);
    }

    #[test]
    fn a_paused_object_says_nothing_but_that() {
        let before = json!({ "ready": true, "observedGeneration": 1 });
        let status = paused(&before, Some(2), "go on", Timestamp::UNIX_EPOCH);
        assert_eq!(status.as_object().map(serde_json::Map::len), Some(1));
        assert_eq!(status["conditions"][0]["type"], types::PAUSED);
    }

    #[test]
    fn an_object_that_goes_on_says_that_it_is_no_longer_paused() {
        let before = paused(&json!({}), Some(2), "go on", Timestamp::UNIX_EPOCH);
        let status = compose(json!({}), &before, Some(2), None, Timestamp::UNIX_EPOCH);
        let said: Vec<_> = conditions_of(&status)
            .into_iter()
            .map(|condition| (condition.type_, condition.status))
            .collect();
        let expected = [(types::PAUSED, "False"), (types::RECONCILED, "True")];
        assert_eq!(
            said,
            expected.map(|(type_, status)| (type_.to_owned(), status.to_owned()))
        );
    }

    #[test]
    fn a_malformed_object_is_told_the_same_at_every_look() {
        let first = malformed(
            "spec.size: expected an integer",
            &json!({}),
            Timestamp::UNIX_EPOCH,
        );
        let later = Timestamp::from_second(99).unwrap();
        assert_eq!(
            malformed("spec.size: expected an integer", &first, later),
            first
        );
    }
}
