//! Writes ledger pages, each over the very version that the plan was made from.

use butler_api::{
    butler::{network_pool::NetworkPool, network_pool_ledger::NetworkPoolLedger},
    conditions::reasons,
    keys::{finalizers, groups, labels, values},
};
use butler_runtime::{
    api_server::{ApiError, Cause, Preconditions},
    failure::{Class, Failure},
    object::{Kind, ObjectKey},
    reconciler::Context,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{Effect, Guard, PageWrite};
use crate::metrics::{Outcome, Processed};

pub(super) async fn perform(
    pool: &NetworkPool,
    effect: &Effect,
    processed: &Processed,
    context: &Context,
) -> Result<(), Failure> {
    match effect {
        Effect::Write(page) => {
            write(pool, page, context).await?;
            processed.count(&ObjectKey::of(pool), Outcome::Success, page.grants);
            Ok(())
        }
        Effect::Remove {
            key,
            uid,
            resource_version,
        } => remove(key, uid, resource_version, context).await,
    }
}

fn kind() -> Kind {
    Kind::of::<NetworkPoolLedger>()
}

async fn write(pool: &NetworkPool, page: &PageWrite, context: &Context) -> Result<(), Failure> {
    let mut body = body(pool, page);
    let written = match &page.guard {
        Guard::Absent => context.api().create(&kind(), &page.key, body).await,
        Guard::Version {
            uid,
            resource_version,
        } => {
            body["metadata"]["uid"] = uid.clone().into();
            body["metadata"]["resourceVersion"] = resource_version.clone().into();
            context.api().replace(&kind(), &page.key, body).await
        }
    };
    written
        .map(drop)
        .map_err(|error| overtaken(error, &page.key))
}

/// Somebody else was faster: the cache will show what they wrote, and the next plan is made from it.
fn overtaken(error: ApiError, key: &ObjectKey) -> Failure {
    match error.cause {
        Cause::AlreadyExists | Cause::Conflict | Cause::NotFound => Failure {
            class: Class::Stale,
            reason: reasons::APPLY_FAILED,
            message: format!("the NetworkPoolLedger {key} has changed since it was read"),
        },
        _ => error.into(),
    }
}

/// The finalizer keeps a page that somebody deletes by mistake: a page that is gone looks like free addresses.
fn body(pool: &NetworkPool, page: &PageWrite) -> Value {
    json!({
        "apiVersion": groups::BUTLER_API_VERSION,
        "kind": kind().kind,
        "metadata": {
            "name": page.key.name,
            "namespace": page.key.namespace,
            "labels": {
                labels::MANAGED_BY: values::MANAGED_BY_BUTLER,
                labels::NETWORK_POOL: pool.name_any(),
            },
            "finalizers": [finalizers::NETWORK_POOL],
            "ownerReferences": [{
                "apiVersion": groups::BUTLER_API_VERSION,
                "kind": "NetworkPool",
                "name": pool.name_any(),
                "uid": pool.uid().unwrap_or_default(),
            }],
        },
        "spec": page.spec,
    })
}

/// Takes the finalizer off an empty page, and the page with it.
async fn remove(
    key: &ObjectKey,
    uid: &str,
    resource_version: &str,
    context: &Context,
) -> Result<(), Failure> {
    let api = context.api();
    let patch = json!({ "metadata": {
        "uid": uid,
        "resourceVersion": resource_version,
        "finalizers": [],
    } });
    let freed = match api.merge(&kind(), key, patch).await {
        Err(error) if error.cause == Cause::NotFound => return Ok(()),
        outcome => outcome.map_err(|error| overtaken(error, key))?,
    };
    let freed_version = freed.pointer("/metadata/resourceVersion");
    let preconditions = Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: freed_version.and_then(Value::as_str).map(str::to_owned),
    };
    let deleted = api.delete(&kind(), key, preconditions).await;
    deleted.map_err(|error| overtaken(error, key))
}
