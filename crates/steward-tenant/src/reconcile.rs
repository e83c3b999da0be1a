//! One pass over a tenant: look, decide, write what differs.
//!
//! Owns: the order and number of requests. At rest these are one list for each kind and no write. It holds no watch and no
//! cache; what it remembers between passes is small and may be lost at any time.

use butler_runtime::api_server::{ApiError, ApiServer, Part, Preconditions};
use butler_runtime::cache::Facts;
use butler_runtime::failure::Failure;
use butler_runtime::fields::hash_of_intent;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use serde_json::Value;

use crate::desired::{DesiredObject, desired};
use crate::facts::TenantFacts;
use crate::observe::{CONCURRENT_REQUESTS, MANAGER, observe};
use crate::plan::{Effect, Settled, plan};
use crate::report::{Done, Report};

/// The inside of one tenant, as far as it is ours. Keep one for each tenant, and drop it with the tenant.
#[derive(Debug, Default)]
pub struct TenantSide {
    settled: Settled,
}

impl TenantSide {
    /// A tenant of which nothing is remembered.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the tenant what the facts say. Fails only if the tenant cannot be looked at; what goes wrong with a part is in the
    /// report, and does not keep the other parts.
    pub async fn reconcile(
        &mut self,
        api: &dyn ApiServer,
        facts: &TenantFacts,
    ) -> Result<Report, ApiError> {
        let desired = desired(facts);
        let observed = observe(api, &desired).await?;
        let plan = plan(&desired, &observed, &self.settled);
        let mut done = Done::default();
        // Deletions first: a freeze that has ended would refuse the rest. What lets nodes in comes last.
        for stage in [Stage::Deletions, Stage::Objects, Stage::Last] {
            // Boxed, so that whoever awaits this can be moved between threads.
            let writes: Vec<BoxFuture<'_, Outcome<'_>>> = plan
                .effects
                .iter()
                .filter(|effect| Stage::of(effect) == stage)
                .map(|effect| async move { (effect, perform(api, effect).await) }.boxed())
                .collect();
            let outcomes: Vec<Outcome<'_>> = stream::iter(writes)
                .buffered(CONCURRENT_REQUESTS)
                .collect()
                .await;
            for (effect, outcome) in outcomes {
                self.note(&mut done, effect, outcome);
            }
        }
        Ok(Report::of(&desired, &plan, done))
    }

    fn note(&mut self, done: &mut Done, effect: &Effect, outcome: Result<Option<Value>, ApiError>) {
        match (effect, outcome) {
            (Effect::Apply { object, .. }, Ok(written)) => {
                if let Some(written) = written {
                    self.remember(object, &written);
                }
                done.applied.push(object.id());
            }
            (Effect::Delete { id, .. }, Ok(_)) => {
                self.settled.remove(id);
                done.deleted.push(id.clone());
            }
            (effect, Err(error)) => {
                done.failures
                    .entry(effect.part())
                    .or_insert_with(|| Failure::from(error));
            }
        }
    }

    /// Remembers an object only if it came back other than we sent it.
    fn remember(&mut self, object: &DesiredObject, written: &Value) {
        let facts = Facts::of(written);
        let intent = hash_of_intent(&object.manifest.body);
        if facts.applied(MANAGER, Part::Object) == Some(intent) {
            self.settled.remove(&object.id());
        } else {
            self.settled
                .insert(object.id(), (intent, facts.resource_version));
        }
    }
}

/// An effect and what came of it: the object as it was written.
type Outcome<'a> = (&'a Effect, Result<Option<Value>, ApiError>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Deletions,
    Objects,
    Last,
}

impl Stage {
    fn of(effect: &Effect) -> Self {
        match effect {
            Effect::Delete { .. } => Self::Deletions,
            Effect::Apply { object, .. } if object.is_last() => Self::Last,
            Effect::Apply { .. } => Self::Objects,
        }
    }
}

async fn perform(api: &dyn ApiServer, effect: &Effect) -> Result<Option<Value>, ApiError> {
    match effect {
        Effect::Apply { object, replaces } => {
            let manifest = &object.manifest;
            let (kind, key) = (&manifest.kind, &manifest.key);
            if let Some(uid) = replaces {
                api.delete(kind, key, this_very_one(uid)).await?;
            }
            let body = manifest.body.clone();
            api.apply(kind, key, Part::Object, MANAGER, body)
                .await
                .map(Some)
        }
        Effect::Delete { id, uid, .. } => api
            .delete(&id.kind, &id.key, this_very_one(uid))
            .await
            .map(|()| None),
    }
}

fn this_very_one(uid: &str) -> Preconditions {
    Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    }
}
