//! What is installed on a management cluster, whichever way it was chosen, with the provider's defaults filled in.
//!
//! An addon is present here if it is to be installed; "none", "disabled" and "not for this provider" all read as
//! absent. A version is present only if the user chose one.

use super::FieldError;
use super::network::{Endpoint, NormalizedNetwork};
use crate::butler::cluster_bootstrap::{
    BootstrapAddons, BootstrapProvider, ClusterBootstrapSpec, CniType, ConsoleIngress,
    ControlPlaneHaType, ControlPlaneProviderType, GitOpsType, InfrastructureProvider, IngressType,
    LoadBalancerType, PlatformSettings, StorageType, Topology,
};
use crate::net::AddressRange;
use crate::reference::SecretReference;

/// What is installed on a management cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NormalizedAddons {
    /// The pod network, unless the machines bring their own.
    pub cilium: Option<Cilium>,
    /// Persistent volumes.
    pub longhorn: Option<Longhorn>,
    /// Addresses for Services of type LoadBalancer.
    pub metal_lb: Option<MetalLb>,
    /// What announces the API server's address.
    pub kube_vip: Option<KubeVip>,
    /// Certificates for workloads.
    pub cert_manager: Option<CertManager>,
    /// HTTP from outside.
    pub ingress: Option<Ingress>,
    /// What hosts the control planes of tenant clusters.
    pub tenant_control_planes: Option<TenantControlPlanes>,
    /// Cluster API.
    pub capi: Option<Capi>,
    /// Butler itself.
    pub butler_controller: Option<ButlerController>,
    /// Butler's web console.
    pub console: Option<Console>,
    /// Management by Git.
    pub flux: Option<Flux>,
}

/// Cilium.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cilium {
    /// Version of the chart.
    pub version: Option<String>,
    /// Whether Hubble is installed too.
    pub hubble: bool,
}

/// Longhorn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Longhorn {
    /// Version of the chart.
    pub version: Option<String>,
    /// How many copies of a volume are kept.
    pub replica_count: u32,
}

/// MetalLB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetalLb {
    /// The addresses it hands out; at least one range.
    pub ranges: Vec<AddressRange>,
}

/// kube-vip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeVip {
    /// Version of the image.
    pub version: Option<String>,
}

/// cert-manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertManager {
    /// Version of the chart.
    pub version: Option<String>,
}

/// An ingress controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingress {
    /// Which one.
    pub controller: IngressController,
    /// Version of the chart.
    pub version: Option<String>,
}

/// Which ingress controller is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IngressController {
    /// Traefik.
    Traefik,
    /// ingress-nginx.
    Nginx,
}

/// A host of control planes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantControlPlanes {
    /// Which one.
    pub provider: ControlPlaneProvider,
    /// Version of it.
    pub version: Option<String>,
}

/// Which host of control planes is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlPlaneProvider {
    /// Steward.
    Steward,
    /// Kamaji.
    Kamaji,
}

/// Cluster API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capi {
    /// Version of its core and kubeadm providers.
    pub version: Option<String>,
    /// Infrastructure providers beside the cluster's own.
    pub infrastructure_providers: Vec<InfrastructureProvider>,
}

/// Butler's definitions and controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ButlerController {
    /// Tag of the image.
    pub version: Option<String>,
    /// Image without its tag.
    pub image: Option<String>,
}

/// Butler's web console.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Console {
    /// Version of it.
    pub version: Option<String>,
    /// How it is reached by HTTP, if an Ingress is made for it.
    pub ingress: Option<ConsoleIngress>,
}

/// Flux.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flux {
    /// What it follows; nothing yet if absent.
    pub repository: Option<GitRepository>,
}

/// A Git repository that holds a cluster's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitRepository {
    /// Address of the repository.
    pub url: String,
    /// Branch to follow.
    pub branch: String,
    /// Directory within the repository; its root if absent.
    pub path: Option<String>,
    /// Secret with the credentials; none for a public repository.
    pub credentials: Option<SecretReference>,
}

/// Reads the addons.
pub(super) fn normalize(
    spec: &ClusterBootstrapSpec,
    network: &NormalizedNetwork,
    errors: &mut Vec<FieldError>,
) -> NormalizedAddons {
    let addons = spec.addons.clone().unwrap_or_default();
    let platform = spec.platform.clone().unwrap_or_default();
    let defaults = Defaults::of(spec.provider);
    NormalizedAddons {
        cilium: cilium(&addons, &platform, &defaults, errors),
        longhorn: longhorn(spec, &addons, &platform, &defaults, errors),
        metal_lb: metal_lb(&addons, &platform, &defaults, network, errors),
        kube_vip: kube_vip(&addons, &defaults, network, errors),
        ingress: ingress(&addons, &defaults),
        tenant_control_planes: tenant_control_planes(&addons),
        cert_manager: match addons.cert_manager {
            Some(section) => section.enabled.then_some(CertManager {
                version: chosen(section.version.as_ref()),
            }),
            None => defaults.cert_manager.then(CertManager::default),
        },
        capi: match addons.capi {
            Some(section) => section.enabled.then_some(Capi {
                version: chosen(section.version.as_ref()),
                infrastructure_providers: section.infrastructure_providers,
            }),
            None => Some(Capi::default()),
        },
        butler_controller: match addons.butler_controller {
            Some(section) => section.enabled.then_some(ButlerController {
                version: chosen(section.version.as_ref()),
                image: chosen(section.image.as_ref()),
            }),
            None => Some(ButlerController::default()),
        },
        console: addons
            .console
            .filter(|section| section.enabled)
            .map(|section| Console {
                version: chosen(section.version.as_ref()),
                ingress: section.ingress.filter(|ingress| ingress.enabled),
            }),
        flux: flux(spec, errors),
    }
}

/// A text the user chose; clients that always send every field send an empty one for "not chosen".
fn chosen(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

/// What a provider gets where the user said nothing.
struct Defaults {
    cni: CniType,
    storage: StorageType,
    load_balancer: LoadBalancerType,
    control_plane_ha: ControlPlaneHaType,
    cert_manager: bool,
    ingress: bool,
}

impl Defaults {
    /// Clouds bring load balancers of their own. This machine brings a pod network and load balancers too, and must come
    /// up without fetching anything that is not asked for.
    const fn of(provider: BootstrapProvider) -> Self {
        let local = matches!(provider, BootstrapProvider::Local);
        let cloud = provider.is_cloud();
        Self {
            cni: if local {
                CniType::None
            } else {
                CniType::Cilium
            },
            storage: if local {
                StorageType::None
            } else {
                StorageType::Longhorn
            },
            load_balancer: if local {
                LoadBalancerType::None
            } else {
                LoadBalancerType::Metallb
            },
            control_plane_ha: if local || cloud {
                ControlPlaneHaType::None
            } else {
                ControlPlaneHaType::KubeVip
            },
            cert_manager: !local,
            ingress: !local && !cloud,
        }
    }
}

/// The choice out of its short and its long spelling, which must not differ.
fn one_choice<T: Copy + PartialEq>(
    (short_path, short): (&str, Option<T>),
    (long_path, long): (&str, Option<T>),
    default: T,
    errors: &mut Vec<FieldError>,
) -> T {
    if let (Some(short), Some(long)) = (short, long)
        && short != long
    {
        errors.push(FieldError::new(
            short_path,
            format!("must not differ from {long_path}"),
        ));
    }
    long.or(short).unwrap_or(default)
}

fn cilium(
    addons: &BootstrapAddons,
    platform: &PlatformSettings,
    defaults: &Defaults,
    errors: &mut Vec<FieldError>,
) -> Option<Cilium> {
    let section = addons.cni.as_ref();
    let kind = one_choice(
        ("spec.platform.cni", platform.cni),
        (
            "spec.addons.cni.type",
            section.and_then(|section| section.kind),
        ),
        defaults.cni,
        errors,
    );
    (kind == CniType::Cilium).then(|| Cilium {
        version: section.and_then(|section| chosen(section.version.as_ref())),
        hubble: section.is_none_or(|section| section.hubble_enabled),
    })
}

fn longhorn(
    spec: &ClusterBootstrapSpec,
    addons: &BootstrapAddons,
    platform: &PlatformSettings,
    defaults: &Defaults,
    errors: &mut Vec<FieldError>,
) -> Option<Longhorn> {
    let section = addons.storage.as_ref();
    let kind = one_choice(
        ("spec.platform.storage", platform.storage),
        (
            "spec.addons.storage.type",
            section.and_then(|section| section.kind),
        ),
        defaults.storage,
        errors,
    );
    let usual = match spec.cluster.topology {
        Topology::SingleNode => 1,
        Topology::Ha => 3,
    };
    let asked = section
        .and_then(|section| section.replica_count)
        .unwrap_or(usual);
    let replica_count = u32::try_from(asked).unwrap_or(0);
    if replica_count == 0 {
        errors.push(FieldError::new(
            "spec.addons.storage.replicaCount",
            "must be at least 1",
        ));
    }
    (kind == StorageType::Longhorn).then(|| Longhorn {
        version: section.and_then(|section| chosen(section.version.as_ref())),
        replica_count,
    })
}

fn metal_lb(
    addons: &BootstrapAddons,
    platform: &PlatformSettings,
    defaults: &Defaults,
    network: &NormalizedNetwork,
    errors: &mut Vec<FieldError>,
) -> Option<MetalLb> {
    let section = addons.load_balancer.as_ref();
    let kind = one_choice(
        ("spec.platform.loadBalancer", platform.load_balancer),
        (
            "spec.addons.loadBalancer.type",
            section.and_then(|section| section.kind),
        ),
        defaults.load_balancer,
        errors,
    );
    let ranges = &network.load_balancer_ranges;
    // Without addresses there is nothing to hand out, so MetalLB would only look as if it worked.
    (kind == LoadBalancerType::Metallb && !ranges.is_empty()).then(|| MetalLb {
        ranges: ranges.clone(),
    })
}

fn kube_vip(
    addons: &BootstrapAddons,
    defaults: &Defaults,
    network: &NormalizedNetwork,
    errors: &mut Vec<FieldError>,
) -> Option<KubeVip> {
    let section = addons.control_plane_ha.as_ref();
    let asked = section.and_then(|section| section.kind);
    let has_address = matches!(network.endpoint, Some(Endpoint::Address(_)));
    if asked == Some(ControlPlaneHaType::KubeVip) && !has_address {
        errors.push(FieldError::new(
            "spec.addons.controlPlaneHA.type",
            "kube-vip needs an address in spec.network.vip or spec.cluster.controlPlaneEndpoint",
        ));
    }
    let kind = asked.unwrap_or(defaults.control_plane_ha);
    (kind == ControlPlaneHaType::KubeVip && has_address).then(|| KubeVip {
        version: section.and_then(|section| chosen(section.version.as_ref())),
    })
}

fn ingress(addons: &BootstrapAddons, defaults: &Defaults) -> Option<Ingress> {
    let Some(section) = &addons.ingress else {
        return defaults.ingress.then_some(Ingress {
            controller: IngressController::Traefik,
            version: None,
        });
    };
    let controller = match section.kind {
        IngressType::Traefik => IngressController::Traefik,
        IngressType::Nginx => IngressController::Nginx,
        IngressType::None => return None,
    };
    section.enabled.then(|| Ingress {
        controller,
        version: chosen(section.version.as_ref()),
    })
}

fn tenant_control_planes(addons: &BootstrapAddons) -> Option<TenantControlPlanes> {
    let Some(section) = &addons.control_plane_provider else {
        return Some(TenantControlPlanes {
            provider: ControlPlaneProvider::Steward,
            version: None,
        });
    };
    let provider = match section.kind {
        ControlPlaneProviderType::Steward => ControlPlaneProvider::Steward,
        ControlPlaneProviderType::Kamaji => ControlPlaneProvider::Kamaji,
        ControlPlaneProviderType::None => return None,
    };
    section.enabled.then(|| TenantControlPlanes {
        provider,
        version: chosen(section.version.as_ref()),
    })
}

fn flux(spec: &ClusterBootstrapSpec, errors: &mut Vec<FieldError>) -> Option<Flux> {
    let short = spec
        .gitops
        .as_ref()
        .map(|gitops| gitops.enabled && gitops.provider == GitOpsType::Flux);
    let long = spec
        .addons
        .as_ref()
        .and_then(|addons| addons.git_ops.as_ref())
        .map(|section| section.enabled && section.kind == GitOpsType::Flux);
    let installed = one_choice(
        ("spec.gitops", short),
        ("spec.addons.gitOps", long),
        false,
        errors,
    );
    installed.then(|| Flux {
        repository: spec.gitops.as_ref().and_then(|gitops| {
            gitops.repository.as_ref().map(|url| GitRepository {
                url: url.clone(),
                branch: gitops.branch.clone(),
                path: gitops.path.clone(),
                credentials: gitops.credentials_ref.clone(),
            })
        }),
    })
}
