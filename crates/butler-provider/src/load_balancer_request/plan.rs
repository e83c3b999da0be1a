//! Decides what becomes of a request for a load balancer.

use std::net::IpAddr;

use butler_api::{
    butler::load_balancer_request::{
        LoadBalancerPhase, LoadBalancerRequest, LoadBalancerRequestStatus,
    },
    conditions::{reasons, types},
};
use butler_runtime::{
    conditions::{Answer, Finding, holds},
    plan::{Next, Plan},
};
use jiff::Timestamp;

use super::{
    Effect, World,
    case::{Case, Decision, SOON},
    observe::Obstacle,
    order,
};
use crate::{
    allocation::{self, Addresses},
    error::ProviderError,
    order::LoadBalancerObservation,
};

/// A provider that does not answer is asked so often before a ready load balancer is called unknown.
const PATIENCE: u32 = 3;

pub(super) fn plan(
    request: &LoadBalancerRequest,
    world: &World,
    now: Timestamp,
) -> Plan<LoadBalancerRequestStatus, Effect> {
    let case = Case {
        request,
        before: request.status.clone().unwrap_or_default(),
        world,
        now,
    };
    let deleting = request.metadata.deletion_timestamp.is_some();
    let (decision, addresses) = if deleting {
        (case.deletion(), None)
    } else {
        case.life()
    };
    let notes = case.notes(&decision);
    let (mut effects, next) = (decision.effects.clone(), decision.next);
    let finding = addresses
        .as_ref()
        .map(|addresses| addresses.finding.clone());
    let status = case.status(decision, finding);
    let mut apply = Vec::new();
    if let Some(addresses) = addresses {
        apply = addresses.apply;
        effects.extend(addresses.release.into_iter().map(Effect::Release));
    }
    Plan {
        apply,
        effects,
        notes,
        next,
        ..Plan::status(status)
    }
}

impl Case<'_> {
    fn life(&self) -> (Decision, Option<Addresses>) {
        if order(self.request, None).is_none() {
            let message = "spec.port and spec.healthCheckPort must be from 1 to 65535";
            return (Decision::failed(reasons::VALIDATION_FAILED, message), None);
        }
        let seen = match &self.world.load_balancer {
            Err(Obstacle::Closed(error)) => return (self.closed(error), None),
            Err(Obstacle::Unreachable(unreachable)) => {
                let error = &unreachable.error;
                let known = self.before.endpoint.is_some();
                let mut decision = Decision::blamed(error, LoadBalancerPhase::Creating);
                if known {
                    decision = self.unsure(error);
                    decision.repeats = unreachable.count < PATIENCE
                        && holds(&self.before.conditions, types::READY);
                }
                return (decision.then(Next::After(unreachable.wait())), None);
            }
            Ok(seen) => seen,
        };
        if !self.world.capabilities.load_balancers {
            let message =
                "this provider has no load balancers; give the cluster an address of its own";
            return (Decision::failed(reasons::UNSUPPORTED, message), None);
        }
        let has = seen.as_ref().and_then(|seen| seen.endpoint.as_deref());
        let addresses = self.addresses(has.and_then(|endpoint| endpoint.parse().ok()));
        let decision = match (seen, &addresses) {
            (Some(seen), _) => self.present(seen, has_address(addresses.as_ref())),
            (
                None,
                Some(Addresses {
                    address: None,
                    finding,
                    ..
                }),
            ) => {
                if finding.reason == reasons::INVALID_CONFIGURATION {
                    Decision::failed(finding.reason, &finding.message)
                } else {
                    let pending = LoadBalancerPhase::Pending;
                    Decision::working(pending, finding.reason, &finding.message)
                }
            }
            (None, addresses) => {
                let making = Decision::working(
                    LoadBalancerPhase::Creating,
                    reasons::CREATING,
                    "the provider is asked for the load balancer",
                );
                self.ensure(making, has_address(addresses.as_ref()))
            }
        };
        (decision, addresses)
    }

    fn closed(&self, error: &ProviderError) -> Decision {
        if self.before.endpoint.is_some() {
            return self.unsure(error);
        }
        let mut decision = Decision::blamed(error, LoadBalancerPhase::Pending);
        if error.reason == reasons::PROVIDER_CONFIG_NOT_FOUND {
            // Nobody knows whose this is: whoever it turns out to be must find nothing it cannot overwrite.
            decision.phase = LoadBalancerPhase::Pending;
            decision.failed = false;
        }
        decision
    }

    /// It was there, and cannot be asked about now.
    fn unsure(&self, error: &ProviderError) -> Decision {
        let mut decision = Decision::working(
            self.before.phase.unwrap_or(LoadBalancerPhase::Creating),
            error.reason,
            &error.message,
        );
        decision.ready.answer = Answer::Unknown;
        decision.progressing.answer = Answer::False;
        decision
    }

    fn present(&self, seen: &LoadBalancerObservation, address: Option<IpAddr>) -> Decision {
        let Some(endpoint) = &seen.endpoint else {
            let mut decision = Decision::working(
                LoadBalancerPhase::Creating,
                reasons::CREATING,
                "the provider is making the load balancer",
            );
            decision.seen = Some(seen.clone());
            if seen.in_step {
                return decision.then(self.growing());
            }
            return self.ensure(decision, address);
        };
        let mut decision = Decision {
            ready: Finding::new(true, reasons::READY, format!("it answers at {endpoint}")),
            progressing: Finding::new(false, reasons::READY, ""),
            seen: Some(seen.clone()),
            next: Next::After(self.world.capabilities.look_every),
            ..Decision::working(LoadBalancerPhase::Ready, reasons::READY, "")
        };
        if seen.in_step {
            return decision;
        }
        decision.progressing = Finding::new(
            true,
            reasons::SYNCING_TARGETS,
            "the targets are being brought in step",
        );
        self.ensure(decision, address)
    }

    /// It is to be made or brought in step, unless that was tried a moment ago.
    fn ensure(&self, mut decision: Decision, address: Option<IpAddr>) -> Decision {
        let basis = self.basis("ensure");
        let last = self.world.attempt.as_ref();
        let last = last.filter(|attempt| attempt.basis == basis);
        if let Some(error) = last.and_then(|attempt| attempt.error.as_ref()) {
            let seen = decision.seen.take();
            if decision.ready.answer == Answer::True {
                // It serves as it is; that it is not as asked is another matter.
                decision.progressing = Finding::new(true, error.reason, &error.message);
            } else {
                decision = Decision::blamed(error, decision.phase);
            }
            decision.seen = seen;
        }
        if let Some(wait) = last.and_then(|attempt| attempt.wait(&basis, self.now)) {
            return decision.then(Next::After(wait));
        }
        decision.repeats = self.stands(&decision);
        decision.effects.push(Effect::Ensure {
            address,
            at: self.now,
            basis,
        });
        decision.then(Next::After(SOON))
    }

    /// A process that was just started knows nothing of what failed; what was said stands until it was tried again.
    fn stands(&self, decision: &Decision) -> bool {
        let seen = decision.seen.as_ref().map(|seen| &seen.resource_id);
        self.world.attempt.is_none()
            && self.before.observed_generation == self.request.metadata.generation
            && self.before.resource_id.as_ref() == seen
            && self.before.phase.is_some_and(|phase| {
                let failed = phase == LoadBalancerPhase::Failed;
                phase == decision.phase || (failed && decision.phase == LoadBalancerPhase::Creating)
            })
    }

    fn deletion(&self) -> Decision {
        let deleting = LoadBalancerPhase::Deleting;
        match &self.world.load_balancer {
            Err(Obstacle::Closed(error)) => {
                let message = format!(
                    "the load balancer cannot be deleted: {}. If there is none any more, remove the finalizers of this request",
                    error.message
                );
                let mut decision = Decision::working(deleting, error.reason, message);
                decision.progressing.answer = Answer::False;
                decision
            }
            Err(Obstacle::Unreachable(unreachable)) => {
                let decision = Decision::blamed(&unreachable.error, deleting);
                decision.then(Next::After(unreachable.wait()))
            }
            Ok(seen) => {
                let basis = self.basis("delete");
                let last = self.world.attempt.as_ref();
                let last = last.filter(|attempt| attempt.basis == basis);
                let blamed = last.and_then(|attempt| attempt.error.as_ref());
                let message = "the load balancer is being deleted";
                let mut decision = blamed.map_or_else(
                    || Decision::working(deleting, reasons::DELETING, message),
                    |error| Decision::blamed(error, deleting),
                );
                decision.seen.clone_from(seen);
                let gone = seen.is_none();
                let wait = last.and_then(|attempt| attempt.wait(&basis, self.now));
                if let Some(wait) = wait.filter(|_| !gone) {
                    return decision.then(Next::After(wait));
                }
                decision.effects.push(Effect::Delete {
                    at: self.now,
                    basis,
                    last: gone,
                });
                if !gone {
                    return decision.then(Next::After(SOON));
                }
                let release = allocation::release_all(&self.world.allocations);
                let release = release.into_iter().map(Effect::Release);
                decision.effects.extend(release);
                decision.then(Next::Done)
            }
        }
    }
}

fn has_address(addresses: Option<&Addresses>) -> Option<IpAddr> {
    addresses.and_then(|addresses| addresses.address)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
