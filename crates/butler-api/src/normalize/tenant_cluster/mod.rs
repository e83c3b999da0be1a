//! The one reading of a `TenantCluster`, whatever way it was spelled.
//!
//! Owns the answers to: which of two spellings counts, what an empty text means, and what is asked for, refused or left
//! open. Must not fill in what depends on the provider or the team: what is left open here stays open (`None`,
//! [`Wish::Unstated`]) for the one who knows them.

mod pools;

use std::time::Duration;

pub use pools::{Pool, pools, set_by_kubelet};

use crate::{
    Quantity,
    butler::{
        addon_definition::HelmValues,
        tenant_cluster::{
            CniProvider, ControlPlaneMode, DEFAULT_POD_CIDR, DEFAULT_SERVICE_CIDR, GitOpsAddon,
            GitOpsProvider, GitOpsRepository, IngressProvider, LoadBalancerPool,
            LoadBalancerProvider, MachineHealth, MachineTemplate, OperatingSystem,
            OperatingSystemType, StorageProvider, TenantClusterAddons, TenantClusterNetworking,
            TenantClusterSpec,
        },
    },
};

/// What a `TenantCluster` asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Kubernetes version with its leading `v`.
    pub kubernetes_version: String,
    /// Where the control plane runs.
    pub control_plane_mode: ControlPlaneMode,
    /// Pods or machines of the control plane; at least one.
    pub control_plane_replicas: i32,
    /// The workers by pool; those of `spec.workers` come first.
    pub pools: Vec<Pool>,
    /// When machines are replaced; `None` if never.
    pub machine_health: Option<HealthLimits>,
    /// Address ranges.
    pub network: Network,
    /// Addons.
    pub addons: Addons,
}

/// How long a machine may be ill before it is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthLimits {
    /// From its creation until it is a node.
    pub node_startup: Duration,
    /// From its node's not being ready.
    pub unhealthy: Duration,
}

/// Shortest time a machine may be ill: below it a slow answer would cost a machine.
pub const SHORTEST_ILLNESS: Duration = Duration::from_secs(30);

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
    let control_plane = spec.control_plane.as_ref();
    Reading {
        kubernetes_version: kubernetes_version(&spec.kubernetes_version),
        control_plane_mode: control_plane.map(|plane| plane.mode).unwrap_or_default(),
        control_plane_replicas: control_plane.map_or(1, |plane| plane.replicas.max(1)),
        pools: pools(spec),
        machine_health: machine_health(spec.machine_health.as_ref()),
        network: network(spec.networking.as_ref()),
        addons: addons(spec.addons.as_ref()),
    }
}

impl Reading {
    /// Workers of all pools together.
    pub fn worker_replicas(&self) -> i32 {
        let replicas = self.pools.iter().map(|pool| pool.replicas);
        replicas.fold(0, i32::saturating_add)
    }
}

/// When machines are replaced; `None` if never. A time that cannot be read counts as the default, one that is too short as
/// the shortest: admission says so to whoever writes it.
pub fn machine_health(written: Option<&MachineHealth>) -> Option<HealthLimits> {
    let usual = MachineHealth::default();
    let health = written.unwrap_or(&usual);
    let limit = |text: &str, usual: &str| {
        let parsed = duration(text).or_else(|| duration(usual));
        parsed.unwrap_or(SHORTEST_ILLNESS).max(SHORTEST_ILLNESS)
    };
    health.enabled.then(|| HealthLimits {
        node_startup: limit(&health.node_startup_timeout, &usual.node_startup_timeout),
        unhealthy: limit(&health.unhealthy_timeout, &usual.unhealthy_timeout),
    })
}

/// A length of time such as `90s` or `1h30m`, if the text is one.
pub fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let parsed: jiff::SignedDuration = text.parse().ok()?;
    parsed.try_into().ok()
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
