//! Decides when a machine is asked for, what it shows, and when it may go.

use std::{borrow::Cow, collections::BTreeMap};

use butler_api::{
    butler::machine_request::MachinePhase,
    cluster_api::{
        butler_machine::{ButlerMachine, ButlerMachineStatus},
        contract::{InfrastructureInitialization, MachineAddress},
    },
    conditions::{reasons, types},
    provider_id,
    steward::kubernetes::NodeAddressType,
};
use butler_runtime::{
    conditions::{Answer, Conditions, Finding},
    object::{Kind, Manifest, ObjectKey},
    plan::{Next, Note, Plan},
};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::{
    Effect, World,
    observe::{MachineRequestFacts, MachineSight, ProviderSight, RequestSight, was_made},
    request::{failure_domain, machine_labels},
    wanted::{provider_missing, user_data_effect, user_data_obstacle, wanted},
};

/// The longest reason a condition may have.
const REASON_LENGTH: usize = 1024;

/// What a condition says, in the provider's word if it has one.
struct Word {
    answer: Answer,
    reason: Cow<'static, str>,
    message: String,
}

impl From<Finding> for Word {
    fn from(finding: Finding) -> Self {
        Self {
            answer: finding.answer,
            reason: Cow::Borrowed(finding.reason),
            message: finding.message,
        }
    }
}

impl Word {
    fn new(answer: impl Into<Answer>, reason: &'static str, message: impl Into<String>) -> Self {
        Finding::new(answer, reason, message).into()
    }
}

pub(super) fn plan(
    machine: &ButlerMachine,
    world: &World,
    now: Timestamp,
) -> Plan<ButlerMachineStatus, Effect> {
    let before = machine.status.clone().unwrap_or_default();
    let mut plan = Plan::status(ButlerMachineStatus {
        initialization: Some(InfrastructureInitialization {
            provisioned: Some(is_provisioned(&before)),
        }),
        observed_generation: None,
        conditions: Vec::new(),
        ..before.clone()
    });
    let ready = if machine.metadata.deletion_timestamp.is_some() {
        teardown(machine, world, &mut plan)
    } else {
        standing(machine, world, &mut plan)
    };
    if is_provisioned(&plan.status) {
        plan.status.ready = true;
    }
    if needs_somebody(&ready) {
        let note = Note::warning(ready.reason.clone(), &ready.message);
        plan.notes.push(note);
    }
    let mut conditions = Conditions::since(&before.conditions, machine.metadata.generation, now);
    if let Some(finding) = bootstrap_data_ready(machine, world) {
        conditions = conditions.tell(types::BOOTSTRAP_DATA_READY, finding);
    }
    conditions = if is_provisioned(&plan.status) {
        conditions.say(types::MACHINE_PROVISIONED, true, reasons::READY, "")
    } else {
        conditions.say(
            types::MACHINE_PROVISIONED,
            false,
            &ready.reason,
            &ready.message,
        )
    };
    plan.status.conditions = conditions
        .say(types::READY, ready.answer, &ready.reason, ready.message)
        .say(types::PAUSED, false, reasons::NOT_PAUSED, "")
        .finish();
    plan
}

fn is_provisioned(status: &ButlerMachineStatus) -> bool {
    let initialization = status.initialization.as_ref();
    initialization.and_then(|initialization| initialization.provisioned) == Some(true)
}

/// What a machine says that shall be there, and what it does for it.
fn standing(
    machine: &ButlerMachine,
    world: &World,
    plan: &mut Plan<ButlerMachineStatus, Effect>,
) -> Word {
    let key = ObjectKey::of(machine);
    match &world.request {
        RequestSight::Ours {
            uid,
            deleting,
            request,
        } => {
            if *deleting {
                let message = format!(
                    "the MachineRequest {key} is being deleted, and the machine with it; delete the Machine, so that another is made"
                );
                return Word::new(false, reasons::DELETING, message);
            }
            if let MachineSight::Found(owner) = &world.machine {
                let labels = differing(&machine_labels(machine, owner), &request.labels);
                if !labels.is_empty() {
                    let uid = uid.clone();
                    plan.effects.push(Effect::Relabel { uid, labels });
                }
            }
            // Somebody deleted it before the machine had read it.
            plan.effects.extend(user_data_effect(world));
            reported(machine, world, uid, request, plan)
        }
        RequestSight::Foreign { deleting: true } => {
            let message = format!("waiting until a former MachineRequest {key} is gone");
            Word::new(false, reasons::WAITING_FOR_DEPENDENCIES, message)
        }
        RequestSight::Foreign { deleting: false } => {
            let message = format!(
                "a MachineRequest {key} exists and is not this machine's; delete it, or this machine"
            );
            Word::new(false, reasons::NAME_TAKEN, message)
        }
        RequestSight::Absent if was_made(machine) => {
            let message = format!(
                "the MachineRequest {key} was deleted, and the machine with it; delete the Machine, so that another is made"
            );
            Word::new(false, reasons::MACHINE_GONE, message)
        }
        RequestSight::Absent => match wanted(machine, world) {
            Ok(effect) => {
                let message = match effect {
                    Effect::WriteUserData { .. } => "what the machine shall read first is written",
                    _ => "the machine is asked for",
                };
                plan.effects.push(effect);
                Word::new(false, reasons::CREATING, message)
            }
            Err(obstacle) => obstacle.into(),
        },
    }
}

/// What the provider's answer means.
fn reported(
    machine: &ButlerMachine,
    world: &World,
    uid: &str,
    request: &MachineRequestFacts,
    plan: &mut Plan<ButlerMachineStatus, Effect>,
) -> Word {
    match request.phase {
        None | Some(MachinePhase::Pending | MachinePhase::Creating) => making(request),
        Some(MachinePhase::Running) if request.addresses.is_empty() => {
            Word::new(false, reasons::CREATING, "the machine has no address yet")
        }
        Some(MachinePhase::Running) => running(machine, world, uid, request, plan),
        Some(MachinePhase::Failed) => failed(&ObjectKey::of(machine), request),
        Some(MachinePhase::Deleting | MachinePhase::Deleted) => {
            let message = with_words("the provider has removed the machine", request);
            Word::new(false, reasons::MACHINE_GONE, message)
        }
        Some(MachinePhase::Unknown) => {
            let message = with_words("the provider cannot be asked for the machine", request);
            Word::new(Answer::Unknown, reasons::PENDING, message)
        }
    }
}

/// The machine runs, and once it has its identity it is provisioned for good. Not in one pass: Cluster API must never see it
/// provisioned without an identity, even if the identity could not be written.
fn running(
    machine: &ButlerMachine,
    world: &World,
    uid: &str,
    request: &MachineRequestFacts,
    plan: &mut Plan<ButlerMachineStatus, Effect>,
) -> Word {
    if machine.spec.provider_id.is_none() {
        return match identity(machine, world, uid, request) {
            Ok(identity) => {
                plan.apply.push(identified(machine, &identity));
                making(request)
            }
            Err(obstacle) => obstacle.into(),
        };
    }
    let owner = match &world.machine {
        MachineSight::Found(owner) => Some(owner),
        MachineSight::Unset | MachineSight::Missing(_) => None,
    };
    let status = &mut plan.status;
    status.initialization = Some(InfrastructureInitialization {
        provisioned: Some(true),
    });
    status.addresses = addresses(machine, request);
    status.failure_domain = failure_domain(machine, owner).or_else(|| status.failure_domain.take());
    Word::new(true, reasons::READY, "")
}

/// How the machine's node will be recognised.
fn identity(
    machine: &ButlerMachine,
    world: &World,
    uid: &str,
    request: &MachineRequestFacts,
) -> Result<String, Finding> {
    let (provider, obstacle) = match &world.provider {
        ProviderSight::Found { provider, .. } => (Some(*provider), None),
        ProviderSight::Missing(key) => (None, Some(provider_missing(key))),
        ProviderSight::Unnamed => (None, None),
    };
    let identity = if machine.spec.shape.user_data_format.is_some() {
        // The machine was told who it is before its provider knew of it.
        let instance = machine.uid().unwrap_or_default();
        provider.map(|provider| provider_id::of_instance(provider, &instance))
    } else {
        provider_id::of_request(provider, request.provider_id.as_deref(), uid)
    };
    identity.ok_or_else(|| {
        obstacle.unwrap_or_else(|| {
            let message =
                "spec.providerRef: the ButlerCluster whose provider it comes from is not there";
            Finding::new(false, reasons::WAITING_FOR_DEPENDENCIES, message)
        })
    })
}

fn making(request: &MachineRequestFacts) -> Word {
    let message = with_words("the provider is making the machine", request);
    Word::new(false, reasons::CREATING, message)
}

/// A sentence of ours, and what the provider says beside it.
fn with_words(text: &str, request: &MachineRequestFacts) -> String {
    match &request.message {
        Some(message) => format!("{text}: {message}"),
        None => text.to_owned(),
    }
}

fn failed(key: &ObjectKey, request: &MachineRequestFacts) -> Word {
    let reason = request.failure_reason.clone();
    let reason = reason.filter(|reason| is_reason(reason));
    let message = request.message.clone();
    Word {
        answer: Answer::False,
        reason: reason.map_or(Cow::Borrowed(reasons::FAILED), Cow::Owned),
        message: message.unwrap_or_else(|| format!("the MachineRequest {key} failed")),
    }
}

/// Whether the API server takes a word for a condition's reason.
fn is_reason(word: &str) -> bool {
    let inner = |letter: char| letter.is_ascii_alphanumeric() || "_,:".contains(letter);
    word.len() <= REASON_LENGTH
        && word.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && word.ends_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_')
        && word.chars().all(inner)
}

/// The machine with the identity it has from now on, and nothing else.
fn identified(machine: &ButlerMachine, identity: &str) -> Manifest {
    let body = json!({
        "metadata": { "name": machine.name_any(), "namespace": machine.namespace() },
        "spec": { "providerID": identity },
    });
    Manifest::new(Kind::of::<ButlerMachine>(), body)
}

fn addresses(machine: &ButlerMachine, request: &MachineRequestFacts) -> Vec<MachineAddress> {
    let internal = request.addresses.iter().map(|address| MachineAddress {
        type_: NodeAddressType::InternalIP,
        address: address.clone(),
    });
    // The request names no other machine name, so the host has the name of both.
    let host = MachineAddress {
        type_: NodeAddressType::Hostname,
        address: machine.name_any(),
    };
    internal.chain([host]).collect()
}

/// The labels that must change, with what they become.
fn differing(
    wanted: &BTreeMap<String, String>,
    found: &BTreeMap<String, String>,
) -> BTreeMap<String, Option<String>> {
    let set = wanted
        .iter()
        .filter(|(key, value)| found.get(*key) != Some(*value))
        .map(|(key, value)| (key.clone(), Some(value.clone())));
    let unset = found.keys().filter(|key| !wanted.contains_key(*key));
    set.chain(unset.map(|key| (key.clone(), None))).collect()
}

/// A machine goes after its request, which goes after what it asked for.
fn teardown(
    machine: &ButlerMachine,
    world: &World,
    plan: &mut Plan<ButlerMachineStatus, Effect>,
) -> Word {
    let key = ObjectKey::of(machine);
    match &world.request {
        RequestSight::Absent | RequestSight::Foreign { .. } => {
            plan.next = Next::Done;
            Word::new(false, reasons::DELETING, "")
        }
        RequestSight::Ours {
            uid,
            deleting,
            request,
        } => {
            if !deleting {
                plan.effects.push(Effect::Remove { uid: uid.clone() });
            }
            let words = request.message.as_ref().filter(|_| *deleting);
            let words = words.map(|message| format!(": {message}"));
            let message = format!(
                "waiting until the MachineRequest {key} is gone{}",
                words.unwrap_or_default()
            );
            Word::new(false, reasons::DELETING, message)
        }
    }
}

fn bootstrap_data_ready(machine: &ButlerMachine, world: &World) -> Option<Finding> {
    let MachineSight::Found(owner) = &world.machine else {
        return None;
    };
    if let Some(obstacle) = user_data_obstacle(machine, world) {
        return Some(obstacle);
    }
    Some(match owner.bootstrap_data {
        Some(_) => Finding::new(true, reasons::READY, ""),
        None => Finding::new(
            false,
            reasons::WAITING_FOR_DEPENDENCIES,
            "waiting for the bootstrap data of its Machine",
        ),
    })
}

/// Whether somebody has to act, rather than wait.
fn needs_somebody(word: &Word) -> bool {
    let waits = [
        reasons::WAITING_FOR_DEPENDENCIES,
        reasons::CREATING,
        reasons::DELETING,
        reasons::PENDING,
    ];
    word.answer == Answer::False && !waits.contains(&word.reason.as_ref())
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
#[cfg(test)]
#[path = "plan_user_data_tests.rs"]
mod user_data_tests;
