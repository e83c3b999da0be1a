//! Control planes behind a Gateway and behind Traefik: a real API server accepts their routes as they are built, and keeps
//! all of them. The kinds are foreign, so they are defined here as far as their projects define what is used of them.

use butler_api::{conditions::types, steward::tenant_control_plane::TenantControlPlane};
use butler_testkit::{ApiServer, Options, eventually, process};
use butler_tunnel::manifests::names;
use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use steward::{run::COMPONENT, settings::Settings};

use crate::{
    kubelet::pod,
    real::{PATIENCE, create, run_steward_with, serve, set_the_scene, until_ready, until_seen},
    scene::{self, TEAM, here},
};

/// The container of konnectivity.
const KONNECTIVITY_SERVER: &str = "konnectivity-server";

fn text() -> Value {
    json!({ "type": "string" })
}

fn texts() -> Value {
    json!({ "type": "array", "items": text() })
}

/// The versions of a kind with this schema of its spec, each with whether it is served. The first is stored.
fn versions(names: &[(&str, bool)], spec: &Value) -> Value {
    let versions = names.iter().enumerate().map(|(index, (name, served))| {
        json!({
            "name": name, "served": served, "storage": index == 0,
            "subresources": { "status": {} },
            "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                "spec": spec,
                "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            } } },
        })
    });
    versions.collect()
}

/// A definition of a kind with these versions.
fn definition(api: &ApiResource, versions: &Value) -> CustomResourceDefinition {
    let definition = json!({
        "metadata": {
            "name": format!("{}.{}", api.plural, api.group),
            // Without it nobody else may define kinds of Kubernetes' own groups.
            "annotations": { "api-approved.kubernetes.io": "unapproved, a stand-in" },
        },
        "spec": {
            "group": api.group, "scope": "Namespaced",
            "names": { "kind": api.kind, "plural": api.plural, "singular": api.kind.to_lowercase() },
            "versions": versions,
        },
    });
    serde_json::from_value(definition).unwrap()
}

/// The experimental channel of v1.5 of the Gateway API.
const EXPERIMENTAL: [(&str, bool); 3] = [("v1", true), ("v1alpha2", true), ("v1alpha3", true)];
/// Its standard channel.
const STANDARD: [(&str, bool); 2] = [("v1", true), ("v1alpha2", false)];
/// What there was before.
const OLDER: [(&str, bool); 1] = [("v1alpha2", true)];

fn tls_routes(version: &str) -> ApiResource {
    let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", version, "TLSRoute");
    ApiResource::from_gvk_with_plural(&kind, "tlsroutes")
}

fn definition_of_tls_routes(names: &[(&str, bool)]) -> CustomResourceDefinition {
    definition(&tls_routes("v1"), &versions_of_tls_routes(names))
}

fn versions_of_tls_routes(names: &[(&str, bool)]) -> Value {
    let or = |default: &str| json!({ "type": "string", "default": default });
    let port = json!({ "type": "integer", "format": "int32", "minimum": 1, "maximum": 65535 });
    let parent = json!({
        "group": or("gateway.networking.k8s.io"), "kind": or("Gateway"),
        "name": text(), "namespace": text(), "port": port, "sectionName": text(),
    });
    let backend = json!({
        "group": or(""), "kind": or("Service"), "name": text(), "namespace": text(),
        "port": port, "weight": { "type": "integer", "format": "int32", "default": 1 },
    });
    let list = |properties: Value| {
        json!({
            "type": "array",
            "items": { "type": "object", "required": ["name"], "properties": properties },
        })
    };
    let rule =
        json!({ "type": "object", "properties": { "name": text(), "backendRefs": list(backend) } });
    let spec = json!({
        "type": "object", "required": ["rules"],
        "properties": {
            "parentRefs": list(parent), "hostnames": texts(),
            "rules": { "type": "array", "minItems": 1, "items": rule },
        },
    });
    versions(names, &spec)
}

fn traefik_routes() -> ApiResource {
    let kind = GroupVersionKind::gvk("traefik.io", "v1alpha1", "IngressRouteTCP");
    ApiResource::from_gvk_with_plural(&kind, "ingressroutetcps")
}

fn definition_of_traefik_routes() -> CustomResourceDefinition {
    let service = json!({
        "type": "object", "required": ["name", "port"],
        "properties": {
            "name": text(), "namespace": text(), "port": { "x-kubernetes-int-or-string": true },
            "weight": { "type": "integer" },
        },
    });
    let route = json!({
        "type": "object", "required": ["match"],
        "properties": {
            "match": text(), "priority": { "type": "integer" },
            "services": { "type": "array", "items": service },
        },
    });
    let tls = json!({
        "type": "object",
        "properties": { "passthrough": { "type": "boolean" }, "secretName": text() },
    });
    let spec = json!({
        "type": "object", "required": ["routes"],
        "properties": {
            "entryPoints": texts(), "routes": { "type": "array", "items": route }, "tls": tls,
        },
    });
    definition(&traefik_routes(), &versions(&[("v1alpha1", true)], &spec))
}

/// The part of a spec by which a control plane is behind a Gateway.
fn behind_gateway(host: &str) -> Value {
    json!({
        "service": { "serviceType": "ClusterIP" },
        "gateway": {
            "hostname": host, "parentRefs": [{ "name": "public", "namespace": "gateways" }],
        },
    })
}

/// The same for Traefik.
fn behind_traefik() -> Value {
    json!({
        "service": { "serviceType": "ClusterIP" },
        "ingress": { "hostname": "web.k8s.example.com", "controllerType": "traefik" },
    })
}

/// What the API server kept of all objects of a foreign kind.
async fn specs(client: &Client, kind: &ApiResource) -> Vec<(String, Value)> {
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), TEAM, kind);
    let found = api.list(&ListParams::default()).await.unwrap();
    let specs = found
        .into_iter()
        .map(|object| (object.metadata.name.unwrap(), object.data["spec"].clone()));
    specs.collect()
}

/// The containers of a control plane's pods.
fn containers(deployment: &Deployment) -> Vec<String> {
    let containers = pod(deployment).containers.into_iter();
    containers.map(|container| container.name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_to_control_planes_are_accepted_as_they_are_built() {
    let mut options = Options::default();
    let foreign = [
        definition_of_tls_routes(&EXPERIMENTAL),
        definition_of_traefik_routes(),
    ];
    options.custom_resources.extend(foreign);
    let server = ApiServer::start(options).await.unwrap();
    let client = server.client_as("story");
    set_the_scene(&client).await;
    let steward = run_steward_with(&server, &Settings::default());
    let variants = [
        (
            "plain",
            json!({ "controlPlane": behind_gateway("plain.k8s.example.com") }),
        ),
        (
            "tunnelled",
            json!({
                "controlPlane": behind_gateway("tunnelled.example.com"),
                "addons": { "konnectivity": {} },
            }),
        ),
        (
            "web",
            json!({ "controlPlane": behind_traefik(), "addons": { "konnectivity": {} } }),
        ),
    ];
    let control_planes = Api::<TenantControlPlane>::namespaced(client.clone(), TEAM);
    for (name, parts) in variants.clone() {
        create(&control_planes, scene::control_plane(&here(name), parts)).await;
    }
    for (name, _) in &variants {
        serve(&client, name).await;
        until_ready(&client, name).await;
    }

    // A route for the API server, and another one for the tunnel where there is one. Without `.k8s.` in it, the name is the
    // same for both.
    let routes = specs(&client, &tls_routes("v1")).await;
    insta::assert_yaml_snapshot!(routes, @r#"
    - - plain
      - hostnames:
          - plain.k8s.example.com
        parentRefs:
          - group: gateway.networking.k8s.io
            kind: Gateway
            name: public
            namespace: gateways
            port: 6443
            sectionName: kube-apiserver
        rules:
          - backendRefs:
              - group: ""
                kind: Service
                name: plain
                port: 6443
                weight: 1
    - - tunnelled
      - hostnames:
          - tunnelled.example.com
        parentRefs:
          - group: gateway.networking.k8s.io
            kind: Gateway
            name: public
            namespace: gateways
            port: 6443
            sectionName: kube-apiserver
        rules:
          - backendRefs:
              - group: ""
                kind: Service
                name: tunnelled
                port: 6443
                weight: 1
    - - tunnelled-konnectivity
      - hostnames:
          - tunnelled.example.com
        parentRefs:
          - group: gateway.networking.k8s.io
            kind: Gateway
            name: public
            namespace: gateways
            port: 8132
            sectionName: konnectivity-server
        rules:
          - backendRefs:
              - group: ""
                kind: Service
                name: tunnelled
                port: 8132
                weight: 1
    "#);
    let routes = specs(&client, &traefik_routes()).await;
    insta::assert_yaml_snapshot!(routes, @r#"
    - - web
      - entryPoints:
          - websecure
        routes:
          - match: "HostSNI(`web.k8s.example.com`)"
            services:
              - name: web
                port: kube-apiserver
          - match: "HostSNI(`web.konnectivity.example.com`)"
            services:
              - name: web
                port: konnectivity-server
        tls:
          passthrough: true
    "#);
    let deployments = Api::<Deployment>::namespaced(client.clone(), TEAM);
    for name in ["tunnelled", "web"] {
        let found = containers(&deployments.get(name).await.unwrap());
        assert!(found.contains(&KONNECTIVITY_SERVER.to_owned()), "{found:?}");
    }

    // What the API server filled in is not fought over.
    let mark = server.audit().mark();
    steward.begin();
    let steward = run_steward_with(&server, &Settings::default());
    until_seen(&client, "sentinel").await;
    let audit = server.audit().since(mark);
    let writes = audit.by_user_agent(COMPONENT).writes().in_namespace(TEAM);
    assert!(writes.is_empty(), "{writes}");
    steward.begin();

    // An operator who has our own tunnel gets it everywhere.
    let settings = Settings {
        tunnel_image: Some("example.com/butler:test".to_owned()),
        ..Settings::default()
    };
    let steward = run_steward_with(&server, &settings);
    for name in ["tunnelled", "web"] {
        let what = "has our own tunnel";
        let ours = eventually(&deployments, name, what, PATIENCE, |found| {
            found.is_some_and(|found| containers(found).contains(&names::SERVER.to_owned()))
        })
        .await;
        assert!(!containers(&ours).contains(&KONNECTIVITY_SERVER.to_owned()));
        serve(&client, name).await;
        until_ready(&client, name).await;
    }
    steward.begin();
}

/// What the condition of the endpoint says of a control plane.
fn told_of_endpoint(control_plane: Option<&TenantControlPlane>) -> String {
    let status = control_plane.and_then(|found| found.status.as_ref());
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    let found = conditions.find(|condition| condition.type_ == types::ENDPOINT_READY);
    found.map_or_else(String::new, |found| {
        format!("{} {}: {}", found.status, found.reason, found.message)
    })
}

/// Waits until the route of a control plane is for a host.
async fn until_routed(client: &Client, version: &str, host: &str) {
    let routes = Api::<DynamicObject>::namespaced_with(client.clone(), TEAM, &tls_routes(version));
    let arrived = process::until(PATIENCE, async || {
        let found = routes.get("plain").await.ok()?;
        let hosts = &found.data["spec"]["hostnames"];
        (*hosts == json!([host])).then_some(())
    });
    assert_eq!(arrived.await, Some(()), "{version}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_wait_for_their_definitions_and_follow_them() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let client = server.client_as("story");
    set_the_scene(&client).await;
    let steward = run_steward_with(&server, &Settings::default());
    let control_planes = Api::<TenantControlPlane>::namespaced(client.clone(), TEAM);
    let plain = json!({ "controlPlane": behind_gateway("plain.k8s.example.com") });
    let web = json!({ "controlPlane": behind_traefik() });
    for (name, parts) in [("plain", plain), ("web", web)] {
        create(&control_planes, scene::control_plane(&here(name), parts)).await;
        // All but the way in is made.
        serve(&client, name).await;
        let found = until_ready(&client, name).await;
        let told = told_of_endpoint(Some(&found));
        assert!(
            told.starts_with("False WaitingForDependencies") && told.contains("; install "),
            "{told}"
        );
    }

    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    for definition in [
        definition_of_tls_routes(&OLDER),
        definition_of_traefik_routes(),
    ] {
        create(&definitions, json!(definition)).await;
    }
    for name in ["plain", "web"] {
        let what = "has its way in";
        eventually(&control_planes, name, what, PATIENCE, |found| {
            told_of_endpoint(found).starts_with("True")
        })
        .await;
    }
    until_routed(&client, "v1alpha2", "plain.k8s.example.com").await;
    let traefik = Api::<DynamicObject>::namespaced_with(client.clone(), TEAM, &traefik_routes());
    let routed = process::until(PATIENCE, async || traefik.get("web").await.ok());
    assert!(routed.await.is_some());

    // The Gateway API is upgraded, and the version that was used goes.
    let upgrade = json!({ "spec": { "versions": versions_of_tls_routes(&STANDARD) } });
    let parameters = PatchParams::default();
    definitions
        .patch(
            "tlsroutes.gateway.networking.k8s.io",
            &parameters,
            &Patch::Merge(upgrade),
        )
        .await
        .unwrap();
    let host = "other.k8s.example.com";
    let moved = json!({ "spec": { "controlPlane": { "gateway": { "hostname": host } } } });
    control_planes
        .patch("plain", &parameters, &Patch::Merge(moved))
        .await
        .unwrap();
    until_routed(&client, "v1", host).await;
    steward.begin();
}
