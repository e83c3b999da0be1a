//! Publishes notes as events, each once.
//!
//! A note is part of a plan and so is planned again in every pass; it becomes an event when it is new to this process and the
//! pass changed something. A fleet at rest publishes nothing, also after a restart. The event's name is derived from its
//! content, so two publishers of the same note meet in one object whose count grows.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    api_server::{ApiError, ApiServer, Cause},
    object::{Kind, ObjectKey},
    plan::{Note, Severity},
};

/// Events about cluster-scoped objects live here, as Kubernetes' own do.
const CLUSTER_SCOPED_EVENTS: &str = "default";
/// The API server refuses a longer note.
const LONGEST_NOTE: usize = 1024;

/// What an event is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its kind.
    pub kind: &'a Kind,
    /// Its key.
    pub key: &'a ObjectKey,
    /// Its UID.
    pub uid: &'a str,
}

/// Notes that were published for an object.
#[derive(Debug, Default)]
pub(crate) struct Published(BTreeSet<Note>);

impl Published {
    /// The notes to publish now. Notes no longer planned are forgotten, so that they can be told again when they come back.
    pub(crate) fn fresh(&mut self, planned: &[Note]) -> Vec<Note> {
        let planned: BTreeSet<_> = planned.iter().cloned().collect();
        let fresh = planned.difference(&self.0).cloned().collect();
        self.0 = planned;
        fresh
    }
}

/// Publishes a note under the name of a controller. A failure is logged and else ignored: events are for convenience, conditions for keeps.
pub async fn publish(
    api: &dyn ApiServer,
    controller: &str,
    subject: &Subject<'_>,
    note: &Note,
    now: Timestamp,
) {
    let kind = Kind::of::<Event>();
    let namespace = subject
        .key
        .namespace
        .as_deref()
        .unwrap_or(CLUSTER_SCOPED_EVENTS);
    let key = ObjectKey::namespaced(namespace, event_name(controller, subject, note));
    let outcome = match api
        .create(&kind, &key, event(controller, subject, note, &key, now))
        .await
    {
        Err(error) if error.cause == Cause::AlreadyExists => {
            count_again(api, &kind, &key, now).await
        }
        other => other.map(drop),
    };
    if let Err(error) = outcome {
        tracing::warn!(%error, reason = note.reason, "could not publish an event");
    }
}

async fn count_again(
    api: &dyn ApiServer,
    kind: &Kind,
    key: &ObjectKey,
    now: Timestamp,
) -> Result<(), ApiError> {
    let known = api.get(kind, key).await?;
    let count = known
        .and_then(|event| event.pointer("/series/count").and_then(Value::as_i64))
        .unwrap_or(1);
    let series = json!({ "series": { "count": count + 1, "lastObservedTime": micro_time(now) } });
    api.merge(kind, key, series).await.map(drop)
}

fn event_name(controller: &str, subject: &Subject<'_>, note: &Note) -> String {
    let mut hasher = Sha256::new();
    for part in [controller, subject.uid, &note.reason, &note.message] {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    let digest = hasher
        .finalize()
        .iter()
        .take(8)
        .fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    format!("{}.{digest:016x}", subject.key.name)
}

fn event(
    controller: &str,
    subject: &Subject<'_>,
    note: &Note,
    key: &ObjectKey,
    now: Timestamp,
) -> Value {
    let text: String = note.message.chars().take(LONGEST_NOTE).collect();
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": { "name": key.name, "namespace": key.namespace },
        "eventTime": micro_time(now),
        "reportingController": controller,
        "reportingInstance": controller,
        "action": "Reconcile",
        "reason": note.reason,
        "type": match note.severity { Severity::Normal => "Normal", Severity::Warning => "Warning" },
        "note": text,
        "regarding": {
            "apiVersion": subject.kind.api_version(),
            "kind": subject.kind.kind,
            "name": subject.key.name,
            "namespace": subject.key.namespace,
            "uid": subject.uid,
        },
    })
}

fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_fresh_once_and_again_after_it_went_away() {
        let mut published = Published::default();
        let notes = [Note::warning("Broken", "it is broken")];
        assert_eq!(published.fresh(&notes), notes);
        assert_eq!(published.fresh(&notes), []);
        assert_eq!(published.fresh(&[]), []);
        assert_eq!(published.fresh(&notes), notes);
    }
}
