//! The one reading of the workers: `workers` and `nodePools` are both pools, and the workers come first.

use std::collections::BTreeMap;

use super::{WorkerSize, talos_version, worker_size};
use crate::butler::tenant_cluster::{
    MachineTemplate, NodeTaint, OperatingSystem, TenantClusterSpec, WORKERS_POOL,
};

/// Domains of labels that Cluster API copies from a machine to its node. A kubelet must not set labels of the first two
/// itself.
const KEPT_BY_CLUSTER_API: [&str; 3] = [
    "node-role.kubernetes.io",
    "node-restriction.kubernetes.io",
    "node.cluster.x-k8s.io",
];

/// A group of workers that are alike.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    /// Its name; [`WORKERS_POOL`] for `spec.workers`.
    pub name: String,
    /// The field that it was read from: `spec.workers` or `spec.nodePools[2]`.
    pub field: String,
    /// Number of machines; never negative.
    pub replicas: i32,
    /// Size of each.
    pub size: WorkerSize,
    /// Operating system of each; the provider's usual one if `None`.
    pub os: Option<OperatingSystem>,
    /// Version of Talos, if one is named and the machines run it.
    pub talos_version: Option<String>,
    /// Labels of the nodes. Which of them the kubelet sets, [`set_by_kubelet`] says; the others go on the machines.
    pub labels: BTreeMap<String, String>,
    /// Taints of the nodes.
    pub taints: Vec<NodeTaint>,
}

/// Whether a label is given to the node by its kubelet, and not by Cluster API, which copies some from the machine.
pub fn set_by_kubelet(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let kept = KEPT_BY_CLUSTER_API.iter();
    !kept.copied().any(|kept| {
        domain == kept
            || domain
                .strip_suffix(kept)
                .is_some_and(|rest| rest.ends_with('.'))
    })
}

/// The workers by pool; those of `spec.workers` come first, the others as they were written.
pub fn pools(spec: &TenantClusterSpec) -> Vec<Pool> {
    let workers = &spec.workers;
    let first = Pool {
        name: WORKERS_POOL.to_owned(),
        field: "spec.workers".to_owned(),
        replicas: workers.replicas.max(0),
        labels: workers.labels.clone(),
        taints: workers.taints.clone(),
        ..of_template(workers.machine_template.as_ref())
    };
    let others = spec
        .node_pools
        .iter()
        .enumerate()
        .map(|(index, pool)| Pool {
            name: pool.name.clone(),
            field: format!("spec.nodePools[{index}]"),
            replicas: pool.replicas.max(0),
            labels: pool.labels.clone(),
            taints: pool.taints.clone(),
            ..of_template(pool.machine_template.as_ref())
        });
    std::iter::once(first).chain(others).collect()
}

fn of_template(template: Option<&MachineTemplate>) -> Pool {
    let os = template.and_then(|template| template.os.as_ref());
    Pool {
        size: template.map(worker_size).unwrap_or_default(),
        talos_version: os.and_then(talos_version),
        os: os.cloned(),
        ..Pool::default()
    }
}
