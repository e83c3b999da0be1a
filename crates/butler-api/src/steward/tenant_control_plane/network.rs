//! Addresses, ports and networks of a hosted control plane and its tenant cluster.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::steward::exposure::{
    ADDRESS_MESSAGE, ADDRESS_RULE, ADDRESSES_MESSAGE, ADDRESSES_RULE, CERTIFICATE_NAMES_MESSAGE,
    CERTIFICATE_NAMES_RULE, RANGES_MESSAGE, RANGES_RULE,
};

/// One CIDR, or one of each family for dual stack.
const CIDR_RULE: &str = "self.split(',').all(range, isCIDR(range)) \
    && (self.split(',').size() == 1 || (self.split(',').size() == 2 \
    && cidr(self.split(',')[0]).ip().family() != cidr(self.split(',')[1]).ip().family()))";
const CIDR_MESSAGE: &str = "must be a CIDR such as 10.96.0.0/16 or fd00:96::/112, or one of each family separated by a comma";

/// Addresses, ports and networks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkProfile {
    /// Address of the API server, if it is known beforehand. Otherwise the address of the Service is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new(ADDRESS_RULE).message(ADDRESS_MESSAGE))]
    pub address: Option<String>,
    /// Put `address` among the external addresses of the Service, for `ClusterIP` and `NodePort` Services.
    #[serde(
        default,
        rename = "allowAddressAsExternalIP",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub allow_address_as_external_ip: bool,
    /// Port of the API server: in its pod, on the Service, and on the nodes for a `NodePort` Service.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Names and addresses to add to the API server's certificate.
    #[serde(default, rename = "certSANs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 253)))]
    #[x_kube(validation = Rule::new(CERTIFICATE_NAMES_RULE).message(CERTIFICATE_NAMES_MESSAGE))]
    pub cert_sans: Vec<String>,
    /// DNS domain of the tenant cluster's Services. Cannot be changed.
    #[serde(default = "default_cluster_domain")]
    #[schemars(regex(pattern = r".*\..*"))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("clusterDomain cannot be changed: every pod has it in its DNS configuration"))]
    pub cluster_domain: String,
    /// Network of the tenant cluster's Services: IPv4, IPv6, or one of each separated by a comma.
    #[serde(default = "default_service_cidr")]
    #[schemars(length(max = 128))]
    #[x_kube(validation = Rule::new(CIDR_RULE).message(CIDR_MESSAGE))]
    pub service_cidr: String,
    /// Network of the tenant cluster's pods: IPv4, IPv6, or one of each separated by a comma.
    #[serde(default = "default_pod_cidr")]
    #[schemars(length(max = 128))]
    #[x_kube(validation = Rule::new(CIDR_RULE).message(CIDR_MESSAGE))]
    pub pod_cidr: String,
    /// Addresses of the DNS Service, within `serviceCidr`; its tenth address (IPv4) or sixteenth (IPv6) if absent.
    #[serde(
        default,
        rename = "dnsServiceIPs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 16), inner(length(max = 64)))]
    #[x_kube(validation = Rule::new(ADDRESSES_RULE).message(ADDRESSES_MESSAGE))]
    pub dns_service_ips: Vec<String>,
    /// Networks that may connect to the load balancer, where it can tell; all if empty. `LoadBalancer` Services only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 64)))]
    #[x_kube(validation = Rule::new(RANGES_RULE).message(RANGES_MESSAGE))]
    pub load_balancer_source_ranges: Vec<String>,
    /// Which load balancer implementation serves the Service; the default one if absent. `LoadBalancer` Services
    /// only. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("loadBalancerClass cannot be changed: it is fixed when the load balancer is made"))]
    pub load_balancer_class: Option<String>,
}

impl Default for NetworkProfile {
    fn default() -> Self {
        Self {
            address: None,
            allow_address_as_external_ip: false,
            port: default_port(),
            cert_sans: Vec::new(),
            cluster_domain: default_cluster_domain(),
            service_cidr: default_service_cidr(),
            pod_cidr: default_pod_cidr(),
            dns_service_ips: Vec::new(),
            load_balancer_source_ranges: Vec::new(),
            load_balancer_class: None,
        }
    }
}

fn default_port() -> i32 {
    6443
}

fn default_cluster_domain() -> String {
    "cluster.local".to_owned()
}

fn default_service_cidr() -> String {
    "10.96.0.0/16".to_owned()
}

fn default_pod_cidr() -> String {
    "10.244.0.0/16".to_owned()
}
