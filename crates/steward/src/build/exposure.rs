//! Ingress and Gateway in front of a control plane. All pass TLS through: only the API server holds its key.

use butler_api::steward::{
    exposure::{AdditionalMetadata, IngressControllerType},
    tenant_control_plane::{ControlPlaneIngress, TenantControlPlane},
};
use butler_runtime::object::{Kind, Manifest};
use k8s_openapi::api::networking::v1::Ingress;
use serde_json::{Value, json};

use super::{API_SERVER, KONNECTIVITY_SERVER};
use crate::{
    addresses::{konnectivity_host, public_host},
    foreign_routes::{TlsRouteVersion, traefik_route},
    names::Names,
    tunnel::has_a_name_of_its_own,
};

/// Traefik's entry point for TLS.
const TRAEFIK_ENTRY_POINT: &str = "websecure";

/// The annotations by which a kind of controller is told to pass TLS through.
fn passthrough(controller: IngressControllerType) -> Vec<(&'static str, &'static str)> {
    match controller {
        IngressControllerType::Haproxy => vec![("haproxy.org/ssl-passthrough", "true")],
        IngressControllerType::Nginx => vec![
            ("nginx.ingress.kubernetes.io/ssl-passthrough", "true"),
            ("nginx.ingress.kubernetes.io/backend-protocol", "HTTPS"),
        ],
        IngressControllerType::Traefik | IngressControllerType::Generic => Vec::new(),
    }
}

/// The Ingress of a control plane and the host it is for, if it wants one of this kind.
fn wished(
    control_plane: &TenantControlPlane,
    traefik: bool,
) -> Option<(&ControlPlaneIngress, String)> {
    let ingress = control_plane.spec.control_plane.ingress.as_ref()?;
    let controller = ingress.controller_type.unwrap_or_default();
    let (host, _) = public_host(control_plane)?;
    ((controller == IngressControllerType::Traefik) == traefik).then_some((ingress, host))
}

/// The name by which agents reach the reverse tunnel and its port, if there is one and connections to it can be told from those to
/// the API server.
fn tunnel_host(control_plane: &TenantControlPlane, host: &str) -> Option<(String, i32)> {
    let tunnel = control_plane.spec.addons.konnectivity.as_ref()?;
    let is_told_apart = has_a_name_of_its_own(control_plane);
    is_told_apart.then(|| (konnectivity_host(host), tunnel.server.port))
}

/// The Ingress, where the control plane has one of Kubernetes' own kind.
pub fn ingress(control_plane: &TenantControlPlane, names: &Names) -> Option<Manifest> {
    let (wished, host) = wished(control_plane, false)?;
    let mut additional = wished.additional_metadata.clone().unwrap_or_default();
    for (key, value) in passthrough(wished.controller_type.unwrap_or_default()) {
        let annotations = &mut additional.annotations;
        let entry = annotations.entry(key.to_owned());
        // What the user writes is meant.
        entry.or_insert_with(|| value.to_owned());
    }
    // By number: an Ingress takes names of ports of at most 15 characters, a Service has longer ones.
    let rule = |host: &str, port: i32| {
        let backend = json!({ "service": { "name": names.name(), "port": { "number": port } } });
        json!({
            "host": host,
            "http": { "paths": [{ "path": "/", "pathType": "Prefix", "backend": backend }] },
        })
    };
    let port = control_plane.spec.network_profile.port;
    let (mut rules, mut hosts) = (vec![rule(&host, port)], vec![host.clone()]);
    if let Some((tunnel, port)) = tunnel_host(control_plane, &host) {
        rules.push(rule(&tunnel, port));
        hosts.push(tunnel);
    }
    let mut spec = json!({ "rules": rules, "tls": [{ "hosts": hosts }] });
    if let Some(class) = &wished.ingress_class_name {
        spec["ingressClassName"] = class.clone().into();
    }
    let metadata = names.metadata(names.name(), "ingress", Some(&additional));
    let body = json!({ "metadata": metadata, "spec": spec });
    Some(Manifest::new(Kind::of::<Ingress>(), body))
}

/// Traefik's route, where the control plane is served by it. It matches the public names alone: names such as
/// `kubernetes.default` are those of every tenant.
pub fn traefik(control_plane: &TenantControlPlane, names: &Names) -> Option<Manifest> {
    let (wished, host) = wished(control_plane, true)?;
    let route = |host: &str, port: &str| {
        json!({
            "match": format!("HostSNI(`{host}`)"),
            "services": [{ "name": names.name(), "port": port }],
        })
    };
    let mut routes = vec![route(&host, API_SERVER)];
    routes.extend(
        tunnel_host(control_plane, &host).map(|(tunnel, _)| route(&tunnel, KONNECTIVITY_SERVER)),
    );
    let metadata = names.metadata(names.name(), "ingress", wished.additional_metadata.as_ref());
    let body = json!({
        "metadata": metadata,
        "spec": {
            "entryPoints": [TRAEFIK_ENTRY_POINT],
            "routes": routes,
            "tls": { "passthrough": true },
        },
    });
    Some(Manifest::new(traefik_route(), body))
}

/// The routes of the Gateway API in the version that the cluster serves: one for the API server, one for agents of the reverse tunnel.
pub fn routes(
    control_plane: &TenantControlPlane,
    names: &Names,
    version: TlsRouteVersion,
) -> Vec<Manifest> {
    let spec = &control_plane.spec;
    let (Some(gateway), Some((host, _))) = (
        spec.control_plane.gateway.as_ref(),
        public_host(control_plane),
    ) else {
        return Vec::new();
    };
    let route = |name: &str, host: &str, section: &str, port: i32| {
        let parents: Vec<Value> = gateway
            .parent_refs
            .iter()
            .map(|parent| {
                let mut parent = json!(parent);
                parent["port"] = port.into();
                parent["sectionName"] = section.into();
                parent
            })
            .collect();
        let additional: Option<&AdditionalMetadata> = gateway.additional_metadata.as_ref();
        // With all that the API server would fill in: a list is one value to it, and would never be as we said.
        let backend = json!({ "group": "", "kind": "Service", "name": names.name(), "port": port, "weight": 1 });
        let body = json!({
            "metadata": names.metadata(name, "gateway", additional),
            "spec": {
                "parentRefs": parents,
                "hostnames": [host],
                "rules": [{ "backendRefs": [backend] }],
            },
        });
        Manifest::new(version.kind(), body)
    };
    let mut routes = vec![route(
        names.name(),
        &host,
        API_SERVER,
        spec.network_profile.port,
    )];
    if let Some(tunnel) = &spec.addons.konnectivity {
        routes.push(route(
            &names.konnectivity_route(),
            &konnectivity_host(&host),
            KONNECTIVITY_SERVER,
            tunnel.server.port,
        ));
    }
    routes
}

#[cfg(test)]
mod tests {
    use insta::assert_yaml_snapshot;

    use super::*;
    use crate::testing::control_plane_with;

    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers write it down in place"
    )]
    fn behind(ingress: Value) -> TenantControlPlane {
        control_plane_with(json!({
            "controlPlane": { "service": { "serviceType": "ClusterIP" }, "ingress": ingress },
            "addons": { "konnectivity": {} },
        }))
    }

    #[test]
    fn each_ingress_controller_is_told_in_its_own_words_to_pass_tls_through() {
        let annotations = |controller: &str| {
            let tcp =
                behind(json!({ "hostname": "shop.k8s.example.com", "controllerType": controller }));
            let manifest = ingress(&tcp, &Names::of(&tcp));
            manifest.map(|manifest| manifest.body["metadata"]["annotations"].clone())
        };
        let told = ["haproxy", "nginx", "generic", "traefik"].map(|name| (name, annotations(name)));
        assert_yaml_snapshot!(told, @r#"
        - - haproxy
          - haproxy.org/ssl-passthrough: "true"
        - - nginx
          - nginx.ingress.kubernetes.io/backend-protocol: HTTPS
            nginx.ingress.kubernetes.io/ssl-passthrough: "true"
        - - generic
          - ~
        - - traefik
          - ~
        "#);
    }

    #[test]
    fn an_ingress_of_kubernetes_own_kind() {
        let tcp = behind(json!({
            "hostname": "shop.k8s.example.com:8443", "ingressClassName": "public", "controllerType": "nginx",
            "additionalMetadata": { "annotations": { "nginx.ingress.kubernetes.io/backend-protocol": "AUTO_HTTP" } },
        }));
        let names = Names::of(&tcp);
        assert_yaml_snapshot!(ingress(&tcp, &names).unwrap().body, @r#"
        apiVersion: networking.k8s.io/v1
        kind: Ingress
        metadata:
          annotations:
            nginx.ingress.kubernetes.io/backend-protocol: AUTO_HTTP
            nginx.ingress.kubernetes.io/ssl-passthrough: "true"
          labels:
            steward.butlerlabs.dev/component: ingress
            steward.butlerlabs.dev/name: shop
            steward.butlerlabs.dev/project: steward
          name: shop
          namespace: payments
          ownerReferences:
            - apiVersion: steward.butlerlabs.dev/v1alpha1
              blockOwnerDeletion: true
              controller: true
              kind: TenantControlPlane
              name: shop
              uid: 6f9619ff-8b86-4011-b42d-00c04fc964ff
        spec:
          ingressClassName: public
          rules:
            - host: shop.k8s.example.com
              http:
                paths:
                  - backend:
                      service:
                        name: shop
                        port:
                          number: 6443
                    path: /
                    pathType: Prefix
            - host: shop.konnectivity.example.com
              http:
                paths:
                  - backend:
                      service:
                        name: shop
                        port:
                          number: 8132
                    path: /
                    pathType: Prefix
          tls:
            - hosts:
                - shop.k8s.example.com
                - shop.konnectivity.example.com
        "#);
        assert_eq!(traefik(&tcp, &names), None);
    }

    #[test]
    fn a_route_of_traefik_matches_public_names_alone() {
        let tcp =
            behind(json!({ "hostname": "shop.k8s.example.com", "controllerType": "traefik" }));
        let names = Names::of(&tcp);
        assert_yaml_snapshot!(traefik(&tcp, &names).unwrap().body["spec"], @r#"
        entryPoints:
          - websecure
        routes:
          - match: "HostSNI(`shop.k8s.example.com`)"
            services:
              - name: shop
                port: kube-apiserver
          - match: "HostSNI(`shop.konnectivity.example.com`)"
            services:
              - name: shop
                port: konnectivity-server
        tls:
          passthrough: true
        "#);
        assert_eq!(ingress(&tcp, &names), None);
    }

    #[test]
    fn a_gateway_has_a_route_for_the_api_server_and_one_for_the_tunnel() {
        let tcp = control_plane_with(json!({
            "controlPlane": {
                "service": { "serviceType": "ClusterIP" },
                "gateway": {
                    "hostname": "shop.k8s.example.com",
                    "parentRefs": [{ "name": "public", "namespace": "gateways" }],
                },
            },
            "addons": { "konnectivity": {} },
        }));
        let routes = routes(&tcp, &Names::of(&tcp), TlsRouteVersion::V1);
        let specs: Vec<_> = routes
            .iter()
            .map(|route| (&route.key.name, &route.body["spec"]))
            .collect();
        assert_yaml_snapshot!(specs, @r#"
        - - shop
          - hostnames:
              - shop.k8s.example.com
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
                    name: shop
                    port: 6443
                    weight: 1
        - - shop-konnectivity
          - hostnames:
              - shop.konnectivity.example.com
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
                    name: shop
                    port: 8132
                    weight: 1
        "#);
    }

    #[test]
    fn without_a_host_name_there_is_nothing_to_route_by() {
        let tcp = behind(json!({}));
        let names = Names::of(&tcp);
        assert_eq!(ingress(&tcp, &names), None);
        assert!(routes(&tcp, &names, TlsRouteVersion::V1).is_empty());
    }
}
