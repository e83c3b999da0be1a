//! What a control plane shows of the `TenantControlPlane` behind it, in the words of Cluster API's contract.

use butler_api::{
    cluster_api::steward_control_plane::{StewardControlPlaneStatus, VersionReplicas},
    conditions::{reasons, types},
    steward::tenant_control_plane::ControlPlanePhase,
};
use butler_runtime::conditions::{Answer, Conditions, Finding};

use super::tenant::TenantSight;

/// How many replicas there are, and which versions they run.
pub(super) fn counts(tenant: &TenantSight) -> StewardControlPlaneStatus {
    let deployment = tenant.deployment.as_ref();
    let count = |count: Option<i32>| deployment.map(|_| count.unwrap_or_default());
    let deployed = deployment.cloned().unwrap_or_default();
    let updated = count(deployed.updated_replicas);
    let versions = versions(tenant);
    StewardControlPlaneStatus {
        version: versions.first().map(|lowest| lowest.version.clone()),
        versions,
        // That of the Deployment, so that whoever scales the control plane finds its pods.
        selector: Some(deployed.selector).filter(|selector| !selector.is_empty()),
        replicas: count(deployed.replicas),
        ready_replicas: count(deployed.ready_replicas),
        available_replicas: count(deployed.available_replicas),
        up_to_date_replicas: updated,
        updated_replicas: updated,
        unavailable_replicas: count(deployed.unavailable_replicas),
        ..StewardControlPlaneStatus::default()
    }
}

/// The versions that run, the lowest first. None before the first replica has served.
fn versions(tenant: &TenantSight) -> Vec<VersionReplicas> {
    let Some(installed) = tenant.version.clone() else {
        return Vec::new();
    };
    let deployment = tenant.deployment.clone().unwrap_or_default();
    let all = deployment.replicas.unwrap_or_default();
    let of = |version: &str, replicas: i32| VersionReplicas {
        version: version.to_owned(),
        replicas: Some(replicas),
    };
    if tenant.phase != ControlPlanePhase::Upgrading {
        return vec![of(&installed, all)];
    }
    let updated = deployment.updated_replicas.unwrap_or_default();
    let mut versions = vec![of(&installed, all.saturating_sub(updated).max(0))];
    if updated > 0 && tenant.wanted_version != installed {
        versions.push(of(&tenant.wanted_version, updated));
    }
    versions
}

/// Whether the control plane serves, in the words of its `TenantControlPlane`.
pub(super) fn available<'a>(conditions: Conditions<'a>, tenant: &TenantSight) -> Conditions<'a> {
    if let Some(said) = tenant.condition(types::AVAILABLE) {
        let holds = said.status == "True";
        // What is in the way of serving at all comes before what is in the way of the pods.
        let summary = tenant.condition(types::READY).filter(|_| !holds);
        let said = summary.unwrap_or(said);
        conditions.say(types::AVAILABLE, holds, &said.reason, &said.message)
    } else {
        let reason = if tenant.is_serving() {
            reasons::READY
        } else {
            reasons::PODS_NOT_READY
        };
        let message = format!("the TenantControlPlane is {:?}", tenant.phase);
        conditions.say(types::AVAILABLE, tenant.is_serving(), reason, message)
    }
}

/// Whether replicas are replaced, added or removed, each under its type.
pub(super) fn changes(wanted: i32, tenant: &TenantSight) -> [(&'static str, Finding); 3] {
    let deployment = tenant.deployment.clone().unwrap_or_default();
    let all = deployment.replicas.unwrap_or_default();
    let updated = deployment.updated_replicas.unwrap_or_default();
    let said = tenant.condition(types::ROLLING_OUT);
    let is_rolling = said.map_or(updated < all, |said| said.status == "True");
    // While new pods stand beside the old ones there are more than anybody wants to keep.
    let kept = if is_rolling { all.min(wanted) } else { all };
    let numbers = |verb: &str| format!("{all} of {wanted} replicas; {verb}");
    let tell = |is_so: bool, reason: &'static str, verb: &str| {
        if is_so {
            Finding::new(true, reason, numbers(verb))
        } else {
            Finding::new(false, reasons::READY, "")
        }
    };
    [
        (
            types::ROLLING_OUT,
            tell(is_rolling, reasons::ROLLING_OUT, "new ones take over"),
        ),
        (
            types::SCALING_UP,
            tell(kept < wanted, reasons::RECONCILING, "more are made"),
        ),
        (
            types::SCALING_DOWN,
            tell(kept > wanted, reasons::RECONCILING, "the others go"),
        ),
    ]
}

/// The same before there is anything to tell of.
pub(super) fn nothing_yet<'a>(conditions: Conditions<'a>, obstacle: &Finding) -> Conditions<'a> {
    let unknown = "there is no TenantControlPlane yet";
    conditions
        .say(
            types::AVAILABLE,
            false,
            obstacle.reason,
            obstacle.message.clone(),
        )
        .say(
            types::ROLLING_OUT,
            Answer::False,
            reasons::CREATING,
            unknown,
        )
        .say(types::SCALING_UP, Answer::False, reasons::CREATING, unknown)
        .say(
            types::SCALING_DOWN,
            Answer::False,
            reasons::CREATING,
            unknown,
        )
}
