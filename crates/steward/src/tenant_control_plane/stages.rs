//! How long a control plane took to its first `Ready`, stage by stage. Pure.
//!
//! A stage is passed once: conditions come and go later, and tell nothing of the beginning any more.

use butler_api::{
    conditions::types,
    steward::tenant_control_plane::{TenantControlPlane, status::PassedStage},
};
use butler_runtime::conditions::holds;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use super::status::time;

/// The conditions that are stages, in the order in which they usually become true.
const STAGES: [&str; 6] = [
    types::CERTIFICATES_READY,
    types::DATA_STORE_READY,
    types::ENDPOINT_READY,
    types::AVAILABLE,
    types::TENANT_CONFIGURED,
    types::READY,
];

/// The stages that were passed, with those that are passed now.
pub(super) fn passed(
    control_plane: &TenantControlPlane,
    before: Vec<PassedStage>,
    conditions: &[Condition],
    now: Timestamp,
) -> Vec<PassedStage> {
    let created = control_plane.creation_timestamp();
    let mut passed = before;
    for name in STAGES {
        let is_known = passed.iter().any(|stage| stage.name == name);
        if !is_known && holds(conditions, name) {
            let created = created.as_ref().map_or(now, |created| created.0);
            passed.push(PassedStage {
                name: name.to_owned(),
                passed_at: time(now),
                seconds: now.duration_since(created).as_secs(),
            });
        }
    }
    passed
}
