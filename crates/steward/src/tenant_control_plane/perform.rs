//! Carries out what server-side apply cannot do.

use butler_api::{keys::finalizers, steward::tenant_control_plane::TenantControlPlane};
use butler_runtime::{
    api_server::Preconditions,
    failure::Failure,
    object::{Kind, ObjectKey},
    reconciler::Context,
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::ResourceExt;
use serde_json::json;

use super::{Effect, TenantControlPlaneReconciler, key_of};
use crate::{
    names::Names,
    secrets::{issue, overtaken, secret_kind},
    store,
};

pub(super) async fn perform(
    control_plane: &TenantControlPlane,
    effect: &Effect,
    reconciler: &TenantControlPlaneReconciler,
    context: &Context,
) -> Result<(), Failure> {
    let names = Names::of(control_plane);
    let ports = &reconciler.ports;
    let stores = ports.stores.as_ref();
    match effect {
        Effect::Issue { orders, at } => {
            issue(&names, orders, *at, ports.keys.as_ref(), context.api()).await
        }
        Effect::EnsureStore(order) => {
            store::ensure(&names, order, stores, &reconciler.resolver, context).await
        }
        Effect::DiscardStore(order) => {
            // Nobody must fill what is emptied.
            ports.moves.stop(names.uid()).await;
            store::discard(&names, order, stores, &reconciler.resolver, context).await
        }
        Effect::RunErrand(order) => {
            let job = store::job(&names, order, &reconciler.resolver, context).await?;
            ports.moves.begin(job).await;
            Ok(())
        }
        Effect::ConfigureTenant { fingerprint } => match &ports.tenants {
            Some(tenants) => tenants.configure(control_plane, fingerprint, context).await,
            None => Ok(()),
        },
        Effect::ReleaseTenant => {
            if let Some(tenants) = &ports.tenants {
                tenants.release(names.uid());
            }
            Ok(())
        }
        Effect::RemoveSecret {
            role,
            uid,
            resource_version,
        } => {
            let preconditions = Preconditions {
                uid: Some(uid.clone()),
                resource_version: Some(resource_version.clone()),
            };
            let (kind, key) = (secret_kind(), names.secret(*role));
            let removed = context.api().delete(&kind, &key, preconditions);
            removed.await.map_err(|error| overtaken(error, &key))
        }
        Effect::EndPods { uid } => {
            let preconditions = Preconditions {
                uid: Some(uid.clone()),
                resource_version: None,
            };
            let (kind, key) = (Kind::of::<Deployment>(), names.itself());
            let api = context.api();
            let asked = api.delete_after_dependents(&kind, &key, preconditions);
            asked.await.map_err(Failure::from)
        }
        Effect::DropLegacyFinalizer => drop_legacy_finalizer(control_plane, context).await,
        Effect::FreeSecrets { roles } => {
            for role in roles {
                free(&names.secret(*role), context).await?;
            }
            Ok(())
        }
    }
}

/// Takes the older release's finalizer off a Secret, and leaves those of others.
async fn free(secret: &ObjectKey, context: &Context) -> Result<(), Failure> {
    let kind = Kind::of::<Secret>();
    let Some(body) = context.api().get(&kind, secret).await? else {
        return Ok(());
    };
    let metadata = &body["metadata"];
    let held = metadata["finalizers"].as_array().into_iter().flatten();
    let kept: Vec<_> = held
        .filter(|held| *held != finalizers::DATA_STORE_SECRET)
        .collect();
    let patch = json!({ "metadata": {
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
        "finalizers": kept,
    } });
    let merged = context.api().merge(&kind, secret, patch).await;
    merged.map(drop).map_err(Failure::from)
}

/// Nobody else takes it off: the program that put it there is gone.
async fn drop_legacy_finalizer(
    control_plane: &TenantControlPlane,
    context: &Context,
) -> Result<(), Failure> {
    let held = control_plane.finalizers().iter();
    let kept: Vec<_> = held
        .filter(|held| held.as_str() != finalizers::TENANT_CONTROL_PLANE_SOOT)
        .collect();
    let patch = json!({ "metadata": { "uid": control_plane.uid(), "finalizers": kept } });
    let kind = Kind::of::<TenantControlPlane>();
    let merged = context
        .api()
        .merge(&kind, &key_of(control_plane), patch)
        .await;
    merged.map(drop).map_err(Failure::from)
}
