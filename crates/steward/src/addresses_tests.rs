use k8s_openapi::api::core::v1::LoadBalancerIngress;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{control_plane, control_plane_with};

fn balanced(ip: Option<&str>, host: Option<&str>) -> ServiceFacts {
    ServiceFacts {
        cluster_ip: Some("10.0.0.7".to_owned()),
        balancers: vec![LoadBalancerIngress {
            ip: ip.map(str::to_owned),
            hostname: host.map(str::to_owned),
            ..LoadBalancerIngress::default()
        }],
        conditions: Vec::new(),
    }
}

fn endpoint_of(found: &Addresses) -> String {
    found
        .endpoint
        .as_ref()
        .map_or_else(|| "none".to_owned(), ToString::to_string)
}

#[test]
fn service_without_address_waits() {
    let waiting = balanced(None, None);
    let found = addresses(&control_plane("LoadBalancer"), Some(&waiting));
    assert_eq!(found, Addresses::default());
}

#[test]
fn a_load_balancer_with_an_address_is_reached_there() {
    let found = addresses(
        &control_plane("LoadBalancer"),
        Some(&balanced(Some("192.0.2.4"), None)),
    );
    assert_eq!(endpoint_of(&found), "192.0.2.4:6443");
    assert_eq!(found.advertised, "192.0.2.4".parse().ok());
}

#[test]
fn a_load_balancer_with_a_mere_name_is_reached_by_it_and_advertises_its_cluster_address() {
    let facts = balanced(None, Some("lb.example.com"));
    let found = addresses(&control_plane("LoadBalancer"), Some(&facts));
    assert_eq!(endpoint_of(&found), "lb.example.com:6443");
    assert_eq!(found.advertised, "10.0.0.7".parse().ok());
    let names = api_server_names(&control_plane("LoadBalancer"), Some(&facts));
    assert!(names.dns_names.contains("lb.example.com"));
}

#[test]
fn an_ingress_is_reached_by_its_name_on_443_or_the_port_it_names() {
    let facts = balanced(None, None);
    for (hostname, expected) in [
        ("shop.k8s.example.com", "shop.k8s.example.com:443"),
        ("shop.k8s.example.com:8443", "shop.k8s.example.com:8443"),
    ] {
        let tcp = control_plane_with(json!({ "controlPlane": {
            "service": { "serviceType": "ClusterIP" },
            "ingress": { "hostname": hostname },
        } }));
        let found = addresses(&tcp, Some(&facts));
        assert_eq!(endpoint_of(&found), expected);
        assert_eq!(found.declared.as_deref(), Some("10.0.0.7"));
    }
    assert_eq!(
        konnectivity_host("shop.k8s.example.com"),
        "shop.konnectivity.example.com"
    );
    assert_eq!(konnectivity_host("shop.example.com"), "shop.example.com");
}

fn behind_gateway(hostname: &str, port: u16) -> TenantControlPlane {
    control_plane_with(json!({
        "controlPlane": {
            "service": { "serviceType": "ClusterIP" },
            "gateway": { "hostname": hostname, "parentRefs": [{ "name": "public" }] },
        },
        "networkProfile": { "port": port },
    }))
}

#[test]
fn a_gateway_is_reached_on_the_port_of_the_api_server() {
    for port in [6443, 8443] {
        let tcp = behind_gateway("shop.k8s.example.com", port);
        let found = addresses(&tcp, Some(&balanced(None, None)));
        let expected = format!("shop.k8s.example.com:{port}");
        assert_eq!(endpoint_of(&found), expected);
        assert_eq!(problem_of_public_host(&tcp), None);
    }
}

#[test]
fn nobody_connects_to_a_wildcard() {
    let (field, rule) = problem_of_public_host(&behind_gateway("*.k8s.example.com", 6443)).unwrap();
    insta::assert_snapshot!(format!("{field}: {rule}"), @"spec.controlPlane.gateway.hostname: *.k8s.example.com is a wildcard, and clients cannot connect to one; write the whole name of this control plane, such as shop.k8s.example.com");
    let (_, rule) = problem_of_public_host(&behind_gateway("192.0.2.4", 6443)).unwrap();
    insta::assert_snapshot!(rule, @r#""192.0.2.4" is no DNS name; write one such as shop.k8s.example.com"#);
}

#[test]
fn an_ipv6_address_is_written_in_brackets() {
    let tcp = control_plane_with(json!({ "networkProfile": { "address": "fd00::4" } }));
    let found = addresses(&tcp, None);
    assert_eq!(endpoint_of(&found), "[fd00::4]:6443");
}

#[test]
fn dns_has_the_tenth_address_or_the_chosen_one() {
    let mut profile = NetworkProfile {
        service_cidr: "10.96.0.0/16,fd00:96::/112".to_owned(),
        ..NetworkProfile::default()
    };
    assert_eq!(dns_addresses(&profile), ["10.96.0.10", "fd00:96::10"]);
    profile.dns_service_ips = vec!["10.96.0.53".to_owned()];
    assert_eq!(dns_addresses(&profile), ["10.96.0.53"]);
}

#[test]
fn the_certificate_of_a_plain_control_plane_has_these_names() {
    let names = api_server_names(
        &control_plane("LoadBalancer"),
        Some(&balanced(Some("192.0.2.4"), None)),
    );
    let texts = names.dns_names.iter().cloned();
    let all: Vec<_> = texts
        .chain(names.ip_addresses.iter().map(ToString::to_string))
        .collect();
    insta::assert_snapshot!(all.join("\n"), @"
    kubernetes
    kubernetes.default
    kubernetes.default.svc
    kubernetes.default.svc.cluster.local
    localhost
    shop
    shop.payments
    shop.payments.svc
    shop.payments.svc.cluster.local
    10.0.0.7
    10.96.0.1
    127.0.0.1
    192.0.2.4
    ");
}

proptest! {
    #[test]
    fn every_wished_name_is_in_the_certificate(wished in proptest::collection::vec("[a-z]{1,8}(\\.[a-z]{1,8}){0,2}", 0..6)) {
        let tcp = control_plane_with(json!({ "networkProfile": { "certSANs": wished } }));
        let names = api_server_names(&tcp, None);
        for name in &wished {
            prop_assert!(names.dns_names.contains(name));
        }
    }
}
