//! The Deployment of a control plane: API server, scheduler and controller manager in one pod, with kine and the reverse
//! tunnel's server where they are needed. One file for each container.

mod api_server;
mod arguments;
mod controller_manager;
mod kine;
mod konnectivity;
mod own_tunnel;
mod scheduler;
mod volumes;

use butler_api::{
    keys::{annotations, labels, values},
    steward::{
        container_resources::ContainerResources, deployment::ControlPlaneDeployment,
        tenant_control_plane::TenantControlPlane,
    },
    version::KubernetesVersion,
};
use butler_runtime::object::{Kind, Manifest};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ResourceRequirements};
use serde_json::{Value, json};

use super::PodInputs;
use crate::{
    names::{Names, text_map},
    tunnel::Tunnel,
};

pub use api_server::image as api_server_image;
pub(super) use api_server::unknown_plugins;
pub(crate) use arguments::merge as merge_arguments;
pub(super) use own_tunnel::refused_arguments as refused_by_own_tunnel;
pub use volumes::{mounted, reserved_paths, reserved_volumes, standing_volumes};

/// Nobody: the user and group our containers run as, and the group of the files they read.
const NOBODY: i64 = 65_534;
/// How many old sets of pods are kept for a look back.
const HISTORY: i32 = 2;

/// The Deployment of a control plane.
pub fn deployment(inputs: &PodInputs<'_>) -> Manifest {
    let PodInputs {
        control_plane,
        names,
        ..
    } = inputs;
    let wished = &control_plane.spec.control_plane.deployment;
    let additional = wished.placement.additional_metadata.as_ref();
    let component = values::STEWARD_COMPONENT_DEPLOYMENT;
    let body = json!({
        "metadata": names.metadata(names.name(), component, additional),
        "spec": {
            "replicas": wished.replicas,
            "revisionHistoryLimit": HISTORY,
            "selector": { "matchLabels": names.selector() },
            "strategy": wished.placement.strategy,
            "template": { "metadata": pod_metadata(inputs), "spec": pod(inputs) },
        },
    });
    Manifest::new(Kind::of::<Deployment>(), body)
}

/// The labels carry the fingerprint of every Secret that the pods mount: what changes there brings new pods.
fn pod_metadata(inputs: &PodInputs<'_>) -> Value {
    let placement = &inputs.control_plane.spec.control_plane.deployment.placement;
    let additional = placement
        .pod_additional_metadata
        .clone()
        .unwrap_or_default();
    let mut all = text_map(&additional.labels);
    let checksums = inputs.checksums.iter().map(|(role, checksum)| {
        let prefix = labels::STEWARD_COMPONENT_CHECKSUM_PREFIX;
        (
            format!("{prefix}{}", role.checksum_label()),
            checksum.clone(),
        )
    });
    let ours = [
        (labels::STEWARD_PROJECT, values::STEWARD_PROJECT),
        (labels::STEWARD_NAME, inputs.names.name()),
        (
            labels::STEWARD_COMPONENT,
            values::STEWARD_COMPONENT_DEPLOYMENT,
        ),
        (labels::STEWARD_DATA_STORE, &inputs.connection.name),
    ];
    let ours = ours.map(|(key, value)| (key.to_owned(), value.to_owned()));
    all.extend(
        checksums
            .chain(ours)
            .map(|(key, value)| (key, value.into())),
    );
    let mut metadata = json!({ "labels": all });
    let mut notes = text_map(&additional.annotations);
    if let Some(checksum) = inputs.checksums.get(&crate::names::SecretRole::StoreConfig) {
        notes.insert(
            annotations::STEWARD_STORAGE_CONFIG.to_owned(),
            checksum.clone().into(),
        );
    }
    if !notes.is_empty() {
        metadata["annotations"] = Value::Object(notes);
    }
    metadata
}

fn pod(inputs: &PodInputs<'_>) -> Value {
    let wished = &inputs.control_plane.spec.control_plane.deployment;
    let placement = &wished.placement;
    let mut containers: Vec<Value> = wished
        .additional_containers
        .iter()
        .map(|more| json!(more))
        .collect();
    containers.push(api_server::container(inputs));
    containers.push(scheduler::container(inputs));
    containers.push(controller_manager::container(inputs));
    containers.extend(kine::container(inputs));
    containers.extend(tunnel(inputs));
    let mut pod = json!({
        "containers": containers,
        "volumes": volumes::volumes(inputs),
        "serviceAccountName": placement.service_account_name,
        "enableServiceLinks": false,
        "securityContext": {
            "fsGroup": NOBODY,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "affinity": affinity(wished, inputs.names),
    });
    if placement.service_account_name == "default" {
        // Nothing of ours speaks to the management cluster; who names another account has a use for it.
        pod["automountServiceAccountToken"] = false.into();
    }
    if !wished.additional_init_containers.is_empty() {
        pod["initContainers"] = json!(wished.additional_init_containers);
    }
    if !placement.node_selector.is_empty() {
        pod["nodeSelector"] = json!(placement.node_selector);
    }
    if !placement.tolerations.is_empty() {
        pod["tolerations"] = json!(placement.tolerations);
    }
    if let Some(class) = &placement.runtime_class_name {
        pod["runtimeClassName"] = class.clone().into();
    }
    if !placement.topology_spread_constraints.is_empty() {
        pod["topologySpreadConstraints"] = spread(wished, inputs.names);
    }
    pod
}

/// The server of the reverse tunnel, whichever it is.
fn tunnel(inputs: &PodInputs<'_>) -> Option<Value> {
    Some(match Tunnel::of(inputs.control_plane, inputs.settings)? {
        Tunnel::Konnectivity(wish) => konnectivity::container(inputs, wish),
        Tunnel::Butler { wish, image } => own_tunnel::container(inputs, wish, image),
    })
}

/// Unless the user says otherwise, replicas avoid each other's node.
fn affinity(wished: &ControlPlaneDeployment, names: &Names) -> Value {
    if let Some(affinity) = &wished.placement.affinity {
        return json!(affinity);
    }
    json!({ "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 100,
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": { "matchLabels": names.selector() },
        },
    }] } })
}

fn spread(wished: &ControlPlaneDeployment, names: &Names) -> Value {
    let constraints = wished.placement.topology_spread_constraints.iter();
    constraints
        .map(|constraint| {
            let mut filled = json!(constraint);
            if constraint.label_selector.is_none() {
                filled["labelSelector"] = json!({ "matchLabels": names.selector() });
            }
            filled
        })
        .collect()
}

/// An image of the Kubernetes project at the version that runs.
fn image(control_plane: &TenantControlPlane, name: &str, version: &KubernetesVersion) -> String {
    let settings = &control_plane
        .spec
        .control_plane
        .deployment
        .registry_settings;
    let suffix = settings.tag_suffix.as_deref().unwrap_or_default();
    format!("{}/{name}:{version}{suffix}", settings.registry)
}

/// What all our containers may not do. The image of the API server has a file capability, so it cannot even start without
/// that one.
fn security(capabilities: &[&str]) -> Value {
    let mut allowed = json!({ "drop": ["ALL"] });
    if !capabilities.is_empty() {
        allowed["add"] = json!(capabilities);
    }
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": allowed,
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "runAsUser": NOBODY,
        "runAsGroup": NOBODY,
    })
}

/// What the user sets aside for a container, else our own modest request.
fn resources(wished: Option<&ContainerResources>, cpu: &str, memory: &str) -> Value {
    wished.map_or_else(
        || json!({ "requests": { "cpu": cpu, "memory": memory } }),
        |wished| json!(ResourceRequirements::from(wished.clone())),
    )
}

/// A probe over TLS. The API server's certificate is not checked by kubelets.
fn probe(path: &str, port: i32, period: i32, failures: i32) -> Value {
    json!({
        "httpGet": { "path": path, "port": port, "scheme": "HTTPS" },
        "periodSeconds": period,
        "timeoutSeconds": PROBE_TIMEOUT,
        "failureThreshold": failures,
    })
}

/// How long a probe may take, in seconds; a busy API server is slow before it is dead.
const PROBE_TIMEOUT: i32 = 15;
/// How many seconds a container may take to start: a store may be far away, and a first start writes a lot.
const START_SECONDS: i32 = 300;
/// How many failures in a row mean that a container is dead.
const DEAD_AFTER: i32 = 8;

/// The probes of a component that serves `/healthz` on this port.
fn health_probes(container: &mut Value, port: i32) {
    container["livenessProbe"] = probe("/healthz", port, 10, DEAD_AFTER);
    container["startupProbe"] = probe("/healthz", port, 1, START_SECONDS);
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
