//! The objects of the proxy that stands in for the API server in a tenant cluster.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{
            Container, EnvVar, HostAlias, PodSpec, PodTemplateSpec, Probe, ResourceRequirements,
            Service, ServiceAccount, ServicePort, ServiceSpec, TCPSocketAction, Toleration,
        },
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject},
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};

use super::{
    NODES_DNS, RIGHTS, as_our_user, default_resources, labels, metadata, names, on_different_nodes,
    on_linux, security_context, selector, selects,
};
use crate::destination::Destination;

/// One may be replaced while the other serves.
const REPLICAS: i32 = 2;
/// The authority of the tenant, which comes with every token.
const AUTHORITY_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
/// The proxy reaches the API server through itself: the Service that others use leads nowhere before it works.
const ITSELF: &str = "127.0.0.1";
/// Taints of nodes that become ready only when somebody who needs the API server has done their part.
const NEW_NODES: [&str; 4] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cilium.io/agent-not-ready",
];
const CRITICAL_ADDONS: &str = "CriticalAddonsOnly";

/// Where the proxy leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyTarget {
    /// An address or name where nothing but the API server answers.
    Direct(Destination),
    /// The servers of the reverse tunnel.
    ThroughTunnel(Destination),
}

/// The proxies of a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpProxySpec {
    /// The image, which holds `butler`.
    pub image: String,
    /// Where the proxy leads to, as nodes of the tenant reach it.
    pub target: ProxyTarget,
    /// Names that the proxy resolves by itself.
    pub host_aliases: Vec<HostAlias>,
    /// Requests and limits; small ones if absent.
    pub resources: Option<ResourceRequirements>,
}

/// All objects of the proxy in a tenant cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpProxyObjects {
    /// Who the proxy is.
    pub service_account: ServiceAccount,
    /// What it may do: see which proxies are ready, and lead the Service `kubernetes` to them.
    pub cluster_role: ClusterRole,
    /// Gives that to the proxy.
    pub cluster_role_binding: ClusterRoleBinding,
    /// By which Kubernetes says which proxies are ready. Nobody connects to it.
    pub service: Service,
    /// What runs the proxies.
    pub deployment: Deployment,
}

/// The objects of the proxy in a tenant cluster.
pub fn tcp_proxy_objects(spec: &TcpProxySpec) -> TcpProxyObjects {
    let here = metadata(
        names::TCP_PROXY,
        Some(names::TCP_PROXY_NAMESPACE),
        names::TCP_PROXY,
    );
    let everywhere = metadata(names::TCP_PROXY_ROLE, None, names::TCP_PROXY);
    TcpProxyObjects {
        service_account: ServiceAccount {
            metadata: here.clone(),
            ..ServiceAccount::default()
        },
        cluster_role: ClusterRole {
            metadata: everywhere.clone(),
            rules: Some(rules()),
            ..ClusterRole::default()
        },
        cluster_role_binding: ClusterRoleBinding {
            metadata: everywhere,
            role_ref: RoleRef {
                api_group: RIGHTS.to_owned(),
                kind: "ClusterRole".to_owned(),
                name: names::TCP_PROXY_ROLE.to_owned(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: names::TCP_PROXY.to_owned(),
                namespace: Some(names::TCP_PROXY_NAMESPACE.to_owned()),
                ..Subject::default()
            }]),
        },
        service: service(here.clone()),
        deployment: deployment(here, spec),
    }
}

fn rules() -> Vec<PolicyRule> {
    let slices = |verbs: &[&str], name: Option<&str>| PolicyRule {
        api_groups: Some(vec!["discovery.k8s.io".to_owned()]),
        resources: Some(vec!["endpointslices".to_owned()]),
        resource_names: name.map(|name| vec![name.to_owned()]),
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..PolicyRule::default()
    };
    vec![
        slices(&["get", "list", "watch"], None),
        // Whoever may write any slice may take over any Service.
        slices(&["create", "patch", "delete"], Some("kubernetes")),
    ]
}

fn service(metadata: ObjectMeta) -> Service {
    Service {
        metadata,
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            cluster_ips: Some(vec!["None".to_owned()]),
            ports: Some(vec![ServicePort {
                name: Some("https".to_owned()),
                port: names::TCP_PROXY_PORT.into(),
                protocol: Some("TCP".to_owned()),
                target_port: Some(IntOrString::Int(names::TCP_PROXY_PORT.into())),
                ..ServicePort::default()
            }]),
            selector: Some(selector(names::TCP_PROXY)),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn deployment(metadata: ObjectMeta, spec: &TcpProxySpec) -> Deployment {
    Deployment {
        metadata,
        spec: Some(DeploymentSpec {
            replicas: Some(REPLICAS),
            selector: selects(names::TCP_PROXY),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels(names::TCP_PROXY)),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(spec)),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

fn pod(spec: &TcpProxySpec) -> PodSpec {
    let tolerated = NEW_NODES.into_iter().chain([CRITICAL_ADDONS]);
    PodSpec {
        containers: vec![container(spec)],
        // The network of pods may need the API server to come up.
        host_network: Some(true),
        dns_policy: Some(NODES_DNS.to_owned()),
        host_aliases: (!spec.host_aliases.is_empty()).then(|| spec.host_aliases.clone()),
        node_selector: Some(on_linux()),
        priority_class_name: Some("system-cluster-critical".to_owned()),
        security_context: Some(as_our_user()),
        service_account_name: Some(names::TCP_PROXY.to_owned()),
        tolerations: Some(tolerated.map(tolerate).collect()),
        topology_spread_constraints: Some(vec![on_different_nodes(names::TCP_PROXY)]),
        ..PodSpec::default()
    }
}

fn tolerate(taint: &str) -> Toleration {
    Toleration {
        key: Some(taint.to_owned()),
        operator: Some("Exists".to_owned()),
        ..Toleration::default()
    }
}

fn arguments(spec: &TcpProxySpec) -> Vec<String> {
    let (target, through) = match &spec.target {
        ProxyTarget::Direct(target) => (target, false),
        ProxyTarget::ThroughTunnel(target) => (target, true),
    };
    let mut arguments = vec![
        "tcp-proxy".to_owned(),
        format!("--target={target}"),
        format!("--listen-address=:{}", names::TCP_PROXY_PORT),
        format!(
            "--service={}/{}",
            names::TCP_PROXY_NAMESPACE,
            names::TCP_PROXY
        ),
    ];
    if through {
        arguments.push("--through-tunnel".to_owned());
        arguments.push(format!("--ca-file={AUTHORITY_FILE}"));
    }
    arguments
}

fn container(spec: &TcpProxySpec) -> Container {
    let variable = |name: &str, value: &str| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    };
    let port = names::TCP_PROXY_PORT.to_string();
    // No port is declared: in the network of a node it would keep the second proxy from that node.
    Container {
        name: names::TCP_PROXY.to_owned(),
        image: Some(spec.image.clone()),
        args: Some(arguments(spec)),
        env: Some(vec![
            variable("KUBERNETES_SERVICE_HOST", ITSELF),
            variable("KUBERNETES_SERVICE_PORT", &port),
        ]),
        liveness_probe: Some(listens(10)),
        readiness_probe: Some(listens(5)),
        resources: Some(spec.resources.clone().unwrap_or_else(default_resources)),
        security_context: Some(security_context()),
        ..Container::default()
    }
}

fn listens(period: i32) -> Probe {
    Probe {
        period_seconds: Some(period),
        tcp_socket: Some(TCPSocketAction {
            port: IntOrString::Int(names::TCP_PROXY_PORT.into()),
            ..TCPSocketAction::default()
        }),
        ..Probe::default()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::tcp_proxy::Arguments;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn spec(target: ProxyTarget) -> TcpProxySpec {
        TcpProxySpec {
            image: "ghcr.io/butlerdotdev/butler:v0.1.0".to_owned(),
            target,
            host_aliases: vec![HostAlias {
                ip: "192.0.2.4".to_owned(),
                hostnames: Some(vec!["shop.konnectivity.example.com".to_owned()]),
            }],
            resources: None,
        }
    }

    fn destination(text: &str) -> Destination {
        text.parse().expect("a destination")
    }

    #[test]
    fn a_proxy_that_leads_through_the_tunnel() {
        let server = destination("shop.konnectivity.example.com:443");
        let objects = tcp_proxy_objects(&spec(ProxyTarget::ThroughTunnel(server)));
        insta::assert_yaml_snapshot!("service_account", objects.service_account);
        insta::assert_yaml_snapshot!("cluster_role", objects.cluster_role);
        insta::assert_yaml_snapshot!("cluster_role_binding", objects.cluster_role_binding);
        insta::assert_yaml_snapshot!("service", objects.service);
        insta::assert_yaml_snapshot!("deployment", objects.deployment);
    }

    #[test]
    fn the_process_understands_its_arguments() {
        let there = destination("192.0.2.4:6443");
        for target in [
            ProxyTarget::Direct(there.clone()),
            ProxyTarget::ThroughTunnel(there.clone()),
        ] {
            let line = Line::try_parse_from(arguments(&spec(target.clone()))).expect("understood");
            assert_eq!(line.arguments.target, there);
            let through = matches!(target, ProxyTarget::ThroughTunnel(_));
            assert_eq!(line.arguments.through_tunnel, through);
        }
    }
}
