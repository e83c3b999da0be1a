//! The container of kine, which speaks etcd's language for a database that does not.

use serde_json::{Value, json};

use super::{arguments, resources, security, volumes};
use crate::{build::PodInputs, names::SecretRole, store::config_keys};

/// Where the certificates for the database are mounted.
const CERTIFICATES: &str = "/certs";

pub(super) fn container(inputs: &PodInputs<'_>) -> Option<Value> {
    let connection = inputs.connection;
    if connection.is_etcd() {
        return None;
    }
    let wished = &inputs.control_plane.spec.control_plane.deployment;
    let extra = wished
        .extra_args
        .as_ref()
        .map_or(&[][..], |extra| &extra.kine);
    let asked = wished.resources.as_ref().and_then(|all| all.kine.as_ref());
    let mut flags = vec![
        ("listen-address", "unix:///uds/kine".to_owned()),
        // The Secret holds it ready made: a password may need escaping there.
        ("endpoint", format!("$({})", config_keys::ENDPOINT)),
    ];
    let mut mounts =
        vec![json!({ "name": volumes::KINE_SOCKET, "mountPath": volumes::KINE_SOCKET_DIRECTORY })];
    if connection.has_certificates() {
        flags.push(("ca-file", format!("{CERTIFICATES}/ca.crt")));
        mounts.push(volumes::mount(volumes::KINE_CERTIFICATES, CERTIFICATES));
    }
    if connection.client_certificate {
        flags.push(("cert-file", format!("{CERTIFICATES}/server.crt")));
        flags.push(("key-file", format!("{CERTIFICATES}/server.key")));
    }
    let secret = inputs.names.secret_name(SecretRole::StoreConfig);
    Some(json!({
        "name": "kine",
        "image": inputs.settings.kine_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/kine"],
        "args": arguments::merge(flags, extra),
        "env": [{ "name": "GODEBUG", "value": "x509ignoreCN=0" }],
        "envFrom": [{ "secretRef": { "name": secret } }],
        "resources": resources(asked, "50m", "64Mi"),
        "securityContext": security(&[]),
        "volumeMounts": mounts,
    }))
}
