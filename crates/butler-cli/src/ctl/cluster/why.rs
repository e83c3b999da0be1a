//! `butlerctl cluster why`: judges by what exists for a cluster, with the function that its controller judges with.

use butler_api::butler::tenant_cluster::TenantCluster;
use butler_controller::tenant_cluster::{related::Related, why as judgement};
use butler_runtime::{
    api_server::{ApiServer as _, Cause},
    kube_api_server::KubeApiServer,
    object::{Kind, ObjectKey},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use super::{view, waits::waits};
use crate::ctl::{error::Error, platform::Platform};

/// Says what a cluster waits for.
pub(super) async fn why(name: &str, platform: &Platform) -> anyhow::Result<String> {
    let cluster = platform.cluster(name).await?;
    let waits = match related(&cluster, platform).await? {
        Some(related) => judgement::why(&cluster, &related),
        None => waits(&cluster),
    };
    Ok(view::why(&cluster, &waits, Timestamp::now()))
}

/// What exists for a cluster; nothing if the reader may not see it, or nothing was begun.
async fn related(cluster: &TenantCluster, platform: &Platform) -> Result<Option<Related>, Error> {
    let status = cluster.status.as_ref();
    let Some(namespace) = status.and_then(|status| status.tenant_namespace.as_deref()) else {
        return Ok(None);
    };
    let api = KubeApiServer::new(platform.client.clone());
    let mut related = Related::default();
    let namespaces = Kind::of::<Namespace>();
    let key = ObjectKey {
        namespace: None,
        name: namespace.to_owned(),
    };
    match api.get(&namespaces, &key).await {
        Ok(found) => found
            .into_iter()
            .for_each(|found| related.see(of_kind(found, &namespaces))),
        Err(error) if error.cause == Cause::Forbidden => return Ok(None),
        Err(error) => return Err(unread(&error)),
    }
    for kind in Related::kinds() {
        match api.list(&kind, Some(namespace), None).await {
            Ok(found) => found
                .into_iter()
                .for_each(|found| related.see(of_kind(found, &kind))),
            // The platform does not have it, and so the cluster neither.
            Err(error) if error.cause == Cause::NotFound => {}
            Err(error) if error.cause == Cause::Forbidden => return Ok(None),
            Err(error) => return Err(unread(&error)),
        }
    }
    let secrets = Api::<Secret>::namespaced(platform.client.clone(), namespace);
    match secrets.list_metadata(&ListParams::default()).await {
        Ok(found) => {
            for secret in found.items {
                let body = json!({ "metadata": secret.metadata });
                related.see(of_kind(body, &Kind::of::<Secret>()));
            }
            Ok(Some(related))
        }
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(None),
        Err(error) => Err(Error::api("look at what the cluster is made of")(error)),
    }
}

/// Items of a list do not say what they are.
fn of_kind(mut object: Value, kind: &Kind) -> Value {
    object["kind"] = Value::String(kind.kind.clone());
    object
}

fn unread(error: &butler_runtime::api_server::ApiError) -> Error {
    Error::Answered {
        doing: "look at what the cluster is made of".to_owned(),
        message: error.to_string(),
    }
}
