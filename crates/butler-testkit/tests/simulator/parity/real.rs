//! The script, on a real API server.

use std::time::Duration;

use butler_runtime::{
    api_server::ApiServer,
    kube_api_server::KubeApiServer,
    object::{Kind, ObjectKey},
};
use butler_testkit::{Controllers, Options, eventually_gone};
use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, api::DynamicObject};
use serde_json::{Value, json};

use super::{
    runner::{Ground, assert_as_recorded, run},
    script::{gadget, script, widget},
};

/// Kubernetes clears away in its own time; the garbage collector looks for new kinds only now and then.
const PATIENCE: Duration = Duration::from_mins(2);

struct Real {
    client: Client,
    api: KubeApiServer,
}

impl Ground for Real {
    fn api(&self) -> &dyn ApiServer {
        &self.api
    }

    fn until_gone<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey) -> BoxFuture<'a, ()> {
        async move {
            let (client, resource) = (self.client.clone(), kind.api_resource());
            let api: Api<DynamicObject> = match &key.namespace {
                Some(namespace) => Api::namespaced_with(client, namespace, &resource),
                None => Api::all_with(client, &resource),
            };
            eventually_gone(&api, &key.name, PATIENCE).await;
        }
        .boxed()
    }
}

/// The definition of one of the script's own kinds.
fn definition(kind: Kind) -> CustomResourceDefinition {
    let Kind {
        group,
        version,
        kind,
        plural,
        namespaced,
    } = kind;
    let scope = if namespaced { "Namespaced" } else { "Cluster" };
    let text = json!({ "type": "string" });
    let condition = json!({
        "type": "object",
        "required": ["type", "status"],
        "properties": { "type": text, "status": text, "reason": text, "message": text, "lastTransitionTime": text },
    });
    let schema: Value = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": {
            "size": { "type": "integer" },
            "color": text,
            "tags": { "type": "array", "items": text },
            "limits": { "type": "object", "additionalProperties": text },
        } },
        "status": { "type": "object", "properties": {
            "phase": text,
            "conditions": {
                "type": "array",
                "items": condition,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        } },
    } });
    let body = json!({
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "scope": scope,
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema }, "subresources": { "status": {} },
            }],
        },
    });
    serde_json::from_value(body).expect("the definition fits its type")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_answers_as_recorded() {
    let options = Options {
        controllers: Controllers::Housekeeping,
        custom_resources: vec![definition(widget()), definition(gadget())],
        ..Options::default()
    };
    let server = butler_testkit::ApiServer::start(options).await.unwrap();
    let client = server.client_as("parity");
    let ground = Real {
        api: KubeApiServer::new(client.clone()),
        client,
    };
    assert_as_recorded(&run(&ground, script()).await);
}
