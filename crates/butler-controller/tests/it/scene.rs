//! The objects that the stories are about.

use butler_api::{
    butler::{
        butler_config::ButlerConfig, network_pool::NetworkPool, provider_config::ProviderConfig,
        team::Team, tenant_cluster::TenantCluster,
    },
    keys::names,
};
use butler_runtime::object::{Kind, ObjectKey};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Where the platform's own objects live.
pub(crate) const SYSTEM: &str = names::SYSTEM_NAMESPACE;
/// The team of the stories, and its namespace.
pub(crate) const TEAM: &str = "payments";

pub(crate) fn provider_kind() -> Kind {
    Kind::of::<ProviderConfig>()
}

pub(crate) fn config_kind() -> Kind {
    Kind::of::<ButlerConfig>()
}

pub(crate) fn cluster_kind() -> Kind {
    Kind::of::<TenantCluster>()
}

pub(crate) fn pool_kind() -> Kind {
    Kind::of::<NetworkPool>()
}

pub(crate) fn team_kind() -> Kind {
    Kind::of::<Team>()
}

pub(crate) fn secret_kind() -> Kind {
    Kind::of::<Secret>()
}

pub(crate) fn namespace_kind() -> Kind {
    Kind::of::<Namespace>()
}

/// A key in the platform's own namespace.
pub(crate) fn system(name: &str) -> ObjectKey {
    ObjectKey::namespaced(SYSTEM, name)
}

/// An object of a kind, as its owner writes it.
pub(crate) fn object(kind: &Kind, key: &ObjectKey, more: Value) -> Value {
    let mut body = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": { "name": key.name },
    });
    if let Some(namespace) = &key.namespace {
        body["metadata"]["namespace"] = namespace.clone().into();
    }
    if let Value::Object(more) = more {
        body.as_object_mut().unwrap().extend(more);
    }
    body
}

fn with_spec(spec: Value) -> Value {
    Value::Object([("spec".to_owned(), spec)].into_iter().collect())
}

pub(crate) fn provider(key: &ObjectKey, spec: Value) -> Value {
    object(&provider_kind(), key, with_spec(spec))
}

/// A provider that needs a Secret of the name `login` beside it.
pub(crate) fn provider_with_login(key: &ObjectKey) -> Value {
    let spec = json!({
        "provider": "nutanix",
        "credentialsRef": { "name": "login" },
        "nutanix": { "endpoint": "https://prism.example.com", "clusterUUID": "c", "subnetUUID": "s" },
    });
    provider(key, spec)
}

/// The Secret `login` with this password.
pub(crate) fn login(namespace: &str, password: &str) -> Value {
    let encoded = |text: &str| json!(ByteString(text.as_bytes().to_vec()));
    let data = json!({ "username": encoded("admin"), "password": encoded(password) });
    object(
        &secret_kind(),
        &ObjectKey::namespaced(namespace, "login"),
        json!({ "data": data }),
    )
}

pub(crate) fn team(name: &str) -> Value {
    object(
        &team_kind(),
        &ObjectKey::cluster(name),
        json!({ "spec": {} }),
    )
}

/// A cluster of this many workers on a provider, or on the default one.
pub(crate) fn cluster(key: &ObjectKey, provider: Option<&ObjectKey>, workers: i32) -> Value {
    let mut spec = json!({ "kubernetesVersion": "v1.35.2", "workers": { "replicas": workers } });
    if let Some(provider) = provider {
        spec["providerConfigRef"] =
            json!({ "name": provider.name, "namespace": provider.namespace });
    }
    object(&cluster_kind(), key, with_spec(spec))
}

pub(crate) fn pool(name: &str) -> Value {
    object(
        &pool_kind(),
        &system(name),
        json!({ "spec": { "cidr": "10.40.0.0/16" } }),
    )
}

pub(crate) fn config(spec: Value) -> Value {
    object(
        &config_kind(),
        &ObjectKey::cluster(names::BUTLER_CONFIG),
        with_spec(spec),
    )
}

pub(crate) fn namespace(name: &str) -> Value {
    object(&namespace_kind(), &ObjectKey::cluster(name), json!({}))
}

/// The typed form of a body.
pub(crate) fn typed<K: DeserializeOwned>(body: Value) -> K {
    serde_json::from_value(body).unwrap()
}

/// A definition with a status, whose schema this is.
pub(crate) fn definition(kind: &Kind, status: &Value) -> Value {
    let schema = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        "status": status,
    } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.{}", kind.plural, kind.group) },
        "spec": {
            "group": kind.group, "scope": "Namespaced",
            "names": { "kind": kind.kind, "plural": kind.plural, "singular": kind.kind.to_lowercase() },
            "versions": [{
                "name": kind.version, "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema }, "subresources": { "status": {} },
            }],
        },
    })
}
