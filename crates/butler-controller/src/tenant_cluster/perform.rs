//! Carries out what server-side apply cannot do for a tenant cluster.

use butler_api::butler::{ip_allocation::IPAllocation, tenant_cluster::TenantCluster};
use butler_runtime::{
    api_server::Preconditions, failure::Failure, object::Kind, reconciler::Context,
};

use super::{Effect, credentials, pause};

pub(super) async fn perform(
    cluster: &TenantCluster,
    effect: &Effect,
    context: &Context,
) -> Result<(), Failure> {
    match effect {
        Effect::Remove { kind, key, uid } => {
            let preconditions = Preconditions {
                uid: Some(uid.clone()),
                resource_version: None,
            };
            context.api().delete(kind, key, preconditions).await?;
            Ok(())
        }
        Effect::GiveBack { key, uid, version } => {
            let preconditions = Preconditions {
                uid: Some(uid.clone()),
                resource_version: Some(version.clone()),
            };
            let kind = Kind::of::<IPAllocation>();
            context.api().delete(&kind, key, preconditions).await?;
            Ok(())
        }
        Effect::CopyCredentials(copy) => credentials::perform(cluster, copy, context).await,
        Effect::Pause { key, uid } => pause::perform(key, uid, true, context).await,
        Effect::GoOn { key, uid } => pause::perform(key, uid, false, context).await,
    }
}
