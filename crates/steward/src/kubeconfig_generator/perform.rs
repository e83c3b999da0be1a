//! Makes and removes the Secrets of a generator.

use butler_api::{
    conditions::reasons,
    keys::{annotations, labels, secret_keys, values},
    steward::{
        kubeconfig_generator::KubeconfigGenerator, tenant_control_plane::TenantControlPlane,
    },
};
use butler_runtime::{
    api_server::{Cause, Preconditions},
    cache::Whole,
    failure::{Class, Failure},
    object::ObjectKey,
    reconciler::Context,
};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{Effect, secret_of};
use crate::{
    names::{Names, SecretRole},
    secrets::{
        Data, Guard, KubeconfigWish, LEAF_LIFE, bytes, checksum, client_of, load, overtaken,
        render, replace, secret_kind,
    },
};

/// The component label of the Secrets.
const COMPONENT: &str = "kubeconfig-generator";

pub(super) async fn perform(
    generator: &KubeconfigGenerator,
    effect: &Effect,
    context: &Context,
) -> Result<(), Failure> {
    match effect {
        Effect::Make {
            control_plane,
            wish,
            guard,
            at,
            ..
        } => make(generator, control_plane, wish, guard, *at, context).await,
        Effect::Remove { key, uid } => {
            let preconditions = Preconditions {
                uid: Some(uid.clone()),
                resource_version: None,
            };
            let removed = context
                .api()
                .delete(&secret_kind(), key, preconditions)
                .await;
            removed.map_err(|error| overtaken(error, key))
        }
    }
}

async fn make(
    generator: &KubeconfigGenerator,
    control_plane: &ObjectKey,
    wish: &KubeconfigWish,
    guard: &Guard,
    at: Timestamp,
    context: &Context,
) -> Result<(), Failure> {
    let Some(found) = context
        .cache::<Whole<TenantControlPlane>>()
        .get(control_plane)
    else {
        return Err(Failure {
            class: Class::Stale,
            reason: reasons::OBSERVE_FAILED,
            message: format!("the TenantControlPlane {control_plane} is gone"),
        });
    };
    let names = Names::of(&found.value.0);
    let api = context.api();
    let authority = load(&names, SecretRole::Authority, api).await?;
    let name = generator.name_any();
    let key = secret_of(control_plane, &name);
    let server = wish
        .servers
        .first()
        .map_or("", |(_, server)| server.as_str());
    let text = client_of(wish, &authority, at, LEAF_LIFE)
        .and_then(|client| render(names.name(), &name, server, &authority, &client));
    let text = text.map_err(|error| {
        let message = format!("could not make the kubeconfig {key}: {error}");
        Failure::retry(error.reason(), message)
    })?;
    let data = Data::from([(secret_keys::VALUE.to_owned(), bytes(text.expose()))]);
    let mut body = body(&names, &name, &key, &data);
    match guard {
        Guard::Absent => {
            let created = api.create(&secret_kind(), &key, body).await;
            created.map(drop).map_err(|error| match error.cause {
                Cause::AlreadyExists => taken(&key),
                _ => error.into(),
            })
        }
        Guard::Version { .. } => {
            body["metadata"]["annotations"][annotations::STEWARD_ROTATE] = at.to_string().into();
            replace(api, &key, guard, body).await
        }
    }
}

fn body(names: &Names, generator: &str, key: &ObjectKey, data: &Data) -> Value {
    let mut metadata = names.metadata(&key.name, COMPONENT, None);
    metadata["labels"][labels::STEWARD_MANAGED_BY] = generator.into();
    metadata["labels"][labels::STEWARD_MANAGED_FOR] = names.name().into();
    metadata["labels"][labels::STEWARD_CERTIFICATE_LIFECYCLE] = values::LIFECYCLE_KUBECONFIG.into();
    metadata["annotations"] = json!({ annotations::STEWARD_CHECKSUM: checksum(data) });
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data })
}

/// Either the cache is about to show it, or it is somebody else's; in both cases it is not ours to write.
fn taken(key: &ObjectKey) -> Failure {
    Failure::retry(
        reasons::NAME_TAKEN,
        format!("the Secret {key} exists and is somebody else's; rename or remove it"),
    )
}
