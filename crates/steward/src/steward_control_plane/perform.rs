//! Carries out what server-side apply in this cluster cannot do.

use std::sync::Arc;

use butler_api::{
    cluster_api::steward_control_plane::StewardControlPlane, conditions::reasons,
    steward::tenant_control_plane::TenantControlPlane,
};
use butler_runtime::{
    api_server::{ApiServer, Cause, Part, Preconditions},
    failure::{Class, Failure},
    object::{Kind, ObjectKey},
    reconciler::Context,
};
use serde_json::{Value, json};

use super::{Effect, StewardControlPlaneReconciler, observe, secrets};

/// In whose name objects of other clusters and infrastructure are written.
pub(super) const MANAGER: &str = "steward/stewardcontrolplane";

pub(super) async fn perform(
    control_plane: &StewardControlPlane,
    effect: &Effect,
    reconciler: &StewardControlPlaneReconciler,
    context: &Context,
) -> Result<(), Failure> {
    let here = context.api();
    match effect {
        Effect::ApplyElsewhere(manifest) => {
            let there = there(control_plane, reconciler, context).await?;
            let there = there.ok_or_else(|| moved("the control plane"))?;
            let (kind, key) = (&manifest.kind, &manifest.key);
            let body = manifest.body.clone();
            there.apply(kind, key, Part::Object, MANAGER, body).await?;
        }
        Effect::RemoveTenant { key, uid } => {
            let there = there(control_plane, reconciler, context).await?;
            let api = there.as_deref().unwrap_or(here);
            let preconditions = Preconditions {
                uid: Some(uid.clone()),
                resource_version: None,
            };
            let kind = Kind::of::<TenantControlPlane>();
            api.delete(&kind, key, preconditions).await?;
        }
        Effect::TellInfrastructure { kind, key, patch } => {
            let told = here.merge(kind, key, patch.clone()).await;
            told.map_err(|error| match error.cause {
                Cause::NotFound => moved(&format!("the {kind} {key}")),
                _ => error.into(),
            })?;
        }
        Effect::DeclareInfrastructureReady { kind, key, status } => {
            let body = status_of(kind, key, status);
            here.apply(kind, key, Part::Status, MANAGER, body).await?;
        }
        Effect::CopySecret {
            secret,
            cluster,
            tenant,
            origin,
            guard,
        } => {
            let there = there(control_plane, reconciler, context).await?;
            let wish = secrets::CopyWish {
                secret: *secret,
                cluster,
                tenant,
                origin,
                guard,
            };
            let source = there.as_deref().unwrap_or(here);
            secrets::copy(control_plane, wish, source, here).await?;
        }
    }
    Ok(())
}

fn status_of(kind: &Kind, key: &ObjectKey, status: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": { "name": key.name, "namespace": key.namespace },
        "status": status,
    })
}

/// The API server of the other cluster; none if the control plane runs in this one.
async fn there(
    control_plane: &StewardControlPlane,
    reconciler: &StewardControlPlaneReconciler,
    context: &Context,
) -> Result<Option<Arc<dyn ApiServer>>, Failure> {
    let way = observe::reach(control_plane, reconciler, context).await;
    let way = way.transpose();
    way.map_err(|why| Failure::retry(reasons::FAILED, why))
}

/// What was planned is out of date; the next look tells what follows.
fn moved(what: &str) -> Failure {
    Failure {
        class: Class::Stale,
        reason: reasons::OBSERVE_FAILED,
        message: format!("{what} is not where it was"),
    }
}
