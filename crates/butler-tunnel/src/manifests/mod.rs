//! What the tunnel needs in clusters, as values: the API server's configuration, the server's container, the agent's objects.
//!
//! Owns: names, ports, flags, and how safe the pods are.
//!
//! Must not: apply anything, or read anything. Same input, same output.

mod agent;
mod egress;
mod extra;
pub mod names;
mod server;
mod tcp_proxy;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Capabilities, EnvVar, EnvVarSource, HTTPGetAction, ObjectFieldSelector, PodSecurityContext,
        Probe, ResourceRequirements, SeccompProfile, SecurityContext, TopologySpreadConstraint,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};

pub use agent::{AgentMode, AgentObjects, AgentSpec, AgentWorkload, agent_objects};
pub use egress::{EgressTransport, egress_selector_configuration};
pub use server::{ServerSpec, socket_mount, socket_volume};
pub use tcp_proxy::{ProxyTarget, TcpProxyObjects, TcpProxySpec, tcp_proxy_objects};

/// The user of our images.
const USER: i64 = 65532;
const NAME_LABEL: &str = "app.kubernetes.io/name";
const PART_OF_LABEL: &str = "app.kubernetes.io/part-of";
const RIGHTS: &str = "rbac.authorization.k8s.io";

fn metadata(name: &str, namespace: Option<&str>, program: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(ToOwned::to_owned),
        labels: Some(labels(program)),
        ..ObjectMeta::default()
    }
}

fn labels(program: &str) -> BTreeMap<String, String> {
    let part_of = (PART_OF_LABEL.to_owned(), "butler".to_owned());
    let mut labels = selector(program);
    labels.extend([part_of]);
    labels
}

fn selector(program: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(NAME_LABEL.to_owned(), program.to_owned())])
}

fn selects(program: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some(selector(program)),
        ..LabelSelector::default()
    }
}

fn on_linux() -> BTreeMap<String, String> {
    BTreeMap::from([("kubernetes.io/os".to_owned(), "linux".to_owned())])
}

fn on_different_nodes(program: &str) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        label_selector: Some(selects(program)),
        max_skew: 1,
        topology_key: "kubernetes.io/hostname".to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        ..TopologySpreadConstraint::default()
    }
}

/// All run as the user of our images, who owns the files they are given.
fn as_our_user() -> PodSecurityContext {
    PodSecurityContext {
        fs_group: Some(USER),
        run_as_group: Some(USER),
        run_as_user: Some(USER),
        ..PodSecurityContext::default()
    }
}

/// Pods in the network of a node ask the node's own DNS: that of the tenant may need what they make possible.
const NODES_DNS: &str = "Default";

/// Neither end needs any right of its host.
fn security_context() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            ..Capabilities::default()
        }),
        read_only_root_filesystem: Some(true),
        run_as_non_root: Some(true),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        ..SecurityContext::default()
    }
}

/// Enough for hundreds of streams; the limit is beyond what windows of full length take.
fn default_resources() -> ResourceRequirements {
    let quantities = |pairs: &[(&str, &str)]| -> BTreeMap<String, Quantity> {
        pairs
            .iter()
            .map(|(name, quantity)| ((*name).to_owned(), Quantity((*quantity).to_owned())))
            .collect()
    };
    ResourceRequirements {
        requests: Some(quantities(&[("cpu", "10m"), ("memory", "24Mi")])),
        limits: Some(quantities(&[("memory", "256Mi")])),
        ..ResourceRequirements::default()
    }
}

/// The pod's own name, by which both ends are known in logs.
fn pod_name() -> EnvVar {
    EnvVar {
        name: "POD_NAME".to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: "metadata.name".to_owned(),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

fn probe(path: &str, host: Option<&str>) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            host: host.map(ToOwned::to_owned),
            path: Some(path.to_owned()),
            port: IntOrString::Int(names::HEALTH_PORT.into()),
            ..HTTPGetAction::default()
        }),
        ..Probe::default()
    }
}
