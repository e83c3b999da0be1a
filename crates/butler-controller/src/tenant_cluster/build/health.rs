//! What watches over machines: a machine that no longer works is replaced.

use butler_api::{keys::labels, normalize::tenant_cluster::HealthLimits};
use butler_runtime::object::Manifest;
use serde_json::{Value, json};

use super::{machines::selected, metadata, without_empty};
use crate::tenant_cluster::{
    blueprint::{Blueprint, ControlPlane, Pool, deployment_name},
    kinds,
};

/// Of how many machines in a hundred may be ill at once. If more are, it is likelier the way to them than they.
const ILL_AT_ONCE_PERCENT: i32 = 40;

pub(super) fn of_pool(blueprint: &Blueprint, pool: &Pool) -> Option<Manifest> {
    let name = deployment_name(&blueprint.name, &pool.name);
    let limits = blueprint.machine_health?;
    let selector = selected(blueprint, pool);
    Some(check(blueprint, &name, pool.replicas, &limits, &selector))
}

/// What watches over the machines of a control plane; nothing if it has none. Its own controller keeps the number of those that
/// agree with each other.
pub(crate) fn control_plane_health(blueprint: &Blueprint) -> Option<Manifest> {
    let ControlPlane::Standalone(wish) = &blueprint.control_plane else {
        return None;
    };
    let limits = blueprint.machine_health?;
    let name = format!("{}-control-plane", blueprint.name);
    let selector = json!({
        labels::CLUSTER_API_CLUSTER: blueprint.name,
        labels::CLUSTER_API_CONTROL_PLANE: "",
    });
    Some(check(blueprint, &name, wish.replicas, &limits, &selector))
}

fn check(
    blueprint: &Blueprint,
    name: &str,
    replicas: i32,
    limits: &HealthLimits,
    selector: &Value,
) -> Manifest {
    // One ill machine is always replaced, also if it is the only one.
    let ill_at_once = (replicas.saturating_mul(ILL_AT_ONCE_PERCENT) / 100).max(1);
    let unready = |status: &str| json!({ "type": "Ready", "status": status, "timeoutSeconds": limits.unhealthy.as_secs() });
    let ill = if blueprint.nodes_are_judged {
        json!([unready("Unknown"), unready("False")])
    } else {
        Value::Null
    };
    let body = json!({
        "metadata": metadata(blueprint, name),
        "spec": {
            "clusterName": blueprint.name,
            "selector": { "matchLabels": selector },
            // A node registers without a network for pods, so a machine that never becomes one is ill in any case.
            "checks": without_empty(json!({
                "nodeStartupTimeoutSeconds": limits.node_startup.as_secs(),
                "unhealthyNodeConditions": ill,
            })),
            "remediation": { "triggerIf": { "unhealthyLessThanOrEqualTo": ill_at_once } },
        },
    });
    Manifest::new(kinds::machine_health_check(), body)
}
