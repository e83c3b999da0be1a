//! `MachineDeployment` and `MachineSet` of Cluster API, as far as Butler reads them: machines that are alike.
//!
//! Must not: be written. What is not named here would be lost.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::machine::MachineSpec;
use crate::keys::groups;

/// Machines that are alike, and the way from the old ones to the new.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct MachineDeployment {
    /// Name, labels and the rest of what every object has.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the machines shall be.
    #[serde(default)]
    pub spec: MachineGroupSpec,
    /// What is known about the machines.
    #[serde(default)]
    pub status: MachineGroupStatus,
}

/// Machines made from one and the same template.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct MachineSet {
    /// Name, labels and the rest of what every object has.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the machines shall be.
    #[serde(default)]
    pub spec: MachineGroupSpec,
    /// What is known about the machines.
    #[serde(default)]
    pub status: MachineGroupStatus,
}

/// What machines shall be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineGroupSpec {
    /// Name of the Cluster they belong to, in their namespace.
    pub cluster_name: String,
    /// How many there shall be; Cluster API fills it in if nobody says.
    pub replicas: Option<i32>,
    /// What each is made from.
    pub template: MachineGroupTemplate,
}

/// What machines are made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct MachineGroupTemplate {
    /// What a machine shall be. Its references name templates, and not the objects made from them.
    pub spec: MachineSpec,
}

/// What is known about machines.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineGroupStatus {
    /// Generation of the spec that this status speaks of.
    pub observed_generation: Option<i64>,
    /// Machines that there are, old ones among them.
    pub replicas: Option<i32>,
    /// Machines whose nodes are ready.
    pub ready_replicas: Option<i32>,
    /// Machines that have been ready for long enough.
    pub available_replicas: Option<i32>,
    /// Machines that are as the spec says.
    pub up_to_date_replicas: Option<i32>,
    /// `Available`, `RollingOut`, `ScalingUp` and what else Cluster API says.
    pub conditions: Vec<Condition>,
}

impl Resource for MachineDeployment {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Cow::Borrowed("MachineDeployment")
    }

    fn group((): &()) -> Cow<'_, str> {
        Cow::Borrowed(groups::CLUSTER_API)
    }

    fn version((): &()) -> Cow<'_, str> {
        Cow::Borrowed(groups::CLUSTER_API_VERSION)
    }

    fn plural((): &()) -> Cow<'_, str> {
        Cow::Borrowed("machinedeployments")
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Resource for MachineSet {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Cow::Borrowed("MachineSet")
    }

    fn group((): &()) -> Cow<'_, str> {
        Cow::Borrowed(groups::CLUSTER_API)
    }

    fn version((): &()) -> Cow<'_, str> {
        Cow::Borrowed(groups::CLUSTER_API_VERSION)
    }

    fn plural((): &()) -> Cow<'_, str> {
        Cow::Borrowed("machinesets")
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
    fn groups_are_found_where_cluster_api_serves_them() {
        assert_eq!(
            MachineDeployment::url_path(&(), Some("payments")),
            "/apis/cluster.x-k8s.io/v1beta2/namespaces/payments/machinedeployments"
        );
        assert_eq!(
            MachineSet::url_path(&(), Some("payments")),
            "/apis/cluster.x-k8s.io/v1beta2/namespaces/payments/machinesets"
        );
    }

    #[test]
    fn a_roll_out_can_be_followed() {
        let group: MachineDeployment = serde_json::from_value(json!({
            "metadata": { "name": "production-workers", "namespace": "payments" },
            "spec": {
                "clusterName": "production",
                "replicas": 3,
                "selector": { "matchLabels": {} },
                "template": { "spec": {
                    "clusterName": "production",
                    "version": "v1.36.3",
                    "bootstrap": { "configRef": {
                        "apiGroup": "bootstrap.cluster.x-k8s.io",
                        "kind": "KubeadmConfigTemplate",
                        "name": "production-worker-0a1b2c3d",
                    } },
                    "infrastructureRef": {
                        "apiGroup": "infrastructure.cluster.x-k8s.io",
                        "kind": "ButlerMachineTemplate",
                        "name": "production-worker-0a1b2c3d",
                    },
                } },
            },
            "status": { "observedGeneration": 2, "replicas": 4, "readyReplicas": 3, "upToDateReplicas": 1 },
        }))
        .expect("deployment");
        let template = &group.spec.template.spec;
        assert_eq!(template.version.as_deref(), Some("v1.36.3"));
        let bootstrap = template.bootstrap.config_ref.as_ref().expect("reference");
        assert_eq!(bootstrap.name, "production-worker-0a1b2c3d");
        assert_eq!(group.status.up_to_date_replicas, Some(1));
        assert_eq!(group.status.available_replicas, None);
    }

    #[test]
    fn a_group_that_was_just_made_has_nothing() {
        let set: MachineSet =
            serde_json::from_value(json!({ "metadata": { "name": "new" } })).expect("set");
        assert_eq!(set.spec, MachineGroupSpec::default());
        assert_eq!(set.status, MachineGroupStatus::default());
    }
}
