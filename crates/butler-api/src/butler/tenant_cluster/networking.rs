//! Address ranges of a tenant cluster, and the rules that keep them apart.

use kube::{KubeSchema, core::Rule};
use serde::{Deserialize, Serialize};

use crate::net::{ADDRESS_LENGTH, CIDR_LENGTH};
use crate::schema::{cidr_rule, range_rules, separate_blocks_rules};

/// Range of pod addresses when the cluster names none.
pub const DEFAULT_POD_CIDR: &str = "10.244.0.0/16";

/// Range of Service addresses when the cluster names none.
pub const DEFAULT_SERVICE_CIDR: &str = "10.96.0.0/12";

/// Address ranges of a tenant cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = separate_blocks_rules("podCIDR", "serviceCIDR")[0].clone())]
#[x_kube(validation = separate_blocks_rules("podCIDR", "serviceCIDR")[1].clone())]
#[x_kube(validation = pool_outside("podCIDR"))]
#[x_kube(validation = pool_outside("serviceCIDR"))]
pub struct TenantClusterNetworking {
    /// Range of pod addresses, IPv4 or IPv6. It cannot be changed later. Default 10.244.0.0/16.
    #[serde(default = "default_pod_cidr", rename = "podCIDR")]
    #[schemars(length(max = CIDR_LENGTH))]
    #[x_kube(validation = cidr_rule("podCIDR", "10.244.0.0/16 or fd00:10:244::/56"))]
    #[x_kube(validation = network_address("podCIDR", "10.244.0.0/16"))]
    pub pod_cidr: String,
    /// Range of Service addresses, of the same IP family as the pods and apart from them. It cannot be changed later.
    /// Default 10.96.0.0/12.
    #[serde(default = "default_service_cidr", rename = "serviceCIDR")]
    #[schemars(length(max = CIDR_LENGTH))]
    #[x_kube(validation = cidr_rule("serviceCIDR", "10.96.0.0/12 or fd00:10:96::/112"))]
    #[x_kube(validation = network_address("serviceCIDR", "10.96.0.0/12"))]
    pub service_cidr: String,
    /// Addresses that Services of type `LoadBalancer` in the cluster may take. They must be routed to the workers'
    /// network; on local machines they must be of a pool of the provider. If absent, a range is allocated from the provider's
    /// pools. Once granted it cannot be changed, but for being left out: the cluster keeps what it has then, and `lbPoolSize`
    /// counts. No effect where `network.mode` of the provider is `cloud`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_pool: Option<LoadBalancerPool>,
    /// How many addresses to allocate from the provider's pools for Services of type `LoadBalancer`, within the provider's
    /// quota. If absent, the provider's default; not used when `loadBalancerPool` is given. Raised later, the difference is
    /// added; lowered, ranges that were added are given back when they are unused for 10 minutes. Where ranges grow by need
    /// (`elastic`): the least that the cluster has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub lb_pool_size: Option<i32>,
}

impl Default for TenantClusterNetworking {
    fn default() -> Self {
        Self {
            pod_cidr: default_pod_cidr(),
            service_cidr: default_service_cidr(),
            load_balancer_pool: None,
            lb_pool_size: None,
        }
    }
}

fn default_pod_cidr() -> String {
    DEFAULT_POD_CIDR.to_owned()
}

fn default_service_cidr() -> String {
    DEFAULT_SERVICE_CIDR.to_owned()
}

/// A range of addresses, both ends included. Both ends empty means that no pool is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.start == '') == (self.end == '')")
    .message("start and end belong together: give both, or leave loadBalancerPool out"))]
#[x_kube(validation = range_rules("start", "end")[0].clone())]
#[x_kube(validation = range_rules("start", "end")[1].clone())]
pub struct LoadBalancerPool {
    /// First address of the range.
    #[schemars(length(max = ADDRESS_LENGTH))]
    #[x_kube(validation = Rule::new("self == '' || isIP(self)")
        .message("start must be an IP address such as 10.40.1.100"))]
    pub start: String,
    /// Last address of the range; not below `start`.
    #[schemars(length(max = ADDRESS_LENGTH))]
    #[x_kube(validation = Rule::new("self == '' || isIP(self)")
        .message("end must be an IP address such as 10.40.1.150"))]
    pub end: String,
}

/// A range of the network that may not change once the cluster exists: every pod and Service address comes from it.
/// The absent block counts as the default, so that writing the default out later is no change.
pub(super) fn unchangeable(field: &str, default: &str) -> Rule {
    let effective = |object: &str| {
        format!("(has({object}.networking) ? {object}.networking.{field} : '{default}')")
    };
    let message = format!(
        "networking.{field} cannot be changed after creation (it is {default} if never given): \
         create a new cluster instead"
    );
    Rule::new(format!("{} == {}", effective("self"), effective("oldSelf")))
        .message(message.as_str())
        .field_path(format!(".networking.{field}"))
}

/// One range, one spelling: otherwise the same range written with another host part would count as a change.
fn network_address(field: &str, example: &str) -> Rule {
    let message =
        format!("{field} must not have address bits beyond its prefix: write it like {example}");
    Rule::new("!isCIDR(self) || cidr(self) == cidr(self).masked()").message(message.as_str())
}

/// A load balancer address inside the pod or Service range would never be reached from outside.
fn pool_outside(field: &str) -> Rule {
    let inside = |end: &str| {
        format!(
            "(isIP(self.loadBalancerPool.{end}) && \
             ip(self.loadBalancerPool.{end}).family() == cidr(self.{field}).ip().family() && \
             cidr(self.{field}).containsIP(ip(self.loadBalancerPool.{end})))"
        )
    };
    Rule::new(format!(
        "!has(self.loadBalancerPool) || !isCIDR(self.{field}) || !({} || {})",
        inside("start"),
        inside("end")
    ))
    .message(format!("loadBalancerPool must lie outside {field}").as_str())
}
