//! Makes and removes the Secrets of a generator.

use butler_api::{
    conditions::reasons,
    keys::{annotations, groups, labels, secret_keys, values},
    steward::{
        kubeconfig_generator::KubeconfigGenerator, tenant_control_plane::TenantControlPlane,
    },
};
use butler_runtime::{
    api_server::Preconditions,
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
    names::Names,
    secrets::{
        Borrower, Data, Guard, bytes, checksum, overtaken, replace, secret_kind,
        short_lived_kubeconfig,
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
            borrower,
            guard,
            at,
            ..
        } => make(generator, control_plane, borrower, guard, *at, context).await,
        Effect::Remove {
            key,
            uid,
            resource_version,
        } => {
            let preconditions = Preconditions {
                uid: Some(uid.clone()),
                resource_version: Some(resource_version.clone()),
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
    borrower: &Borrower,
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
    let control_plane = &found.value.0;
    let names = Names::of(control_plane);
    let api = context.api();
    let text = short_lived_kubeconfig(control_plane, borrower, at, api).await?;
    let data = Data::from([(secret_keys::VALUE.to_owned(), bytes(text.expose()))]);
    let key = secret_of(&names.itself(), &generator.name_any());
    let mut body = body(&names, generator, &key, &data);
    let end = borrower.end(at).to_string();
    body["metadata"]["annotations"][annotations::STEWARD_EXPIRATION] = end.into();
    match guard {
        Guard::Absent => {
            let created = api.create(&secret_kind(), &key, body).await;
            created.map(drop).map_err(|error| overtaken(error, &key))
        }
        Guard::Version { .. } => {
            body["metadata"]["annotations"][annotations::STEWARD_ROTATE] = at.to_string().into();
            replace(api, &key, guard, body).await
        }
    }
}

fn body(names: &Names, generator: &KubeconfigGenerator, key: &ObjectKey, data: &Data) -> Value {
    let mut metadata = names.metadata(&key.name, COMPONENT, None);
    metadata["ownerReferences"] = json!([owner_reference(generator)]);
    metadata["labels"][labels::STEWARD_MANAGED_BY] = generator.name_any().into();
    metadata["labels"][labels::STEWARD_MANAGED_FOR] = names.name().into();
    metadata["labels"][labels::STEWARD_CERTIFICATE_LIFECYCLE] = values::LIFECYCLE_KUBECONFIG.into();
    metadata["annotations"] = json!({ annotations::STEWARD_CHECKSUM: checksum(data) });
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data })
}

/// The generator alone owns its Secrets: what is made by somebody who has not heard yet that it is gone, Kubernetes collects. With a
/// second owner it would not. What was made for a control plane that is gone, the generator removes.
fn owner_reference(generator: &KubeconfigGenerator) -> Value {
    json!({
        "apiVersion": groups::STEWARD_API_VERSION,
        "kind": "KubeconfigGenerator",
        "name": generator.name_any(),
        "uid": generator.metadata.uid,
        "controller": true,
    })
}
