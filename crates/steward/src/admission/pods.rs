//! What a user may add to the pods of a control plane: nothing that takes the place of our own.

use std::collections::BTreeSet;

use butler_api::steward::{
    deployment::ControlPlaneDeployment, tenant_control_plane::TenantControlPlane,
};
use butler_runtime::admission::Denial;
use butler_tunnel::manifests::names;
use k8s_openapi::api::core::v1::{Container, VolumeMount};

use crate::build::{API_SERVER, KONNECTIVITY_SERVER, reserved_volumes};

/// Names of our containers.
const CONTAINERS: [&str; 7] = [
    API_SERVER,
    "kube-scheduler",
    "kube-controller-manager",
    "kine",
    KONNECTIVITY_SERVER,
    names::SERVER,
    "steward-trustd",
];
/// Names of our ports.
const PORTS: [&str; 2] = [API_SERVER, KONNECTIVITY_SERVER];
/// Longest name of a port.
const LONGEST_PORT_NAME: usize = 63;

/// What is wrong with what the user adds.
pub(super) fn check(control_plane: &TenantControlPlane) -> Vec<Denial> {
    let deployment = &control_plane.spec.control_plane.deployment;
    let mut denials = containers(deployment);
    denials.extend(volumes(deployment));
    denials.extend(arguments(deployment));
    denials.extend(ports(control_plane));
    denials
}

fn path(field: &str) -> String {
    format!("spec.controlPlane.deployment.{field}")
}

fn containers(deployment: &ControlPlaneDeployment) -> Vec<Denial> {
    let mut taken: BTreeSet<&str> = CONTAINERS.into();
    let mut denials = Vec::new();
    let lists: [(&str, &[Container]); 2] = [
        ("additionalContainers", &deployment.additional_containers),
        (
            "additionalInitContainers",
            &deployment.additional_init_containers,
        ),
    ];
    for (field, list) in lists {
        for container in list {
            if !taken.insert(&container.name) {
                let rule = format!("the name {} is taken; choose another one", container.name);
                denials.push(Denial::new(path(field), rule));
            }
            denials.extend(mounts(
                field,
                container.volume_mounts.as_deref().unwrap_or_default(),
            ));
        }
    }
    denials
}

fn volumes(deployment: &ControlPlaneDeployment) -> Vec<Denial> {
    let mut taken = reserved_volumes();
    let mut denials = Vec::new();
    for volume in &deployment.additional_volumes {
        if !taken.insert(volume.name.as_str()) {
            let rule = format!("the name {} is taken; choose another one", volume.name);
            denials.push(Denial::new(path("additionalVolumes"), rule));
        }
    }
    let Some(more) = &deployment.additional_volume_mounts else {
        return denials;
    };
    for (field, list) in [
        ("additionalVolumeMounts.apiServer", &more.api_server),
        (
            "additionalVolumeMounts.controllerManager",
            &more.controller_manager,
        ),
        ("additionalVolumeMounts.scheduler", &more.scheduler),
    ] {
        denials.extend(mounts(field, list));
        let ours = list.iter().filter(|mount| is_ours(&mount.mount_path));
        denials.extend(ours.map(|mount| {
            let rule = format!(
                "{} is where the component's own files are; choose another path",
                mount.mount_path
            );
            Denial::new(path(field), rule)
        }));
    }
    denials
}

/// Whether a path hides or replaces what we mount.
fn is_ours(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    [
        "/etc/kubernetes",
        "/etc/kubernetes/pki",
        "/uds",
        "/run/konnectivity",
        names::SOCKET_DIRECTORY,
    ]
    .contains(&path)
}

fn mounts(field: &str, mounts: &[VolumeMount]) -> Vec<Denial> {
    let mut taken = BTreeSet::new();
    let twice = mounts
        .iter()
        .filter(|mount| !taken.insert(mount.mount_path.as_str()));
    twice
        .map(|mount| {
            let rule = format!("{} is mounted twice; mount it once", mount.mount_path);
            Denial::new(path(field), rule)
        })
        .collect()
}

fn arguments(deployment: &ControlPlaneDeployment) -> Vec<Denial> {
    let Some(extra) = &deployment.extra_args else {
        return Vec::new();
    };
    let lists = [
        ("extraArgs.apiServer", &extra.api_server),
        ("extraArgs.controllerManager", &extra.controller_manager),
        ("extraArgs.scheduler", &extra.scheduler),
        ("extraArgs.kine", &extra.kine),
    ];
    let all = lists
        .into_iter()
        .flat_map(|(field, list)| list.iter().map(move |text| (field, text)));
    all.filter(|(_, text)| !text.starts_with("--"))
        .map(|(field, text)| {
            Denial::new(
                path(field),
                format!("{text:?} is no flag; write --flag=value"),
            )
        })
        .collect()
}

fn ports(control_plane: &TenantControlPlane) -> Vec<Denial> {
    const FIELD: &str = "spec.controlPlane.service.additionalPorts";
    let spec = &control_plane.spec;
    let mut names: BTreeSet<&str> = PORTS.into();
    let tunnel = spec
        .addons
        .konnectivity
        .as_ref()
        .map(|tunnel| tunnel.server.port);
    let mut numbers: BTreeSet<_> = tunnel
        .into_iter()
        .chain([spec.network_profile.port])
        .collect();
    let mut denials = Vec::new();
    for port in &spec.control_plane.service.additional_ports {
        let name = port.name.as_str();
        let is_label = !name.is_empty()
            && name.len() <= LONGEST_PORT_NAME
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !name.starts_with('-')
            && !name.ends_with('-');
        if !is_label {
            let rule =
                format!("{name:?} is no name of a port; use lower-case letters, digits and dashes");
            denials.push(Denial::new(FIELD, rule));
        }
        if !names.insert(name) {
            denials.push(Denial::new(
                FIELD,
                format!("the name {name} is taken; choose another one"),
            ));
        }
        if !numbers.insert(port.port) {
            denials.push(Denial::new(
                FIELD,
                format!("the port {} is taken; choose another one", port.port),
            ));
        }
    }
    denials
}
