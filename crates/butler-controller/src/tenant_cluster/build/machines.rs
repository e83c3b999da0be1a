//! The machines of a pool.

use butler_api::{
    cluster_api::machine_group::MachineDeployment,
    keys::{annotations, labels},
    normalize::tenant_cluster::set_by_kubelet,
};
use butler_runtime::object::{Kind, Manifest};
use serde_json::{Value, json};

use super::{bootstrap, deletion, health, metadata, reference, templates};
use crate::tenant_cluster::blueprint::{Blueprint, Pool, deployment_name};

/// All objects of a pool: its templates, its machines, what watches over them.
pub(crate) fn pool(blueprint: &Blueprint, pool: &Pool) -> Vec<Manifest> {
    let machine = templates::of_pool(blueprint, pool);
    let first_steps = bootstrap::of_pool(blueprint, pool);
    let deployment = deployment(blueprint, pool, &machine, &first_steps);
    let mut found = vec![machine, first_steps, deployment];
    found.extend(health::of_pool(blueprint, pool));
    found
}

fn deployment(
    blueprint: &Blueprint,
    pool: &Pool,
    machine: &Manifest,
    first_steps: &Manifest,
) -> Manifest {
    let name = deployment_name(&blueprint.name, &pool.name);
    let selected = selected(blueprint, pool);
    let mut labels = selected.clone();
    // What a kubelet must not say of itself, Cluster API copies from the machine to the node.
    for (key, value) in pool.labels.iter().filter(|(key, _)| !set_by_kubelet(key)) {
        labels[key] = json!(value);
    }
    let mut metadata = metadata(blueprint, &name);
    // The check would hold machines back until the control plane is there. They may boot meanwhile, and wait for what to do.
    metadata["annotations"][annotations::CLUSTER_API_SKIP_PREFLIGHT_CHECKS] =
        json!("ControlPlaneIsStable");
    let body = json!({
        "metadata": metadata,
        "spec": {
            "clusterName": blueprint.name,
            "replicas": pool.replicas,
            "selector": { "matchLabels": selected },
            // A new machine is there before an old one goes: there are never fewer than were asked for.
            "rollout": { "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 },
            } },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "clusterName": blueprint.name,
                    "version": pool.version,
                    "bootstrap": { "configRef": reference(first_steps) },
                    "infrastructureRef": reference(machine),
                    "deletion": deletion(),
                },
            },
        },
    });
    // With a template that is not there, it could replace no machine, not even a lost one.
    Manifest::new(Kind::of::<MachineDeployment>(), body)
        .needing(machine)
        .needing(first_steps)
}

/// By what the machines of a pool are known.
pub(super) fn selected(blueprint: &Blueprint, pool: &Pool) -> Value {
    json!({
        labels::CLUSTER_API_CLUSTER: blueprint.name,
        labels::CLUSTER_API_MACHINE_DEPLOYMENT: deployment_name(&blueprint.name, &pool.name),
    })
}
