//! The state of a control plane in one word. Derived, for people and older tools; conditions say more.

use butler_api::steward::tenant_control_plane::{ControlPlanePhase, TenantControlPlane};

use crate::projections::DeploymentFacts;

/// The state in one word. `installed` is the version that all pods have run, if they ever did.
pub fn phase(
    control_plane: &TenantControlPlane,
    deployment: Option<&DeploymentFacts>,
    installed: Option<&str>,
    version: &str,
) -> ControlPlanePhase {
    let spec = &control_plane.spec;
    let serving = deployment.map_or(0, DeploymentFacts::ready);
    let was_ready = installed.is_some();
    match (spec.control_plane.deployment.replicas, serving) {
        (0, _) if deployment.is_some() => ControlPlanePhase::Sleeping,
        (_, 0) if !was_ready => ControlPlanePhase::Provisioning,
        (_, 0) => ControlPlanePhase::NotReady,
        _ if !spec.write_permissions.allows_all() => ControlPlanePhase::WriteLimited,
        _ if deployment.is_some_and(DeploymentFacts::is_rolled_out) => ControlPlanePhase::Ready,
        _ if !was_ready => ControlPlanePhase::Provisioning,
        _ if installed != Some(version) => ControlPlanePhase::Upgrading,
        // New pods for another reason than a version: the old ones go on serving.
        _ => ControlPlanePhase::Ready,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::DeploymentStatus;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::control_plane_with;

    fn pods(wanted: i32, updated: i32, ready: i32) -> DeploymentFacts {
        DeploymentFacts {
            generation: Some(1),
            wanted,
            status: DeploymentStatus {
                observed_generation: Some(1),
                replicas: Some(ready),
                updated_replicas: Some(updated),
                ready_replicas: Some(ready),
                ..DeploymentStatus::default()
            },
            ..DeploymentFacts::default()
        }
    }

    #[test]
    fn each_word_has_its_hour() {
        use ControlPlanePhase as Phase;
        let told = |replicas: i32,
                    deployment: Option<DeploymentFacts>,
                    installed,
                    blocked: bool| {
            let tcp = control_plane_with(json!({
                "controlPlane": { "service": { "serviceType": "ClusterIP" }, "deployment": { "replicas": replicas } },
                "writePermissions": { "blockCreation": blocked },
            }));
            phase(&tcp, deployment.as_ref(), installed, "v1.36.3")
        };
        assert_eq!(told(2, None, None, false), Phase::Provisioning);
        assert_eq!(
            told(2, Some(pods(2, 2, 0)), None, false),
            Phase::Provisioning
        );
        assert_eq!(
            told(2, Some(pods(2, 2, 1)), None, false),
            Phase::Provisioning
        );
        assert_eq!(told(2, Some(pods(2, 2, 2)), None, false), Phase::Ready);
        assert_eq!(
            told(2, Some(pods(2, 2, 0)), Some("v1.36.3"), false),
            Phase::NotReady
        );
        assert_eq!(
            told(2, Some(pods(2, 1, 2)), Some("v1.35.4"), false),
            Phase::Upgrading
        );
        assert_eq!(
            told(2, Some(pods(2, 1, 2)), Some("v1.36.3"), false),
            Phase::Ready
        );
        assert_eq!(
            told(2, Some(pods(2, 2, 2)), Some("v1.36.3"), true),
            Phase::WriteLimited
        );
        assert_eq!(
            told(0, Some(pods(0, 0, 0)), Some("v1.36.3"), true),
            Phase::Sleeping
        );
    }

    proptest! {
        #[test]
        fn nothing_is_ready_that_does_not_serve(wanted in 1..4_i32, updated in 0..4_i32, was: bool) {
            let tcp = control_plane_with(json!({ "controlPlane": {
                "service": { "serviceType": "ClusterIP" }, "deployment": { "replicas": wanted },
            } }));
            let word = phase(&tcp, Some(&pods(wanted, updated, 0)), was.then_some("v1.36.3"), "v1.36.3");
            prop_assert!(!matches!(word, ControlPlanePhase::Ready | ControlPlanePhase::WriteLimited));
        }
    }
}
