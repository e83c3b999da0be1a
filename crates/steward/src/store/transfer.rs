//! What an errand between stores needs: access to the stores, and what the control plane has there.

use butler_api::{conditions::reasons, steward::data_store::DataStoreDriver};
use butler_pki::SecretText;
use butler_runtime::{api_server::ApiServer, failure::Failure, reconciler::Context};
use k8s_openapi::api::core::v1::Secret;
use serde::Serialize;

use super::{
    Resolver, StoreAccess, StoreGrant,
    setup::{find, untouched},
};
use crate::{
    move_port::{Errand, ErrandTask, Job},
    names::{Names, SecretRole},
    secrets::secret_kind,
};

/// An errand to be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrandOrder {
    /// The errand.
    pub errand: Errand,
    /// The database, or the prefix of the keys.
    pub schema: String,
    /// The user.
    pub user: String,
    /// Whether what has these names in the store is known to be the control plane's; of a copy, in the store it is in.
    pub established: bool,
}

/// Gathers what an errand needs.
pub async fn job(
    names: &Names,
    order: &ErrandOrder,
    resolver: &Resolver,
    context: &Context,
) -> Result<Job, Failure> {
    let api = context.api();
    let (store, target) = match &order.errand.task {
        ErrandTask::Copy { from, to, .. } => {
            let target = resolver.usable(&find(to, context)?, api).await?;
            (from, Some(target))
        }
        ErrandTask::Open { store }
        | ErrandTask::Seal { store }
        | ErrandTask::Clear { store, .. } => (store, None),
    };
    let store = resolver.usable(&find(store, context)?, api).await?;
    let password = match &order.errand.task {
        ErrandTask::Copy { .. } | ErrandTask::Open { .. } => password(names, &store, api).await?,
        ErrandTask::Seal { .. } | ErrandTask::Clear { .. } => None,
    };
    Ok(Job {
        errand: order.errand.clone(),
        grant: StoreGrant {
            uid: names.uid().to_owned(),
            schema: order.schema.clone(),
            user: order.user.clone(),
            password,
            established: order.established,
        },
        store,
        target,
    })
}

/// The password that the control plane has, which it keeps.
async fn password(
    names: &Names,
    store: &StoreAccess,
    api: &dyn ApiServer,
) -> Result<Option<SecretText>, Failure> {
    match store.driver {
        DataStoreDriver::Etcd | DataStoreDriver::Nats => return Ok(None),
        DataStoreDriver::MySql | DataStoreDriver::PostgreSql => {}
    }
    let key = names.secret(SecretRole::StoreConfig);
    let found = api.get(&secret_kind(), &key).await?;
    let secret: Option<Secret> = found.and_then(|body| serde_json::from_value(body).ok());
    match secret.as_ref().and_then(untouched) {
        Some(password) => Ok(Some(password)),
        None => Err(Failure::retry(
            reasons::CREDENTIALS_INVALID,
            format!("the password in the Secret {key} is gone; it is being made anew"),
        )),
    }
}
