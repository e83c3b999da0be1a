use pretty_assertions::assert_eq;

use super::*;

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Room {
    spec: Spec,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Spec {
    beds: u8,
    #[serde(default)]
    view: View,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct View {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    side: Option<String>,
}

/// Refuses rooms without a bed and changes by strangers.
struct Housekeeping;

impl ValidateWithReads<Room> for Housekeeping {
    async fn validate(&self, review: &Review<'_, Room>) -> Verdict {
        let mut denials = Vec::new();
        if review.object.spec.beds == 0 {
            denials.push(Denial::new("spec.beds", "must be at least 1"));
        }
        if review
            .old
            .is_some_and(|old| old.spec.beds != review.object.spec.beds)
        {
            denials.push(Denial::new("spec.beds", "cannot be changed"));
        }
        assert!(review.object.spec.beds < 100, "too many beds to count");
        if !denials.is_empty() {
            return Err(denials);
        }
        Ok(vec![Warning::new(format!(
            "{} has been noted",
            review.user
        ))])
    }
}

impl Defaulting<Room> for Housekeeping {
    fn default(&self, room: &mut Room) {
        room.spec
            .view
            .side
            .get_or_insert_with(|| "garden".to_owned());
    }
}

fn body(operation: &str, object: &Value, old: &Value) -> Vec<u8> {
    let review = json!({
        "apiVersion": API_VERSION, "kind": KIND,
        "request": {
            "uid": "u1", "operation": operation, "object": object, "oldObject": old,
            "userInfo": {"username": "ada", "groups": ["staff"]},
        },
    });
    serde_json::to_vec(&review).expect("is JSON")
}

async fn review(operation: &str, object: Value, old: Value) -> Answer {
    validate::<Room, _>(
        &Housekeeping,
        &body(operation, &object, &old),
        Timestamp::UNIX_EPOCH,
    )
    .await
}

fn response(answer: Answer) -> Value {
    match answer {
        Answer::Decided(mut review) => review["response"].take(),
        other => panic!("no decision but {other:?}"),
    }
}

fn room(beds: i64) -> Value {
    json!({"spec": {"beds": beds}})
}

#[tokio::test]
async fn an_allowed_request_carries_its_warnings() {
    let answer = response(review("CREATE", room(2), Value::Null).await);
    let expected = json!({"uid": "u1", "allowed": true, "warnings": ["ada has been noted"]});
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn a_refusal_names_every_field_and_rule() {
    let answer = response(review("UPDATE", room(0), room(2)).await);
    assert_eq!(answer["allowed"], false);
    let message = "spec.beds: must be at least 1; spec.beds: cannot be changed";
    assert_eq!(answer["status"]["message"], message);
    assert_eq!(answer["status"]["code"], 422);
    assert_eq!(
        answer["status"]["details"]["causes"][1]["field"],
        "spec.beds"
    );
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_refused_with_the_path() {
    let object = json!({"spec": {"beds": "two"}});
    let answer = response(review("CREATE", object, Value::Null).await);
    let message = "spec.beds: invalid type: string \"two\", expected u8";
    assert_eq!(answer["status"]["message"], message);
}

#[tokio::test]
async fn a_stored_object_that_cannot_be_read_may_be_repaired_and_deleted() {
    let broken = json!({"spec": {"beds": "two"}});
    assert_eq!(
        response(review("UPDATE", room(2), broken.clone()).await)["allowed"],
        true
    );
    let deleted = response(review("DELETE", Value::Null, broken).await);
    assert_eq!(deleted["allowed"], true);
    let warning = deleted["warnings"][0].as_str().expect("a warning");
    assert!(warning.starts_with("deleted without a review"), "{warning}");
}

#[tokio::test]
async fn what_is_not_a_review_is_malformed() {
    let bodies: [&[u8]; 4] = [
        b"{",
        b"[]",
        br#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","userInfo":{}}}"#,
        br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","userInfo":{}}}"#,
    ];
    for body in bodies {
        let answer = validate::<Room, _>(&Housekeeping, body, Timestamp::UNIX_EPOCH).await;
        assert!(matches!(answer, Answer::Malformed(_)), "{answer:?}");
    }
}

#[tokio::test]
async fn a_panic_of_a_reviewer_is_caught() {
    let answer = review("CREATE", room(100), Value::Null).await;
    assert!(matches!(answer, Answer::Panicked), "{answer:?}");
}

fn defaulted(object: &Value) -> Option<Value> {
    let answer = default::<Room, _>(&Housekeeping, &body("CREATE", object, &Value::Null));
    let response = response(answer);
    assert_eq!(response["allowed"], true);
    let patch: ByteString = serde_json::from_value(response.get("patch")?.clone()).expect("base64");
    let patch: json_patch::Patch = serde_json::from_slice(&patch.0).expect("a patch");
    let mut object = object.clone();
    json_patch::patch(&mut object, &patch).expect("applies");
    Some(object)
}

#[test]
fn defaults_are_added_and_the_rest_stays_as_written() {
    let object = json!({"spec": {"beds": 1, "minibar": true}, "extra": [1]});
    let expected = json!({
        "spec": {"beds": 1, "minibar": true, "view": {"side": "garden"}}, "extra": [1],
    });
    assert_eq!(defaulted(&object), Some(expected.clone()));
    assert_eq!(
        defaulted(&expected),
        None,
        "defaulting twice changes nothing"
    );
}

#[test]
fn an_object_that_cannot_be_read_is_left_to_the_schema() {
    assert_eq!(defaulted(&json!({"spec": {"beds": "two"}})), None);
}
