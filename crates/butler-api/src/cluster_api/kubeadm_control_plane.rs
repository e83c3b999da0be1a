//! `KubeadmControlPlane` of Cluster API, as far as Butler reads it: a control plane on machines of its own.
//!
//! Must not: be written. What is not named here would be lost.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use crate::keys::groups;

/// A control plane on machines of its own.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct KubeadmControlPlane {
    /// Name, labels and the rest of what every object has.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the control plane shall be.
    #[serde(default)]
    pub spec: KubeadmControlPlaneSpec,
    /// What is known about the control plane.
    #[serde(default)]
    pub status: KubeadmControlPlaneStatus,
}

/// What a control plane shall be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeadmControlPlaneSpec {
    /// Machines that there shall be.
    pub replicas: Option<i32>,
    /// Version of Kubernetes it shall have.
    pub version: String,
}

/// What is known about a control plane.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeadmControlPlaneStatus {
    /// Generation of the spec that this status speaks of.
    pub observed_generation: Option<i64>,
    /// How far it has come.
    pub initialization: KubeadmControlPlaneInitialization,
    /// The oldest version that one of its machines has.
    pub version: Option<String>,
    /// Machines that there are, old ones among them.
    pub replicas: Option<i32>,
    /// Machines whose nodes are ready.
    pub ready_replicas: Option<i32>,
    /// Machines that have been ready for long enough.
    pub available_replicas: Option<i32>,
    /// Machines that are as the spec says.
    pub up_to_date_replicas: Option<i32>,
    /// `Available`, `RollingOut`, `CertificatesAvailable` and what else Cluster API says.
    pub conditions: Vec<Condition>,
}

/// How far a control plane has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeadmControlPlaneInitialization {
    /// Whether it answered once.
    pub control_plane_initialized: Option<bool>,
}

impl Resource for KubeadmControlPlane {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Cow::Borrowed("KubeadmControlPlane")
    }

    fn group((): &()) -> Cow<'_, str> {
        Cow::Borrowed(groups::CONTROL_PLANE)
    }

    fn version((): &()) -> Cow<'_, str> {
        Cow::Borrowed(groups::KUBEADM_CONTROL_PLANE_VERSION)
    }

    fn plural((): &()) -> Cow<'_, str> {
        Cow::Borrowed("kubeadmcontrolplanes")
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_control_plane_is_found_where_cluster_api_serves_it() {
        assert_eq!(
            KubeadmControlPlane::url_path(&(), Some("payments")),
            "/apis/controlplane.cluster.x-k8s.io/v1beta2/namespaces/payments/kubeadmcontrolplanes"
        );
    }

    #[test]
    fn an_upgrade_can_be_followed() {
        let plane: KubeadmControlPlane = serde_json::from_value(json!({
            "metadata": { "name": "production", "namespace": "payments" },
            "spec": { "replicas": 3, "version": "v1.36.3", "kubeadmConfigSpec": {} },
            "status": {
                "initialization": { "controlPlaneInitialized": true },
                "version": "v1.35.4",
                "replicas": 4,
                "upToDateReplicas": 1,
            },
        }))
        .expect("control plane");
        assert_eq!(plane.spec.version, "v1.36.3");
        assert_eq!(plane.status.version.as_deref(), Some("v1.35.4"));
        let initialization = plane.status.initialization;
        assert_eq!(initialization.control_plane_initialized, Some(true));
        assert_eq!(plane.status.ready_replicas, None);
    }
}
