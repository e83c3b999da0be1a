//! Manifests on their way to the API server.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ApiResource, DeleteParams, GetParams, PostParams};
use kube::core::Request;
use kube::{Client, Resource};
use serde_json::{Value, json};

use crate::definition;

/// How the API server knows a kind of ours, and whether it lives in namespaces.
fn resource(kind: &str) -> (ApiResource, bool) {
    let definition = definition(kind).spec.clone();
    let version = definition.versions[0].name.clone();
    let resource = ApiResource {
        api_version: format!("{}/{version}", definition.group),
        group: definition.group,
        version,
        kind: definition.names.kind,
        plural: definition.names.plural,
    };
    (resource, definition.scope == "Namespaced")
}

/// A manifest and where it goes.
pub(crate) struct Manifest {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) value: Value,
    namespace: Option<String>,
    path: String,
}

impl Manifest {
    /// Reads YAML that begins below `apiVersion`, which follows from the kind.
    pub(crate) fn of_kind(kind: &str, yaml: &str) -> Self {
        let (resource, _) = resource(kind);
        let api_version = resource.api_version;
        Self::parse(&format!(
            "apiVersion: {api_version}\nkind: {kind}\n{yaml}\n"
        ))
    }

    /// Reads YAML. A manifest of a namespaced kind that names no namespace goes to `default`.
    pub(crate) fn parse(yaml: &str) -> Self {
        let value: Value = serde_saphyr::from_str(yaml).expect("manifest is YAML");
        let text = |pointer: &str| {
            value
                .pointer(pointer)
                .and_then(Value::as_str)
                .expect(pointer)
                .to_owned()
        };
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let (resource, namespaced) = resource(&kind);
        assert_eq!(text("/apiVersion"), resource.api_version);
        let namespace = namespaced.then(|| {
            let written = value.pointer("/metadata/namespace").and_then(Value::as_str);
            written.unwrap_or("default").to_owned()
        });
        let path = kube::core::DynamicObject::url_path(&resource, namespace.as_deref());
        Self {
            kind,
            name,
            value,
            namespace,
            path,
        }
    }

    /// Makes the manifest's namespace unless it is there.
    pub(crate) async fn ensure_namespace(&self, client: &Client) {
        let Some(name) = &self.namespace else { return };
        let namespaces: Api<Namespace> = Api::all(client.clone());
        if namespaces
            .get_opt(name)
            .await
            .expect("namespace can be read")
            .is_none()
        {
            let namespace = serde_json::from_value(json!({ "metadata": { "name": name } }));
            let created = namespaces
                .create(&PostParams::default(), &namespace.expect("namespace"))
                .await;
            created.expect("namespace can be made");
        }
    }

    /// Creates the object as it is written; unknown and repeated fields are refused.
    pub(crate) async fn create(&self, client: &Client, dry_run: bool) -> kube::Result<Value> {
        let parameters = PostParams {
            dry_run,
            field_manager: None,
        };
        let body = serde_json::to_vec(&self.value).expect("manifest is JSON");
        let mut request = Request::new(self.path.as_str())
            .create(&parameters, body)
            .expect("request");
        let strict = format!("{}&fieldValidation=Strict", request.uri());
        *request.uri_mut() = strict.parse().expect("address");
        client.request(request).await
    }

    /// Replaces what exists by what is written.
    pub(crate) async fn replace(&self, client: &Client) -> kube::Result<Value> {
        let mut value = self.get(client).await?;
        value["spec"] = self.value["spec"].clone();
        let body = serde_json::to_vec(&value).expect("object is JSON");
        let request =
            Request::new(self.path.as_str()).replace(&self.name, &PostParams::default(), body);
        client.request(request.expect("request")).await
    }

    /// Reads the object.
    pub(crate) async fn get(&self, client: &Client) -> kube::Result<Value> {
        let request = Request::new(self.path.as_str()).get(&self.name, &GetParams::default());
        client.request(request.expect("request")).await
    }

    /// Deletes the object.
    pub(crate) async fn delete(&self, client: &Client) -> kube::Result<Value> {
        let request = Request::new(self.path.as_str()).delete(&self.name, &DeleteParams::default());
        client.request(request.expect("request")).await
    }
}
