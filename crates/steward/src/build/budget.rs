//! How many pods of a control plane may be away at the same time when nodes are emptied.

use butler_api::steward::tenant_control_plane::TenantControlPlane;
use butler_runtime::object::{Kind, Manifest};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::json;

use crate::names::Names;

/// The budget of a control plane with more than one replica; a single one must be able to move.
pub fn budget(control_plane: &TenantControlPlane, names: &Names) -> Option<Manifest> {
    let several = control_plane.spec.control_plane.deployment.replicas > 1;
    several.then(|| {
        let body = json!({
            "metadata": names.metadata(names.name(), "disruption-budget", None),
            "spec": {
                "maxUnavailable": 1,
                "selector": { "matchLabels": names.selector() },
            },
        });
        Manifest::new(Kind::of::<PodDisruptionBudget>(), body)
    })
}
