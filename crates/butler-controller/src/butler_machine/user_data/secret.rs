//! Where bootstrap data is read, and user data written. Nowhere else are they held.

use butler_api::{
    butler::machine_request::SensitiveText,
    cluster_api::butler_machine::{ButlerMachine, UserDataFormat},
    conditions::reasons,
    keys::{labels, names, secret_keys, values},
};
use butler_runtime::{
    api_server::{ApiServer, Cause},
    conditions::Finding,
    failure::{Class, Failure},
    object::{Kind, ObjectKey},
    reconciler::Context,
};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Resource, ResourceExt};
use serde_json::json;
use std::collections::BTreeMap;

use super::{BootstrapData, CLOUD_CONFIG, Identity, translate};

/// What the user data of a machine is made from.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Source<'a> {
    /// Name of the Secret with the bootstrap data.
    pub(in super::super) bootstrap_data: &'a str,
    /// Name of the cluster.
    pub(in super::super) cluster: &'a str,
}

/// The Secret with the user data of a machine.
pub(in super::super) fn key(machine: &ButlerMachine) -> ObjectKey {
    beside(
        machine,
        format!("{}{}", machine.name_any(), names::USER_DATA_SUFFIX),
    )
}

fn beside(machine: &ButlerMachine, name: String) -> ObjectKey {
    ObjectKey {
        namespace: machine.namespace(),
        name,
    }
}

/// The user data that a machine would get now, or what is in the way.
pub(in super::super) async fn prepared(
    machine: &ButlerMachine,
    format: UserDataFormat,
    source: Source<'_>,
    api: &dyn ApiServer,
) -> Result<Result<SensitiveText, Finding>, Failure> {
    let origin = beside(machine, source.bootstrap_data.to_owned());
    let data = match bootstrap_data(machine, format, source, api).await? {
        Ok(data) => data,
        Err(obstacle) => return Ok(Err(obstacle)),
    };
    let host_name = machine.name_any();
    let instance = machine.uid().unwrap_or_default();
    let identity = Identity {
        host_name: &host_name,
        instance: &instance,
        cluster: source.cluster,
    };
    Ok(translate(format, &data, identity).map_err(|why| {
        let message = format!(
            "the bootstrap data in the Secret {origin} cannot be told to a machine that reads {}: {why}",
            format.as_str()
        );
        Finding::new(false, reasons::BOOTSTRAP_DATA_UNUSABLE, message)
    }))
}

async fn bootstrap_data(
    machine: &ButlerMachine,
    format: UserDataFormat,
    source: Source<'_>,
    api: &dyn ApiServer,
) -> Result<Result<BootstrapData, Finding>, Failure> {
    let origin = beside(machine, source.bootstrap_data.to_owned());
    let mut data = match entries(&origin, api).await? {
        Ok(data) => data,
        Err(obstacle) => return Ok(Err(obstacle)),
    };
    let Some(value) = text(&mut data, secret_keys::VALUE) else {
        return Ok(Err(lacking(&origin, secret_keys::VALUE)));
    };
    let authority = match format {
        UserDataFormat::Ignition => None,
        UserDataFormat::Bottlerocket => {
            let suffix = names::CERTIFICATE_AUTHORITY_SUFFIX;
            let key = beside(machine, format!("{}{suffix}", source.cluster));
            let mut authority = match entries(&key, api).await? {
                Ok(authority) => authority,
                Err(obstacle) => return Ok(Err(obstacle)),
            };
            let certificate = text(&mut authority, secret_keys::TLS_CERTIFICATE);
            let Some(certificate) = certificate else {
                return Ok(Err(lacking(&key, secret_keys::TLS_CERTIFICATE)));
            };
            Some(certificate)
        }
    };
    Ok(Ok(BootstrapData {
        // As long as nobody says otherwise, bootstrap data is this.
        format: text(&mut data, secret_keys::FORMAT).unwrap_or_else(|| CLOUD_CONFIG.to_owned()),
        value: SensitiveText(value),
        authority,
    }))
}

async fn entries(
    key: &ObjectKey,
    api: &dyn ApiServer,
) -> Result<Result<BTreeMap<String, ByteString>, Finding>, Failure> {
    let Some(body) = api.get(&Kind::of::<Secret>(), key).await? else {
        let message = format!("waiting for the Secret {key}");
        let reason = reasons::WAITING_FOR_DEPENDENCIES;
        return Ok(Err(Finding::new(false, reason, message)));
    };
    // What is wrong with a Secret must not be told with what is in it.
    let secret: Secret = serde_json::from_value(body).map_err(|_| {
        let message = format!("the Secret {key} cannot be read; correct it");
        Failure::retry(reasons::OBSERVE_FAILED, message)
    })?;
    Ok(Ok(secret.data.unwrap_or_default()))
}

fn text(data: &mut BTreeMap<String, ByteString>, key: &str) -> Option<String> {
    data.remove(key)
        .and_then(|value| String::from_utf8(value.0).ok())
}

fn lacking(key: &ObjectKey, entry: &str) -> Finding {
    let message = format!("the Secret {key} has no text under the key {entry}; add it");
    Finding::new(false, reasons::BOOTSTRAP_DATA_UNUSABLE, message)
}

/// Writes the user data of a machine. Created, not applied: what is there under that name is left as it is.
pub(in super::super) async fn write(
    machine: &ButlerMachine,
    source: Source<'_>,
    context: &Context,
) -> Result<(), Failure> {
    let api = context.api();
    let Some(format) = machine.spec.shape.user_data_format else {
        return Ok(());
    };
    let user_data = prepared(machine, format, source, api).await?;
    let user_data = user_data.map_err(|obstacle| stale(obstacle.message))?;
    let data = BTreeMap::from([(secret_keys::VALUE, ByteString(user_data.0.into_bytes()))]);
    let key = key(machine);
    let uid = machine.uid().unwrap_or_default();
    let kind = ButlerMachine::kind(&());
    let body = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": key.name, "namespace": key.namespace,
            "labels": {
                labels::MANAGED_BY: values::MANAGED_BY_BUTLER,
                labels::CLUSTER_API_CLUSTER: source.cluster,
                labels::OWNER_UID: uid,
                labels::OWNER_KIND: kind,
            },
            "ownerReferences": [{
                "apiVersion": ButlerMachine::api_version(&()), "kind": kind,
                "name": machine.name_any(), "uid": uid, "controller": true,
            }],
        },
        "data": data,
    });
    let created = api.create(&Kind::of::<Secret>(), &key, body).await;
    created.map(|_| ()).map_err(|error| match error.cause {
        Cause::AlreadyExists => stale(error.to_string()),
        Cause::Forbidden => Failure::terminal(
            reasons::APPLY_FAILED,
            format!(
                "{error}; for systems without cloud-init the chart butler must be installed with the value \
                 controller.userData.enabled"
            ),
        ),
        _ => error.into(),
    })
}

/// What was decided does not fit what is there any more: look again.
fn stale(message: String) -> Failure {
    Failure {
        class: Class::Stale,
        reason: reasons::OBSERVE_FAILED,
        message,
    }
}
