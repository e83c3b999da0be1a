//! `Machine` of Cluster API, as far as Butler reads it.
//!
//! Must not: be written. What is not named here would be lost.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use super::contract::MachineAddress;
use crate::keys::groups;

/// A machine of a cluster: which addresses it has.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Machine {
    /// Name, labels and the rest of what every object has.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is known about the machine.
    #[serde(default)]
    pub status: Option<MachineStatus>,
}

/// What is known about a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct MachineStatus {
    /// Addresses of the machine; none until its infrastructure reports them.
    #[serde(default)]
    pub addresses: Vec<MachineAddress>,
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
    fn addresses_are_read_and_the_rest_is_passed_over() {
        let machine: Machine = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Machine",
            "metadata": { "name": "production-workers-x7k2p", "namespace": "payments" },
            "spec": { "clusterName": "production", "bootstrap": {} },
            "status": {
                "phase": "Running",
                "addresses": [
                    { "type": "Hostname", "address": "production-workers-x7k2p" },
                    { "type": "InternalIP", "address": "10.40.1.101" },
                ],
            },
        }))
        .expect("machine");
        let addresses = machine.status.expect("status").addresses;
        assert_eq!(addresses[1].type_, NodeAddressType::InternalIP);
        assert_eq!(addresses[1].address, "10.40.1.101");
    }

    #[test]
    fn a_machine_that_was_just_made_has_no_addresses() {
        let machine: Machine =
            serde_json::from_value(json!({ "metadata": { "name": "new" } })).expect("machine");
        assert_eq!(machine.status, None);
    }
}
