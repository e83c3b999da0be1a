//! The container of the API server.

use std::time::Duration;

use butler_api::{
    steward::{kubernetes::AdmissionController, tenant_control_plane::TenantControlPlane},
    version::KubernetesVersion,
};
use serde_json::{Value, json};

use super::{
    DEAD_AFTER, START_SECONDS, arguments, probe, resources, security,
    volumes::{self, CERTIFICATES, mount},
};
use crate::{
    build::{API_SERVER, PodInputs, StoreConnection},
    tunnel::{TcpProxy, Tunnel},
};

/// The image of the API server.
pub fn image(control_plane: &TenantControlPlane, version: &KubernetesVersion) -> String {
    let settings = &control_plane
        .spec
        .control_plane
        .deployment
        .registry_settings;
    super::image(control_plane, &settings.api_server_image, version)
}

/// How long the API server goes on serving after it was told to end, until nobody is led to it any more.
pub(super) const LAST_REQUESTS: Duration = Duration::from_secs(5);

pub(super) fn container(inputs: &PodInputs<'_>) -> Value {
    let spec = &inputs.control_plane.spec;
    let wished = &spec.control_plane.deployment;
    let port = spec.network_profile.port;
    let extra = wished
        .extra_args
        .as_ref()
        .map_or(&[][..], |extra| &extra.api_server);
    let asked = wished
        .resources
        .as_ref()
        .and_then(|all| all.api_server.as_ref());
    let mut mounts = vec![mount(CERTIFICATES, volumes::CERTIFICATES_DIRECTORY)];
    mounts.extend(volumes::authority_mounts());
    if !inputs.connection.is_etcd() {
        mounts.push(
            json!({ "name": volumes::KINE_SOCKET, "mountPath": volumes::KINE_SOCKET_DIRECTORY }),
        );
    }
    if let Some(tunnel) = Tunnel::of(inputs.control_plane, inputs.settings) {
        mounts.extend(volumes::api_server_tunnel_mounts(tunnel));
    }
    let more = wished.additional_volume_mounts.as_ref();
    mounts.extend(
        more.into_iter()
            .flat_map(|more| &more.api_server)
            .map(|mount| json!(mount)),
    );
    json!({
        "name": API_SERVER,
        "image": image(inputs.control_plane, inputs.version),
        "imagePullPolicy": "IfNotPresent",
        "command": [API_SERVER],
        "args": arguments::merge(flags(inputs), extra),
        "ports": [{ "name": "https", "containerPort": port, "protocol": "TCP" }],
        "livenessProbe": probe("/livez", port, 10, DEAD_AFTER),
        "readinessProbe": probe("/readyz", port, 1, 3),
        "startupProbe": probe("/readyz", port, 1, START_SECONDS),
        "resources": resources(asked, "100m", "256Mi"),
        "securityContext": security(&["NET_BIND_SERVICE"]),
        "volumeMounts": mounts,
    })
}

fn flags(inputs: &PodInputs<'_>) -> Vec<(&'static str, String)> {
    let spec = &inputs.control_plane.spec;
    let profile = &spec.network_profile;
    let file = |name: &str| format!("/etc/kubernetes/pki/{name}");
    let types = &spec.kubernetes.kubelet.preferred_address_types;
    let text = str::to_owned;
    let mut flags = vec![
        ("allow-privileged", text("true")),
        ("authorization-mode", text("Node,RBAC")),
        ("advertise-address", inputs.advertised.to_string()),
        ("client-ca-file", file("ca.crt")),
        (
            "enable-admission-plugins",
            plugins(&spec.kubernetes.admission_controllers, inputs.version),
        ),
        ("enable-bootstrap-token-auth", text("true")),
        ("service-cluster-ip-range", profile.service_cidr.clone()),
        (
            "kubelet-client-certificate",
            file("apiserver-kubelet-client.crt"),
        ),
        ("kubelet-client-key", file("apiserver-kubelet-client.key")),
        ("kubelet-preferred-address-types", listed(types)),
        ("proxy-client-cert-file", file("front-proxy-client.crt")),
        ("proxy-client-key-file", file("front-proxy-client.key")),
        ("requestheader-allowed-names", text("front-proxy-client")),
        ("requestheader-client-ca-file", file("front-proxy-ca.crt")),
        (
            "requestheader-extra-headers-prefix",
            text("X-Remote-Extra-"),
        ),
        ("requestheader-group-headers", text("X-Remote-Group")),
        ("requestheader-username-headers", text("X-Remote-User")),
        ("secure-port", profile.port.to_string()),
        (
            "service-account-issuer",
            format!("https://kubernetes.default.svc.{}", profile.cluster_domain),
        ),
        ("service-account-key-file", file("sa.pub")),
        ("service-account-signing-key-file", file("sa.key")),
        (
            "shutdown-delay-duration",
            format!("{}s", LAST_REQUESTS.as_secs()),
        ),
        ("shutdown-send-retry-after", text("true")),
        ("tls-cert-file", file("apiserver.crt")),
        ("tls-private-key-file", file("apiserver.key")),
    ];
    flags.extend(store_flags(inputs.connection));
    if TcpProxy::is_there(inputs.control_plane, inputs.settings) {
        // The proxy in the tenant says where the API server is.
        flags.push(("endpoint-reconciler-type", text("none")));
    }
    if spec.addons.konnectivity.is_some() {
        flags.push(("egress-selector-config-file", volumes::egress_file()));
    }
    flags
}

fn store_flags(connection: &StoreConnection) -> Vec<(&'static str, String)> {
    let urls = |endpoints: &[String], separator: &str| {
        let urls: Vec<_> = endpoints
            .iter()
            .map(|endpoint| format!("https://{endpoint}"))
            .collect();
        urls.join(separator)
    };
    if !connection.is_etcd() {
        return vec![("etcd-servers", "unix:///uds/kine".to_owned())];
    }
    let file = |name: &str| format!("/etc/kubernetes/pki/etcd/{name}");
    let mut flags = vec![
        // The store belongs to many: its own compaction is for all of them.
        ("etcd-compaction-interval", "0".to_owned()),
        ("etcd-prefix", format!("/{}", connection.schema)),
        ("etcd-servers", urls(&connection.endpoints, ",")),
        ("etcd-cafile", file("ca.crt")),
        ("etcd-certfile", file("server.crt")),
        ("etcd-keyfile", file("server.key")),
    ];
    let overrides: Vec<_> = connection
        .overrides
        .iter()
        .map(|(resource, endpoints)| format!("{resource}#{}", urls(endpoints, ";")))
        .collect();
    if !overrides.is_empty() {
        flags.push(("etcd-servers-overrides", overrides.join(",")));
    }
    flags
}

/// The plugins that the version still knows; an API server does not start with a name it does not know.
fn plugins(wished: &[AdmissionController], version: &KubernetesVersion) -> String {
    let known = wished.iter().filter(|plugin| knows(version, **plugin));
    listed(&known.collect::<Vec<_>>())
}

/// The plugins among these that the version does not know any more, with commas between; none if it knows all.
pub(crate) fn unknown_plugins(
    wished: &[AdmissionController],
    version: &KubernetesVersion,
) -> Option<String> {
    let unknown = wished.iter().filter(|plugin| !knows(version, **plugin));
    let unknown = unknown.collect::<Vec<_>>();
    (!unknown.is_empty()).then(|| listed(&unknown))
}

fn knows(version: &KubernetesVersion, plugin: AdmissionController) -> bool {
    use AdmissionController as Plugin;
    match plugin {
        Plugin::DenyEscalatingExec | Plugin::DenyExecOnPrivileged | Plugin::PodSecurityPolicy => {
            false
        }
        Plugin::SecurityContextDeny => version.minor() < 30,
        Plugin::PersistentVolumeLabel => version.minor() < 31,
        _ => true,
    }
}

/// Values that are texts in JSON, with commas between.
fn listed<T: serde::Serialize>(values: &[T]) -> String {
    let texts: Vec<_> = values
        .iter()
        .filter_map(|value| json!(value).as_str().map(str::to_owned))
        .collect();
    texts.join(",")
}
