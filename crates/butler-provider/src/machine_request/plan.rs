//! Decides what becomes of a request for a machine.

use butler_api::{
    butler::machine_request::{MachinePhase, MachineRequest, MachineRequestStatus},
    conditions::{reasons, types},
    normalize::machine_request::normalize,
};
use butler_runtime::{
    conditions::{Finding, holds},
    plan::{Next, Plan},
};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::{
    Effect, UserDataSight, World,
    case::{Case, Decision, SOON, blamed},
    identity,
    observe::Obstacle,
    reaches_elsewhere,
    status::{Identified, Words, compose, repeat},
};
use crate::{
    allocation::{self, Addresses},
    error::ProviderError,
    order::{MachineObservation, MachineState},
};

/// A provider that does not answer is asked so often before a running machine is called unknown.
const PATIENCE: u32 = 3;

pub(super) fn plan(
    request: &MachineRequest,
    world: &World,
    now: Timestamp,
) -> Plan<MachineRequestStatus, Effect> {
    let case = Case {
        request,
        before: request.status.clone().unwrap_or_default(),
        world,
        now,
    };
    let decision = if request.metadata.deletion_timestamp.is_some() {
        case.deletion()
    } else {
        case.life()
    };
    let notes = case.notes(&decision);
    let status = match &decision.words {
        None => repeat(request),
        Some(words) => compose(
            request,
            words,
            decision.address.as_ref(),
            decision.identified,
            now,
        ),
    };
    Plan {
        apply: decision.apply,
        effects: decision.effects,
        notes,
        next: decision.next,
        ..Plan::status(status)
    }
}

impl Case<'_> {
    fn life(&self) -> Decision {
        let known = Identified::before(&self.before);
        if let Err(errors) = normalize(&self.request.name_any(), &self.request.spec) {
            let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
            let words = Words::failed(reasons::VALIDATION_FAILED, errors.join("; "));
            return Decision::new(words, known, Next::AwaitChange);
        }
        if reaches_elsewhere(self.request) {
            let message = "spec.userDataSecretRef.namespace: user data must be in the namespace of the request; copy the Secret there";
            let words = Words::failed(reasons::VALIDATION_FAILED, message);
            return Decision::new(words, known, Next::AwaitChange);
        }
        match &self.world.machine {
            Ok(Some(machine)) => self.present(machine),
            Ok(None) => self.absent(),
            Err(Obstacle::Closed(error)) => {
                let words = if self.has_run() {
                    Words::unknown(error.reason, &error.message)
                } else if error.reason == reasons::PROVIDER_CONFIG_NOT_FOUND {
                    // Nobody knows whose this is: whoever it turns out to be must find nothing it cannot overwrite.
                    Words {
                        progressing: Finding::new(false, error.reason, &error.message),
                        ..Words::working(MachinePhase::Pending, error.reason, &error.message)
                    }
                } else {
                    blamed(error, MachinePhase::Pending)
                };
                Decision::new(words, known, Next::AwaitChange)
            }
            Err(Obstacle::Unreachable(unreachable)) => {
                let error = &unreachable.error;
                let next = Next::After(unreachable.wait());
                if holds(&self.before.conditions, types::READY) && unreachable.count < PATIENCE {
                    return Decision {
                        words: None,
                        ..Decision::new(Words::unknown(error.reason, ""), known, next)
                    };
                }
                let words = if self.has_run() {
                    Words::unknown(error.reason, &error.message)
                } else {
                    blamed(error, MachinePhase::Pending)
                };
                Decision::new(words, known, next)
            }
        }
    }

    /// The machine is there.
    fn present(&self, machine: &MachineObservation) -> Decision {
        let mut identified = Identified::of(machine);
        if machine.state != MachineState::Running && !self.has_run() {
            // An address in the status means that the machine has run.
            identified.addresses.clear();
        }
        let addresses = self.addresses(machine.addresses.first().copied());
        let creating = |reason, message: &str| {
            let words = Words::working(MachinePhase::Creating, reason, message);
            Decision::new(words, identified.clone(), self.growing())
        };
        let decision = match &machine.state {
            MachineState::Making => {
                creating(reasons::CREATING, "the provider is making the machine")
            }
            MachineState::Deleting if self.has_run() => {
                let words = Words::failed(
                    reasons::VM_DELETED,
                    "the machine is being deleted at the provider; delete this request and make a new one",
                );
                Decision::new(words, identified.clone(), self.at_rest())
            }
            MachineState::Deleting => creating(
                reasons::CREATING,
                "the machine is being deleted at the provider and will be made again",
            ),
            MachineState::Broken { message } => {
                let message = format!("{message}; delete this request and make a new one");
                let words = Words::failed(reasons::MACHINE_BROKEN, message);
                Decision::new(words, identified.clone(), self.at_rest())
            }
            MachineState::Halted => {
                let (reason, message) = if self.has_run() {
                    (reasons::STOPPED, "the machine does not run and is started")
                } else {
                    (reasons::CREATING, "the machine is made and is started")
                };
                let words = Words::working(MachinePhase::Creating, reason, message);
                let address = machine.addresses.first().copied();
                self.attempt(words, identified.clone(), |basis| Effect::Create {
                    address,
                    at: self.now,
                    basis,
                })
            }
            MachineState::Running => self.running(machine, identified.clone()),
        };
        decision.with_addresses(addresses)
    }

    fn running(&self, machine: &MachineObservation, identified: Identified) -> Decision {
        let untold = !machine.has_user_data && self.world.capabilities.user_data_later;
        let deliver = untold && self.world.user_data == UserDataSight::Present;
        let Some(address) = machine.addresses.first() else {
            let words = Words::working(
                MachinePhase::Creating,
                reasons::WAITING_FOR_IP,
                "the machine runs and has no address yet",
            );
            return Decision::new(words, identified, self.growing());
        };
        let progressing = match &self.world.user_data {
            _ if deliver => {
                let message = "the machine is given its user data";
                Finding::new(true, reasons::WAITING_FOR_USER_DATA, message)
            }
            UserDataSight::Missing(key) if untold => Finding::new(
                true,
                reasons::WAITING_FOR_USER_DATA,
                format!("the machine gets its user data when the Secret {key} exists"),
            ),
            _ => Finding::new(false, reasons::RUNNING, ""),
        };
        let words = Words {
            phase: MachinePhase::Running,
            ready: Finding::new(
                true,
                reasons::RUNNING,
                format!("the machine runs at {address}"),
            ),
            progressing,
            failed: false,
        };
        if deliver {
            return self.attempt(words, identified, |basis| Effect::DeliverUserData {
                at: self.now,
                basis,
            });
        }
        Decision::new(words, identified, self.at_rest())
    }

    /// There is no machine.
    fn absent(&self) -> Decision {
        let known = Identified::before(&self.before);
        let adopts = identity(self.request).adopts;
        if self.has_run() && (adopts.is_some() || !self.is_asked_for_again()) {
            let words = Words::failed(
                reasons::VM_DELETED,
                "the machine is gone: somebody deleted it at the provider; delete this request and make a new one, or change its spec to have the machine made again",
            );
            let kept = Decision::new(words, known, self.at_rest());
            let address = self.before.ip_address.as_deref();
            let address = address.and_then(|text| text.parse().ok());
            return kept.with_addresses(self.addresses(address));
        }
        let pending = |reason, message: String, next| {
            let words = Words::working(MachinePhase::Pending, reason, message);
            Decision::new(words, Identified::default(), next)
        };
        if let Some(id) = adopts {
            let message = format!("the machine {id} that is to be adopted is not at the provider");
            return pending(reasons::MACHINE_NOT_FOUND, message, self.growing());
        }
        let addresses = self.addresses(None);
        let decision = match (&self.world.user_data, &addresses) {
            (UserDataSight::Missing(key), _) if !self.world.capabilities.user_data_later => {
                let message = format!(
                    "spec.userDataSecretRef: the Secret {key} does not exist; the machine is made when it does"
                );
                pending(reasons::WAITING_FOR_USER_DATA, message, Next::AwaitChange)
            }
            (
                _,
                Some(Addresses {
                    address: None,
                    finding,
                    ..
                }),
            ) => {
                let words = if finding.reason == reasons::INVALID_CONFIGURATION {
                    Words::failed(finding.reason, &finding.message)
                } else {
                    Words::working(MachinePhase::Pending, finding.reason, &finding.message)
                };
                Decision::new(words, Identified::default(), Next::AwaitChange)
            }
            (_, addresses) => {
                let address = addresses.as_ref().and_then(|addresses| addresses.address);
                let words = Words::working(
                    MachinePhase::Creating,
                    reasons::CREATING,
                    "the provider is asked for the machine",
                );
                self.attempt(words, Identified::default(), |basis| Effect::Create {
                    address,
                    at: self.now,
                    basis,
                })
            }
        };
        decision.with_addresses(addresses)
    }

    fn deletion(&self) -> Decision {
        let known = Identified::before(&self.before);
        let deleting =
            |reason, message: String| Words::working(MachinePhase::Deleting, reason, message);
        let stuck = |error: &ProviderError, message: String| Words {
            progressing: Finding::new(false, error.reason, message.clone()),
            ..deleting(error.reason, message)
        };
        match &self.world.machine {
            Err(Obstacle::Closed(error)) => {
                let message = format!(
                    "the machine cannot be deleted: {}. If there is none any more, remove the finalizers of this request",
                    error.message
                );
                let words = stuck(error, message);
                Decision::new(words, known, Next::AwaitChange)
            }
            Err(Obstacle::Unreachable(unreachable)) => {
                let error = &unreachable.error;
                let words = stuck(error, error.message.clone());
                Decision::new(words, known, Next::After(unreachable.wait()))
            }
            Ok(Some(machine)) => {
                let words = deleting(reasons::DELETING, "the machine is being deleted".to_owned());
                let identified = Identified::of(machine);
                if machine.state == MachineState::Deleting {
                    return Decision::new(words, identified, self.growing());
                }
                self.attempt(words, identified, |basis| Effect::Delete {
                    at: self.now,
                    basis,
                    last: false,
                })
            }
            Ok(None) => self.gone(known),
        }
    }

    /// Nothing is seen of the machine: its address may go, and the finalizer after a last call, which also keeps one from
    /// being made that was asked for a moment ago.
    fn gone(&self, known: Identified) -> Decision {
        let mut effects = vec![Effect::Delete {
            at: self.now,
            basis: self.basis("delete"),
            last: true,
        }];
        let release = allocation::release_all(&self.world.allocations);
        effects.extend(release.into_iter().map(Effect::Release));
        let words = Words {
            progressing: Finding::new(false, reasons::DELETING, "the machine is gone"),
            ..Words::working(
                MachinePhase::Deleted,
                reasons::DELETING,
                "the machine is gone",
            )
        };
        let is_shown = self.before.phase == Some(MachinePhase::Deleted);
        let next = if self.request.finalizers().len() > 1 && !is_shown {
            // Others hold it: they can read that the machine is gone before we let go.
            Next::After(SOON)
        } else {
            Next::Done
        };
        Decision {
            effects,
            ..Decision::new(words, known, next)
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
