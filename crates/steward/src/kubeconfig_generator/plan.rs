//! Which kubeconfigs are to be made, made anew or removed. Pure.

use butler_api::{
    conditions::{reasons, types},
    steward::kubeconfig_generator::{
        GenerationError, KubeconfigGenerator, KubeconfigGeneratorStatus,
    },
};
use butler_runtime::{
    conditions::{Conditions, Finding},
    plan::{Next, Plan},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::{
    Effect,
    observe::{Target, World},
    ownership,
};
use crate::secrets::{Borrower, Content, Guard, KeptSecret, Loan, Pair, Seen, check_loan};

/// How often a Secret that is somebody else's is looked at again: without our label, nothing tells when it goes.
const TAKEN_PERIOD: SignedDuration = SignedDuration::from_mins(15);

/// What becomes of one kubeconfig.
enum Judgement {
    /// It stays.
    Good(Loan),
    /// It is made anew in good time.
    Renew(Loan, Effect),
    /// It is made, or made anew because it is of no use.
    Make(Effect),
    /// It cannot be made.
    Impossible(String),
    /// Its Secret is not the generator's.
    Taken(String),
}

pub(super) fn plan(
    generator: &KubeconfigGenerator,
    world: &World,
    now: Timestamp,
) -> Plan<KubeconfigGeneratorStatus, Effect> {
    let name = generator.name_any();
    let before = generator.status.clone().unwrap_or_default();
    if generator.metadata.deletion_timestamp.is_some() {
        let targets = world.targets.iter().flatten();
        let found = targets.filter_map(|target| target.secret.as_ref());
        let made = found.filter(|seen| ownership::made_for(seen, &name).is_some());
        let effects: Vec<_> = made.chain(&world.leftovers).map(remove).collect();
        return Plan {
            effects,
            next: Next::Done,
            ..Plan::status(before)
        };
    }
    let mut status = KubeconfigGeneratorStatus::default();
    let mut effects: Vec<_> = world.leftovers.iter().map(remove).collect();
    let mut look = None;
    let ready = match &world.targets {
        // What cannot be read selects nothing, and takes nothing away.
        Err(problem) => {
            effects.clear();
            Finding::new(false, reasons::VALIDATION_FAILED, problem.clone())
        }
        Ok(targets) => {
            let mut taken = false;
            for target in targets {
                let judgement = judge(target, &name, now);
                look = earlier(look, again(&judgement, now));
                taken |= matches!(judgement, Judgement::Taken(_));
                count(&mut status, target, &judgement);
                if let Judgement::Renew(_, effect) | Judgement::Make(effect) = judgement {
                    effects.push(effect);
                }
            }
            summary(&status, taken)
        }
    };
    status.conditions = Conditions::since(&before.conditions, generator.metadata.generation, now)
        .tell(types::READY, ready)
        .finish();
    let next = look.map_or(Next::AwaitChange, |look| {
        let wait = look.duration_since(now).max(SignedDuration::from_secs(1));
        wait.try_into().map_or(Next::AwaitChange, Next::After)
    });
    Plan {
        effects,
        next,
        ..Plan::status(status)
    }
}

fn remove(seen: &Seen) -> Effect {
    Effect::Remove {
        key: seen.facts.key.clone(),
        uid: seen.facts.uid.clone(),
        resource_version: seen.facts.resource_version.clone(),
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

/// When to look again although nothing tells us to.
fn again(judgement: &Judgement, now: Timestamp) -> Option<Timestamp> {
    match judgement {
        Judgement::Good(loan) => Some(loan.renewal),
        Judgement::Taken(_) => now.checked_add(TAKEN_PERIOD).ok(),
        // What is made now is seen when it is there, and what it waits for is watched.
        Judgement::Renew(..) | Judgement::Make(_) | Judgement::Impossible(_) => None,
    }
}

fn count(status: &mut KubeconfigGeneratorStatus, target: &Target, judgement: &Judgement) {
    status.resources += 1;
    match judgement {
        Judgement::Good(loan) | Judgement::Renew(loan, _) => {
            status.available_resources += 1;
            let before = status.earliest_expiration.take().map(|Time(time)| time);
            status.earliest_expiration = earlier(before, Some(loan.end)).map(Time);
        }
        Judgement::Make(_) => {}
        Judgement::Impossible(message) | Judgement::Taken(message) => {
            status.errors.push(GenerationError {
                resource: target.control_plane.to_string(),
                message: message.clone(),
            });
        }
    }
}

fn summary(status: &KubeconfigGeneratorStatus, taken: bool) -> Finding {
    if status.available_resources == status.resources {
        return Finding::new(
            true,
            reasons::READY,
            "every selected control plane has its kubeconfig",
        );
    }
    let message = format!(
        "{} of {} control planes have their kubeconfig",
        status.available_resources, status.resources
    );
    let reason = if taken {
        reasons::NAME_TAKEN
    } else if status.errors.is_empty() {
        reasons::CREATING
    } else {
        reasons::WAITING_FOR_DEPENDENCIES
    };
    Finding::new(false, reason, message)
}

fn judge(target: &Target, generator: &str, now: Timestamp) -> Judgement {
    if let Some(message) = ownership::taken(target, generator) {
        return Judgement::Taken(message);
    }
    let (borrower, authority) = match (&target.borrower, &target.authority) {
        (Ok(borrower), Ok(authority)) => (borrower, authority),
        (Err(problem), _) | (_, Err(problem)) => return Judgement::Impossible(problem.clone()),
    };
    let make = |reason| Effect::Make {
        control_plane: target.control_plane.clone(),
        reason,
        borrower: borrower.clone(),
        guard: target.secret.as_ref().map_or(Guard::Absent, Guard::from),
        at: now,
    };
    let due = |loan: &Loan| format!("is due for renewal: it expires at {}", loan.end);
    let paused = target.secret.as_ref().filter(|seen| seen.value.is_paused);
    match (check(target, borrower, authority, now), paused) {
        (Ok(loan), _) if now < loan.renewal => Judgement::Good(loan),
        (found, Some(seen)) => {
            let why = found.map_or_else(|reason| reason, |loan| due(&loan));
            Judgement::Impossible(KeptSecret::told_paused(&seen.facts.key, &why))
        }
        (Ok(loan), None) => {
            let effect = make(due(&loan));
            Judgement::Renew(loan, effect)
        }
        (Err(reason), None) => Judgement::Make(make(reason)),
    }
}

/// Whether the kubeconfig that is there can be used; else what is wrong with it, in words that follow the Secret's name.
fn check(
    target: &Target,
    borrower: &Borrower,
    authority: &Pair,
    now: Timestamp,
) -> Result<Loan, String> {
    let Some(seen) = &target.secret else {
        return Err("is missing".to_owned());
    };
    match &seen.value.content {
        _ if seen.value.rotate => Err("is asked to be replaced".to_owned()),
        // Without Steward's labels nothing would tell of changes.
        _ if seen.value.tenant != target.control_plane => Err("lacks labels".to_owned()),
        Content::Kubeconfigs(found) => check_loan(borrower, found, authority, now),
        _ => Err("holds something else".to_owned()),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
