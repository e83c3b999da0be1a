//! The server's container in the pod of a control plane.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EmptyDirVolumeSource, Probe, ResourceRequirements, Volume,
    VolumeMount,
};

use super::{default_resources, extra::with_extra, names, pod_name, probe, security_context};
use crate::destination::Destination;

/// A server beside an API server. Paths are those in its container.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSpec {
    /// The image, which holds `butler`.
    pub image: String,
    /// When to pull it; Kubernetes' own rule if absent.
    pub image_pull_policy: Option<String>,
    /// The socket where the API server asks for connections, such as [`names::SOCKET`].
    pub socket: String,
    /// The certificate shown to agents; it names the host they dial.
    pub certificate: String,
    /// Its key.
    pub key: String,
    /// The kubeconfig by which tokens are judged, for the API server in the same pod; see [`super::AgentSpec::server_user`].
    pub kubeconfig: String,
    /// Where agents dial in.
    pub agent_port: u16,
    /// How many replicas the control plane has.
    pub server_count: usize,
    /// How long the API server still makes connections after the pod was asked to end; zero for a sidecar that ends after it.
    pub shutdown_delay: Duration,
    /// Mounts of certificate, key and kubeconfig; that of the socket comes by itself.
    pub mounts: Vec<VolumeMount>,
    /// Requests and limits; small ones if absent.
    pub resources: Option<ResourceRequirements>,
    /// The API server that proxies in the tenant are led to; without it they are not let in.
    pub api_server: Option<Destination>,
    /// Further flags, written `--flag=value`; those that the server does not understand beside ours are left out.
    pub extra_arguments: Vec<String>,
}

impl ServerSpec {
    /// The arguments of `butler`.
    pub fn arguments(&self) -> Vec<String> {
        with_extra(self.managed_arguments(), &self.extra_arguments).line
    }

    /// The further flags that are left out.
    pub fn refused_arguments(&self) -> Vec<String> {
        with_extra(self.managed_arguments(), &self.extra_arguments).refused
    }

    fn managed_arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            "tunnel".to_owned(),
            "server".to_owned(),
            format!("--socket={}", self.socket),
            format!("--agent-bind-address=:{}", self.agent_port),
            format!("--cert-file={}", self.certificate),
            format!("--key-file={}", self.key),
            format!("--kubeconfig={}", self.kubeconfig),
            format!("--server-count={}", self.server_count),
            format!("--health-probe-bind-address=:{}", names::HEALTH_PORT),
            format!("--metrics-bind-address=:{}", names::METRICS_PORT),
        ];
        if !self.shutdown_delay.is_zero() {
            let milliseconds = self.shutdown_delay.as_millis();
            arguments.push(format!("--shutdown-delay={milliseconds}ms"));
        }
        if let Some(api_server) = &self.api_server {
            arguments.push(format!("--api-server={api_server}"));
        }
        arguments
    }

    /// The container. It may stand among the others, or as a sidecar among the init containers (with `restartPolicy: Always`),
    /// where it is there before the API server and ends after it.
    pub fn container(&self) -> Container {
        Container {
            name: names::SERVER.to_owned(),
            image: Some(self.image.clone()),
            image_pull_policy: self.image_pull_policy.clone(),
            args: Some(self.arguments()),
            env: Some(vec![pod_name()]),
            ports: Some(vec![
                port("tunnel-agents", self.agent_port),
                port("tunnel-metrics", names::METRICS_PORT),
                port("tunnel-health", names::HEALTH_PORT),
            ]),
            liveness_probe: Some(probe("/healthz", None)),
            // An API server whose connections nobody takes is not ready. It answers as soon as all ports are open, with or
            // without agents.
            readiness_probe: Some(Probe {
                period_seconds: Some(1),
                ..probe("/readyz", None)
            }),
            resources: Some(self.resources.clone().unwrap_or_else(default_resources)),
            security_context: Some(security_context()),
            volume_mounts: Some(
                std::iter::once(socket_mount())
                    .chain(self.mounts.iter().cloned())
                    .collect(),
            ),
            ..Container::default()
        }
    }
}

pub(super) fn port(name: &str, number: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number.into(),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

/// The volume of the socket.
pub fn socket_volume() -> Volume {
    Volume {
        name: names::SOCKET_VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// The mount of the socket, the same in the API server's container.
pub fn socket_mount() -> VolumeMount {
    VolumeMount {
        name: names::SOCKET_VOLUME.to_owned(),
        mount_path: names::SOCKET_DIRECTORY.to_owned(),
        ..VolumeMount::default()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::Command;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        tunnel: Tunnel,
    }

    #[derive(clap::Subcommand)]
    enum Tunnel {
        #[command(subcommand)]
        Tunnel(Command),
    }

    fn spec() -> ServerSpec {
        ServerSpec {
            image: "ghcr.io/butlerdotdev/butler:v0.1.0".to_owned(),
            image_pull_policy: None,
            socket: names::SOCKET.to_owned(),
            certificate: "/etc/kubernetes/pki/apiserver.crt".to_owned(),
            key: "/etc/kubernetes/pki/apiserver.key".to_owned(),
            kubeconfig: "/etc/kubernetes/tunnel-server.conf".to_owned(),
            agent_port: names::AGENT_PORT,
            server_count: 2,
            shutdown_delay: Duration::from_secs(5),
            mounts: Vec::new(),
            resources: None,
            api_server: None,
            extra_arguments: Vec::new(),
        }
    }

    #[test]
    fn the_container_of_a_server() {
        insta::assert_yaml_snapshot!(spec().container());
    }

    #[test]
    fn the_process_understands_its_arguments() {
        let spec = ServerSpec {
            api_server: Some("localhost:6443".parse().expect("a destination")),
            extra_arguments: vec!["--max-streams=10".to_owned(), "--server-count=7".to_owned()],
            ..spec()
        };
        let arguments = std::iter::once("butler".to_owned()).chain(spec.arguments());
        let line = Line::try_parse_from(arguments).expect("understood");
        let Tunnel::Tunnel(Command::Server(parsed)) = line.tunnel else {
            panic!("another process");
        };
        assert_eq!(parsed.max_streams, 10, "what users add counts");
        assert_eq!(
            parsed.server_count, 2,
            "what we know better does not change"
        );
        assert_eq!(spec.refused_arguments(), ["--server-count=7"]);
        assert_eq!(parsed.shutdown_delay, Duration::from_secs(5));
        assert_eq!(parsed.api_server, spec.api_server);
    }
}
