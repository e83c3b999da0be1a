//! Writes Secrets: created where there is none, else over the very version that was judged.

use butler_api::{
    conditions::reasons,
    keys::{annotations, labels, values},
};
use butler_runtime::{
    api_server::{ApiError, ApiServer, Cause},
    failure::{Class, Failure},
    object::{Kind, ObjectKey},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::{
    content::Data,
    facts::checksum,
    issue::completed,
    order::{Guard, authority_of},
    rotation::{NEXT_VOUCHED, VOUCHED},
};
use crate::names::{Names, SecretRole};

/// The kind of Secrets.
pub(crate) fn secret_kind() -> Kind {
    Kind::of::<Secret>()
}

/// Which label value tells others how to read the certificates in a Secret.
fn lifecycle(role: SecretRole) -> Option<&'static str> {
    use SecretRole as Role;
    match role {
        Role::ApiServer
        | Role::KubeletClient
        | Role::FrontProxyClient
        | Role::StoreCertificate
        | Role::KonnectivityCertificate => Some(values::LIFECYCLE_X509),
        Role::AdminKubeconfig
        | Role::ControllerManagerKubeconfig
        | Role::SchedulerKubeconfig
        | Role::KonnectivityKubeconfig => Some(values::LIFECYCLE_KUBECONFIG),
        Role::Authority | Role::FrontProxyAuthority | Role::ServiceAccount | Role::StoreConfig => {
            None
        }
    }
}

/// Writes a Secret of a control plane. Who asked for new content has it.
pub(crate) async fn write_secret(
    api: &dyn ApiServer,
    names: &Names,
    role: SecretRole,
    guard: &Guard,
    data: &Data,
    at: Timestamp,
) -> Result<(), Failure> {
    let notes = [(annotations::STEWARD_ROTATE, at)];
    write_with_notes(api, names, role, guard, data, &notes).await
}

/// Writes a Secret of a control plane; over one that is there, with times in its annotations.
pub(super) async fn write_with_notes(
    api: &dyn ApiServer,
    names: &Names,
    role: SecretRole,
    guard: &Guard,
    data: &Data,
    notes: &[(&str, Timestamp)],
) -> Result<(), Failure> {
    let key = names.secret(role);
    let mut body = body(names, role, data);
    match guard {
        Guard::Absent => match api.create(&secret_kind(), &key, body).await {
            Err(error) if error.cause == Cause::AlreadyExists => {
                adopt(api, names, role, &key).await
            }
            created => created.map(drop).map_err(Failure::from),
        },
        Guard::Version { .. } => {
            for (note, time) in notes {
                body["metadata"]["annotations"][*note] = time.to_string().into();
            }
            if authority_of(role).is_some() {
                for key in ["next.crt", "next.key", NEXT_VOUCHED, VOUCHED]
                    .into_iter()
                    .filter(|key| !data.contains_key(*key))
                {
                    body["data"][key] = Value::Null;
                }
            }
            replace(api, &key, guard, body).await
        }
    }
}

/// The body of a Secret of ours.
pub(crate) fn body(names: &Names, role: SecretRole, data: &Data) -> Value {
    let mut metadata = names.metadata(&names.secret_name(role), role.as_str(), None);
    metadata["annotations"] = json!({ annotations::STEWARD_CHECKSUM: checksum(data) });
    if let Some(lifecycle) = lifecycle(role) {
        metadata["labels"][labels::STEWARD_CERTIFICATE_LIFECYCLE] = lifecycle.into();
    }
    let mut body = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data,
    });
    if role == SecretRole::KonnectivityCertificate {
        body["type"] = "kubernetes.io/tls".into();
    }
    body
}

/// Writes over the version that a guard names; what the body does not speak of stays.
pub(crate) async fn replace(
    api: &dyn ApiServer,
    key: &ObjectKey,
    guard: &Guard,
    mut body: Value,
) -> Result<(), Failure> {
    if let Guard::Version {
        uid,
        resource_version,
    } = guard
    {
        body["metadata"]["uid"] = uid.clone().into();
        body["metadata"]["resourceVersion"] = resource_version.clone().into();
    }
    // The type of a Secret cannot be changed.
    if let Some(members) = body.as_object_mut() {
        members.remove("type");
    }
    let written = api.merge(&secret_kind(), key, body).await;
    written.map(drop).map_err(|error| overtaken(error, key))
}

/// Somebody brought a Secret of that name: it is labelled, so that it is watched and judged like ours. It keeps its own life.
async fn adopt(
    api: &dyn ApiServer,
    names: &Names,
    role: SecretRole,
    key: &ObjectKey,
) -> Result<(), Failure> {
    let found = api.get(&secret_kind(), key).await?;
    let secret: Option<Secret> = found.and_then(|body| serde_json::from_value(body).ok());
    let known = |secret: &Secret| {
        let found = secret.metadata.labels.as_ref();
        found.is_some_and(|found| found.contains_key(labels::STEWARD_PROJECT))
    };
    let Some(secret) = secret.filter(|secret| !known(secret)) else {
        return Err(changed(key));
    };
    let guard = Guard::Version {
        uid: secret.metadata.uid.unwrap_or_default(),
        resource_version: secret.metadata.resource_version.unwrap_or_default(),
    };
    let labels = &names.metadata(&key.name, role.as_str(), None)["labels"];
    let mut patch = json!({ "metadata": { "labels": labels } });
    let missing = completed(role, &secret.data.unwrap_or_default());
    if !missing.is_empty() {
        patch["data"] = json!(missing);
    }
    replace(api, key, &guard, patch).await
}

/// Somebody else was faster: the cache will show what they wrote, and the next plan is made from it.
pub(crate) fn overtaken(error: ApiError, key: &ObjectKey) -> Failure {
    match error.cause {
        Cause::AlreadyExists | Cause::Conflict | Cause::NotFound => changed(key),
        _ => error.into(),
    }
}

fn changed(key: &ObjectKey) -> Failure {
    Failure {
        class: Class::Stale,
        reason: reasons::APPLY_FAILED,
        message: format!("the Secret {key} has changed since it was read"),
    }
}
