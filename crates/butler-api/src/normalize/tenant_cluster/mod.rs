//! The one reading of a `TenantCluster`, whatever way it was spelled.
//!
//! Owns the answers to: which of two spellings counts, what an empty text means, and what is asked for, refused or left
//! open. Must not fill in what depends on the provider or the team: what is left open here stays open (`None`,
//! [`Wish::Unstated`]) for the one who knows them.

use crate::{
    Quantity,
    butler::{
        addon_definition::HelmValues,
        tenant_cluster::{
            CniProvider, DEFAULT_POD_CIDR, DEFAULT_SERVICE_CIDR, GitOpsAddon, GitOpsProvider,
            GitOpsRepository, IngressProvider, LoadBalancerPool, LoadBalancerProvider,
            MachineTemplate, OperatingSystem, OperatingSystemType, StorageProvider,
            TenantClusterAddons, TenantClusterNetworking, TenantClusterSpec,
        },
    },
};

/// What a `TenantCluster` asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Kubernetes version with its leading `v`.
    pub kubernetes_version: String,
    /// Number of workers; never negative.
    pub worker_replicas: i32,
    /// Size of each worker.
    pub worker: WorkerSize,
    /// Version of Talos, if one is named and the workers run it.
    pub talos_version: Option<String>,
    /// Address ranges.
    pub network: Network,
    /// Addons.
    pub addons: Addons,
}

/// Size of a worker. What is `None` is for the team and the platform to decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerSize {
    /// Virtual CPUs.
    pub cpu: Option<i32>,
    /// Memory.
    pub memory: Option<Quantity>,
    /// Root disk.
    pub disk: Option<Quantity>,
}

/// Address ranges of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Range of pod addresses.
    pub pod_cidr: String,
    /// Range of Service addresses.
    pub service_cidr: String,
    /// Where the cluster's load balancer addresses come from.
    pub load_balancer_addresses: LoadBalancerAddresses,
}

/// Where a cluster's load balancer addresses come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadBalancerAddresses {
    /// The cluster brings its own range.
    Range(LoadBalancerPool),
    /// They are allocated from the provider's pools; as many as given, else as many as the provider usually gives.
    Allocated(Option<i32>),
}

/// What is wished for each addon.
#[derive(Clone, Debug, PartialEq)]
pub struct Addons {
    /// Pod network.
    pub cni: Wish<CniProvider>,
    /// Load balancer.
    pub load_balancer: Wish<LoadBalancerProvider>,
    /// Storage.
    pub storage: Wish<StorageProvider>,
    /// cert-manager, of which there is one kind only.
    pub cert_manager: Wish<()>,
    /// Ingress controller.
    pub ingress: Wish<IngressProvider>,
    /// Delivery from Git, which is only ever installed when asked for.
    pub gitops: Option<GitOps>,
}

/// A wish for an addon.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish<Provider> {
    /// Nothing was said: the platform decides.
    Unstated,
    /// It must not be installed.
    Off,
    /// It must be installed.
    On(Choice<Provider>),
}

/// How an addon must be installed.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice<Provider> {
    /// Which one; the provider's usual one if `None`.
    pub provider: Option<Provider>,
    /// Chart version; the platform's if `None`.
    pub version: Option<String>,
    /// Helm values to merge over Butler's own.
    pub values: HelmValues,
}

/// Delivery from Git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitOps {
    /// The tool.
    pub tool: GitOpsTool,
    /// Its version; the platform's if `None`.
    pub version: Option<String>,
    /// Repository to follow.
    pub repository: Option<GitOpsRepository>,
}

/// Tool that applies what a Git repository says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GitOpsTool {
    /// Flux, however it was spelled.
    Flux,
    /// Argo CD.
    ArgoCd,
}

impl From<GitOpsProvider> for GitOpsTool {
    fn from(provider: GitOpsProvider) -> Self {
        match provider {
            GitOpsProvider::Flux | GitOpsProvider::Fluxcd => Self::Flux,
            GitOpsProvider::Argocd => Self::ArgoCd,
        }
    }
}

/// Reads a `TenantCluster`.
pub fn read(spec: &TenantClusterSpec) -> Reading {
    let template = spec.workers.machine_template.as_ref();
    Reading {
        kubernetes_version: kubernetes_version(&spec.kubernetes_version),
        worker_replicas: spec.workers.replicas.max(0),
        worker: template.map(worker_size).unwrap_or_default(),
        talos_version: template
            .and_then(|template| template.os.as_ref())
            .and_then(talos_version),
        network: network(spec.networking.as_ref()),
        addons: addons(spec.addons.as_ref()),
    }
}

/// The version with its leading `v`.
pub fn kubernetes_version(written: &str) -> String {
    let number = written.trim();
    format!("v{}", number.strip_prefix('v').unwrap_or(number))
}

/// The size of a worker: a quantity as it was written, megabytes and gigabytes as the binary units they stand for.
pub fn worker_size(template: &MachineTemplate) -> WorkerSize {
    let with_unit = |amount: i32, unit: &str| Quantity::new(format!("{amount}{unit}"));
    WorkerSize {
        cpu: template.cpu,
        memory: template
            .memory
            .clone()
            .or_else(|| template.memory_mb.map(|amount| with_unit(amount, "Mi"))),
        disk: template
            .disk_size
            .clone()
            .or_else(|| template.disk_gb.map(|amount| with_unit(amount, "Gi"))),
    }
}

/// The version of Talos: its own field counts before the operating system's. `None` if the workers run something else.
fn talos_version(os: &OperatingSystem) -> Option<String> {
    if os.os_type != Some(OperatingSystemType::Talos) {
        return None;
    }
    let own = os
        .talos
        .as_ref()
        .and_then(|talos| stated(talos.version.as_ref()));
    own.or_else(|| stated(os.version.as_ref()))
}

/// The address ranges; a pool whose ends are empty is no pool.
pub fn network(networking: Option<&TenantClusterNetworking>) -> Network {
    let pool = networking.and_then(|networking| networking.load_balancer_pool.as_ref());
    let own_range = pool.filter(|pool| !pool.start.is_empty() || !pool.end.is_empty());
    let or_default =
        |range: Option<&String>, default: &str| stated(range).unwrap_or_else(|| default.to_owned());
    Network {
        pod_cidr: or_default(
            networking.map(|networking| &networking.pod_cidr),
            DEFAULT_POD_CIDR,
        ),
        service_cidr: or_default(
            networking.map(|networking| &networking.service_cidr),
            DEFAULT_SERVICE_CIDR,
        ),
        load_balancer_addresses: own_range.map_or_else(
            || {
                LoadBalancerAddresses::Allocated(
                    networking.and_then(|networking| networking.lb_pool_size),
                )
            },
            |range| LoadBalancerAddresses::Range(range.clone()),
        ),
    }
}

/// The wishes for addons: `none` as a provider and `enabled: false` both mean that there shall be none.
pub fn addons(written: Option<&TenantClusterAddons>) -> Addons {
    let cni = written.and_then(|addons| addons.cni.as_ref());
    let load_balancer = written.and_then(|addons| addons.load_balancer.as_ref());
    let storage = written.and_then(|addons| addons.storage.as_ref());
    let cert_manager = written.and_then(|addons| addons.cert_manager.as_ref());
    let ingress = written.and_then(|addons| addons.ingress.as_ref());
    Addons {
        cni: cni.map_or(Wish::Unstated, |addon| {
            let wanted = addon.provider != Some(CniProvider::None);
            wish(
                wanted,
                addon.provider,
                addon.version.as_ref(),
                &addon.values,
            )
        }),
        load_balancer: load_balancer.map_or(Wish::Unstated, |addon| {
            let wanted = addon.provider != Some(LoadBalancerProvider::None);
            wish(
                wanted,
                addon.provider,
                addon.version.as_ref(),
                &addon.values,
            )
        }),
        storage: storage.map_or(Wish::Unstated, |addon| {
            let wanted = addon.provider != Some(StorageProvider::None);
            wish(
                wanted,
                addon.provider,
                addon.version.as_ref(),
                &addon.values,
            )
        }),
        cert_manager: cert_manager.map_or(Wish::Unstated, |addon| {
            wish(addon.enabled, None, addon.version.as_ref(), &addon.values)
        }),
        ingress: ingress.map_or(Wish::Unstated, |addon| {
            wish(
                addon.enabled,
                addon.provider,
                addon.version.as_ref(),
                &addon.values,
            )
        }),
        gitops: written.and_then(gitops),
    }
}

fn wish<Provider>(
    wanted: bool,
    provider: Option<Provider>,
    version: Option<&String>,
    values: &HelmValues,
) -> Wish<Provider> {
    if !wanted {
        return Wish::Off;
    }
    Wish::On(Choice {
        provider,
        version: stated(version),
        values: values.clone(),
    })
}

/// Delivery from Git under either key, with Flux as the tool unless another is named.
fn gitops(addons: &TenantClusterAddons) -> Option<GitOps> {
    let written: &GitOpsAddon = addons.gitops.as_ref().or(addons.gitops_alias.as_ref())?;
    Some(GitOps {
        tool: written.provider.map_or(GitOpsTool::Flux, GitOpsTool::from),
        version: stated(written.version.as_ref()),
        repository: written.repository.clone(),
    })
}

/// A text that says something. Clients that know no absence write the empty text instead.
fn stated(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

#[cfg(test)]
mod tests;
