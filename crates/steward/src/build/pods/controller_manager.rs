//! The container of the controller manager.

use serde_json::{Value, json};

use super::{
    arguments, health_probes, image, resources, security,
    volumes::{self, CERTIFICATES, SIGNER, mount},
};
use crate::{build::PodInputs, names::SecretRole};

/// The container's name.
const NAME: &str = "kube-controller-manager";
/// Where it serves its health.
const PORT: i32 = 10_257;

pub(super) fn container(inputs: &PodInputs<'_>) -> Value {
    let wished = &inputs.control_plane.spec.control_plane.deployment;
    let extra = wished
        .extra_args
        .as_ref()
        .map_or(&[][..], |extra| &extra.controller_manager);
    let asked = wished
        .resources
        .as_ref()
        .and_then(|all| all.controller_manager.as_ref());
    let mut mounts = vec![
        mount(CERTIFICATES, volumes::CERTIFICATES_DIRECTORY),
        volumes::kubeconfig_mount(SecretRole::ControllerManagerKubeconfig),
    ];
    mounts.extend(volumes::authority_mounts());
    let more = wished.additional_volume_mounts.as_ref();
    mounts.extend(
        more.into_iter()
            .flat_map(|more| &more.controller_manager)
            .map(|mount| json!(mount)),
    );
    let mut container = json!({
        "name": NAME,
        "image": image(inputs.control_plane, &wished.registry_settings.controller_manager_image, inputs.version),
        "imagePullPolicy": "IfNotPresent",
        "command": [NAME],
        "args": arguments::merge(flags(inputs), extra),
        "resources": resources(asked, "25m", "64Mi"),
        "securityContext": security(&[]),
        "volumeMounts": mounts,
    });
    health_probes(&mut container, PORT);
    container
}

fn flags(inputs: &PodInputs<'_>) -> Vec<(&'static str, String)> {
    let profile = &inputs.control_plane.spec.network_profile;
    let kubeconfig = volumes::kubeconfig_file(SecretRole::ControllerManagerKubeconfig);
    let file = |name: &str| format!("/etc/kubernetes/pki/{name}");
    let text = str::to_owned;
    vec![
        ("allocate-node-cidrs", text("true")),
        ("authentication-kubeconfig", kubeconfig.clone()),
        ("authorization-kubeconfig", kubeconfig.clone()),
        ("bind-address", text("0.0.0.0")),
        ("client-ca-file", file("ca.crt")),
        ("cluster-cidr", profile.pod_cidr.clone()),
        ("cluster-name", inputs.names.name().to_owned()),
        // One certificate, even while several are trusted.
        ("cluster-signing-cert-file", file(SIGNER)),
        ("cluster-signing-key-file", file("ca.key")),
        ("controllers", text("*,bootstrapsigner,tokencleaner")),
        ("kubeconfig", kubeconfig),
        ("leader-elect", text("true")),
        ("requestheader-client-ca-file", file("front-proxy-ca.crt")),
        ("root-ca-file", file("ca.crt")),
        ("service-account-private-key-file", file("sa.key")),
        ("service-cluster-ip-range", profile.service_cidr.clone()),
        ("use-service-account-credentials", text("true")),
    ]
}
