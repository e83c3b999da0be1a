//! One admission review: reading it, asking the reviewer, writing the answer. No server and no
//! certificate is known here.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::UserInfo;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::task::panic_message;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// What is being done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// It is created.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
}

impl Operation {
    /// As webhook rules spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// What becomes of a request that nobody answers in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It is refused: what is reviewed must not slip through.
    Refused,
    /// It is allowed, and the API server does not wait for long: for kinds of others, whose life must not depend on ours.
    Allowed,
}

/// A request that is to be allowed or refused.
#[derive(Clone, Copy, Debug)]
pub struct Review<'a, K> {
    /// What is being done.
    pub operation: Operation,
    /// The object as it will be, or the one that is deleted.
    pub object: &'a K,
    /// The object before an update. Absent if the stored object cannot be read.
    pub old: Option<&'a K>,
    /// Who asks.
    pub user: &'a str,
    /// The groups of who asks.
    pub groups: &'a [String],
    /// Nothing will be stored.
    pub dry_run: bool,
    /// The time of the request.
    pub now: Timestamp,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    field: String,
    rule: String,
}

impl Denial {
    /// Refuses because `field`, such as `spec.network.poolRefs`, breaks `rule`, such as `required
    /// when spec.network.mode is ipam`.
    pub fn new(field: impl Into<String>, rule: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            rule: rule.into(),
        }
    }
}

impl std::fmt::Display for Denial {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.field, self.rule)
    }
}

/// Something the user should know although the request is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(String);

impl Warning {
    /// A warning in one short line; the API server cuts off more than 256 characters.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Allowed with warnings, or refused with all reasons.
pub type Verdict = Result<Vec<Warning>, Vec<Denial>>;

/// Decides from the request alone.
pub trait Validate<K>: Send + Sync + 'static {
    /// The operations that are reviewed.
    const OPERATIONS: &'static [Operation] = &[Operation::Create, Operation::Update];
    /// What becomes of a request if nobody answers.
    const UNANSWERED: Unanswered = Unanswered::Refused;

    /// Allows or refuses.
    fn validate(&self, review: &Review<'_, K>) -> Verdict;
}

/// Decides with what caches hold.
pub trait ValidateWithReads<K>: Send + Sync + 'static {
    /// The operations that are reviewed.
    const OPERATIONS: &'static [Operation] = &[Operation::Create, Operation::Update];
    /// What becomes of a request if nobody answers.
    const UNANSWERED: Unanswered = Unanswered::Refused;

    /// Allows or refuses. Read caches, not the API server: users wait for the answer.
    fn validate(&self, review: &Review<'_, K>) -> impl Future<Output = Verdict> + Send;
}

/// Fills in what a user may leave out.
pub trait Defaulting<K>: Send + Sync + 'static {
    /// Sets defaults. Doing it twice must change nothing.
    fn default(&self, object: &mut K);
}

/// What the HTTP server answers.
#[derive(Debug)]
pub(super) enum Answer {
    /// A decision.
    Decided(Value),
    /// The request is not an admission review.
    Malformed(String),
    /// The reviewer panicked.
    Panicked,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    api_version: String,
    kind: String,
    request: Request,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    operation: Operation,
    user_info: UserInfo,
    #[serde(default)]
    object: Option<Value>,
    #[serde(default)]
    old_object: Option<Value>,
    #[serde(default)]
    dry_run: bool,
}

impl Request {
    fn read(body: &[u8]) -> Result<Self, Answer> {
        let mut json = serde_json::Deserializer::from_slice(body);
        let envelope: Envelope = serde_path_to_error::deserialize(&mut json)
            .map_err(|error| Answer::Malformed(format!("not an admission review: {error}")))?;
        let Envelope {
            api_version,
            kind,
            request,
        } = envelope;
        if kind != KIND || api_version != API_VERSION {
            return Err(Answer::Malformed(format!(
                "expected {API_VERSION} {KIND}, got {api_version} {kind}"
            )));
        }
        Ok(request)
    }

    /// The object that the review is about.
    fn subject(&self) -> Result<&Value, Answer> {
        let subject = match self.operation {
            Operation::Create | Operation::Update => self.object.as_ref(),
            Operation::Delete => self.old_object.as_ref(),
        };
        let missing = || Answer::Malformed("the admission review holds no object".to_owned());
        subject.ok_or_else(missing)
    }

    fn answer(&self, mut response: Map<String, Value>) -> Answer {
        response.insert("uid".to_owned(), Value::from(self.uid.as_str()));
        let review = json!({"apiVersion": API_VERSION, "kind": KIND, "response": response});
        Answer::Decided(review)
    }

    fn allow(&self, warnings: &[Warning]) -> Answer {
        let mut response = Map::from_iter([("allowed".to_owned(), Value::Bool(true))]);
        if !warnings.is_empty() {
            let texts = warnings.iter().map(|Warning(text)| text.as_str()).collect();
            response.insert("warnings".to_owned(), texts);
        }
        self.answer(response)
    }

    fn refuse(&self, denials: &[Denial]) -> Answer {
        let causes = denials.iter().map(|denial| {
            json!({"reason": "FieldValueInvalid", "field": denial.field, "message": denial.rule})
        });
        let message = match denials {
            [] => "refused without a reason; this is a defect of the reviewer".to_owned(),
            _ => denials
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; "),
        };
        let status = json!({
            "status": "Failure",
            "reason": "Invalid",
            "code": 422,
            "message": message,
            "details": {"causes": causes.collect::<Vec<_>>()},
        });
        let allowed = ("allowed".to_owned(), Value::Bool(false));
        self.answer(Map::from_iter([allowed, ("status".to_owned(), status)]))
    }

    fn patch(&self, patch: &json_patch::Patch) -> Answer {
        let bytes = match serde_json::to_vec(patch) {
            Ok(bytes) => ByteString(bytes),
            Err(error) => return Answer::Malformed(format!("cannot write the patch: {error}")),
        };
        self.answer(Map::from_iter([
            ("allowed".to_owned(), Value::Bool(true)),
            ("patchType".to_owned(), Value::from("JSONPatch")),
            ("patch".to_owned(), json!(bytes)),
        ]))
    }
}

/// Answers a validating review.
pub(super) async fn validate<K, V>(reviewer: &V, body: &[u8], now: Timestamp) -> Answer
where
    K: DeserializeOwned + Send + Sync,
    V: ValidateWithReads<K>,
{
    let request = match Request::read(body) {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    let object: K = match request.subject().map(decode) {
        Ok(Ok(object)) => object,
        // A broken object must not be kept because it is broken.
        Ok(Err(denial)) if request.operation == Operation::Delete => {
            let warning = format!("deleted without a review, since it cannot be read: {denial}");
            return request.allow(&[Warning(warning)]);
        }
        Ok(Err(denial)) => return request.refuse(&[denial]),
        Err(answer) => return answer,
    };
    let old: Option<K> = match (&request.old_object, request.operation) {
        (Some(old), Operation::Update) => decode(old).ok(),
        _ => None,
    };
    let review = Review {
        operation: request.operation,
        object: &object,
        old: old.as_ref(),
        user: request.user_info.username.as_deref().unwrap_or_default(),
        groups: request.user_info.groups.as_deref().unwrap_or_default(),
        dry_run: request.dry_run,
        now,
    };
    match AssertUnwindSafe(reviewer.validate(&review))
        .catch_unwind()
        .await
    {
        Ok(Ok(warnings)) => request.allow(&warnings),
        Ok(Err(denials)) => request.refuse(&denials),
        Err(panic) => panicked(panic.as_ref()),
    }
}

/// Answers a defaulting review.
///
/// An object that cannot be read goes on unchanged: the API server checks it against the schema
/// right afterwards and names every field that is wrong.
pub(super) fn default<K, D>(defaulting: &D, body: &[u8]) -> Answer
where
    K: DeserializeOwned + Serialize,
    D: Defaulting<K>,
{
    let request = match Request::read(body) {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    let raw = match request.subject() {
        Ok(raw) => raw,
        Err(answer) => return answer,
    };
    let Ok(mut object) = decode::<K>(raw) else {
        return request.allow(&[]);
    };
    let before = serde_json::to_value(&object);
    let set = std::panic::catch_unwind(AssertUnwindSafe(|| defaulting.default(&mut object)));
    if let Err(panic) = set {
        return panicked(panic.as_ref());
    }
    let (Ok(before), Ok(after)) = (before, serde_json::to_value(&object)) else {
        return Answer::Malformed("the object cannot be written as JSON again".to_owned());
    };
    // Only what the defaulting changed goes into the patch: what our types do not know or spell
    // differently stays as the user wrote it.
    let mut defaulted = raw.clone();
    overlay(&mut defaulted, &before, &after);
    let patch = json_patch::diff(raw, &defaulted);
    if patch.0.is_empty() {
        request.allow(&[])
    } else {
        request.patch(&patch)
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Answer {
    tracing::error!(
        panic = panic_message(panic),
        "a reviewer panicked; this is a defect"
    );
    Answer::Panicked
}

fn decode<K: DeserializeOwned>(value: &Value) -> Result<K, Denial> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." {
            "the object".to_owned()
        } else {
            path
        };
        Denial::new(field, error.into_inner().to_string())
    })
}

/// Carries the change from `before` to `after` over to `target`.
fn overlay(target: &mut Value, before: &Value, after: &Value) {
    if before == after {
        return;
    }
    let (Value::Object(fields), Value::Object(old), Value::Object(new)) =
        (&mut *target, before, after)
    else {
        *target = after.clone();
        return;
    };
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        fields.remove(key);
    }
    for (key, value) in new {
        match old.get(key) {
            Some(previous) if previous == value => {}
            // A parent that our types spell out but the user left away is made.
            Some(previous) if previous.is_object() && value.is_object() => {
                let field = fields.entry(key.clone()).or_insert_with(|| json!({}));
                overlay(field, previous, value);
            }
            _ => {
                fields.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
#[path = "review_tests.rs"]
mod tests;
