//! The shape of credentials: which keys a provider needs, and whether a Secret's values can be what they should be.
//!
//! No value leaves this module, not even in part.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use butler_api::butler::provider_config::{Provider, ProviderConfig};
use butler_runtime::{
    api_server::ApiServer,
    failure::Failure,
    object::{Kind, ObjectKey},
};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use serde_json::Value;

/// What a value must be beside present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// Any text.
    Text,
    /// A kubeconfig with at least one cluster that has a server.
    Kubeconfig,
    /// A service account key as its cloud hands it out.
    ServiceAccountKey,
}

/// A key a provider's Secret must hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Need {
    key: String,
    form: Form,
}

/// What a provider's Secret must hold. Where it is one value, the reference may name another key for it.
fn needs(provider: &ProviderConfig) -> Vec<Need> {
    let kind = provider.spec.provider;
    let form = match kind {
        Provider::Harvester => Form::Kubeconfig,
        Provider::Gcp => Form::ServiceAccountKey,
        Provider::Nutanix
        | Provider::Proxmox
        | Provider::Azure
        | Provider::Aws
        | Provider::Local => Form::Text,
    };
    let named = provider
        .spec
        .credentials_ref
        .as_ref()
        .and_then(|credentials| credentials.key.as_deref());
    match (kind.credential_keys(), named) {
        ([_], Some(key)) => vec![Need {
            key: key.to_owned(),
            form,
        }],
        (keys, _) => keys
            .iter()
            .map(|key| Need {
                key: (*key).to_owned(),
                form,
            })
            .collect(),
    }
}

/// What is wrong with a Secret, in words without its values; nothing if it is well-formed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialsShape {
    /// One sentence a defect.
    pub defects: Vec<String>,
}

fn shape(secret: &Secret, needs: &[Need]) -> CredentialsShape {
    let values = secret.data.as_ref();
    let defect = |need: &Need| {
        let key = &need.key;
        let Some(ByteString(value)) = values.and_then(|values| values.get(key)) else {
            return Some(format!("key {key} is missing"));
        };
        if value.trim_ascii().is_empty() {
            return Some(format!("key {key} is empty"));
        }
        match need.form {
            Form::Text => None,
            Form::Kubeconfig => (!is_kubeconfig(value))
                .then(|| format!("key {key} is not a kubeconfig that names a server")),
            Form::ServiceAccountKey => (!is_service_account_key(value))
                .then(|| format!("key {key} is not a service account key in JSON")),
        }
    };
    CredentialsShape {
        defects: needs.iter().filter_map(defect).collect(),
    }
}

fn is_kubeconfig(value: &[u8]) -> bool {
    let parsed = std::str::from_utf8(value)
        .ok()
        .and_then(|text| serde_saphyr::from_str::<Value>(text).ok());
    let clusters = parsed
        .as_ref()
        .and_then(|config| config.get("clusters"))
        .and_then(Value::as_array);
    let server = |entry: &Value| {
        entry
            .pointer("/cluster/server")
            .and_then(Value::as_str)
            .is_some_and(|url| !url.is_empty())
    };
    clusters.is_some_and(|clusters| clusters.iter().any(server))
}

fn is_service_account_key(value: &[u8]) -> bool {
    let Ok(parsed) = serde_json::from_slice::<Value>(value) else {
        return false;
    };
    ["client_email", "private_key"]
        .iter()
        .all(|field| parsed.get(field).is_some_and(Value::is_string))
}

/// Shapes already known, by the version of the Secret they were read from: an unchanged Secret is not read again.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    known: Mutex<BTreeMap<(ObjectKey, Vec<Need>), Known>>,
}

#[derive(Debug)]
struct Known {
    version: String,
    shape: CredentialsShape,
}

impl Shapes {
    /// The shape of the credentials in a Secret of which the cache knows this version.
    pub(super) async fn of(
        &self,
        provider: &ProviderConfig,
        key: &ObjectKey,
        version: &str,
        api: &dyn ApiServer,
    ) -> Result<CredentialsShape, Failure> {
        let needs = needs(provider);
        if let Some(shape) = self.recall(key, version, &needs) {
            return Ok(shape);
        }
        let secret = api.get(&Kind::of::<Secret>(), key).await?;
        let secret: Option<Secret> = secret.and_then(|body| serde_json::from_value(body).ok());
        let Some(secret) = secret else {
            return Ok(CredentialsShape {
                defects: vec!["it was deleted a moment ago".to_owned()],
            });
        };
        let shape = shape(&secret, &needs);
        let version = secret.metadata.resource_version.unwrap_or_default();
        let known = Known {
            version,
            shape: shape.clone(),
        };
        self.known().insert((key.clone(), needs), known);
        Ok(shape)
    }

    /// Forgets a Secret that is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.known().retain(|(known, _), _| known != key);
    }

    fn recall(&self, key: &ObjectKey, version: &str, needs: &[Need]) -> Option<CredentialsShape> {
        let known = self.known();
        let known = known
            .get(&(key.clone(), needs.to_vec()))
            .filter(|known| known.version == version)?;
        Some(known.shape.clone())
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<(ObjectKey, Vec<Need>), Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod tests;
