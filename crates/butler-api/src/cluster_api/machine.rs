//! `Machine` of Cluster API, as far as Butler reads it.
//!
//! Must not: be written. What is not named here would be lost.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use kube::Resource;
use serde::Deserialize;

use super::contract::{ContractReference, MachineAddress};
use crate::keys::groups;

/// A machine of a cluster: what it boots with, and which addresses it has.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Machine {
    /// Name, labels and the rest of what every object has.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the machine shall be.
    #[serde(default)]
    pub spec: MachineSpec,
    /// What is known about the machine.
    #[serde(default)]
    pub status: Option<MachineStatus>,
}

/// What a machine shall be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSpec {
    /// Name of the Cluster it belongs to, in its namespace.
    pub cluster_name: String,
    /// What it boots with.
    pub bootstrap: MachineBootstrap,
    /// Version of Kubernetes it shall run.
    pub version: Option<String>,
    /// Where it shall run.
    pub failure_domain: Option<String>,
    /// Its infrastructure.
    pub infrastructure_ref: Option<ContractReference>,
}

/// What a machine boots with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineBootstrap {
    /// What the bootstrap provider makes the user data from.
    pub config_ref: Option<ContractReference>,
    /// Secret with the user data under the key `value`; absent until the bootstrap provider made it.
    pub data_secret_name: Option<String>,
}

/// What is known about a machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineStatus {
    /// Addresses of the machine; none until its infrastructure reports them.
    pub addresses: Vec<MachineAddress>,
    /// The node that the machine became.
    pub node_ref: Option<MachineNodeReference>,
    /// One word for people.
    pub phase: Option<String>,
    /// When a deletion took which step.
    pub deletion: Option<MachineDeletionStatus>,
    /// `Available`, `NodeReady`, `Deleting` and what else Cluster API says.
    pub conditions: Vec<Condition>,
}

/// The node that a machine became.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct MachineNodeReference {
    /// Name of the node.
    pub name: String,
}

/// When the deletion of a machine took which step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDeletionStatus {
    /// When its node began to be drained.
    pub node_drain_start_time: Option<Time>,
    /// When the wait for its volumes began.
    pub wait_for_node_volume_detach_start_time: Option<Time>,
}

impl Resource for Machine {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Cow::Borrowed("Machine")
    }

    fn group((): &()) -> Cow<'_, str> {
        Cow::Borrowed(groups::CLUSTER_API)
    }

    fn version((): &()) -> Cow<'_, str> {
        Cow::Borrowed(groups::CLUSTER_API_VERSION)
    }

    fn plural((): &()) -> Cow<'_, str> {
        Cow::Borrowed("machines")
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
    use crate::steward::kubernetes::NodeAddressType;

    #[test]
    fn a_machine_is_found_where_cluster_api_serves_it() {
        assert_eq!(
            Machine::url_path(&(), Some("payments")),
            "/apis/cluster.x-k8s.io/v1beta2/namespaces/payments/machines"
        );
    }

    #[test]
    fn what_matters_is_read_and_the_rest_is_passed_over() {
        let machine: Machine = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Machine",
            "metadata": { "name": "production-workers-x7k2p", "namespace": "payments" },
            "spec": {
                "clusterName": "production",
                "bootstrap": { "dataSecretName": "production-workers-x7k2p" },
                "deletion": { "nodeDrainTimeoutSeconds": 10 },
            },
            "status": {
                "phase": "Running",
                "nodeRef": { "name": "production-workers-x7k2p" },
                "addresses": [
                    { "type": "Hostname", "address": "production-workers-x7k2p" },
                    { "type": "InternalIP", "address": "10.40.1.101" },
                ],
            },
        }))
        .expect("machine");
        assert_eq!(machine.spec.cluster_name, "production");
        assert_eq!(
            machine.spec.bootstrap.data_secret_name.as_deref(),
            Some("production-workers-x7k2p")
        );
        let status = machine.status.expect("status");
        assert_eq!(
            status.node_ref.expect("node").name,
            "production-workers-x7k2p"
        );
        let addresses = status.addresses;
        assert_eq!(addresses[1].type_, NodeAddressType::InternalIP);
        assert_eq!(addresses[1].address, "10.40.1.101");
    }

    #[test]
    fn a_machine_that_was_just_made_has_no_addresses() {
        let machine: Machine =
            serde_json::from_value(json!({ "metadata": { "name": "new" } })).expect("machine");
        assert_eq!(machine.status, None);
        assert_eq!(machine.spec.bootstrap.data_secret_name, None);
    }
}
