//! How a data store is doing, and whether it may go. Pure.

use std::time::Duration;

use butler_api::{
    conditions::{reasons, types},
    steward::data_store::{DataStore, DataStoreStatus},
};
use butler_pki::inspect;
use butler_runtime::{
    conditions::{Answer, Conditions, Finding},
    object::ObjectKey,
    plan::{Next, Note, Plan},
};
use jiff::{SignedDuration, Timestamp};
use steward_datastore::kine;

use super::{Effect, Health, World};
use crate::{
    secrets::authority_renewal,
    store::{StoreErrorKind, StoreFacts},
};

/// How soon a look follows a question.
const AFTER_ASKING: Duration = Duration::from_millis(1);
/// How soon a store is asked again that did not answer well.
const AFTER_FAILURE: Duration = Duration::from_secs(15);
/// How many users a message names.
const NAMED_USERS: usize = 5;

pub(super) fn plan(
    store: &DataStore,
    world: &World,
    period: Duration,
    now: Timestamp,
) -> Plan<DataStoreStatus, Effect> {
    let before = store.status.clone().unwrap_or_default();
    let is_deleted = store.metadata.deletion_timestamp.is_some();
    if is_deleted && world.users.is_empty() {
        return Plan {
            next: Next::Done,
            ..Plan::status(before)
        };
    }
    let facts = world.facts.as_ref();
    let health = facts
        .ok()
        .and_then(|facts| current(world.health.as_ref(), facts));
    let question = facts
        .ok()
        .and_then(|facts| question(health, facts, period, now));
    let mut used_by: Vec<_> = world.users.iter().map(ToString::to_string).collect();
    used_by.sort();
    // Before the first answer, what was said last still holds.
    let conditions =
        if facts.is_ok() && health.is_none() && !is_deleted && !before.conditions.is_empty() {
            before.conditions.clone()
        } else {
            let said = Conditions::since(&before.conditions, store.metadata.generation, now);
            let ready = if is_deleted {
                blocked(&world.users)
            } else {
                ready(world, health)
            };
            let said = said.tell(types::DATA_STORE_VALIDATED, validated(world, now));
            let said = match unused_members(store) {
                Some(told) => {
                    let finding = Finding::new(false, reasons::UNSUPPORTED, told);
                    said.tell(types::FEATURES_AVAILABLE, finding)
                }
                None => said,
            };
            said.tell(types::READY, ready).finish()
        };
    let next = match (&question, health) {
        (Some(_), _) => Next::After(AFTER_ASKING),
        (None, Some(health)) => Next::After(left(health, period, now)),
        (None, None) => Next::AwaitChange,
    };
    let notes = if is_deleted {
        Vec::new()
    } else {
        warnings(world, health, now)
    };
    Plan {
        effects: question.into_iter().collect(),
        notes,
        next,
        ..Plan::status(DataStoreStatus {
            used_by,
            observed_generation: None,
            conditions,
        })
    }
}

/// The last answer, if it was given to the access that holds now.
fn current<'a>(health: Option<&'a Health>, facts: &StoreFacts) -> Option<&'a Health> {
    health.filter(|health| health.fingerprint == facts.fingerprint)
}

fn left(health: &Health, period: Duration, now: Timestamp) -> Duration {
    let passed = now.duration_since(health.at);
    let period = if health.answer.is_ok() {
        period
    } else {
        period.min(AFTER_FAILURE)
    };
    let period = SignedDuration::try_from(period).unwrap_or(SignedDuration::MAX);
    (period - passed).try_into().unwrap_or(Duration::ZERO)
}

fn question(
    health: Option<&Health>,
    facts: &StoreFacts,
    period: Duration,
    now: Timestamp,
) -> Option<Effect> {
    let is_fresh = health.is_some_and(|health| !left(health, period, now).is_zero());
    (!is_fresh).then(|| Effect::Ask {
        fingerprint: facts.fingerprint.clone(),
        at: now,
    })
}

fn validated(world: &World, now: Timestamp) -> Finding {
    match &world.facts {
        Ok(facts) => ending_of(facts, now).unwrap_or_else(|| {
            Finding::new(true, reasons::READY, "all that it refers to is there")
        }),
        Err(problem) => Finding::new(false, reasons::CREDENTIALS_INVALID, problem.clone()),
    }
}

/// That the authority of the store ends before long. Its owner replaces it: nobody here knows whom else it serves.
fn ending_of(facts: &StoreFacts, now: Timestamp) -> Option<Finding> {
    let authority = inspect(facts.authority_pem.as_ref()?).ok()?;
    let told = || {
        let message = format!(
            "the certificate authority of the store ends at {}, and every control plane in it stops then; replace it in time: first have both trusted (tlsConfig.certificateAuthority with the next one after the one that signs), then let the next one sign",
            authority.not_after
        );
        Finding::new(true, reasons::AUTHORITY_ENDS, message)
    };
    (authority_renewal(&authority) <= now).then(told)
}

fn ready(world: &World, health: Option<&Health>) -> Finding {
    match (&world.facts, health) {
        (Err(problem), _) => Finding::new(false, reasons::CREDENTIALS_INVALID, problem.clone()),
        (Ok(_), None) => Finding::new(
            Answer::Unknown,
            reasons::NOT_YET_REPORTED,
            "it is being asked",
        ),
        (Ok(_), Some(health)) => match &health.answer {
            Ok(()) => Finding::new(
                true,
                reasons::READY,
                "it answers and accepts the credentials",
            ),
            Err(error) => {
                let reason = match error.kind {
                    StoreErrorKind::Unreachable => reasons::DATA_STORE_UNREACHABLE,
                    StoreErrorKind::Refused | StoreErrorKind::Taken => reasons::CREDENTIALS_INVALID,
                    StoreErrorKind::Failed => reasons::FAILED,
                    StoreErrorKind::Unsupported => reasons::UNSUPPORTED,
                };
                Finding::new(false, reason, error.to_string())
            }
        },
    }
}

/// That control planes do not use all members that a store names, if so.
pub(crate) fn unused_members(store: &DataStore) -> Option<String> {
    let spec = &store.spec;
    let [first, _, ..] = spec.endpoints.as_slice() else {
        return None;
    };
    (!kine::knows_all_members(spec.driver)).then(|| {
        format!(
            "spec.endpoints: kine connects to one server of MySQL, so control planes use {first} alone, and stop with it; name one address that \
             leads to whichever server works, such as that of a proxy"
        )
    })
}

/// The users of a store, in words that stay short.
pub(crate) fn some(users: &[ObjectKey]) -> String {
    let named: Vec<_> = users
        .iter()
        .take(NAMED_USERS)
        .map(ToString::to_string)
        .collect();
    match users.len().saturating_sub(NAMED_USERS) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn blocked(users: &[ObjectKey]) -> Finding {
    let message = format!(
        "control planes keep their state in it: {}; delete them first",
        some(users)
    );
    Finding::new(false, reasons::DELETION_BLOCKED, message)
}

fn warnings(world: &World, health: Option<&Health>, now: Timestamp) -> Vec<Note> {
    let ready = ready(world, health);
    let bad = Some(ready).filter(|ready| ready.answer == Answer::False);
    let ending = world.facts.as_ref().ok();
    let ending = ending.and_then(|facts| ending_of(facts, now));
    let findings = bad.into_iter().chain(ending);
    findings
        .map(|finding| Note::warning(finding.reason, finding.message))
        .collect()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
