//! The networks of a management cluster, whichever way they were written.

use std::net::IpAddr;

use ipnet::IpNet;

use super::FieldError;
use crate::butler::cluster_bootstrap::{BootstrapNetwork, ClusterBootstrapSpec};
use crate::name::is_dns_label;
use crate::net::AddressRange;

/// The networks of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalizedNetwork {
    /// Addresses of pods.
    pub pod_cidr: IpNet,
    /// Addresses of Services.
    pub service_cidr: IpNet,
    /// Where the API server is reached, if the user chose it.
    pub endpoint: Option<Endpoint>,
    /// Interface that announces the endpoint, if the user chose it.
    pub vip_interface: Option<String>,
    /// Addresses for Services of type LoadBalancer, without the endpoint's own; none if the user gave none.
    pub load_balancer_ranges: Vec<AddressRange>,
}

/// Where an API server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// At an address, which the control plane nodes announce where no cloud does.
    Address(IpAddr),
    /// At a DNS name, which somebody else points to the control plane.
    Name(String),
}

/// Reads the networks; none if a rule is broken.
pub(super) fn normalize(
    spec: &ClusterBootstrapSpec,
    errors: &mut Vec<FieldError>,
) -> Option<NormalizedNetwork> {
    let (path, network) = match (&spec.network, &spec.networking) {
        (Some(network), None) => ("spec.network", network),
        (None, Some(network)) => ("spec.networking", network),
        (None, None) | (Some(_), Some(_)) => {
            errors.push(FieldError::new(
                "spec.network",
                "or spec.networking must be given, and not both",
            ));
            return None;
        }
    };
    let pod_cidr = block(&format!("{path}.podCIDR"), &network.pod_cidr, errors);
    let service_cidr = block(
        &format!("{path}.serviceCIDR"),
        &network.service_cidr,
        errors,
    );
    let endpoint = endpoint(spec, path, network, errors);
    let pool = load_balancer_pool(spec, path, network, errors);
    let (pod_cidr, service_cidr) = (pod_cidr?, service_cidr?);
    if pod_cidr.contains(&service_cidr) || service_cidr.contains(&pod_cidr) {
        let rule = format!("must not overlap with {path}.podCIDR");
        errors.push(FieldError::new(format!("{path}.serviceCIDR"), rule));
    }
    if pod_cidr.addr().is_ipv4() != service_cidr.addr().is_ipv4() {
        let rule = format!("must be of the same address family as {path}.podCIDR");
        errors.push(FieldError::new(format!("{path}.serviceCIDR"), rule));
    }
    let load_balancer_ranges = match (pool, &endpoint) {
        (Some(pool), Some(Endpoint::Address(address))) => pool.without(*address),
        (Some(pool), _) => vec![pool],
        (None, _) => Vec::new(),
    };
    Some(NormalizedNetwork {
        pod_cidr,
        service_cidr,
        endpoint,
        vip_interface: network
            .vip_interface
            .clone()
            .filter(|name| !name.is_empty()),
        load_balancer_ranges,
    })
}

fn block(path: &str, text: &str, errors: &mut Vec<FieldError>) -> Option<IpNet> {
    let block = text.parse::<IpNet>().ok().map(|block| block.trunc());
    if block.is_none() {
        errors.push(FieldError::new(
            path,
            "must be a CIDR block such as 10.244.0.0/16",
        ));
    }
    block
}

fn endpoint(
    spec: &ClusterBootstrapSpec,
    network_path: &str,
    network: &BootstrapNetwork,
    errors: &mut Vec<FieldError>,
) -> Option<Endpoint> {
    let vip_path = format!("{network_path}.vip");
    let spellings = [
        (vip_path.as_str(), network.vip.as_deref()),
        (
            "spec.cluster.controlPlaneEndpoint",
            spec.cluster.control_plane_endpoint.as_deref(),
        ),
    ];
    let mut endpoints = Vec::new();
    for (path, text) in spellings {
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            continue;
        };
        match read_endpoint(text) {
            Some(endpoint) => endpoints.push(endpoint),
            None => errors.push(FieldError::new(
                path,
                "must be an IPv4 or IPv6 address or a DNS name in lower case",
            )),
        }
    }
    if let [vip, endpoint] = endpoints.as_slice()
        && vip != endpoint
    {
        errors.push(FieldError::new(
            vip_path,
            "and spec.cluster.controlPlaneEndpoint must not differ: they name one address",
        ));
    }
    endpoints.into_iter().next()
}

fn read_endpoint(text: &str) -> Option<Endpoint> {
    if let Ok(address) = text.parse() {
        return Some(Endpoint::Address(address));
    }
    let is_name = text.len() <= 253
        && text.split('.').all(is_dns_label)
        && text
            .rsplit('.')
            .next()
            .is_some_and(|last| last.starts_with(|c: char| c.is_ascii_lowercase()));
    is_name.then(|| Endpoint::Name(text.to_owned()))
}

/// The one pool of addresses out of three places where it may be written.
fn load_balancer_pool(
    spec: &ClusterBootstrapSpec,
    network_path: &str,
    network: &BootstrapNetwork,
    errors: &mut Vec<FieldError>,
) -> Option<AddressRange> {
    let pool_path = format!("{network_path}.loadBalancerPool");
    let structured = network
        .load_balancer_pool
        .as_ref()
        .map(|pool| format!("{}-{}", pool.start, pool.end));
    let platform = spec
        .platform
        .as_ref()
        .and_then(|platform| platform.metal_lb_pool.as_deref());
    let addon = spec
        .addons
        .as_ref()
        .and_then(|addons| addons.load_balancer.as_ref())
        .and_then(|load_balancer| load_balancer.address_pool.as_deref());
    let mut chosen: Option<(&str, AddressRange)> = None;
    for (path, text) in [
        (pool_path.as_str(), structured.as_deref()),
        ("spec.platform.metalLBPool", platform),
        ("spec.addons.loadBalancer.addressPool", addon),
    ] {
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            continue;
        };
        match (read_range(text), chosen) {
            (Err(rule), _) => errors.push(FieldError::new(path, rule)),
            (Ok(range), None) => chosen = Some((path, range)),
            (Ok(range), Some((other, already))) if range != already => {
                errors.push(FieldError::new(
                    path,
                    format!("must not differ from {other}"),
                ));
            }
            (Ok(_), Some(_)) => {}
        }
    }
    chosen.map(|(_, range)| range)
}

/// A range written `first-last`, or all addresses of a CIDR block.
fn read_range(text: &str) -> Result<AddressRange, String> {
    let range = match text.parse::<IpNet>() {
        Ok(block) => AddressRange::new(block.network(), block.broadcast()),
        Err(_) => text.parse(),
    };
    range.map_err(|error| format!("is no range of addresses: {}", error.rule))
}
