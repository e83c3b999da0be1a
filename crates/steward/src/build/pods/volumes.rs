//! The volumes of a control plane's pods, and where they are mounted.

use std::collections::BTreeSet;

use butler_api::steward::tenant_control_plane::TenantControlPlane;
use butler_tunnel::manifests;
use serde_json::{Value, json};

use super::konnectivity;
use crate::{
    addresses::public_host,
    build::{PodInputs, StoreConnection, egress},
    names::{Names, SecretRole},
    settings::Settings,
    tunnel::Tunnel,
};

/// Where the components find their certificates and keys.
pub(super) const CERTIFICATES_DIRECTORY: &str = "/etc/kubernetes/pki";
/// Where the socket between the API server and kine is.
pub(super) const KINE_SOCKET_DIRECTORY: &str = "/uds";
/// All certificates and keys of the components.
pub(super) const CERTIFICATES: &str = "etc-kubernetes-pki";
/// The socket between the API server and kine.
pub(super) const KINE_SOCKET: &str = "kine-uds";
/// The certificates kine shows to the database.
pub(super) const KINE_CERTIFICATES: &str = "kine-certs";
/// The socket between the API server and the reverse tunnel.
pub(super) const KONNECTIVITY_SOCKET: &str = "konnectivity-uds";
/// The API server's egress configuration.
pub(super) const EGRESS_CONFIGURATION: &str = "egress-selector-configuration";
/// The certificate that the reverse tunnel shows, and its key.
pub(super) const KONNECTIVITY_CERTIFICATE: &str = "konnectivity-server-certificate";
/// The reverse tunnel's kubeconfig.
const KONNECTIVITY_KUBECONFIG: &str = "konnectivity-server-kubeconfig";
/// The file of the reverse tunnel's kubeconfig.
const KONNECTIVITY_KUBECONFIG_FILE: &str = "konnectivity-server.conf";
/// Where the API server finds its egress configuration.
const EGRESS_DIRECTORY: &str = "/etc/kubernetes/konnectivity/configurations";
/// Where the server of a tunnel finds its certificate.
const TUNNEL_CERTIFICATES: &str = "/etc/konnectivity/pki";
const TUNNEL_CERTIFICATE_FILE: &str = "tls.crt";
const TUNNEL_KEY_FILE: &str = "tls.key";
/// The places where programs look for authorities they trust.
const AUTHORITIES: [(&str, &str); 3] = [
    ("etc-ca-certificates", "/etc/ca-certificates"),
    ("usr-share-ca-certificates", "/usr/share/ca-certificates"),
    (
        "usr-local-share-ca-certificates",
        "/usr/local/share/ca-certificates",
    ),
];
/// The certificate of the authority that signs, among those that are trusted.
pub(super) const SIGNER: &str = "ca-signer.crt";
/// Files are read by the group of our containers, and by nobody else.
const FILE_MODE: i32 = 0o440;

/// The names of our volumes, which nobody else's may have.
pub fn reserved_volumes() -> BTreeSet<&'static str> {
    let fixed = [
        CERTIFICATES,
        KINE_SOCKET,
        KINE_CERTIFICATES,
        KONNECTIVITY_SOCKET,
        manifests::names::SOCKET_VOLUME,
        EGRESS_CONFIGURATION,
        KONNECTIVITY_CERTIFICATE,
        KONNECTIVITY_KUBECONFIG,
        SecretRole::SchedulerKubeconfig.as_str(),
        SecretRole::ControllerManagerKubeconfig.as_str(),
    ];
    let authorities = AUTHORITIES.into_iter().map(|(name, _)| name);
    fixed.into_iter().chain(authorities).collect()
}

/// Those of our volumes that pods of this control plane may have. Whether there is one for kine depends on the store, which need not
/// be known yet.
pub fn standing_volumes(
    control_plane: &TenantControlPlane,
    settings: &Settings,
) -> BTreeSet<&'static str> {
    let own_tunnel = [manifests::names::SOCKET_VOLUME];
    let konnectivity = [KONNECTIVITY_SOCKET];
    let any_tunnel = [
        EGRESS_CONFIGURATION,
        KONNECTIVITY_CERTIFICATE,
        KONNECTIVITY_KUBECONFIG,
    ];
    let absent = match Tunnel::of(control_plane, settings) {
        None => [&own_tunnel[..], &konnectivity, &any_tunnel].concat(),
        Some(Tunnel::Konnectivity(_)) => own_tunnel.to_vec(),
        Some(Tunnel::Butler { .. }) => konnectivity.to_vec(),
    };
    let mut volumes = reserved_volumes();
    volumes.retain(|volume| !absent.contains(volume));
    volumes
}

/// Where the components have what is theirs: directories and single files.
pub fn reserved_paths() -> Vec<String> {
    let fixed = [
        CERTIFICATES_DIRECTORY,
        KINE_SOCKET_DIRECTORY,
        konnectivity::SOCKET_DIRECTORY,
        manifests::names::SOCKET_DIRECTORY,
        EGRESS_DIRECTORY,
        TUNNEL_CERTIFICATES,
    ];
    let authorities = AUTHORITIES.into_iter().map(|(_, path)| path);
    let files = [
        SecretRole::SchedulerKubeconfig,
        SecretRole::ControllerManagerKubeconfig,
    ];
    let files = files.into_iter().map(kubeconfig_file);
    let directories = fixed.into_iter().chain(authorities).map(str::to_owned);
    directories
        .chain(files)
        .chain([tunnel_kubeconfig_file()])
        .collect()
}

/// The Secrets that the pods mount or read. Without all of them no pod can start.
pub fn mounted(
    control_plane: &TenantControlPlane,
    connection: &StoreConnection,
) -> Vec<SecretRole> {
    let mut roles = vec![
        SecretRole::Authority,
        SecretRole::FrontProxyAuthority,
        SecretRole::ServiceAccount,
        SecretRole::ApiServer,
        SecretRole::KubeletClient,
        SecretRole::FrontProxyClient,
        SecretRole::ControllerManagerKubeconfig,
        SecretRole::SchedulerKubeconfig,
        SecretRole::StoreConfig,
    ];
    if connection.has_certificates() {
        roles.push(SecretRole::StoreCertificate);
    }
    if control_plane.spec.addons.konnectivity.is_some() {
        roles.push(SecretRole::KonnectivityKubeconfig);
        if public_host(control_plane).is_some() {
            roles.push(SecretRole::KonnectivityCertificate);
        }
    }
    roles
}

/// A mount that is only read.
pub(super) fn mount(name: &str, path: &str) -> Value {
    json!({ "name": name, "mountPath": path, "readOnly": true })
}

pub(super) fn authority_mounts() -> impl Iterator<Item = Value> {
    AUTHORITIES
        .into_iter()
        .map(|(name, path)| mount(name, path))
}

/// The name of a kubeconfig within its Secret and on the disk.
pub(super) fn kubeconfig_file_name(role: SecretRole) -> String {
    let name = role.as_str().trim_end_matches("-kubeconfig");
    format!("{name}.conf")
}

pub(super) fn kubeconfig_file(role: SecretRole) -> String {
    format!("/etc/kubernetes/{}", kubeconfig_file_name(role))
}

/// The file alone is mounted: the directory holds the certificates too.
pub(super) fn kubeconfig_mount(role: SecretRole) -> Value {
    let mut mount = mount(role.as_str(), &kubeconfig_file(role));
    mount["subPath"] = kubeconfig_file_name(role).into();
    mount
}

pub(super) fn tunnel_kubeconfig_file() -> String {
    format!("/etc/kubernetes/{KONNECTIVITY_KUBECONFIG_FILE}")
}

/// What the server of a tunnel mounts, whichever it is, beside its socket. It speaks with strangers, so it is given what it
/// shows to them and nothing else.
pub(super) fn tunnel_mounts() -> [Value; 2] {
    let mut kubeconfig = mount(KONNECTIVITY_KUBECONFIG, &tunnel_kubeconfig_file());
    kubeconfig["subPath"] = KONNECTIVITY_KUBECONFIG_FILE.into();
    let certificate = mount(KONNECTIVITY_CERTIFICATE, TUNNEL_CERTIFICATES);
    [kubeconfig, certificate]
}

/// The files of the certificate that the server of a tunnel shows, and of its key.
pub(super) fn tunnel_certificate() -> (String, String) {
    let file = |name: &str| format!("{TUNNEL_CERTIFICATES}/{name}");
    (file(TUNNEL_CERTIFICATE_FILE), file(TUNNEL_KEY_FILE))
}

/// The certificate of its own, where agents reach the tunnel by a name of its own; else that of the API server.
fn tunnel_certificates(control_plane: &TenantControlPlane, names: &Names) -> Value {
    if public_host(control_plane).is_some() {
        let role = SecretRole::KonnectivityCertificate;
        return secret(names, role, KONNECTIVITY_CERTIFICATE);
    }
    let mut volume = secret(names, SecretRole::ApiServer, KONNECTIVITY_CERTIFICATE);
    volume["secret"]["items"] = json!([
        { "key": "apiserver.crt", "path": TUNNEL_CERTIFICATE_FILE },
        { "key": "apiserver.key", "path": TUNNEL_KEY_FILE },
    ]);
    volume
}

/// Where the API server finds its egress configuration.
pub(super) fn egress_file() -> String {
    format!("{EGRESS_DIRECTORY}/{}", egress::FILE)
}

/// What the API server needs to speak to a tunnel.
pub(super) fn api_server_tunnel_mounts(tunnel: Tunnel<'_>) -> [Value; 2] {
    let socket = match tunnel {
        Tunnel::Konnectivity(_) => {
            json!({ "name": KONNECTIVITY_SOCKET, "mountPath": konnectivity::SOCKET_DIRECTORY })
        }
        Tunnel::Butler { .. } => json!(manifests::socket_mount()),
    };
    [socket, mount(EGRESS_CONFIGURATION, EGRESS_DIRECTORY)]
}

pub(super) fn volumes(inputs: &PodInputs<'_>) -> Vec<Value> {
    let names = inputs.names;
    let wished = &inputs.control_plane.spec;
    let added = &wished.control_plane.deployment.additional_volumes;
    let mut volumes: Vec<Value> = added.iter().map(|volume| json!(volume)).collect();
    volumes.push(certificates(names, inputs.connection));
    volumes.extend(AUTHORITIES.map(|(name, _)| authority(names, name)));
    for role in [
        SecretRole::SchedulerKubeconfig,
        SecretRole::ControllerManagerKubeconfig,
    ] {
        volumes.push(secret(names, role, role.as_str()));
    }
    if !inputs.connection.is_etcd() {
        volumes.push(in_memory(KINE_SOCKET));
        if inputs.connection.has_certificates() {
            volumes.push(secret(
                names,
                SecretRole::StoreCertificate,
                KINE_CERTIFICATES,
            ));
        }
    }
    if let Some(tunnel) = Tunnel::of(inputs.control_plane, inputs.settings) {
        volumes.push(match tunnel {
            Tunnel::Konnectivity(_) => in_memory(KONNECTIVITY_SOCKET),
            Tunnel::Butler { .. } => json!(manifests::socket_volume()),
        });
        volumes.push(json!({
            "name": EGRESS_CONFIGURATION,
            "configMap": { "name": names.egress_configuration(), "defaultMode": FILE_MODE },
        }));
        volumes.push(secret(
            names,
            SecretRole::KonnectivityKubeconfig,
            KONNECTIVITY_KUBECONFIG,
        ));
        volumes.push(tunnel_certificates(inputs.control_plane, names));
    }
    volumes
}

fn in_memory(name: &str) -> Value {
    json!({ "name": name, "emptyDir": { "medium": "Memory" } })
}

fn secret(names: &Names, role: SecretRole, volume: &str) -> Value {
    json!({
        "name": volume,
        "secret": { "secretName": names.secret_name(role), "defaultMode": FILE_MODE },
    })
}

/// The certificate of the cluster's authority, without its key.
fn authority(names: &Names, volume: &str) -> Value {
    json!({
        "name": volume,
        "secret": {
            "secretName": names.secret_name(SecretRole::Authority),
            "items": [{ "key": "ca.crt", "path": "ca.crt" }],
            "defaultMode": FILE_MODE,
        },
    })
}

fn certificates(names: &Names, connection: &StoreConnection) -> Value {
    let source = |role: SecretRole, files: &[(&str, &str)]| {
        let items: Vec<_> = files
            .iter()
            .map(|(key, path)| json!({ "key": key, "path": path }))
            .collect();
        json!({ "secret": { "name": names.secret_name(role), "items": items } })
    };
    let same = |role: SecretRole, files: [&str; 2]| source(role, &files.map(|file| (file, file)));
    let mut sources = vec![
        same(SecretRole::ApiServer, ["apiserver.crt", "apiserver.key"]),
        source(
            SecretRole::Authority,
            &[
                ("ca.crt", "ca.crt"),
                ("ca.key", "ca.key"),
                ("tls.crt", SIGNER),
            ],
        ),
        same(
            SecretRole::KubeletClient,
            [
                "apiserver-kubelet-client.crt",
                "apiserver-kubelet-client.key",
            ],
        ),
        source(
            SecretRole::FrontProxyAuthority,
            &[("front-proxy-ca.crt", "front-proxy-ca.crt")],
        ),
        same(
            SecretRole::FrontProxyClient,
            ["front-proxy-client.crt", "front-proxy-client.key"],
        ),
        same(SecretRole::ServiceAccount, ["sa.pub", "sa.key"]),
    ];
    if connection.is_etcd() {
        let files = ["ca.crt", "server.crt", "server.key"];
        let files = files.map(|file| (file, format!("etcd/{file}")));
        let files: Vec<_> = files
            .iter()
            .map(|(key, path)| (*key, path.as_str()))
            .collect();
        sources.push(source(SecretRole::StoreCertificate, &files));
    }
    json!({
        "name": CERTIFICATES,
        "projected": { "sources": sources, "defaultMode": FILE_MODE },
    })
}
