//! How a control plane is reached: kinds of Services, Ingress controllers, Gateway references, and the rules for
//! addresses and names.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::{LABEL_PATTERN, SUBDOMAIN_PATTERN};

/// Pattern of a host name as the Gateway API accepts it, with an optional leading wildcard.
pub(crate) const HOSTNAME_PATTERN: &str =
    r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

const GROUP_PATTERN: &str = r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const KIND_PATTERN: &str = r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$";

/// CEL: a text that is empty, an IP address or a host name.
pub(crate) const ADDRESS_RULE: &str = r"self == '' || isIP(self) || self.matches(r'^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*$')";
/// What to say when [`ADDRESS_RULE`] fails.
pub(crate) const ADDRESS_MESSAGE: &str =
    "must be an IP address or a host name, without scheme and port";

/// CEL: names that fit into a certificate.
pub(crate) const CERTIFICATE_NAMES_RULE: &str = r"self.all(name, isIP(name) || name.matches(r'^(\*\.)?[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*$'))";
/// What to say when [`CERTIFICATE_NAMES_RULE`] fails.
pub(crate) const CERTIFICATE_NAMES_MESSAGE: &str =
    "each name must be an IP address or a DNS name (*. may lead), without scheme and port";

/// CEL: a list of IP addresses, of either family.
pub(crate) const ADDRESSES_RULE: &str = "self.all(address, isIP(address))";
/// What to say when [`ADDRESSES_RULE`] fails.
pub(crate) const ADDRESSES_MESSAGE: &str = "each entry must be an IPv4 or IPv6 address";

/// CEL: a list of CIDRs, of either family.
pub(crate) const RANGES_RULE: &str = "self.all(range, isCIDR(range))";
/// What to say when [`RANGES_RULE`] fails.
pub(crate) const RANGES_MESSAGE: &str =
    "each entry must be an IPv4 or IPv6 CIDR such as 192.0.2.0/24";

/// CEL: Gateways are named without port or listener, because Steward chooses the listener of each of its ports.
pub(crate) const PARENTS_RULE: &str =
    "self.all(parent, !has(parent.port) && !has(parent.sectionName))";
/// What to say when [`PARENTS_RULE`] fails.
pub(crate) const PARENTS_MESSAGE: &str = "parentRefs must not set port or sectionName: the listener follows from the port that is exposed";

/// Kind of Service in front of a control plane.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum ServiceType {
    /// Reachable inside the management cluster only; the choice behind an Ingress or a Gateway.
    ClusterIP,
    /// Reachable on a port of every node of the management cluster.
    NodePort,
    /// Reachable at an address of its own.
    #[default]
    LoadBalancer,
}

/// Which Ingress controller serves the Ingress, since each spells TLS passthrough differently.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum IngressControllerType {
    /// `HAProxy` Ingress.
    Haproxy,
    /// ingress-nginx.
    Nginx,
    /// Traefik, by an `IngressRouteTCP`.
    Traefik,
    /// Any other: no annotations are added, bring your own.
    #[default]
    Generic,
}

/// Names a Gateway, with the defaults of the Gateway API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParentReference {
    /// API group of the parent; `gateway.networking.k8s.io` if absent, empty for the core group.
    #[serde(default = "gateway_group")]
    #[schemars(length(max = 253), regex(pattern = GROUP_PATTERN))]
    pub group: String,
    /// Kind of the parent; `Gateway` if absent.
    #[serde(default = "gateway_kind")]
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND_PATTERN))]
    pub kind: String,
    /// Name of the parent.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the parent; the namespace of the control plane if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_PATTERN))]
    pub namespace: Option<String>,
    /// Port of the listener. Reported in status; must not be set in a spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// Name of the listener. Reported in status; must not be set in a spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN_PATTERN))]
    pub section_name: Option<String>,
}

fn gateway_group() -> String {
    "gateway.networking.k8s.io".to_owned()
}

fn gateway_kind() -> String {
    "Gateway".to_owned()
}

/// Labels and annotations put on an object beside those Butler sets. Butler's own win where both name a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalMetadata {
    /// Labels to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}
