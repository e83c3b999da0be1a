//! Where a control plane is reached, and which names its certificate must have for it.
//!
//! Owns the arithmetic of addresses: declared, advertised and public ones, the first addresses of Service networks. Pure.

use std::{collections::BTreeSet, net::IpAddr};

use butler_api::{
    net::{Cidr, HostPort},
    steward::{
        exposure::ServiceType,
        tenant_control_plane::{NetworkProfile, TenantControlPlane},
    },
};
use kube::ResourceExt;
use serde::Serialize;

use crate::{names::Names, projections::ServiceFacts};

/// The port of an Ingress that names none.
const INGRESS_PORT: u16 = 443;
/// The port of an API server whose spec names none that can be one.
const API_SERVER_PORT: u16 = 6443;
/// Which address of an IPv4 Service network DNS has.
const DNS_OFFSET_V4: u32 = 10;
/// Which address of an IPv6 Service network DNS has.
const DNS_OFFSET_V6: u128 = 0x10;
/// The DNS domain of the management cluster.
const MANAGEMENT_DOMAIN: &str = "cluster.local";

/// The addresses of a control plane, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The address or name that the Service, or the user, gives.
    pub declared: Option<String>,
    /// The address that the tenant's Service `kubernetes` leads to. An IP: where only a name is known, that of the Service.
    pub advertised: Option<IpAddr>,
    /// Where clients connect.
    pub endpoint: Option<HostPort>,
}

/// The addresses of a control plane whose Service is as observed.
pub fn addresses(control_plane: &TenantControlPlane, service: Option<&ServiceFacts>) -> Addresses {
    let profile = &control_plane.spec.network_profile;
    let given = profile
        .address
        .clone()
        .filter(|address| !address.is_empty());
    let cluster_ip = service.and_then(|service| service.cluster_ip.clone());
    let declared = given.or_else(
        || match control_plane.spec.control_plane.service.service_type {
            ServiceType::ClusterIP | ServiceType::NodePort => cluster_ip.clone(),
            ServiceType::LoadBalancer => service.and_then(ServiceFacts::balanced_at),
        },
    );
    let as_ip = |text: &Option<String>| text.as_deref()?.parse().ok();
    let advertised = declared
        .is_some()
        .then(|| as_ip(&declared).or_else(|| as_ip(&cluster_ip)))
        .flatten();
    let endpoint = match public_host(control_plane) {
        Some((host, port)) => HostPort::new(&host, port).ok(),
        None => declared
            .as_deref()
            .and_then(|host| HostPort::new(host, port(profile)).ok()),
    };
    Addresses {
        declared,
        advertised,
        endpoint,
    }
}

/// The address of the management cluster's Services that the tenant's Service `kubernetes` leads to, although clients connect to
/// another place: for want of an address of that place. Nothing if somebody named an address that nodes reach.
pub fn stands_in(
    control_plane: &TenantControlPlane,
    service: Option<&ServiceFacts>,
) -> Option<IpAddr> {
    let named = control_plane.spec.network_profile.address.as_deref();
    let is_named = named.is_some_and(|named| named.parse::<IpAddr>().is_ok());
    let found = addresses(control_plane, service);
    let cluster_ip: IpAddr = service?.cluster_ip.as_deref()?.parse().ok()?;
    let advertised = found.advertised.filter(|found| *found == cluster_ip)?;
    let endpoint = found.endpoint?;
    (!is_named && endpoint.host() != advertised.to_string()).then_some(advertised)
}

/// The port of the API server.
pub fn port(profile: &NetworkProfile) -> u16 {
    u16::try_from(profile.port).unwrap_or(API_SERVER_PORT)
}

/// The public name and port by which an Ingress or a Gateway tells control planes apart. A Gateway listens on the port of the API
/// server: its routes name it.
pub fn public_host(control_plane: &TenantControlPlane) -> Option<(String, u16)> {
    let exposure = &control_plane.spec.control_plane;
    let ingress = exposure.ingress.as_ref();
    let gateway = exposure.gateway.as_ref();
    let name = |host: &Option<String>| host.clone().filter(|host| !host.is_empty());
    if let Some(host) = ingress.and_then(|ingress| name(&ingress.hostname)) {
        return Some(match host.parse::<HostPort>() {
            Ok(both) => (both.host().to_owned(), both.port()),
            Err(_) => (host, INGRESS_PORT),
        });
    }
    gateway
        .and_then(|gateway| name(&gateway.hostname))
        .map(|host| (host, port(&control_plane.spec.network_profile)))
}

/// What is wrong with the public name: the field, and what it must be.
pub fn problem_of_public_host(
    control_plane: &TenantControlPlane,
) -> Option<(&'static str, String)> {
    let (host, port) = public_host(control_plane)?;
    let field = match control_plane.spec.control_plane.ingress {
        Some(_) => "spec.controlPlane.ingress.hostname",
        None => "spec.controlPlane.gateway.hostname",
    };
    if host.contains('*') {
        let rule = format!(
            "{host} is a wildcard, and clients cannot connect to one; write the whole name of this control plane, such as {}",
            host.replacen('*', &control_plane.name_any(), 1)
        );
        return Some((field, rule));
    }
    let is_name = host.parse::<IpAddr>().is_err() && HostPort::new(&host, port).is_ok();
    (!is_name).then(|| {
        let rule = format!("{host:?} is no DNS name; write one such as shop.k8s.example.com");
        (field, rule)
    })
}

/// The public name of the reverse tunnel's server: that of the API server with its first `.k8s.` exchanged.
pub fn konnectivity_host(public_host: &str) -> String {
    public_host.replacen(".k8s.", ".konnectivity.", 1)
}

/// The networks in a text that holds one, or one of each family.
pub fn networks(text: &str) -> impl Iterator<Item = Cidr> {
    text.split(',')
        .filter_map(|network| network.trim().parse().ok())
}

/// The address a Service network begins with: that of the Service `kubernetes`.
fn first_address(network: &Cidr) -> IpAddr {
    offset(network, 1, 1)
}

/// The addresses of the tenant's DNS Service, unless the user chose others.
pub fn dns_addresses(profile: &NetworkProfile) -> Vec<String> {
    if !profile.dns_service_ips.is_empty() {
        return profile.dns_service_ips.clone();
    }
    networks(&profile.service_cidr)
        .map(|network| offset(&network, DNS_OFFSET_V4, DNS_OFFSET_V6).to_string())
        .collect()
}

fn offset(network: &Cidr, v4: u32, v6: u128) -> IpAddr {
    match network.first() {
        IpAddr::V4(first) => IpAddr::from((u32::from(first).saturating_add(v4)).to_be_bytes()),
        IpAddr::V6(first) => IpAddr::from((u128::from(first).saturating_add(v6)).to_be_bytes()),
    }
}

/// Names and addresses of a serving certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CertificateNames {
    /// DNS names.
    pub dns_names: BTreeSet<String>,
    /// Addresses.
    pub ip_addresses: BTreeSet<IpAddr>,
}

impl CertificateNames {
    /// Adds a name or an address, whichever it is.
    pub fn add(&mut self, text: &str) {
        match text.parse() {
            Ok(address) => {
                self.ip_addresses.insert(address);
            }
            Err(_) if text.is_empty() => {}
            Err(_) => {
                self.dns_names.insert(text.to_ascii_lowercase());
            }
        }
    }
}

/// Under which names the API server must be able to prove itself.
pub fn api_server_names(
    control_plane: &TenantControlPlane,
    service: Option<&ServiceFacts>,
) -> CertificateNames {
    let names = Names::of(control_plane);
    let profile = &control_plane.spec.network_profile;
    let found = addresses(control_plane, service);
    let mut all = CertificateNames::default();
    let host = names.service_host();
    for fixed in [
        "localhost",
        "127.0.0.1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
    ] {
        all.add(fixed);
    }
    for domain in [MANAGEMENT_DOMAIN, profile.cluster_domain.as_str()] {
        all.add(&format!("kubernetes.default.svc.{domain}"));
    }
    all.add(names.name());
    all.add(&format!("{}.{}", names.name(), names.namespace()));
    all.add(&format!("{host}.{MANAGEMENT_DOMAIN}"));
    all.add(&host);
    for network in networks(&profile.service_cidr) {
        all.ip_addresses.insert(first_address(&network));
    }
    all.ip_addresses.extend(found.advertised);
    let cluster_ip = service.and_then(|service| service.cluster_ip.as_deref());
    let endpoint = found.endpoint.as_ref().map(HostPort::host);
    for known in [found.declared.as_deref(), cluster_ip, endpoint] {
        all.add(known.unwrap_or_default());
    }
    for more in &profile.cert_sans {
        all.add(more);
    }
    all
}

#[cfg(test)]
#[path = "addresses_tests.rs"]
mod tests;
