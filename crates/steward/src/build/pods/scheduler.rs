//! The container of the scheduler.

use serde_json::{Value, json};

use super::{arguments, health_probes, image, resources, security, volumes};
use crate::{build::PodInputs, names::SecretRole};

/// The container's name.
const NAME: &str = "kube-scheduler";
/// Where it serves its health.
const PORT: i32 = 10_259;

pub(super) fn container(inputs: &PodInputs<'_>) -> Value {
    let wished = &inputs.control_plane.spec.control_plane.deployment;
    let extra = wished
        .extra_args
        .as_ref()
        .map_or(&[][..], |extra| &extra.scheduler);
    let asked = wished
        .resources
        .as_ref()
        .and_then(|all| all.scheduler.as_ref());
    let kubeconfig = volumes::kubeconfig_file(SecretRole::SchedulerKubeconfig);
    let flags = vec![
        ("authentication-kubeconfig", kubeconfig.clone()),
        ("authorization-kubeconfig", kubeconfig.clone()),
        ("bind-address", "0.0.0.0".to_owned()),
        ("kubeconfig", kubeconfig),
        ("leader-elect", "true".to_owned()),
    ];
    let mut mounts = vec![volumes::kubeconfig_mount(SecretRole::SchedulerKubeconfig)];
    let more = wished.additional_volume_mounts.as_ref();
    mounts.extend(
        more.into_iter()
            .flat_map(|more| &more.scheduler)
            .map(|mount| json!(mount)),
    );
    let mut container = json!({
        "name": NAME,
        "image": image(inputs.control_plane, &wished.registry_settings.scheduler_image, inputs.version),
        "imagePullPolicy": "IfNotPresent",
        "command": [NAME],
        "args": arguments::merge(flags, extra),
        "resources": resources(asked, "10m", "32Mi"),
        "securityContext": security(&[]),
        "volumeMounts": mounts,
    });
    health_probes(&mut container, PORT);
    container
}
