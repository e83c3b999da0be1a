//! What all decisions about a load balancer share: what was decided, how it is told, when to look again.

use std::{net::IpAddr, time::Duration};

use butler_api::{
    butler::{
        ip_allocation::AllocationType,
        load_balancer_request::{
            LoadBalancerPhase, LoadBalancerRequest, LoadBalancerRequestStatus,
        },
    },
    conditions::{reasons, types},
};
use butler_runtime::{
    conditions::{Answer, Conditions, Finding, holds, whole_seconds},
    object::{Kind, ObjectKey},
    plan::{Next, Note},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;

use super::{Effect, World};
use crate::{
    allocation::{self, Addresses, Claimant},
    attempts::Basis,
    error::ProviderError,
    order::LoadBalancerObservation,
    provider::AddressSource,
};

/// When to look for what was asked for a moment ago.
pub(super) const SOON: Duration = Duration::from_secs(1);
/// How rarely one that is being made is looked at.
const RARELY: Duration = Duration::from_mins(1);

/// What was decided, before it is told.
pub(super) struct Decision {
    pub(super) phase: LoadBalancerPhase,
    pub(super) ready: Finding,
    pub(super) progressing: Finding,
    pub(super) failed: bool,
    /// What was said before stands.
    pub(super) repeats: bool,
    pub(super) seen: Option<LoadBalancerObservation>,
    pub(super) effects: Vec<Effect>,
    pub(super) next: Next,
}

impl Decision {
    pub(super) fn working(
        phase: LoadBalancerPhase,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        let message = message.into();
        Self {
            phase,
            ready: Finding::new(false, reason, message.clone()),
            progressing: Finding::new(true, reason, message),
            failed: false,
            repeats: false,
            seen: None,
            effects: Vec::new(),
            next: Next::AwaitChange,
        }
    }

    pub(super) fn failed(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            progressing: Finding::new(false, reason, message.clone()),
            failed: true,
            ..Self::working(LoadBalancerPhase::Failed, reason, message)
        }
    }

    pub(super) fn blamed(error: &ProviderError, phase: LoadBalancerPhase) -> Self {
        if error.class.is_failure() && phase != LoadBalancerPhase::Deleting {
            Self::failed(error.reason, &error.message)
        } else {
            Self::working(phase, error.reason, &error.message)
        }
    }

    pub(super) fn then(self, next: Next) -> Self {
        Self { next, ..self }
    }
}

/// A request in its world at a time.
pub(super) struct Case<'a> {
    pub(super) request: &'a LoadBalancerRequest,
    pub(super) before: LoadBalancerRequestStatus,
    pub(super) world: &'a World,
    pub(super) now: Timestamp,
}

impl Case<'_> {
    pub(super) fn basis(&self, deed: &'static str) -> Basis {
        Basis {
            deed,
            generation: self.request.metadata.generation,
            configuration: self.world.configuration,
            secrets: self.world.secrets.clone(),
        }
    }

    pub(super) fn addresses(&self, has: Option<IpAddr>) -> Option<Addresses> {
        if self.world.capabilities.addresses == AddressSource::Infrastructure {
            return None;
        }
        let owner = ObjectKey::of(self.request);
        let uid = self.request.uid().unwrap_or_default();
        let claimant = Claimant {
            kind: Kind::of::<LoadBalancerRequest>(),
            owner: &owner,
            uid: &uid,
            purpose: AllocationType::Loadbalancer,
            tenant: None,
            namespace: self.world.namespace.as_deref(),
            pools: &self.world.pools,
        };
        let allocations = &self.world.allocations;
        Some(allocation::decide(&claimant, allocations, has))
    }

    pub(super) fn growing(&self) -> Next {
        let conditions = self.before.conditions.iter();
        let since = conditions
            .filter(|condition| condition.status == Answer::True.as_str())
            .find(|condition| condition.type_ == types::PROGRESSING)
            .map_or(self.now, |condition| condition.last_transition_time.0);
        let elapsed = self.now.duration_since(since).max(SignedDuration::ZERO);
        Next::After((elapsed.unsigned_abs() / 4).clamp(SOON, RARELY))
    }

    pub(super) fn notes(&self, decision: &Decision) -> Vec<Note> {
        let mut notes = Vec::new();
        if decision.repeats {
            return notes;
        }
        let known = self.before.resource_id.is_some();
        if let Some(seen) = decision.seen.as_ref().filter(|_| !known) {
            let message = format!("the load balancer is made: {}", seen.resource_id);
            notes.push(Note::normal(reasons::CREATED, message));
        }
        let was_ready = holds(&self.before.conditions, types::READY);
        let quiet = [
            reasons::CREATING,
            reasons::DELETING,
            reasons::AWAITING_GRANT,
            reasons::SYNCING_TARGETS,
            reasons::READY,
        ];
        if decision.ready.answer == Answer::True && !was_ready {
            notes.push(Note::normal(reasons::READY, &decision.ready.message));
        }
        for finding in [&decision.ready, &decision.progressing] {
            let is_new = notes.iter().all(|note| note.message != finding.message);
            if finding.answer != Answer::True && !quiet.contains(&finding.reason) && is_new {
                notes.push(Note::warning(finding.reason, &finding.message));
            }
        }
        notes
    }

    pub(super) fn status(
        &self,
        decision: Decision,
        address: Option<Finding>,
    ) -> LoadBalancerRequestStatus {
        let before = &self.before;
        let generation = self.request.metadata.generation;
        if decision.repeats {
            let mut status = comparable(before);
            for condition in &mut status.conditions {
                condition.observed_generation = generation;
            }
            return status;
        }
        let mut conditions = Conditions::since(&before.conditions, generation, self.now)
            .tell(types::READY, decision.ready.clone())
            .tell(types::PROGRESSING, decision.progressing);
        if let Some(address) = address {
            conditions = conditions.tell(types::ADDRESS_ALLOCATED, address);
        }
        let (endpoint, resource_id, registered_targets) = match decision.seen {
            Some(seen) => (
                seen.endpoint,
                Some(seen.resource_id),
                Some(i32::try_from(seen.registered_targets).unwrap_or(i32::MAX)),
            ),
            None if self.world.load_balancer.is_err() => (
                before.endpoint.clone(),
                before.resource_id.clone(),
                before.registered_targets,
            ),
            None => (None, None, None),
        };
        let failed = decision.failed;
        let mut status = LoadBalancerRequestStatus {
            phase: Some(decision.phase),
            endpoint,
            resource_id,
            registered_targets,
            failure_reason: failed.then(|| decision.ready.reason.to_owned()),
            failure_message: failed.then(|| decision.ready.message.clone()),
            conditions: conditions.finish(),
            last_updated: before.last_updated.clone(),
            observed_generation: None,
        };
        if comparable(&status) != comparable(before) || before.last_updated.is_none() {
            status.last_updated = Some(Time(whole_seconds(self.now)));
        }
        status
    }
}

/// The API server may keep conditions in another order than they were told in.
fn comparable(status: &LoadBalancerRequestStatus) -> LoadBalancerRequestStatus {
    let ours = |condition: &Condition| {
        [types::READY, types::PROGRESSING, types::ADDRESS_ALLOCATED]
            .contains(&condition.type_.as_str())
    };
    let mut conditions = status.conditions.clone();
    conditions.retain(ours);
    conditions.sort_by(|one, other| one.type_.cmp(&other.type_));
    LoadBalancerRequestStatus {
        conditions,
        observed_generation: None,
        ..status.clone()
    }
}
