//! What the tunnel needs in clusters, as values: the API server's configuration, the server's container, the agent's objects.
//!
//! Owns: names, ports, flags, and how safe the pods are.
//!
//! Must not: apply anything, or read anything. Same input, same output.

mod agent;
mod egress;
pub mod names;
mod server;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Capabilities, EnvVar, EnvVarSource, HTTPGetAction, ObjectFieldSelector, Probe,
        ResourceRequirements, SeccompProfile, SecurityContext,
    },
    apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString},
};

pub use agent::{AgentMode, AgentObjects, AgentSpec, AgentWorkload, agent_objects};
pub use egress::{EgressTransport, egress_selector_configuration};
pub use server::{ServerSpec, socket_mount, socket_volume};

/// Flags that are ours, and those of users that do not contradict them.
fn with_extra(managed: &[String], extra: &[String]) -> Vec<String> {
    let flag = |argument: &str| argument.split('=').next().unwrap_or_default().to_owned();
    let ours: Vec<String> = managed.iter().map(|argument| flag(argument)).collect();
    let further = extra
        .iter()
        .filter(|argument| !ours.contains(&flag(argument)));
    managed.iter().chain(further).cloned().collect()
}

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
