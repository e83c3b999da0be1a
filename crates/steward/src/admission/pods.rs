//! What a user may add to the pods of a control plane: nothing that takes the place of our own.

use std::collections::BTreeSet;

use butler_api::steward::{
    container_resources::ContainerResources,
    deployment::{ComponentResources, ControlPlaneDeployment},
    tenant_control_plane::TenantControlPlane,
};
use butler_runtime::admission::Denial;
use butler_tunnel::manifests::names;
use k8s_openapi::api::core::v1::{Container, VolumeMount};

use crate::{
    build::{API_SERVER, KONNECTIVITY_SERVER, reserved_paths, reserved_volumes, standing_volumes},
    settings::Settings,
};

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

/// What is said of a claim.
const NO_CLAIMS: &str = "a container uses claims of its pod, and these pods have none; leave the claims out, and ask for devices by requests and limits";

/// What is wrong with what the user adds.
pub(super) fn check(control_plane: &TenantControlPlane, settings: &Settings) -> Vec<Denial> {
    let deployment = &control_plane.spec.control_plane.deployment;
    let mut volumes = standing_volumes(control_plane, settings);
    volumes.extend(
        deployment
            .additional_volumes
            .iter()
            .map(|volume| volume.name.as_str()),
    );
    let mut denials = containers(deployment, &volumes);
    denials.extend(names_of_volumes(deployment));
    denials.extend(mounts_of_components(deployment, &volumes));
    denials.extend(claims(control_plane));
    denials.extend(arguments(deployment));
    denials.extend(ports(control_plane));
    denials
}

fn path(field: &str) -> String {
    format!("spec.controlPlane.deployment.{field}")
}

fn containers(deployment: &ControlPlaneDeployment, volumes: &BTreeSet<&str>) -> Vec<Denial> {
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
            let name = &container.name;
            let mut refuse = |rule: String| denials.push(Denial::new(path(field), rule));
            if !taken.insert(name) {
                refuse(format!("the name {name} is taken; choose another one"));
            }
            if container.image.as_ref().is_none_or(String::is_empty) {
                refuse(format!("{name} has no image; name one"));
            }
            let resources = container.resources.as_ref();
            let claims = resources.and_then(|resources| resources.claims.as_ref());
            if claims.is_some_and(|claims| !claims.is_empty()) {
                refuse(format!("{name}: {NO_CLAIMS}"));
            }
            let devices = container.volume_devices.iter().flatten();
            for device in devices.filter(|device| !volumes.contains(device.name.as_str())) {
                refuse(no_volume(&device.name));
            }
            let mounted = container.volume_mounts.as_deref().unwrap_or_default();
            denials.extend(mounts(field, mounted, volumes));
        }
    }
    denials
}

fn names_of_volumes(deployment: &ControlPlaneDeployment) -> Vec<Denial> {
    let mut taken = reserved_volumes();
    let added = deployment.additional_volumes.iter();
    let twice = added.filter(|volume| !taken.insert(volume.name.as_str()));
    twice
        .map(|volume| {
            let rule = format!("the name {} is taken; choose another one", volume.name);
            Denial::new(path("additionalVolumes"), rule)
        })
        .collect()
}

fn mounts_of_components(
    deployment: &ControlPlaneDeployment,
    volumes: &BTreeSet<&str>,
) -> Vec<Denial> {
    let Some(more) = &deployment.additional_volume_mounts else {
        return Vec::new();
    };
    let mut denials = Vec::new();
    for (field, list) in [
        ("additionalVolumeMounts.apiServer", &more.api_server),
        (
            "additionalVolumeMounts.controllerManager",
            &more.controller_manager,
        ),
        ("additionalVolumeMounts.scheduler", &more.scheduler),
    ] {
        denials.extend(mounts(field, list, volumes));
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

/// Whether a path hides or replaces what we mount. Beneath it nothing can be mounted either: our volumes are only read. Of what is
/// above, the directory of Kubernetes and the root hold our files.
fn is_ours(path: &str) -> bool {
    let parts = |path: &str| -> Vec<String> {
        let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
        parts.map(str::to_owned).collect()
    };
    let wished = parts(path);
    let is_above = ["/", "/etc/kubernetes"]
        .iter()
        .any(|above| parts(above) == wished);
    let mut ours = reserved_paths().into_iter();
    is_above || ours.any(|ours| wished.starts_with(&parts(&ours)))
}

fn no_volume(name: &str) -> String {
    format!("the volume {name} does not exist; add it to additionalVolumes")
}

fn mounts(field: &str, mounts: &[VolumeMount], volumes: &BTreeSet<&str>) -> Vec<Denial> {
    let mut taken = BTreeSet::new();
    let mut rules = Vec::new();
    for mount in mounts {
        if !taken.insert(mount.mount_path.as_str()) {
            rules.push(format!(
                "{} is mounted twice; mount it once",
                mount.mount_path
            ));
        }
        if !volumes.contains(mount.name.as_str()) {
            rules.push(no_volume(&mount.name));
        }
    }
    rules
        .into_iter()
        .map(|rule| Denial::new(path(field), rule))
        .collect()
}

/// A container can use the claims of its pod alone, and nobody can give these pods any.
fn claims(control_plane: &TenantControlPlane) -> Vec<Denial> {
    let spec = &control_plane.spec;
    let components = spec.control_plane.deployment.resources.as_ref();
    let of =
        |pick: fn(&ComponentResources) -> Option<&ContainerResources>| components.and_then(pick);
    let tunnel = spec.addons.konnectivity.as_ref();
    let proxy = spec.addons.tcp_proxy.as_ref();
    let all = [
        (
            path("resources.apiServer.claims"),
            of(|found| found.api_server.as_ref()),
        ),
        (
            path("resources.controllerManager.claims"),
            of(|found| found.controller_manager.as_ref()),
        ),
        (
            path("resources.scheduler.claims"),
            of(|found| found.scheduler.as_ref()),
        ),
        (
            path("resources.kine.claims"),
            of(|found| found.kine.as_ref()),
        ),
        (
            "spec.addons.konnectivity.server.resources.claims".to_owned(),
            tunnel.and_then(|tunnel| tunnel.server.resources.as_ref()),
        ),
        (
            "spec.addons.tcpProxy.resources.claims".to_owned(),
            proxy.and_then(|proxy| proxy.resources.as_ref()),
        ),
    ];
    let claiming = all
        .into_iter()
        .filter(|(_, resources)| resources.is_some_and(|resources| !resources.claims.is_empty()));
    claiming
        .map(|(field, _)| Denial::new(field, NO_CLAIMS))
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
