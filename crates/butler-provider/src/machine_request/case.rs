//! What all decisions about a machine share: what was decided, what stands in the status, when to look again.

use std::{net::IpAddr, time::Duration};

use butler_api::{
    butler::{
        ip_allocation::AllocationType,
        machine_request::{MachinePhase, MachineRequest, MachineRequestStatus},
    },
    conditions::{reasons, types},
    keys::labels,
    name::{ClusterName, NamespaceName},
};
use butler_runtime::{
    conditions::{Answer, Finding, holds},
    object::{Kind, Manifest, ObjectKey},
    plan::{Next, Note},
};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::{
    Effect, World, identity,
    status::{Identified, Words},
};
use crate::{
    allocation::{self, Addresses, Claimant},
    attempts::Basis,
    error::ProviderError,
    provider::AddressSource,
};

/// When to look for what was asked for a moment ago.
pub(super) const SOON: Duration = Duration::from_secs(1);
/// How rarely a machine that is being made is looked at.
const RARELY: Duration = Duration::from_mins(1);

/// What was decided, before it is told.
pub(super) struct Decision {
    /// `None`: what was said before stands.
    pub(super) words: Option<Words>,
    pub(super) identified: Identified,
    pub(super) address: Option<Finding>,
    pub(super) apply: Vec<Manifest>,
    pub(super) effects: Vec<Effect>,
    pub(super) next: Next,
}

impl Decision {
    pub(super) fn new(words: Words, identified: Identified, next: Next) -> Self {
        Self {
            words: Some(words),
            identified,
            address: None,
            apply: Vec::new(),
            effects: Vec::new(),
            next,
        }
    }

    pub(super) fn with_addresses(mut self, addresses: Option<Addresses>) -> Self {
        let Some(addresses) = addresses else {
            return self;
        };
        self.apply = addresses.apply;
        let release = addresses.release.into_iter().map(Effect::Release);
        self.effects.extend(release);
        self.address = Some(addresses.finding);
        self
    }
}

/// A request in its world at a time.
pub(super) struct Case<'a> {
    pub(super) request: &'a MachineRequest,
    pub(super) before: MachineRequestStatus,
    pub(super) world: &'a World,
    pub(super) now: Timestamp,
}

impl Case<'_> {
    /// Something is to be done at the provider, unless it was tried a moment ago.
    pub(super) fn attempt(
        &self,
        words: Words,
        identified: Identified,
        effect: impl FnOnce(Basis) -> Effect,
    ) -> Decision {
        let deed = match words.phase {
            MachinePhase::Deleting => "delete",
            _ => "make",
        };
        let basis = self.basis(deed);
        let attempt = self.world.attempt.as_ref();
        let last = attempt.filter(|attempt| attempt.basis == basis);
        let error = last.and_then(|attempt| attempt.error.as_ref());
        let phase = words.phase;
        let words = match error {
            // It runs as it is; that it is not told what to do yet is another matter.
            Some(error) if phase == MachinePhase::Running && !error.class.is_failure() => Words {
                progressing: Finding::new(true, error.reason, &error.message),
                ..words
            },
            Some(error) => blamed(error, phase),
            None => words,
        };
        if let Some(wait) = last.and_then(|attempt| attempt.wait(&basis, self.now)) {
            return Decision::new(words, identified, Next::After(wait));
        }
        let mut decision = Decision::new(words, identified, Next::After(SOON));
        // A process that was just started knows nothing of what failed; what was said stands until it was tried again.
        let said = self.before.observed_generation == self.request.metadata.generation
            && matches!(
                self.before.phase,
                Some(MachinePhase::Creating | MachinePhase::Failed | MachinePhase::Deleting)
            );
        let is_new = self.before.provider_id != decision.identified.provider_id;
        if attempt.is_none() && said && !is_new && self.before.phase.is_some() {
            decision.words = None;
        }
        decision.effects.push(effect(basis));
        decision
    }

    /// Whether the machine has run: its status named an address.
    pub(super) fn has_run(&self) -> bool {
        self.before.ip_address.is_some()
    }

    /// Whether the spec was changed after the loss of the machine was told.
    pub(super) fn is_asked_for_again(&self) -> bool {
        self.before.failure_reason.as_deref() == Some(reasons::VM_DELETED)
            && self.before.observed_generation != self.request.metadata.generation
    }

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
        let tenant = tenant(self.request);
        let claimant = Claimant {
            kind: Kind::of::<MachineRequest>(),
            owner: &owner,
            uid: &uid,
            purpose: AllocationType::Nodes,
            tenant: tenant.as_ref(),
            namespace: self.world.namespace.as_deref(),
            pools: &self.world.pools,
        };
        let allocations = &self.world.allocations;
        Some(allocation::decide(&claimant, allocations, has))
    }

    pub(super) fn at_rest(&self) -> Next {
        Next::After(self.world.capabilities.look_every)
    }

    /// The longer something goes on, the more rarely it is looked at.
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
        let Some(words) = &decision.words else {
            return notes;
        };
        let name = identity(self.request).machine_name;
        if let Some(id) = &decision.identified.provider_id
            && self.before.provider_id.is_none()
        {
            let adopts = identity(self.request).adopts.is_some();
            notes.push(if adopts {
                Note::normal(reasons::ADOPTED, format!("machine {name} is {id}"))
            } else {
                Note::normal(reasons::CREATED, format!("machine {name} is made: {id}"))
            });
        }
        let ready = &words.ready;
        match ready.answer {
            Answer::True => {
                if !holds(&self.before.conditions, types::READY) {
                    notes.push(Note::normal(reasons::READY, &ready.message));
                }
            }
            Answer::Unknown => notes.push(Note::warning(ready.reason, &ready.message)),
            Answer::False => {
                let waits = [
                    reasons::CREATING,
                    reasons::DELETING,
                    reasons::WAITING_FOR_IP,
                    reasons::WAITING_FOR_USER_DATA,
                    reasons::AWAITING_GRANT,
                ];
                if !waits.contains(&ready.reason) {
                    notes.push(Note::warning(ready.reason, &ready.message));
                }
            }
        }
        notes
    }
}

/// The tenant cluster that a machine is of, as the labels of the machine say. They may be anything; labels of objects may not.
fn tenant(request: &MachineRequest) -> Option<ObjectKey> {
    let said = |label: &str| request.spec.labels.get(label);
    let (namespace, name) = said(labels::SOURCE_NAMESPACE).zip(said(labels::TENANT))?;
    let namespace: NamespaceName = namespace.parse().ok()?;
    let name: ClusterName = name.parse().ok()?;
    Some(ObjectKey::namespaced(namespace, name))
}

/// What is told of an error: whether somebody has to act, or it goes on by itself.
pub(super) fn blamed(error: &ProviderError, phase: MachinePhase) -> Words {
    if error.class.is_failure() && phase != MachinePhase::Deleting {
        Words::failed(error.reason, &error.message)
    } else {
        Words::working(phase, error.reason, &error.message)
    }
}
