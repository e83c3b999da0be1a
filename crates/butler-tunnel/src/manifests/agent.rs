//! The agent's objects in a tenant cluster.

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, DaemonSetSpec, Deployment, DeploymentSpec},
        core::v1::{
            ConfigMapProjection, Container, HostAlias, KeyToPath, PodSpec, PodTemplateSpec, Probe,
            ProjectedVolumeSource, ResourceRequirements, ServiceAccount,
            ServiceAccountTokenProjection, Toleration, Volume, VolumeMount, VolumeProjection,
        },
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{
    NODES_DNS, RIGHTS, as_our_user, default_resources, extra::with_extra, labels, metadata, names,
    on_different_nodes, on_linux, pod_name, probe, security_context, selects, server::port,
};
use crate::destination::Destination;

const CREDENTIALS_VOLUME: &str = "tunnel-credentials";
const CREDENTIALS_DIRECTORY: &str = "/run/secrets/butler-tunnel";
const TOKEN: &str = "token";
const AUTHORITY: &str = "ca.crt";
/// Every namespace has it: the authority of the cluster's API server, which is also that of the tunnel's servers.
const AUTHORITY_CONFIG_MAP: &str = "kube-root-ca.crt";
/// The kubelet renews it when four fifths of it are over.
const TOKEN_SECONDS: i64 = 3600;
const LOOPBACK: &str = "127.0.0.1";

/// How agents are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentMode {
    /// One on every node.
    DaemonSet,
    /// A fixed number, on different nodes where there are as many.
    Deployment {
        /// How many.
        replicas: i32,
    },
}

/// The agents of a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSpec {
    /// The image, which holds `butler`.
    pub image: String,
    /// When to pull it; Kubernetes' own rule if absent.
    pub image_pull_policy: Option<String>,
    /// Where the servers are, as nodes of the tenant reach them.
    pub server: Destination,
    /// The name in the servers' certificate, if it is not the host.
    pub server_name: Option<String>,
    /// The user of the servers' kubeconfig, such as [`names::SERVER_USER`]; it gets the right to have tokens judged.
    pub server_user: String,
    /// How agents are spread.
    pub mode: AgentMode,
    /// Whether agents use the network of their node: then they run before the network of pods does.
    pub host_network: bool,
    /// Names that agents resolve by themselves.
    pub host_aliases: Vec<HostAlias>,
    /// Taints that agents tolerate.
    pub tolerations: Vec<Toleration>,
    /// Requests and limits; small ones if absent.
    pub resources: Option<ResourceRequirements>,
    /// Further flags, written `--flag=value`; those that the agent does not understand beside ours are left out.
    pub extra_arguments: Vec<String>,
}

/// What runs the agents.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentWorkload {
    /// One on every node.
    DaemonSet(Box<DaemonSet>),
    /// A fixed number.
    Deployment(Box<Deployment>),
}

/// All objects of the tunnel in a tenant cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentObjects {
    /// Who agents are.
    pub service_account: ServiceAccount,
    /// What the server may do: have tokens judged.
    pub cluster_role: ClusterRole,
    /// Gives that to the servers' user.
    pub cluster_role_binding: ClusterRoleBinding,
    /// What runs the agents. Of the other kind, there is to be none of this name.
    pub workload: AgentWorkload,
}

/// The objects of the tunnel in a tenant cluster.
pub fn agent_objects(spec: &AgentSpec) -> AgentObjects {
    AgentObjects {
        service_account: ServiceAccount {
            metadata: metadata(names::AGENT, Some(names::AGENT_NAMESPACE), names::AGENT),
            // The only token it needs is mounted on purpose.
            automount_service_account_token: Some(false),
            ..ServiceAccount::default()
        },
        cluster_role: ClusterRole {
            metadata: metadata(names::SERVER, None, names::SERVER),
            rules: Some(vec![PolicyRule {
                api_groups: Some(vec!["authentication.k8s.io".to_owned()]),
                resources: Some(vec!["tokenreviews".to_owned()]),
                verbs: vec!["create".to_owned()],
                ..PolicyRule::default()
            }]),
            ..ClusterRole::default()
        },
        cluster_role_binding: ClusterRoleBinding {
            metadata: metadata(names::SERVER, None, names::SERVER),
            role_ref: RoleRef {
                api_group: RIGHTS.to_owned(),
                kind: "ClusterRole".to_owned(),
                name: names::SERVER.to_owned(),
            },
            subjects: Some(vec![Subject {
                api_group: Some(RIGHTS.to_owned()),
                kind: "User".to_owned(),
                name: spec.server_user.clone(),
                namespace: None,
            }]),
        },
        workload: workload(spec),
    }
}

fn workload(spec: &AgentSpec) -> AgentWorkload {
    let metadata = metadata(names::AGENT, Some(names::AGENT_NAMESPACE), names::AGENT);
    let selector = selects(names::AGENT);
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels(names::AGENT)),
            ..ObjectMeta::default()
        }),
        spec: Some(pod(spec)),
    };
    match spec.mode {
        AgentMode::DaemonSet => AgentWorkload::DaemonSet(Box::new(DaemonSet {
            metadata,
            spec: Some(DaemonSetSpec {
                selector,
                template,
                ..DaemonSetSpec::default()
            }),
            ..DaemonSet::default()
        })),
        AgentMode::Deployment { replicas } => AgentWorkload::Deployment(Box::new(Deployment {
            metadata,
            spec: Some(DeploymentSpec {
                replicas: Some(replicas),
                selector,
                template,
                ..DeploymentSpec::default()
            }),
            ..Deployment::default()
        })),
    }
}

fn pod(spec: &AgentSpec) -> PodSpec {
    let spread = matches!(spec.mode, AgentMode::Deployment { .. });
    PodSpec {
        automount_service_account_token: Some(false),
        containers: vec![container(spec)],
        dns_policy: spec.host_network.then(|| NODES_DNS.to_owned()),
        host_aliases: (!spec.host_aliases.is_empty()).then(|| spec.host_aliases.clone()),
        host_network: spec.host_network.then_some(true),
        node_selector: Some(on_linux()),
        // Without it nothing else can be looked at.
        priority_class_name: Some("system-cluster-critical".to_owned()),
        security_context: Some(as_our_user()),
        service_account_name: Some(names::AGENT.to_owned()),
        tolerations: (!spec.tolerations.is_empty()).then(|| spec.tolerations.clone()),
        topology_spread_constraints: spread.then(|| vec![on_different_nodes(names::AGENT)]),
        volumes: Some(vec![credentials()]),
        ..PodSpec::default()
    }
}

impl AgentSpec {
    /// The further flags that are left out.
    pub fn refused_arguments(&self) -> Vec<String> {
        with_extra(managed_arguments(self), &self.extra_arguments).refused
    }
}

/// The flags that are ours. In the network of a node, probes and numbers are for the node alone.
fn managed_arguments(spec: &AgentSpec) -> Vec<String> {
    let host = if spec.host_network { LOOPBACK } else { "" };
    let mut arguments = vec![
        "tunnel".to_owned(),
        "agent".to_owned(),
        format!("--server={}", spec.server),
        format!("--ca-file={CREDENTIALS_DIRECTORY}/{AUTHORITY}"),
        format!("--token-file={CREDENTIALS_DIRECTORY}/{TOKEN}"),
        format!("--health-probe-bind-address={host}:{}", names::HEALTH_PORT),
        format!("--metrics-bind-address={host}:{}", names::METRICS_PORT),
    ];
    if let Some(name) = &spec.server_name {
        arguments.push(format!("--server-name={name}"));
    }
    arguments
}

fn container(spec: &AgentSpec) -> Container {
    let host = spec.host_network.then_some(LOOPBACK);
    let ports = vec![
        port("tunnel-metrics", names::METRICS_PORT),
        port("tunnel-health", names::HEALTH_PORT),
    ];
    Container {
        name: names::AGENT.to_owned(),
        image: Some(spec.image.clone()),
        image_pull_policy: spec.image_pull_policy.clone(),
        args: Some(with_extra(managed_arguments(spec), &spec.extra_arguments).line),
        env: Some(vec![pod_name()]),
        // Ports in the network of a node would keep others from it.
        ports: (!spec.host_network).then_some(ports),
        liveness_probe: Some(probe("/healthz", host)),
        readiness_probe: Some(Probe {
            period_seconds: Some(5),
            ..probe("/readyz", host)
        }),
        resources: Some(spec.resources.clone().unwrap_or_else(default_resources)),
        security_context: Some(security_context()),
        volume_mounts: Some(vec![VolumeMount {
            name: CREDENTIALS_VOLUME.to_owned(),
            mount_path: CREDENTIALS_DIRECTORY.to_owned(),
            read_only: Some(true),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    }
}

fn credentials() -> Volume {
    let token = VolumeProjection {
        service_account_token: Some(ServiceAccountTokenProjection {
            audience: Some(names::AUDIENCE.to_owned()),
            expiration_seconds: Some(TOKEN_SECONDS),
            path: TOKEN.to_owned(),
        }),
        ..VolumeProjection::default()
    };
    let authority = VolumeProjection {
        config_map: Some(ConfigMapProjection {
            name: AUTHORITY_CONFIG_MAP.to_owned(),
            items: Some(vec![KeyToPath {
                key: AUTHORITY.to_owned(),
                path: AUTHORITY.to_owned(),
                mode: None,
            }]),
            optional: None,
        }),
        ..VolumeProjection::default()
    };
    Volume {
        name: CREDENTIALS_VOLUME.to_owned(),
        projected: Some(ProjectedVolumeSource {
            sources: Some(vec![token, authority]),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(mode: AgentMode) -> AgentSpec {
        AgentSpec {
            image: "ghcr.io/butlerdotdev/butler:v0.1.0".to_owned(),
            image_pull_policy: None,
            server: "203.0.113.7:8132".parse().expect("a destination"),
            server_name: None,
            server_user: names::SERVER_USER.to_owned(),
            mode,
            host_network: false,
            host_aliases: Vec::new(),
            tolerations: vec![Toleration {
                key: Some("CriticalAddonsOnly".to_owned()),
                operator: Some("Exists".to_owned()),
                ..Toleration::default()
            }],
            resources: None,
            extra_arguments: Vec::new(),
        }
    }

    #[test]
    fn agents_on_every_node() {
        let objects = agent_objects(&spec(AgentMode::DaemonSet));
        insta::assert_yaml_snapshot!("service_account", objects.service_account);
        insta::assert_yaml_snapshot!("cluster_role", objects.cluster_role);
        insta::assert_yaml_snapshot!("cluster_role_binding", objects.cluster_role_binding);
        let AgentWorkload::DaemonSet(daemon_set) = objects.workload else {
            panic!("another kind");
        };
        insta::assert_yaml_snapshot!("daemon_set", daemon_set);
    }

    #[test]
    fn a_fixed_number_of_agents_in_the_network_of_their_nodes() {
        let spec = AgentSpec {
            host_network: true,
            server_name: Some("tenant.konnectivity.example".to_owned()),
            extra_arguments: vec![
                "--dial-timeout=3s".to_owned(),
                "--server=elsewhere:1".to_owned(),
            ],
            ..spec(AgentMode::Deployment { replicas: 2 })
        };
        let AgentWorkload::Deployment(deployment) = agent_objects(&spec).workload else {
            panic!("another kind");
        };
        insta::assert_yaml_snapshot!("deployment", deployment);
    }
}
