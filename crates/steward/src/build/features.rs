//! What a control plane asks for and does not get, in words for whoever asked. What is accepted and has no effect is said here.

use butler_api::{steward::tenant_control_plane::TenantControlPlane, version::KubernetesVersion};

use super::pods::{refused_by_own_tunnel, unknown_plugins};
use crate::{
    addresses::{addresses, stands_in},
    projections::ServiceFacts,
    settings::Settings,
    tunnel::{self, TcpProxy},
};

/// What has no effect of all that the spec says, each with its field and what to do.
pub fn shortfalls(
    control_plane: &TenantControlPlane,
    version: &KubernetesVersion,
    service: Option<&ServiceFacts>,
    settings: &Settings,
) -> Vec<String> {
    let spec = &control_plane.spec;
    let mut all = Vec::new();
    if spec.addons.worker_bootstrap.is_some() {
        all.push(
            "spec.addons.workerBootstrap: this release has no help for Talos nodes yet; nodes join with kubeadm"
                .to_owned(),
        );
    }
    match TcpProxy::of(control_plane, settings) {
        Some(Err(refusal)) => all.push(format!("spec.addons.tcpProxy: {refusal}")),
        Some(Ok(_)) => {}
        None => all.extend(unreached(control_plane, service)),
    }
    if spec.addons.konnectivity.is_some() && !tunnel::has_a_name_of_its_own(control_plane) {
        all.push(
            "spec.addons.konnectivity: an Ingress tells the tunnel from the API server by its name, which is the API server's \
             with .konnectivity. for .k8s.; choose a hostname such as shop.k8s.example.com"
                .to_owned(),
        );
    }
    let server = refused_by_own_tunnel(control_plane, settings);
    let agent = tunnel::agent_spec(control_plane, service, settings);
    let agent = agent.map(|spec| spec.refused_arguments());
    all.extend(left_out("server", &server));
    all.extend(left_out("agent", &agent.unwrap_or_default()));
    let plugins = unknown_plugins(&spec.kubernetes.admission_controllers, version);
    all.extend(plugins.map(|plugins| {
        format!(
            "spec.kubernetes.admissionControllers: Kubernetes {version} has no {plugins}; remove what it does not have"
        )
    }));
    all
}

/// That pods find no API server where they look for it. The Service `kubernetes` leads to addresses, and to no names.
fn unreached(control_plane: &TenantControlPlane, service: Option<&ServiceFacts>) -> Option<String> {
    let address = stands_in(control_plane, service)?;
    let endpoint = addresses(control_plane, service).endpoint?;
    Some(format!(
        "spec.addons.tcpProxy: pods of the tenant do not reach their API server by the Service kubernetes, which leads to {address}, \
         an address inside of the management cluster, since {} is a name and there is no address; switch spec.addons.tcpProxy on, or \
         set spec.networkProfile.address to the address at which nodes reach the API server",
        endpoint.host()
    ))
}

/// Flags without their values: these are for the process alone.
fn left_out(end: &str, arguments: &[String]) -> Option<String> {
    let flags: Vec<_> = arguments
        .iter()
        .map(|argument| argument.split('=').next().unwrap_or_default())
        .collect();
    (!flags.is_empty()).then(|| {
        format!(
            "spec.addons.konnectivity.{end}.extraArgs: Butler's own tunnel does not take {}; remove it, or name the images of \
             konnectivity to have konnectivity",
            flags.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use k8s_openapi::api::core::v1::LoadBalancerIngress;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{control_plane_with, service_at};

    fn told(spec: Value) -> String {
        told_at(spec, &service_at("192.0.2.4"))
    }

    fn told_at(spec: Value, service: &ServiceFacts) -> String {
        let settings = Settings {
            tunnel_image: Some("example.com/butler:v1".to_owned()),
            ..Settings::default()
        };
        let control_plane = control_plane_with(spec);
        let version = control_plane.spec.kubernetes.version.parse().unwrap();
        shortfalls(&control_plane, &version, Some(service), &settings).join("\n")
    }

    #[test]
    fn a_plain_control_plane_gets_all_it_asks_for() {
        let addons = json!({
            "coreDNS": {}, "kubeProxy": {}, "tcpProxy": {},
            "konnectivity": { "agent": { "extraArgs": ["--dial-timeout=3s"] } },
        });
        assert_snapshot!(told(json!({ "addons": addons })), @"");
    }

    #[test]
    fn pods_that_are_led_to_an_address_that_they_do_not_reach_are_told_of() {
        let only_named = ServiceFacts {
            cluster_ip: Some("10.0.0.7".to_owned()),
            balancers: vec![LoadBalancerIngress {
                hostname: Some("lb.example.com".to_owned()),
                ..LoadBalancerIngress::default()
            }],
            ..ServiceFacts::default()
        };
        let behind = |service: &str, parts: Value| {
            let mut spec = json!({ "controlPlane": { "service": { "serviceType": service } } });
            for (name, part) in parts.as_object().unwrap() {
                let members = part.as_object().unwrap();
                for (field, value) in members {
                    spec[name][field] = value.clone();
                }
            }
            told_at(spec, &only_named)
        };
        let ingress = json!({ "ingress": { "hostname": "shop.k8s.example.com" } });
        let gateway = json!({ "gateway": { "hostname": "shop.k8s.example.com", "parentRefs": [{ "name": "public" }] } });
        let all = [
            behind("LoadBalancer", json!({})),
            behind("ClusterIP", json!({ "controlPlane": ingress })),
            behind("ClusterIP", json!({ "controlPlane": gateway })),
        ];
        assert_snapshot!(all.join("\n"), @"
        spec.addons.tcpProxy: pods of the tenant do not reach their API server by the Service kubernetes, which leads to 10.0.0.7, an address inside of the management cluster, since lb.example.com is a name and there is no address; switch spec.addons.tcpProxy on, or set spec.networkProfile.address to the address at which nodes reach the API server
        spec.addons.tcpProxy: pods of the tenant do not reach their API server by the Service kubernetes, which leads to 10.0.0.7, an address inside of the management cluster, since shop.k8s.example.com is a name and there is no address; switch spec.addons.tcpProxy on, or set spec.networkProfile.address to the address at which nodes reach the API server
        spec.addons.tcpProxy: pods of the tenant do not reach their API server by the Service kubernetes, which leads to 10.0.0.7, an address inside of the management cluster, since shop.k8s.example.com is a name and there is no address; switch spec.addons.tcpProxy on, or set spec.networkProfile.address to the address at which nodes reach the API server
        ");
        for reached in [
            behind("ClusterIP", json!({})),
            behind("LoadBalancer", json!({ "addons": { "tcpProxy": {} } })),
            behind(
                "LoadBalancer",
                json!({ "networkProfile": { "address": "192.0.2.9" } }),
            ),
            // Whoever has a route there says so.
            behind(
                "ClusterIP",
                json!({ "controlPlane": ingress, "networkProfile": { "address": "10.0.0.7" } }),
            ),
        ] {
            assert_eq!(reached, "");
        }
    }

    #[test]
    fn what_has_no_effect_is_named_with_what_to_do() {
        let spec = json!({
            "controlPlane": {
                "service": { "serviceType": "ClusterIP" },
                "ingress": { "hostname": "shop.example.com" },
            },
            "kubernetes": {
                "version": "v1.36.3", "kubelet": {},
                "admissionControllers": ["NodeRestriction", "PodSecurityPolicy", "SecurityContextDeny"],
            },
            "addons": {
                "workerBootstrap": { "provider": "talos" },
                "tcpProxy": {},
                "konnectivity": {
                    "server": { "port": 8132, "extraArgs": ["--v=8", "--max-streams=10", "--server-count=5"] },
                    "agent": { "extraArgs": ["--sync-interval=5s"] },
                },
            },
        });
        assert_snapshot!(told(spec), @"
        spec.addons.workerBootstrap: this release has no help for Talos nodes yet; nodes join with kubeadm
        spec.addons.tcpProxy: an Ingress or Gateway knows the API server by its public name alone, which pods do not ask for; set spec.addons.tcpProxy.internalEndpoint to a host:port where the API server answers by itself, or have Butler's own tunnel lead there: spec.addons.konnectivity without images and versions, and --tunnel-image of the operator
        spec.addons.konnectivity: an Ingress tells the tunnel from the API server by its name, which is the API server's with .konnectivity. for .k8s.; choose a hostname such as shop.k8s.example.com
        spec.addons.konnectivity.server.extraArgs: Butler's own tunnel does not take --v, --server-count; remove it, or name the images of konnectivity to have konnectivity
        spec.addons.konnectivity.agent.extraArgs: Butler's own tunnel does not take --sync-interval; remove it, or name the images of konnectivity to have konnectivity
        spec.kubernetes.admissionControllers: Kubernetes v1.36.3 has no PodSecurityPolicy,SecurityContextDeny; remove what it does not have
        ");
    }
}
