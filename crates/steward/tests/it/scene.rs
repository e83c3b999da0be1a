//! The objects that the stories are about.

use std::sync::OnceLock;

use butler_api::{
    conditions::types,
    steward::{
        data_store::DataStore, kubeconfig_generator::KubeconfigGenerator,
        tenant_control_plane::TenantControlPlane,
    },
};
use butler_pki::{Authority, LeafRequest, ServiceAccountKey, Usage, Validity};
use butler_runtime::object::{Kind, ObjectKey};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
};
use serde_json::{Value, json};
use steward::secrets::Keys;

/// Where Steward's own objects live.
pub(crate) const SYSTEM: &str = "steward-system";
/// Where the control planes of the stories live.
pub(crate) const TEAM: &str = "payments";
/// The component of the stories.
pub(crate) const COMPONENT: &str = "steward";

pub(crate) fn control_planes() -> Kind {
    Kind::of::<TenantControlPlane>()
}

pub(crate) fn stores() -> Kind {
    Kind::of::<DataStore>()
}

pub(crate) fn generators() -> Kind {
    Kind::of::<KubeconfigGenerator>()
}

pub(crate) fn secrets() -> Kind {
    Kind::of::<Secret>()
}

pub(crate) fn namespaces() -> Kind {
    Kind::of::<Namespace>()
}

/// A key in the namespace of the stories.
pub(crate) fn here(name: &str) -> ObjectKey {
    ObjectKey::namespaced(TEAM, name)
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

fn encoded(text: &str) -> Value {
    json!(ByteString(text.as_bytes().to_vec()))
}

/// A control plane with these parts in its spec.
pub(crate) fn control_plane(key: &ObjectKey, parts: Value) -> Value {
    let mut spec = json!({
        "controlPlane": { "service": { "serviceType": "LoadBalancer" } },
        "kubernetes": { "version": "v1.36.3", "kubelet": {} },
    });
    if let Value::Object(parts) = parts {
        spec.as_object_mut().unwrap().extend(parts);
    }
    json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1", "kind": "TenantControlPlane",
        "metadata": { "name": key.name, "namespace": key.namespace }, "spec": spec,
    })
}

/// An etcd whose certificates are in the Secret `<name>-certs` of Steward's namespace.
pub(crate) fn store(name: &str) -> Value {
    let named = |key: &str| json!({ "secretReference": { "name": format!("{name}-certs"), "namespace": SYSTEM, "keyPath": key } });
    json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1", "kind": "DataStore",
        "metadata": { "name": name },
        "spec": {
            "driver": "etcd",
            "endpoints": [format!("{name}.example.com:2379")],
            "tlsConfig": {
                "certificateAuthority": { "certificate": named("ca.crt"), "privateKey": named("ca.key") },
                "clientCertificate": { "certificate": named("tls.crt"), "privateKey": named("tls.key") },
            },
        },
    })
}

/// The Secret with the certificates of a store; made once, since tests are many.
pub(crate) fn store_certificates(name: &str) -> Value {
    static MADE: OnceLock<Value> = OnceLock::new();
    let data = MADE.get_or_init(|| {
        let start = "2000-01-01T00:00:00Z".parse::<Timestamp>().unwrap();
        let ages = Validity::starting(start, SignedDuration::from_hours(24 * 36_500));
        let authority = Authority::new("etcd-ca", ages).unwrap();
        let client = LeafRequest {
            common_name: "root".to_owned(),
            ..LeafRequest::new(Usage::Client, ages)
        };
        let client = authority.issue(&client).unwrap();
        json!({
            "ca.crt": encoded(authority.certificate_pem()),
            "ca.key": encoded(authority.key_pem().expose()),
            "tls.crt": encoded(&client.certificate_pem),
            "tls.key": encoded(client.key_pem.expose()),
        })
    });
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": format!("{name}-certs"), "namespace": SYSTEM }, "data": data,
    })
}

/// The same key for everybody: making one takes long.
pub(crate) struct OneKey;

impl Keys for OneKey {
    fn service_account(&self) -> BoxFuture<'_, Result<ServiceAccountKey, butler_pki::Error>> {
        static KEY: OnceLock<ServiceAccountKey> = OnceLock::new();
        let key = KEY.get_or_init(|| ServiceAccountKey::generate().unwrap());
        Box::pin(async { Ok(key.clone()) })
    }
}

/// What a condition of an object says: its status and reason.
pub(crate) fn condition(object: &Value, type_: &str) -> String {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == type_);
    found.map_or_else(
        || "absent".to_owned(),
        |found| {
            let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
            format!("{} {}", text("status"), text("reason"))
        },
    )
}

/// What `Ready` of an object says.
pub(crate) fn ready(object: &Value) -> String {
    condition(object, types::READY)
}
