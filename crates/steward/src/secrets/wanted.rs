//! What the Secrets of a control plane must hold, whatever they hold now.

use butler_api::{
    keys::secret_keys, steward::tenant_control_plane::TenantControlPlane,
    version::KubernetesVersion,
};

use super::order::{KubeconfigWish, LeafWish, Recipe, authority_of};
use crate::{
    addresses::{
        self, CertificateNames, addresses, api_server_names, konnectivity_host, public_host,
    },
    names::{Names, SecretRole},
    projections::ServiceFacts,
    settings::Settings,
    tunnel::Tunnel,
};

/// From this minor version on, kubelets know the API server by a binding and no longer by a group.
const KUBELET_CLIENT_WITHOUT_GROUP: u64 = 36;

/// What one Secret must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which.
    pub role: SecretRole,
    /// What.
    pub recipe: Recipe,
}

/// What the Secrets of a control plane must hold. Those that depend on its address are there once it is known.
pub fn wanted(
    control_plane: &TenantControlPlane,
    version: &KubernetesVersion,
    service: Option<&ServiceFacts>,
    settings: &Settings,
) -> Vec<Wanted> {
    let names = Names::of(control_plane);
    let port = addresses::port(&control_plane.spec.network_profile);
    let local = format!("https://127.0.0.1:{port}");
    let mut all = roots();
    all.push(client(
        SecretRole::KubeletClient,
        SecretRole::Authority,
        "apiserver-kubelet-client",
        "kube-apiserver-kubelet-client",
        kubelet_groups(version),
    ));
    all.push(client(
        SecretRole::FrontProxyClient,
        SecretRole::FrontProxyAuthority,
        "front-proxy-client",
        "front-proxy-client",
        Vec::new(),
    ));
    for (role, file, user) in [
        (
            SecretRole::ControllerManagerKubeconfig,
            "controller-manager.conf",
            "system:kube-controller-manager",
        ),
        (
            SecretRole::SchedulerKubeconfig,
            "scheduler.conf",
            "system:kube-scheduler",
        ),
    ] {
        all.push(kubeconfig(role, user, file, &local));
    }
    if let Some(found) = Tunnel::of(control_plane, settings) {
        all.extend(tunnel(control_plane, found, port));
    }
    let found = addresses(control_plane, service);
    if found.advertised.is_some() {
        let leaf = LeafWish {
            common_name: "kube-apiserver".to_owned(),
            organizations: Vec::new(),
            serves: Some(api_server_names(control_plane, service)),
        };
        all.push(Wanted {
            role: SecretRole::ApiServer,
            recipe: Recipe::Leaf {
                issuer: SecretRole::Authority,
                file: "apiserver",
                leaf,
            },
        });
    }
    if let Some(endpoint) = found.endpoint {
        let inside = format!("https://{}:{port}", names.service_host());
        all.push(administrators(&format!("https://{endpoint}"), &inside));
    }
    all
}

fn roots() -> Vec<Wanted> {
    let authorities = [SecretRole::Authority, SecretRole::FrontProxyAuthority];
    let authorities = authorities.into_iter().filter_map(|role| {
        let (common_name, file) = authority_of(role)?;
        let recipe = Recipe::Authority { common_name, file };
        Some(Wanted { role, recipe })
    });
    let tokens = Wanted {
        role: SecretRole::ServiceAccount,
        recipe: Recipe::ServiceAccountKey,
    };
    authorities.chain([tokens]).collect()
}

fn kubelet_groups(version: &KubernetesVersion) -> Vec<String> {
    if version.minor() < KUBELET_CLIENT_WITHOUT_GROUP {
        vec!["kubeadm:cluster-admins".to_owned()]
    } else {
        Vec::new()
    }
}

fn client(
    role: SecretRole,
    issuer: SecretRole,
    file: &'static str,
    common_name: &str,
    organizations: Vec<String>,
) -> Wanted {
    let leaf = LeafWish {
        common_name: common_name.to_owned(),
        organizations,
        serves: None,
    };
    Wanted {
        role,
        recipe: Recipe::Leaf { issuer, file, leaf },
    }
}

fn kubeconfig(role: SecretRole, user: &str, file: &str, server: &str) -> Wanted {
    let wish = KubeconfigWish {
        user: user.to_owned(),
        groups: Vec::new(),
        servers: vec![(file.to_owned(), server.to_owned())],
    };
    Wanted {
        role,
        recipe: Recipe::Kubeconfigs { wishes: vec![wish] },
    }
}

/// The administrator, whom the tenant's own roles make one, and the one whose rights nobody in the tenant can take.
fn administrators(outside: &str, inside: &str) -> Wanted {
    let wish = |user: &str, group: &str, public: &str, private: &str| KubeconfigWish {
        user: user.to_owned(),
        groups: vec![group.to_owned()],
        servers: vec![
            (public.to_owned(), outside.to_owned()),
            (private.to_owned(), inside.to_owned()),
        ],
    };
    let wishes = vec![
        wish(
            "kubernetes-admin",
            "kubeadm:cluster-admins",
            secret_keys::ADMIN_CONF,
            secret_keys::ADMIN_SVC,
        ),
        wish(
            "kubernetes-super-admin",
            "system:masters",
            secret_keys::SUPER_ADMIN_CONF,
            secret_keys::SUPER_ADMIN_SVC,
        ),
    ];
    Wanted {
        role: SecretRole::AdminKubeconfig,
        recipe: Recipe::Kubeconfigs { wishes },
    }
}

/// Where agents reach the tunnel by a name of its own, it has a certificate of its own.
fn tunnel(control_plane: &TenantControlPlane, tunnel: Tunnel<'_>, port: u16) -> Vec<Wanted> {
    let user = tunnel.server_user();
    let mut all = vec![kubeconfig(
        SecretRole::KonnectivityKubeconfig,
        user,
        "konnectivity-server.conf",
        &format!("https://localhost:{port}"),
    )];
    if let Some((host, _)) = public_host(control_plane) {
        let mut names = CertificateNames::default();
        names.add(&konnectivity_host(&host));
        all.push(Wanted {
            role: SecretRole::KonnectivityCertificate,
            recipe: Recipe::Leaf {
                issuer: SecretRole::Authority,
                file: "tls",
                leaf: LeafWish {
                    common_name: user.to_owned(),
                    organizations: Vec::new(),
                    serves: Some(names),
                },
            },
        });
    }
    all
}
