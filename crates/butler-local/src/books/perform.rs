//! Writes what was planned.

use std::sync::Arc;

use butler_api::{
    butler::ip_allocation::IPAllocation,
    keys::{annotations, finalizers},
};
use butler_runtime::{
    api_server::{ApiError, ApiServer, Cause, Part, Preconditions},
    conditions::whole_seconds,
    events::{self, Subject},
    object::{Kind, Manifest},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::plan::{Marking, Record, Release, Showing, Step};
use crate::{facts::ServiceFacts, ranges::MarkChange};

/// A write whose result a cache will show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// A Service, in this revision.
    Service(u64),
    /// An allocation, in this revision.
    Allocation(u64),
}

/// The two API servers, and the name we write under: field manager, and who reports events.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) cluster: Arc<dyn ApiServer>,
    pub(crate) management: Arc<dyn ApiServer>,
    pub(crate) manager: Arc<str>,
}

impl Desk {
    /// Performs a step that was planned for a Service; orphans have none, and nothing is planned for them that needs one.
    pub(crate) async fn perform(
        &self,
        step: &Step,
        service: Option<&ServiceFacts>,
        now: Timestamp,
    ) -> Result<Option<Written>, ApiError> {
        match (step, service) {
            (Step::Ask(allocation), _) => self.ask(allocation).await,
            (Step::Release(release), _) => self.release(release).await,
            (Step::Hold(held), Some(service)) => self.hold(service, held).await,
            (Step::Show(showing), Some(service)) => self.show(service, showing, now).await,
            (Step::Record(record), Some(service)) => self.record(service, record).await,
            (Step::Mark(marking), _) => self.mark(marking, now).await,
            (Step::Hold(_) | Step::Show(_) | Step::Record(_), None) => Ok(None),
        }
    }

    async fn ask(&self, allocation: &IPAllocation) -> Result<Option<Written>, ApiError> {
        let Manifest {
            kind, key, body, ..
        } = Manifest::of(allocation);
        match self.management.create(&kind, &key, body).await {
            Ok(made) => Ok(Some(Written::Allocation(revision(&made)))),
            // Its name says all that it says, so it is the same; the cache is about to show it.
            Err(error) if error.cause == Cause::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn hold(
        &self,
        service: &ServiceFacts,
        held: &[String],
    ) -> Result<Option<Written>, ApiError> {
        let patch = json!({ "metadata": {
            "uid": service.uid,
            "resourceVersion": service.version,
            "finalizers": held,
        } });
        self.write_on_service(service, patch).await
    }

    async fn record(
        &self,
        service: &ServiceFacts,
        record: &Record,
    ) -> Result<Option<Written>, ApiError> {
        let patch = json!({ "metadata": {
            "uid": service.uid,
            "resourceVersion": service.version,
            "finalizers": record.finalizers,
            "annotations": { annotations::LOAD_BALANCER_ASSIGNED: record.address },
        } });
        self.write_on_service(service, patch).await
    }

    async fn write_on_service(
        &self,
        service: &ServiceFacts,
        patch: Value,
    ) -> Result<Option<Written>, ApiError> {
        let kind = Kind::of::<Service>();
        match self.cluster.merge(&kind, &service.key, patch).await {
            Ok(written) => Ok(Some(Written::Service(revision(&written)))),
            Err(error) if error.cause == Cause::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Guarded: a range that somebody has deleted meanwhile is not marked any more.
    pub(crate) async fn mark(
        &self,
        marking: &Marking,
        now: Timestamp,
    ) -> Result<Option<Written>, ApiError> {
        let (user, unused_since) = match marking.change {
            MarkChange::Put => (Some(&*self.manager), None),
            MarkChange::TakeOff => (None, Some(whole_seconds(now).to_string())),
        };
        let patch = json!({ "metadata": {
            "uid": marking.uid,
            "resourceVersion": marking.version,
            "finalizers": marking.finalizers,
            "annotations": {
                annotations::ADDRESSES_USED_BY: user,
                annotations::ADDRESSES_UNUSED_SINCE: unused_since,
            },
        } });
        let kind = Kind::of::<IPAllocation>();
        match self.management.merge(&kind, &marking.key, patch).await {
            Ok(written) => Ok(Some(Written::Allocation(revision(&written)))),
            Err(error) if error.cause == Cause::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn show(
        &self,
        service: &ServiceFacts,
        showing: &Showing,
        now: Timestamp,
    ) -> Result<Option<Written>, ApiError> {
        let kind = Kind::of::<Service>();
        let mut status = json!({});
        if !showing.ingress.is_empty() {
            let ingress: Vec<_> = showing
                .ingress
                .iter()
                .map(|ip| json!({ "ip": ip }))
                .collect();
            status["loadBalancer"] = json!({ "ingress": ingress });
        }
        if !showing.conditions.is_empty() {
            status["conditions"] = json!(showing.conditions);
        }
        let body = json!({
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "metadata": {
                "name": service.key.name,
                "namespace": service.key.namespace,
                "uid": service.uid,
                "resourceVersion": service.version,
            },
            "status": status,
        });
        let written = self
            .cluster
            .apply(&kind, &service.key, Part::Status, &self.manager, body)
            .await?;
        if let Some(note) = &showing.note {
            let subject = Subject {
                kind: &kind,
                key: &service.key,
                uid: &service.uid,
            };
            events::publish(self.cluster.as_ref(), &self.manager, &subject, note, now).await;
        }
        Ok(Some(Written::Service(revision(&written))))
    }

    /// First deleted, then let go: an allocation that lives on without our mark would look like one in nobody's use.
    async fn release(&self, release: &Release) -> Result<Option<Written>, ApiError> {
        let kind = Kind::of::<IPAllocation>();
        let Release { key, uid } = release;
        let preconditions = Preconditions {
            uid: Some(uid.clone()),
            resource_version: None,
        };
        self.management.delete(&kind, key, preconditions).await?;
        let Some(body) = self.management.get(&kind, key).await? else {
            return Ok(None);
        };
        let held = body.pointer("/metadata/finalizers");
        let held: Vec<_> = held
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .collect();
        let others: Vec<_> = held
            .iter()
            .filter(|held| **held != finalizers::ADDRESSES_IN_USE)
            .collect();
        let is_another = body.pointer("/metadata/uid").and_then(Value::as_str) != Some(uid);
        if is_another || others.len() == held.len() {
            return Ok(None);
        }
        let patch = json!({ "metadata": {
            "uid": uid,
            "resourceVersion": body.pointer("/metadata/resourceVersion"),
            "finalizers": others,
        } });
        match self.management.merge(&kind, key, patch).await {
            Ok(written) => Ok(Some(Written::Allocation(revision(&written)))),
            Err(error) if error.cause == Cause::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Resource versions of one API server grow; an unreadable one is waited for by nobody.
fn revision(body: &Value) -> u64 {
    let version = body.pointer("/metadata/resourceVersion");
    let version = version.and_then(Value::as_str).unwrap_or_default();
    version.parse().unwrap_or(0)
}
