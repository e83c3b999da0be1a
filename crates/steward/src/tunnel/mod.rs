//! The reverse tunnel of a control plane: which of the two kinds it has, where its agents dial, and what they run by. And the
//! way back: the proxy through which pods of the tenant reach their API server.
//!
//! Owns the choice. Our own tunnel's container, configuration and objects are those of `butler-tunnel`; konnectivity's are
//! built here and beside the other containers.

mod konnectivity_agent;
mod tcp_proxy;

use butler_api::{
    net::HostPort,
    steward::{
        addons::{Konnectivity, KonnectivityAgent, KonnectivityAgentMode, KonnectivityServer},
        tenant_control_plane::TenantControlPlane,
    },
    version::KubernetesVersion,
};
use butler_runtime::object::Manifest;
use butler_tunnel::manifests::{
    AgentMode, AgentObjects, AgentSpec, AgentWorkload, agent_objects, names,
};

use crate::{
    addresses::{addresses, konnectivity_host, public_host},
    projections::ServiceFacts,
    settings::Settings,
};

pub use tcp_proxy::{TcpProxy, TcpProxyRefusal, tcp_proxy_in_tenant};

/// Who konnectivity's server is in the tenant, and for whom agents have their tokens.
pub(crate) const KONNECTIVITY_USER: &str = "system:konnectivity-server";
/// The name of konnectivity's agents and of their account.
pub(crate) const KONNECTIVITY_AGENT: &str = "konnectivity-agent";
/// Where agents live.
pub(crate) const AGENT_NAMESPACE: &str = "kube-system";

/// The reverse tunnel of a control plane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tunnel<'a> {
    /// Konnectivity, from its images.
    Konnectivity(&'a Konnectivity),
    /// Our own.
    Butler {
        /// What the control plane says of it.
        wish: &'a Konnectivity,
        /// The image that holds `butler`.
        image: &'a str,
    },
}

impl<'a> Tunnel<'a> {
    /// The tunnel of a control plane, if it has one. Ours, where the operator names an image for it and the control plane does
    /// not insist on images of its own: who names a version of konnectivity wants konnectivity.
    pub fn of(control_plane: &'a TenantControlPlane, settings: &'a Settings) -> Option<Self> {
        let wish = control_plane.spec.addons.konnectivity.as_ref()?;
        let is_usual = wish.server.image == KonnectivityServer::default().image
            && wish.agent.image == KonnectivityAgent::default().image
            && wish.server.version.is_none()
            && wish.agent.version.is_none();
        Some(match &settings.tunnel_image {
            Some(image) if is_usual => Self::Butler { wish, image },
            _ => Self::Konnectivity(wish),
        })
    }

    /// What the control plane says of it.
    pub const fn wish(self) -> &'a Konnectivity {
        match self {
            Self::Konnectivity(wish) | Self::Butler { wish, .. } => wish,
        }
    }

    /// Who its server is in the tenant.
    pub const fn server_user(self) -> &'static str {
        match self {
            Self::Konnectivity(_) => KONNECTIVITY_USER,
            Self::Butler { .. } => names::SERVER_USER,
        }
    }
}

/// Konnectivity's tag that goes with a version of Kubernetes, unless one is pinned.
pub(crate) fn konnectivity_tag(version: &KubernetesVersion, pinned: Option<&String>) -> String {
    pinned
        .cloned()
        .unwrap_or_else(|| format!("v0.{}.0", version.minor()))
}

/// Where agents dial: the address of the control plane at the port of the tunnel, or the public name of the tunnel at that of
/// the Ingress or Gateway.
fn dialled(
    control_plane: &TenantControlPlane,
    service: Option<&ServiceFacts>,
    wish: &Konnectivity,
) -> Option<HostPort> {
    let port = u16::try_from(wish.server.port).ok()?;
    let by_gateway = control_plane.spec.control_plane.gateway.is_some();
    if let Some((host, ingress)) = public_host(control_plane) {
        let port = if by_gateway { port } else { ingress };
        HostPort::new(&konnectivity_host(&host), port).ok()
    } else {
        let declared = addresses(control_plane, service).declared?;
        HostPort::new(&declared, port).ok()
    }
}

/// The objects of the tunnel inside of the tenant; none if there is no tunnel, or its address is not known yet.
pub fn objects_in_tenant(
    control_plane: &TenantControlPlane,
    service: Option<&ServiceFacts>,
    version: &KubernetesVersion,
    settings: &Settings,
) -> Vec<Manifest> {
    let Some(tunnel) = Tunnel::of(control_plane, settings) else {
        return Vec::new();
    };
    let wish = tunnel.wish();
    let Some(server) = dialled(control_plane, service, wish) else {
        return Vec::new();
    };
    match tunnel {
        Tunnel::Konnectivity(_) => {
            let host_network = on_host_network(control_plane, wish);
            konnectivity_agent::objects(&wish.agent, &server, host_network, version)
        }
        Tunnel::Butler { .. } => agent_spec(control_plane, service, settings)
            .map(|spec| manifests(&agent_objects(&spec)))
            .unwrap_or_default(),
    }
}

/// The agents of our own tunnel; none if it is another's, or its address is not known yet.
pub fn agent_spec(
    control_plane: &TenantControlPlane,
    service: Option<&ServiceFacts>,
    settings: &Settings,
) -> Option<AgentSpec> {
    let tunnel = Tunnel::of(control_plane, settings)?;
    let Tunnel::Butler { wish, image } = tunnel else {
        return None;
    };
    let server = dialled(control_plane, service, wish)?;
    Some(AgentSpec {
        image: image.to_owned(),
        image_pull_policy: None,
        server: server.to_string().parse().ok()?,
        server_name: None,
        server_user: tunnel.server_user().to_owned(),
        mode: mode(&wish.agent),
        host_network: on_host_network(control_plane, wish),
        host_aliases: Vec::new(),
        tolerations: wish.agent.tolerations.clone(),
        resources: None,
        extra_arguments: wish.agent.extra_args.clone(),
    })
}

/// A public name is resolved by the node's DNS: that of the tenant may need the tunnel itself.
fn on_host_network(control_plane: &TenantControlPlane, wish: &Konnectivity) -> bool {
    wish.agent.host_network || public_host(control_plane).is_some()
}

/// Whether an Ingress can tell connections to the tunnel from those to the API server: it does so by their names. A Gateway
/// has a port for each.
pub fn has_a_name_of_its_own(control_plane: &TenantControlPlane) -> bool {
    let by_gateway = control_plane.spec.control_plane.gateway.is_some();
    public_host(control_plane)
        .is_none_or(|(host, _)| by_gateway || konnectivity_host(&host) != host)
}

fn mode(agent: &KonnectivityAgent) -> AgentMode {
    match agent.mode {
        KonnectivityAgentMode::DaemonSet => AgentMode::DaemonSet,
        KonnectivityAgentMode::Deployment => AgentMode::Deployment {
            replicas: agent.replicas.unwrap_or(1),
        },
    }
}

fn manifests(objects: &AgentObjects) -> Vec<Manifest> {
    vec![
        Manifest::of(&objects.service_account),
        Manifest::of(&objects.cluster_role),
        Manifest::of(&objects.cluster_role_binding),
        match &objects.workload {
            AgentWorkload::DaemonSet(workload) => Manifest::of(workload.as_ref()),
            AgentWorkload::Deployment(workload) => Manifest::of(workload.as_ref()),
        },
    ]
}

#[cfg(test)]
mod tests {
    use insta::assert_yaml_snapshot;
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{control_plane_with, service_at};

    fn ours() -> Settings {
        Settings {
            tunnel_image: Some("example.com/butler:v1".to_owned()),
            ..Settings::default()
        }
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers write it down in place"
    )]
    fn told(konnectivity: Value, settings: &Settings) -> Vec<Manifest> {
        let control_plane =
            control_plane_with(json!({ "addons": { "konnectivity": konnectivity } }));
        let version = "v1.36.3".parse().unwrap();
        objects_in_tenant(
            &control_plane,
            Some(&service_at("192.0.2.4")),
            &version,
            settings,
        )
    }

    fn listed(objects: &[Manifest]) -> Vec<String> {
        objects
            .iter()
            .map(|object| format!("{} {}", object.kind.kind, object.key))
            .collect()
    }

    #[test]
    fn konnectivitys_agents_on_every_node() {
        assert_yaml_snapshot!(told(json!({}), &Settings::default()));
    }

    #[test]
    fn a_fixed_number_of_konnectivitys_agents() {
        let agent = json!({ "agent": { "mode": "Deployment", "replicas": 3, "hostNetwork": true, "extraArgs": ["--v=2"] } });
        let objects = told(agent, &Settings::default());
        assert_yaml_snapshot!(objects.last());
    }

    #[test]
    fn our_own_tunnel_where_the_operator_has_an_image_for_it() {
        let objects = told(json!({ "server": { "port": 9132 } }), &ours());
        assert_eq!(
            listed(&objects),
            [
                "ServiceAccount kube-system/butler-tunnel-agent",
                "ClusterRole butler-tunnel-server",
                "ClusterRoleBinding butler-tunnel-server",
                "DaemonSet kube-system/butler-tunnel-agent",
            ]
        );
        let workload = objects.last().unwrap().body.to_string();
        assert!(workload.contains("--server=192.0.2.4:9132"), "{workload}");
        assert!(workload.contains("example.com/butler:v1"), "{workload}");
    }

    #[test]
    fn who_names_images_of_konnectivity_gets_them() {
        let objects = told(
            json!({ "agent": { "image": "mirror.example.com/proxy-agent" } }),
            &ours(),
        );
        assert!(
            objects
                .last()
                .unwrap()
                .body
                .to_string()
                .contains("mirror.example.com/proxy-agent:v0.36.0")
        );
    }

    #[test]
    fn who_pins_a_version_of_konnectivity_gets_konnectivity() {
        let objects = told(json!({ "agent": { "version": "v0.34.1" } }), &ours());
        let workload = objects.last().unwrap().body.to_string();
        assert!(workload.contains("proxy-agent:v0.34.1"), "{workload}");
    }

    #[test]
    fn flags_of_konnectivity_do_not_end_agents_of_ours() {
        let objects = told(
            json!({ "agent": { "extraArgs": ["--v=8", "--dial-timeout=3s"] } }),
            &ours(),
        );
        let workload = objects.last().unwrap().body.to_string();
        assert!(workload.contains("--dial-timeout=3s"), "{workload}");
        assert!(!workload.contains("--v=8"), "{workload}");
    }

    #[test]
    fn behind_an_ingress_agents_dial_the_tunnels_own_name() {
        let control_plane = control_plane_with(json!({
            "controlPlane": {
                "service": { "serviceType": "ClusterIP" },
                "ingress": { "hostname": "shop.k8s.example.com", "controllerType": "traefik" },
            },
            "addons": { "konnectivity": {} },
        }));
        let version = "v1.36.3".parse().unwrap();
        let objects = objects_in_tenant(&control_plane, None, &version, &ours());
        let workload = objects.last().unwrap().body.to_string();
        assert!(
            workload.contains("--server=shop.konnectivity.example.com:443"),
            "{workload}"
        );
        assert!(workload.contains("\"hostNetwork\":true"), "{workload}");
    }
}
