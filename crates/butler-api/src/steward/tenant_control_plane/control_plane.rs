//! The pods of a control plane and the Service, Ingress or Gateway in front of them.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::steward::deployment::ControlPlaneDeployment;
use crate::steward::exposure::{
    AdditionalMetadata, HOSTNAME_PATTERN, IngressControllerType, PARENTS_MESSAGE, PARENTS_RULE,
    ParentReference, ServiceType,
};

/// The pods of a control plane and how they are reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(has(self.ingress) && has(self.gateway))").message("ingress and gateway exclude each other: the API server has one public host name"))]
pub struct ControlPlane {
    /// The pods.
    #[serde(default)]
    pub deployment: ControlPlaneDeployment,
    /// The Service in front of them.
    pub service: ControlPlaneService,
    /// Reach the API server by an Ingress that passes TLS through. Not together with `gateway`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<ControlPlaneIngress>,
    /// Reach the API server by a `TLSRoute` of the Gateway API. Not together with `ingress`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<ControlPlaneGateway>,
}

/// The Service in front of a control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneService {
    /// Kind of Service.
    pub service_type: ServiceType,
    /// Labels and annotations to add to the Service, for instance for a cloud's load balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,
    /// Further ports, for containers that run beside the components.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_ports: Vec<AdditionalPort>,
}

/// A further port of the Service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalPort {
    /// Name of the port: a DNS label, unique, and neither `kube-apiserver` nor `konnectivity-server`.
    pub name: String,
    /// Protocol on the wire.
    #[serde(default)]
    pub protocol: TransportProtocol,
    /// Protocol spoken above it, as a hint for load balancers, such as `kubernetes.io/h2c`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
    /// Port of the Service.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Port of the container, by number or name.
    pub target_port: IntOrString,
}

/// Transport protocols of a Service port.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(description = "")]
pub enum TransportProtocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// An Ingress in front of the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneIngress {
    /// Class of the Ingress; the management cluster's default class if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_class_name: Option<String>,
    /// Public host name of the API server, with a port if it is not 443. Becomes a name of its certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Which controller serves the Ingress; `generic` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_type: Option<IngressControllerType>,
    /// Labels and annotations to add to the Ingress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,
}

/// Gateways in front of the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneGateway {
    /// Gateways whose listeners pass TLS through to the control plane.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(validation = Rule::new(PARENTS_RULE).message(PARENTS_MESSAGE))]
    pub parent_refs: Vec<ParentReference>,
    /// Public host name of the API server. Becomes a name of its certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = HOSTNAME_PATTERN))]
    pub hostname: Option<String>,
    /// Labels and annotations to add to the routes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,
}
