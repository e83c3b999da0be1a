//! The objects in the management cluster that make up a control plane.

use k8s_openapi::api::apps::v1::DeploymentCondition;
use k8s_openapi::api::core::v1::LoadBalancerStatus;
use k8s_openapi::api::networking::v1::IngressLoadBalancerStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::steward::exposure::ParentReference;

const CONTROLLER_NAME_PATTERN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$";
const ADDRESS_TYPE_PATTERN: &str = r"^Hostname|IPAddress|NamedAddress|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$";

/// The objects in the management cluster that make up a control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesResources {
    /// Which version runs, and how the control plane is doing in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionState>,
    /// The pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<DeploymentState>,
    /// The Service in front of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceState>,
    /// The Ingress, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<IngressState>,
    /// The Gateway's route, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayState>,
}

/// Which version runs, and how the control plane is doing in one word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionState {
    /// Version that all pods run; absent until the first is ready, the old one during an upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The state in one word, for people; programs read the conditions.
    #[serde(default)]
    pub status: ControlPlanePhase,
}

/// The state of a control plane in one word.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum ControlPlanePhase {
    /// The state cannot be told.
    Unknown,
    /// It is being made for the first time.
    #[default]
    Provisioning,
    /// Its certificate authority is being replaced.
    CertificateAuthorityRotating,
    /// It is on its way to another version.
    Upgrading,
    /// Its state is moving to another data store.
    Migrating,
    /// It serves requests, with all replicas up to date.
    Ready,
    /// No replica serves requests.
    NotReady,
    /// It has been scaled to zero.
    Sleeping,
    /// It serves requests, but some writes are refused.
    WriteLimited,
}

/// The Deployment of a control plane, with the numbers it reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentState {
    /// Name of the Deployment.
    pub name: String,
    /// Namespace of the Deployment.
    pub namespace: String,
    /// Label selector of its pods, as text; the scale subresource reads it.
    pub selector: String,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update: Option<Time>,
    /// Generation of the Deployment that the numbers are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Pods in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Pods of the newest kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// Pods that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Pods that have been ready for long enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Pods that are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<i32>,
    /// Pods that are going away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// How often the name of a replica set was already taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Conditions of the Deployment. See `kubectl explain deployment.status.conditions`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::embedded::deployment_conditions")]
    pub conditions: Vec<DeploymentCondition>,
}

/// A Service, with the addresses it was given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceState {
    /// Name of the Service.
    pub name: String,
    /// Namespace of the Service.
    pub namespace: String,
    /// Port of the Service that is meant.
    pub port: i32,
    /// Addresses of the load balancer. See `kubectl explain service.status.loadBalancer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::steward::embedded::schema_of::<LoadBalancerStatus>")]
    pub load_balancer: Option<LoadBalancerStatus>,
    /// Conditions of the Service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// An Ingress, with the addresses it was given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngressState {
    /// Name of the Ingress.
    pub name: String,
    /// Namespace of the Ingress.
    pub namespace: String,
    /// Addresses of the Ingress. See `kubectl explain ingress.status.loadBalancer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::steward::embedded::schema_of::<IngressLoadBalancerStatus>")]
    pub load_balancer: Option<IngressLoadBalancerStatus>,
}

/// A route of the Gateway API, with what its Gateways say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayState {
    /// The Gateways of the route and whether they took it.
    #[schemars(length(max = 32))]
    pub parents: Vec<RouteParentState>,
    /// The route, in the control plane's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_ref: Option<RouteReference>,
    /// Where the route can be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_points: Vec<AccessPoint>,
}

/// Names a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteReference {
    /// Name of the route; empty while there is none.
    #[serde(default)]
    pub name: String,
}

/// What one Gateway says of the route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteParentState {
    /// The Gateway.
    pub parent_ref: ParentReference,
    /// The controller that speaks for it.
    #[schemars(length(min = 1, max = 253), regex(pattern = CONTROLLER_NAME_PATTERN))]
    pub controller_name: String,
    /// What the controller says.
    #[schemars(schema_with = "route_conditions")]
    pub conditions: Vec<Condition>,
}

fn route_conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = crate::schema::conditions(generator);
    schema.insert("minItems".to_owned(), 1.into());
    schema.insert("maxItems".to_owned(), 8.into());
    schema
}

/// An address of a Gateway under which the route can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessPoint {
    /// Kind of address: `Hostname`, `IPAddress`, `NamedAddress`, or one of a vendor's.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 253), regex(pattern = ADDRESS_TYPE_PATTERN))]
    pub type_: String,
    /// The address.
    pub value: String,
    /// Port of the listener.
    pub port: i32,
    /// The same, as addresses to connect to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
}
