//! What a control plane asks for and does not get, in words for whoever asked. What is accepted and has no effect is said here.

use butler_api::{steward::tenant_control_plane::TenantControlPlane, version::KubernetesVersion};

use super::pods::{refused_by_own_tunnel, unknown_plugins};
use crate::{
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
    if let Some(Err(refusal)) = TcpProxy::of(control_plane, settings) {
        all.push(format!("spec.addons.tcpProxy: {refusal}"));
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
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{control_plane_with, service_at};

    fn told(spec: Value) -> String {
        let settings = Settings {
            tunnel_image: Some("example.com/butler:v1".to_owned()),
            ..Settings::default()
        };
        let control_plane = control_plane_with(spec);
        let version = control_plane.spec.kubernetes.version.parse().unwrap();
        let service = service_at("192.0.2.4");
        shortfalls(&control_plane, &version, Some(&service), &settings).join("\n")
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
