//! The addresses of a management cluster, and the rules for writing them.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

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

/// The first address of a textual range is not above the last. CEL has no order of addresses, so IPv4 addresses are
/// compared as numbers; IPv6 ranges are judged when the object is read.
pub(super) const ADDRESS_POOL_ORDER_RULE: &str = "!self.matches('^[0-9]{1,3}([.][0-9]{1,3}){3}-[0-9]{1,3}([.][0-9]{1,3}){3}$') || \
    int(self.split('-')[0].split('.')[0]) * 16777216 + int(self.split('-')[0].split('.')[1]) * 65536 + int(self.split('-')[0].split('.')[2]) * 256 + int(self.split('-')[0].split('.')[3]) <= \
    int(self.split('-')[1].split('.')[0]) * 16777216 + int(self.split('-')[1].split('.')[1]) * 65536 + int(self.split('-')[1].split('.')[2]) * 256 + int(self.split('-')[1].split('.')[3])";
/// What [`ADDRESS_POOL_ORDER_RULE`] asks for.
pub(super) const ADDRESS_POOL_ORDER_MESSAGE: &str =
    "is reversed: the address before the hyphen must not be above the one after it";

/// The networks of the cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!isCIDR(self.podCIDR) || !isCIDR(self.serviceCIDR) || !(cidr(self.podCIDR).containsCIDR(self.serviceCIDR) || cidr(self.serviceCIDR).containsCIDR(self.podCIDR))")
        .message("podCIDR and serviceCIDR must not overlap"),
    validation = Rule::new("self.podCIDR.contains(':') == self.serviceCIDR.contains(':')")
        .message("podCIDR and serviceCIDR must both be IPv4 or both be IPv6")
)]
pub struct BootstrapNetwork {
    /// Addresses of pods, such as `10.244.0.0/16`. Immutable.
    #[serde(rename = "podCIDR")]
    #[schemars(length(min = 1, max = 43))]
    #[x_kube(
        validation = Rule::new("isCIDR(self)").message("podCIDR must be a CIDR block such as 10.244.0.0/16"),
        validation = Rule::new("self == oldSelf").message("podCIDR is immutable: running pods have addresses from it")
    )]
    pub pod_cidr: String,
    /// Addresses of Services, such as `10.96.0.0/12`. Must not overlap with `podCIDR`. Immutable.
    #[serde(rename = "serviceCIDR")]
    #[schemars(length(min = 1, max = 43))]
    #[x_kube(
        validation = Rule::new("isCIDR(self)").message("serviceCIDR must be a CIDR block such as 10.96.0.0/12"),
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
    validation = Rule::new("self.start.contains(':') == self.end.contains(':')")
        .message("start and end must both be IPv4 or both be IPv6 addresses"),
    validation = Rule::new("!self.start.matches('^[0-9]{1,3}([.][0-9]{1,3}){3}$') || !self.end.matches('^[0-9]{1,3}([.][0-9]{1,3}){3}$') || int(self.start.split('.')[0]) * 16777216 + int(self.start.split('.')[1]) * 65536 + int(self.start.split('.')[2]) * 256 + int(self.start.split('.')[3]) <= int(self.end.split('.')[0]) * 16777216 + int(self.end.split('.')[1]) * 65536 + int(self.end.split('.')[2]) * 256 + int(self.end.split('.')[3])")
        .message("start must not be above end")
)]
pub struct LoadBalancerPool {
    /// First address of the range.
    #[schemars(length(min = 1, max = 45))]
    #[x_kube(validation = Rule::new("isIP(self)").message("start must be an IPv4 or IPv6 address"))]
    pub start: String,
    /// Last address of the range.
    #[schemars(length(min = 1, max = 45))]
    #[x_kube(validation = Rule::new("isIP(self)").message("end must be an IPv4 or IPv6 address"))]
    pub end: String,
}
