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

use super::{
    Effect,
    observe::{Target, World},
};
use crate::secrets::{Content, Guard, Seen, check_kubeconfigs};

/// What becomes of one kubeconfig.
enum Judgement {
    /// It stays until then.
    Good(Timestamp),
    /// It is made, or made anew.
    Make(Effect),
    /// It cannot be made.
    Impossible(String),
}

pub(super) fn plan(
    generator: &KubeconfigGenerator,
    world: &World,
    now: Timestamp,
) -> Plan<KubeconfigGeneratorStatus, Effect> {
    let before = generator.status.clone().unwrap_or_default();
    let remove = |seen: &Seen| Effect::Remove {
        key: seen.facts.key.clone(),
        uid: seen.facts.uid.clone(),
    };
    if generator.metadata.deletion_timestamp.is_some() {
        let targets = world.targets.iter().flatten();
        let made = targets.filter_map(|target| target.secret.as_ref());
        let effects: Vec<_> = made.chain(&world.leftovers).map(remove).collect();
        return Plan {
            effects,
            next: Next::Done,
            ..Plan::status(before)
        };
    }
    let mut status = KubeconfigGeneratorStatus::default();
    let mut effects: Vec<_> = world.leftovers.iter().map(remove).collect();
    let mut renewal = None;
    let ready = match &world.targets {
        // What cannot be read selects nothing, and takes nothing away.
        Err(problem) => {
            effects.clear();
            Finding::new(false, reasons::VALIDATION_FAILED, problem.clone())
        }
        Ok(targets) => {
            for target in targets {
                status.resources += 1;
                match judge(target, now) {
                    Judgement::Good(until) => {
                        status.available_resources += 1;
                        renewal = renewal.into_iter().chain([until]).min();
                    }
                    Judgement::Make(effect) => effects.push(effect),
                    Judgement::Impossible(message) => status.errors.push(GenerationError {
                        resource: target.control_plane.to_string(),
                        message,
                    }),
                }
            }
            summary(&status)
        }
    };
    status.conditions = Conditions::since(&before.conditions, generator.metadata.generation, now)
        .tell(types::READY, ready)
        .finish();
    let next = renewal.map_or(Next::AwaitChange, |renewal| {
        let wait = renewal
            .duration_since(now)
            .max(SignedDuration::from_secs(1));
        wait.try_into().map_or(Next::AwaitChange, Next::After)
    });
    Plan {
        effects,
        next,
        ..Plan::status(status)
    }
}

fn summary(status: &KubeconfigGeneratorStatus) -> Finding {
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
    let reason = if status.errors.is_empty() {
        reasons::CREATING
    } else {
        reasons::WAITING_FOR_DEPENDENCIES
    };
    Finding::new(false, reason, message)
}

fn judge(target: &Target, now: Timestamp) -> Judgement {
    let (wish, authority) = match (&target.wish, &target.authority) {
        (Ok(wish), Ok(authority)) => (wish, authority),
        (Err(problem), _) | (_, Err(problem)) => return Judgement::Impossible(problem.clone()),
    };
    let found = match target.secret.as_ref().map(|seen| &seen.value) {
        None => Err("is missing".to_owned()),
        Some(secret) if secret.rotate => Err("is asked to be replaced".to_owned()),
        Some(secret) => match &secret.content {
            Content::Kubeconfigs(found) => {
                check_kubeconfigs(std::slice::from_ref(wish), found, authority, now)
            }
            _ => Err("holds something else".to_owned()),
        },
    };
    match found {
        Ok(until) => Judgement::Good(until),
        Err(reason) => Judgement::Make(Effect::Make {
            control_plane: target.control_plane.clone(),
            reason,
            wish: wish.clone(),
            guard: target.secret.as_ref().map_or(Guard::Absent, Guard::from),
            at: now,
        }),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
