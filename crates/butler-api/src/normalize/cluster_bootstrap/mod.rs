//! The one reading of a `ClusterBootstrap`.
//!
//! Owns what the two spellings of a request mean and which defaults a provider brings. Asks nothing: whether the
//! provider configuration exists, or whether a version can be had, is for others to find out.

mod addons;
mod network;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use addons::{
    ButlerController, Capi, CertManager, Cilium, Console, ControlPlaneProvider, Flux,
    GitRepository, Ingress, IngressController, KubeVip, Longhorn, MetalLb, NormalizedAddons,
    TenantControlPlanes,
};
pub use network::{Endpoint, NormalizedNetwork};

use super::FieldError;
use super::machine_size::{LeastSize, MachineSize};
use crate::butler::cluster_bootstrap::{
    BootstrapProvider, ClusterBootstrapSpec, Inline, InlineProviderConfig, MachineTemplate,
    NodePool, TalosSettings, Topology,
};
use crate::butler::control_plane_exposure::ControlPlaneExposure;
use crate::butler::machine_request::ExtraDisk;
use crate::butler::provider_config::{
    AwsProvider, AzureProvider, GcpProvider, HarvesterProvider, NutanixProvider, ProxmoxProvider,
};
use crate::name::is_dns_label;
use crate::reference::NamespacedReference;

/// A management cluster, whichever way it was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct NormalizedClusterBootstrap {
    /// The infrastructure the machines run on.
    pub provider: BootstrapProvider,
    /// Where the provider's settings are.
    pub provider_settings: ProviderSettings,
    /// Name of the cluster.
    pub cluster_name: String,
    /// How many control plane nodes there are, and whether they stand alone.
    pub topology: Topology,
    /// Version of Kubernetes, if the user chose one.
    pub kubernetes_version: Option<String>,
    /// The operating system of the machines, if the user chose it.
    pub talos: Option<TalosSettings>,
    /// The control plane nodes; at least one.
    pub control_plane: MachineGroup,
    /// The workers, if there are any.
    pub workers: Option<MachineGroup>,
    /// The cluster's networks.
    pub network: NormalizedNetwork,
    /// What is installed.
    pub addons: NormalizedAddons,
    /// How the control planes of tenant clusters are reached from outside.
    pub control_plane_exposure: ControlPlaneExposure,
    /// Whether work is stopped.
    pub paused: bool,
}

impl NormalizedClusterBootstrap {
    /// Whether workloads run on control plane nodes, because there is no other node.
    pub const fn schedules_on_control_plane(&self) -> bool {
        self.workers.is_none()
    }
}

/// Machines of one size; never none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineGroup {
    /// Number of machines, at least 1.
    pub replicas: u32,
    /// Size of each machine.
    pub size: MachineSize,
    /// Disks of each machine beside the root disk.
    pub extra_disks: Vec<ExtraDisk>,
    /// Labels or tags to put on each machine at the provider.
    pub labels: BTreeMap<String, String>,
}

/// Where a provider's settings are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderSettings {
    /// In a `ProviderConfig`; in the request's namespace if none is given.
    Reference(NamespacedReference),
    /// In the request, for Harvester.
    Harvester(Inline<HarvesterProvider>),
    /// In the request, for Nutanix.
    Nutanix(Inline<NutanixProvider>),
    /// In the request, for Proxmox VE.
    Proxmox(Inline<ProxmoxProvider>),
    /// In the request, for Amazon Web Services.
    Aws(Inline<AwsProvider>),
    /// In the request, for Microsoft Azure.
    Azure(Inline<AzureProvider>),
    /// In the request, for Google Cloud.
    Gcp(Inline<GcpProvider>),
    /// Nowhere: this machine needs none.
    Local,
}

/// Reads a request, or says which fields break which rules.
pub fn normalize(
    spec: &ClusterBootstrapSpec,
) -> Result<NormalizedClusterBootstrap, Vec<FieldError>> {
    let mut errors = Vec::new();
    if !is_dns_label(&spec.cluster.name) {
        errors.push(FieldError::new(
            "spec.cluster.name",
            "must be a DNS label of at most 63 characters",
        ));
    }
    check_version(
        "spec.cluster.kubernetesVersion",
        spec.cluster.kubernetes_version.as_deref(),
        &mut errors,
    );
    let talos_version = spec.talos.as_ref().map(|talos| talos.version.as_str());
    check_version("spec.talos.version", talos_version, &mut errors);
    check_topology(spec, &mut errors);
    let provider_settings = provider_settings(spec, &mut errors);
    let control_plane = machine_group(
        "spec.cluster.controlPlane",
        &spec.cluster.control_plane,
        &mut errors,
    );
    let workers = spec
        .cluster
        .workers
        .as_ref()
        .and_then(|pool| machine_group("spec.cluster.workers", pool, &mut errors));
    let network = network::normalize(spec, &mut errors);
    let addons = network
        .as_ref()
        .map(|network| addons::normalize(spec, network, &mut errors));
    match (provider_settings, control_plane, network, addons) {
        (Some(provider_settings), Some(control_plane), Some(network), Some(addons))
            if errors.is_empty() =>
        {
            Ok(NormalizedClusterBootstrap {
                provider: spec.provider,
                provider_settings,
                cluster_name: spec.cluster.name.clone(),
                topology: spec.cluster.topology,
                kubernetes_version: spec.cluster.kubernetes_version.clone(),
                talos: spec.talos.clone(),
                control_plane,
                workers,
                network,
                addons,
                control_plane_exposure: spec.control_plane_exposure.clone().unwrap_or_default(),
                paused: spec.paused.unwrap_or(false),
            })
        }
        _ => Err(errors),
    }
}

fn check_version(path: &str, version: Option<&str>, errors: &mut Vec<FieldError>) {
    let well_formed = |version: &str| {
        version
            .strip_prefix('v')
            .and_then(|plain| semver::Version::parse(plain).ok())
            .is_some_and(|parsed| parsed.pre.is_empty() && parsed.build.is_empty())
    };
    if version.is_some_and(|version| !well_formed(version)) {
        errors.push(FieldError::new(path, "must be a version such as v1.31.0"));
    }
}

fn check_topology(spec: &ClusterBootstrapSpec, errors: &mut Vec<FieldError>) {
    let replicas = spec.cluster.control_plane.replicas;
    match spec.cluster.topology {
        Topology::Ha if replicas < 3 || replicas % 2 == 0 => errors.push(FieldError::new(
            "spec.cluster.controlPlane.replicas",
            "must be an odd number of at least 3 for topology ha",
        )),
        Topology::SingleNode if replicas != 1 => errors.push(FieldError::new(
            "spec.cluster.controlPlane.replicas",
            "must be 1 for topology single-node",
        )),
        Topology::Ha | Topology::SingleNode => {}
    }
    let has_workers = spec
        .cluster
        .workers
        .as_ref()
        .is_some_and(|pool| pool.replicas != 0);
    if spec.cluster.topology == Topology::SingleNode && has_workers {
        errors.push(FieldError::new(
            "spec.cluster.workers.replicas",
            "must be 0 for topology single-node",
        ));
    }
}

/// What a node of a management cluster needs to run its share of the platform.
const LEAST: LeastSize = LeastSize {
    memory_mib: 2048,
    disk_gib: 20,
};

/// The machines of a pool; none if it has none or breaks a rule.
fn machine_group(
    path: &str,
    pool: &NodePool,
    errors: &mut Vec<FieldError>,
) -> Option<MachineGroup> {
    let replicas = u32::try_from(pool.replicas)
        .ok()
        .filter(|replicas| *replicas <= 10);
    let Some(replicas) = replicas else {
        errors.push(FieldError::new(
            format!("{path}.replicas"),
            "must be from 0 to 10",
        ));
        return None;
    };
    if replicas == 0 {
        return None;
    }
    let size = match (
        &pool.machine_template,
        pool.cpu,
        pool.memory_mb,
        pool.disk_gb,
    ) {
        (
            Some(MachineTemplate {
                cpu,
                memory,
                disk_size,
            }),
            None,
            None,
            None,
        ) => LEAST.of_quantities(
            [
                (&format!("{path}.machineTemplate.cpu"), cpu),
                (&format!("{path}.machineTemplate.memory"), memory),
                (&format!("{path}.machineTemplate.diskSize"), disk_size),
            ],
            errors,
        ),
        (None, Some(cpu), Some(memory), Some(disk)) => LEAST.of_numbers(
            [
                (&format!("{path}.cpu"), cpu),
                (&format!("{path}.memoryMB"), memory),
                (&format!("{path}.diskGB"), disk),
            ],
            errors,
        ),
        _ => {
            errors.push(FieldError::new(
                format!("{path}.machineTemplate"),
                "or all of cpu, memoryMB and diskGB must be given, and not both",
            ));
            None
        }
    };
    Some(MachineGroup {
        replicas,
        size: size?,
        extra_disks: pool.extra_disks.clone(),
        labels: pool.labels.clone(),
    })
}

fn provider_settings(
    spec: &ClusterBootstrapSpec,
    errors: &mut Vec<FieldError>,
) -> Option<ProviderSettings> {
    match (&spec.provider_ref, &spec.provider_config) {
        (Some(reference), None) => Some(ProviderSettings::Reference(reference.clone())),
        (None, Some(inline)) => {
            let settings = inline_settings(spec.provider, inline);
            if settings.is_none() {
                errors.push(FieldError::new(
                    "spec.providerConfig",
                    "must hold exactly one section, the one that spec.provider names",
                ));
            }
            settings
        }
        (None, None) if spec.provider == BootstrapProvider::Local => Some(ProviderSettings::Local),
        (None, None) | (Some(_), Some(_)) => {
            errors.push(FieldError::new(
                "spec.providerRef",
                "or spec.providerConfig must be given, and not both",
            ));
            None
        }
    }
}

/// The one section of inline settings, if it is the provider's.
fn inline_settings(
    provider: BootstrapProvider,
    inline: &InlineProviderConfig,
) -> Option<ProviderSettings> {
    let InlineProviderConfig {
        harvester,
        nutanix,
        proxmox,
        aws,
        azure,
        gcp,
    } = inline.clone();
    let given = [
        harvester.map(|section| {
            (
                BootstrapProvider::Harvester,
                ProviderSettings::Harvester(section),
            )
        }),
        nutanix.map(|section| {
            (
                BootstrapProvider::Nutanix,
                ProviderSettings::Nutanix(section),
            )
        }),
        proxmox.map(|section| {
            (
                BootstrapProvider::Proxmox,
                ProviderSettings::Proxmox(section),
            )
        }),
        aws.map(|section| (BootstrapProvider::Aws, ProviderSettings::Aws(section))),
        azure.map(|section| (BootstrapProvider::Azure, ProviderSettings::Azure(section))),
        gcp.map(|section| (BootstrapProvider::Gcp, ProviderSettings::Gcp(section))),
    ];
    let mut given = given.into_iter().flatten();
    match (given.next(), given.next()) {
        (Some((section, settings)), None) if section == provider => Some(settings),
        _ => None,
    }
}
