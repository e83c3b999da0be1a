//! `LoadBalancerRequest`: the contract by which a control plane gets an address in a cloud.
//!
//! Owns the wire form of the request and of the provider's answer. Which machines are targets is decided by whoever
//! makes the request.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reference::NamespacedReference;

/// The port of a Kubernetes API server.
const API_SERVER_PORT: i32 = 6443;

/// Asks a provider for a TCP load balancer in front of a cluster's API servers.
///
/// The load balancer is made, and its endpoint reported, before any target exists, so that certificates can name the
/// endpoint; targets are then kept in step with the request.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "LoadBalancerRequest",
    plural = "loadbalancerrequests",
    shortname = "lbr",
    namespaced,
    status = "LoadBalancerRequestStatus",
    derive = "PartialEq",
    doc = "Asks a provider for a load balancer in front of a cluster's API servers.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterName"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".status.endpoint"),
    printcolumn(
        name = "Targets",
        type_ = "integer",
        json_path = ".status.registeredTargets"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.clusterName == oldSelf.clusterName")
        .message("clusterName is immutable: the load balancer is named after its cluster"),
    validation = Rule::new("self.providerConfigRef == oldSelf.providerConfigRef")
        .message("providerConfigRef is immutable: a load balancer cannot move to another provider")
)]
pub struct LoadBalancerRequestSpec {
    /// Name of the cluster whose control plane stands behind the load balancer: a DNS label. Immutable.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub cluster_name: String,
    /// The `ProviderConfig` of the cloud that makes the load balancer; in this object's namespace if none is given.
    /// Immutable.
    pub provider_config_ref: NamespacedReference,
    /// TCP port that the load balancer listens on and forwards to on each target.
    #[serde(default = "api_server_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// TCP port of each target that health checks connect to. The same as `port` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub health_check_port: Option<i32>,
    /// Machines that receive the traffic. May be empty at first; the provider registers and removes targets as this
    /// list changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub targets: Vec<LoadBalancerTarget>,
}

const fn api_server_port() -> i32 {
    API_SERVER_PORT
}

/// One machine behind a load balancer. At least one of its fields is needed to find it; which one a provider uses
/// depends on the cloud.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.ip) || has(self.instanceID) || has(self.instanceName)")
        .message("a target needs at least one of ip, instanceID and instanceName")
)]
pub struct LoadBalancerTarget {
    /// Address of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::address")]
    pub ip: Option<String>,
    /// The machine's identity at the provider, as in the status of its `MachineRequest`.
    #[serde(
        default,
        rename = "instanceID",
        skip_serializing_if = "Option::is_none"
    )]
    pub instance_id: Option<String>,
    /// The machine's name at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_name: Option<String>,
}

/// What the provider reports about the load balancer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerRequestStatus {
    /// Where the load balancer is in its life, for people. Programs read the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<LoadBalancerPhase>,
    /// Address or DNS name at which clients reach the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The load balancer's identity at the provider.
    #[serde(
        default,
        rename = "resourceID",
        skip_serializing_if = "Option::is_none"
    )]
    pub resource_id: Option<String>,
    /// How many targets the provider has registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered_targets: Option<i32>,
    /// Why the load balancer failed, as one word for programs. Empty while nothing failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Why the load balancer failed and what to do about it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// What is known about the load balancer, one entry for each aspect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// When this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// The `metadata.generation` of the request that this status answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Where a load balancer is in its life.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum LoadBalancerPhase {
    /// Asked for; the provider has not begun.
    Pending,
    /// The provider is making it.
    Creating,
    /// It has an endpoint. Targets may still be on their way.
    Ready,
    /// It cannot be made as asked.
    Failed,
    /// It is being removed.
    Deleting,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use kube::core::cel::{validate_cel, validate_cel_update};
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn request(cluster: &str, targets: &Value) -> LoadBalancerRequest {
        serde_json::from_value(json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1",
            "kind": "LoadBalancerRequest",
            "metadata": { "name": "mgmt1-cp-lb", "namespace": "butler-system" },
            "spec": {
                "clusterName": cluster,
                "providerConfigRef": { "name": "aws" },
                "port": 6443,
                "targets": targets,
            },
        }))
        .expect("the request parses")
    }

    #[test]
    fn request_reads_back_as_written() {
        let targets = json!([
            { "ip": "203.0.113.5", "instanceID": "i-0abc", "instanceName": "mgmt1-cp-0" },
        ]);
        let request = request("mgmt1", &targets);
        assert_eq!(
            validate_cel(&request).map_err(|errors| errors.to_string()),
            Ok(())
        );
        assert_eq!(
            serde_json::to_value(&request.spec).unwrap(),
            json!({
                "clusterName": "mgmt1",
                "providerConfigRef": { "name": "aws" },
                "port": 6443,
                "targets": targets,
            })
        );
    }

    #[test]
    fn definition_has_the_columns_users_know() {
        let definition = LoadBalancerRequest::crd();
        assert_eq!(
            definition.spec.names.short_names,
            Some(vec!["lbr".to_owned()])
        );
        let columns: Vec<_> = definition.spec.versions[0]
            .additional_printer_columns
            .iter()
            .flatten()
            .map(|column| column.json_path.as_str())
            .collect();
        assert_eq!(columns[3], ".status.registeredTargets");
    }

    #[test]
    fn target_with_a_wrong_address_or_nothing_at_all_is_refused() {
        let wrong = validate_cel(&request("mgmt1", &json!([{ "ip": "203.0.113.500" }])));
        assert!(
            wrong
                .unwrap_err()
                .to_string()
                .contains("must be an IPv4 or IPv6 address")
        );
        let empty = validate_cel(&request("mgmt1", &json!([{}])));
        assert!(
            empty
                .unwrap_err()
                .to_string()
                .contains("at least one of ip")
        );
    }

    #[test]
    fn load_balancer_stays_with_its_cluster() {
        let refusal =
            validate_cel_update(&request("other", &json!([])), &request("mgmt1", &json!([])))
                .expect_err("the change is refused");
        assert!(refusal.to_string().contains("clusterName is immutable"));
    }
}
