//! The addresses of a management cluster, and the rules for writing them.

use kube::KubeSchema;
use kube::core::Rule;
use serde::{Deserialize, Serialize};

use crate::schema::{cidr_rule, ipv4_number, range_rules, separate_blocks_rules};

/// An address, or a DNS name, or nothing at all. The last label of a name begins with a letter, so that a mistyped
/// address is no name.
pub(super) const ADDRESS_OR_NAME_RULE: &str = "self == '' || isIP(self) || self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?[.])*[a-z]([-a-z0-9]*[a-z0-9])?$')";
/// What [`ADDRESS_OR_NAME_RULE`] asks for.
pub(super) const ADDRESS_OR_NAME_MESSAGE: &str =
    "must be an IPv4 or IPv6 address or a DNS name in lower case";

/// A range of addresses of one family written as text: `first-last` or a CIDR block; or nothing at all.
pub(super) const ADDRESS_POOL_RULE: &str = "self == '' || isCIDR(self) || \
    (self.split('-').size() == 2 && self.split('-').all(address, isIP(address)) && \
    self.split('-')[0].contains(':') == self.split('-')[1].contains(':'))";
/// What [`ADDRESS_POOL_RULE`] asks for.
pub(super) const ADDRESS_POOL_MESSAGE: &str = "must be two addresses of one family joined by a hyphen, such as 10.40.0.200-10.40.0.250, or a CIDR block";

/// The first address of a textual range does not come after the last. IPv6 ranges are judged when the object is read.
pub(super) fn address_pool_order() -> Rule {
    Rule::new(format!(
        "!self.matches('^[0-9]{{1,3}}([.][0-9]{{1,3}}){{3}}-[0-9]{{1,3}}([.][0-9]{{1,3}}){{3}}$') || {} <= {}",
        ipv4_number("self.split('-')[0]"),
        ipv4_number("self.split('-')[1]"),
    ))
    .message("is reversed: the address before the hyphen must not come after the one behind it")
}

/// The networks of the cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = separate_blocks_rules("podCIDR", "serviceCIDR")[0].clone(),
    validation = separate_blocks_rules("podCIDR", "serviceCIDR")[1].clone()
)]
pub struct BootstrapNetwork {
    /// Addresses of pods, such as `10.244.0.0/16`. Immutable.
    #[serde(rename = "podCIDR")]
    #[schemars(length(min = 1, max = 43))]
    #[x_kube(
        validation = cidr_rule("podCIDR", "10.244.0.0/16"),
        validation = Rule::new("self == oldSelf").message("podCIDR is immutable: running pods have addresses from it")
    )]
    pub pod_cidr: String,
    /// Addresses of Services, such as `10.96.0.0/12`. Must not overlap with `podCIDR`. Immutable.
    #[serde(rename = "serviceCIDR")]
    #[schemars(length(min = 1, max = 43))]
    #[x_kube(
        validation = cidr_rule("serviceCIDR", "10.96.0.0/12"),
        validation = Rule::new("self == oldSelf").message("serviceCIDR is immutable: Services have addresses from it")
    )]
    pub service_cidr: String,
    /// Address or DNS name at which the API server is reached; an address is announced by the control plane nodes.
    /// The same as `cluster.controlPlaneEndpoint`; empty means absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new(ADDRESS_OR_NAME_RULE).message(ADDRESS_OR_NAME_MESSAGE))]
    pub vip: Option<String>,
    /// Network interface of the control plane nodes that announces the address. The first interface as the provider
    /// names it if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 15))]
    pub vip_interface: Option<String>,
    /// Addresses for Services of type LoadBalancer. If absent, `platform.metalLBPool` or
    /// `addons.loadBalancer.addressPool`. The API server's own address is left out if it lies within.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_pool: Option<LoadBalancerPool>,
}

/// A range of addresses, both ends included.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = range_rules("start", "end")[0].clone(),
    validation = range_rules("start", "end")[1].clone()
)]
pub struct LoadBalancerPool {
    /// First address of the range.
    #[schemars(schema_with = "crate::schema::address")]
    pub start: String,
    /// Last address of the range.
    #[schemars(schema_with = "crate::schema::address")]
    pub end: String,
}
