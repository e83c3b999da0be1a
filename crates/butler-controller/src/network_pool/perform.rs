//! Writes ledger pages, each over the very version that the plan was made from.

use butler_api::{
    butler::{network_pool::NetworkPool, network_pool_ledger::NetworkPoolLedger},
    conditions::reasons,
    keys::{finalizers, groups, labels, values},
};
use butler_runtime::{
    api_server::{ApiError, Cause, Part, Preconditions},
    failure::{Class, Failure},
    object::{Kind, ObjectKey},
    reconciler::{Context, Reconciler},
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{Effect, Guard, NetworkPoolReconciler, PageWrite};
use crate::{
    metrics::{Outcome, Processed},
    run::COMPONENT,
};

pub(super) async fn perform(
    pool: &NetworkPool,
    effect: &Effect,
    processed: &Processed,
    context: &Context,
) -> Result<(), Failure> {
    match effect {
        Effect::Announce {
            allocated,
            revision,
        } => announce(pool, *allocated, *revision, context).await,
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

/// The engine guards every write to the pool itself by the version it was read at: whoever lags behind announces nothing, and
/// so grants nothing, and an older status that is still on its way is refused from now on.
async fn announce(
    pool: &NetworkPool,
    allocated: i32,
    revision: i64,
    context: &Context,
) -> Result<(), Failure> {
    let kind = Kind::of::<NetworkPool>();
    let key = ObjectKey::of(pool);
    let manager = format!("{COMPONENT}/{}/announce", NetworkPoolReconciler::NAME);
    let body = json!({
        "apiVersion": groups::BUTLER_API_VERSION,
        "kind": kind.kind,
        "metadata": { "name": key.name, "namespace": key.namespace, "uid": pool.uid() },
        "status": { "allocatedIPs": allocated, "ledgerRevision": revision },
    });
    let api = context.api();
    let announced = api.apply(&kind, &key, Part::Status, &manager, body).await;
    announced.map(drop).map_err(|error| match error.cause {
        Cause::NotFound => Failure {
            class: Class::Stale,
            reason: reasons::APPLY_FAILED,
            message: format!("the NetworkPool {key} is gone"),
        },
        _ => error.into(),
    })
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
