//! The effective wish: what a tenant cluster shall be, when everybody who has a say has been asked.
//!
//! Owns the order in which the cluster, its team's environment, its team, its provider and the platform are asked, and the
//! words for what cannot be. [`super::build`] turns a [`Blueprint`] into objects, field by field.
//!
//! Must not: read anything but its arguments, nor decide when something happens. Whoever rolls out an upgrade gives pools
//! the version that is their turn ([`Pool::version`]).

mod control_plane;
mod infrastructure;
mod machines;
mod resolve;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub(crate) use machines::{deployment_name, template_word};

use std::collections::BTreeMap;

use butler_api::{
    Quantity,
    butler::{
        butler_config::{ButlerConfig, ControlPlaneExposure, ControlPlaneProvider},
        control_plane_resources::ControlPlaneResources,
        provider_config::{Provider, ProviderConfig},
        team::{Team, TeamAccess},
        tenant_cluster::{CniProvider, NodeTaint, TenantCluster},
    },
    cluster_api::contract::ControlPlaneEndpoint,
    normalize::tenant_cluster::HealthLimits,
    reference::{NamespacedReference, SecretReference},
    steward::exposure::{IngressControllerType, ServiceType},
    version::KubernetesVersion,
};
use butler_runtime::{conditions::Finding, object::ObjectKey};
use kube::ResourceExt;

/// What a blueprint is resolved from, beside the cluster itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Surroundings {
    /// Settings of the platform; those of an empty `ButlerConfig` if there is none.
    pub(crate) config: Option<ButlerConfig>,
    /// The team the cluster belongs to, if it names one and there is one.
    pub(crate) team: Option<Team>,
    /// Where machines come from, already chosen.
    pub(crate) provider: ProviderConfig,
    /// Images that an `ImageSync` brings, as the provider names them, by the field with the template of the machines that boot from
    /// them; `None` where one is on its way. Until it is there, nobody makes these machines.
    pub(crate) images: BTreeMap<String, Option<String>>,
    /// What was settled about the hosted control plane when it was made.
    pub(crate) settled: Settled,
    /// Address of the Ingress controller or Gateway before the hosted control plane, where it is reached through one.
    pub(crate) exposure_address: Option<String>,
    /// Where the load balancer before a standalone control plane is, once it is made.
    pub(crate) endpoint: Option<ControlPlaneEndpoint>,
    /// Certificate authorities of the provider's own API, in PEM, where its credentials name some.
    pub(crate) trust_bundle: Option<String>,
}

/// What was settled about a hosted control plane when it was made. Only where nothing was, the settings of the platform count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Who runs it: another one would begin with an empty cluster.
    pub(crate) host: Option<ControlPlaneProvider>,
    /// How it is reached: nodes that joined know no other way.
    pub(crate) exposure: Option<ControlPlaneExposure>,
}

/// What a tenant cluster shall be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Blueprint {
    /// Name of the cluster, and of the objects that are there once.
    pub(crate) name: String,
    /// Namespace of all its objects.
    pub(crate) namespace: String,
    /// The `TenantCluster` it was resolved from.
    pub(crate) source: ObjectKey,
    /// Who may do what in its namespace, if it belongs to a team.
    pub(crate) team: Option<TeamWish>,
    /// Labels of all its objects.
    pub(crate) labels: BTreeMap<String, String>,
    /// Annotations of all its objects.
    pub(crate) annotations: BTreeMap<String, String>,
    /// Version of the control plane.
    pub(crate) version: KubernetesVersion,
    /// Who runs the control plane, and how.
    pub(crate) control_plane: ControlPlane,
    /// Addresses inside the cluster.
    pub(crate) network: Network,
    /// Network plugin; `None` if the tenant brings one.
    pub(crate) cni: Option<CniProvider>,
    /// Whether nodes run kube-proxy: not where the network plugin does its work.
    pub(crate) kube_proxy: bool,
    /// Where machines come from.
    pub(crate) infrastructure: Infrastructure,
    /// Worker machines; the first pool is the plain `workers`.
    pub(crate) pools: Vec<Pool>,
    /// Where machines get the time from.
    pub(crate) time_servers: Vec<String>,
    /// Whether nodes wait for a cloud controller manager.
    pub(crate) external_cloud_provider: bool,
    /// When a machine that no longer works is replaced; `None` if never.
    pub(crate) machine_health: Option<HealthLimits>,
    /// Whether a machine is ill whose node is not ready. Not before there is a network for pods: until then no node is ready, and
    /// another machine would not be either.
    pub(crate) nodes_are_judged: bool,
}

impl Blueprint {
    /// Whether nodes are machines of the management cluster's own host.
    pub(crate) fn is_local(&self) -> bool {
        self.provider() == Provider::Local
    }

    /// The infrastructure that machines come from, whoever makes them there.
    pub(crate) const fn provider(&self) -> Provider {
        match &self.infrastructure {
            Infrastructure::Butler { provider, .. } => *provider,
            Infrastructure::Nutanix(_) => Provider::Nutanix,
            Infrastructure::Kubevirt(_) => Provider::Harvester,
        }
    }
}

/// The team of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TeamWish {
    /// Its name.
    pub(crate) name: String,
    /// Its members and their roles.
    pub(crate) access: TeamAccess,
}

/// Addresses inside a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    /// Range of the pods.
    pub(crate) pods: String,
    /// Range of the Services.
    pub(crate) services: String,
}

/// A control plane.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ControlPlane {
    /// Pods in the management cluster.
    Hosted(Box<Hosted>),
    /// Machines of its own.
    Standalone(Standalone),
}

/// A control plane that runs as pods in the management cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hosted {
    /// Who runs it.
    pub(crate) provider: ControlPlaneProvider,
    /// How many copies.
    pub(crate) replicas: i32,
    /// Name of the data store.
    pub(crate) data_store: String,
    /// Type of the Service before it.
    pub(crate) service_type: ServiceType,
    /// How it is reached from outside of the management cluster.
    pub(crate) exposure: Exposure,
    /// The setting that says so. It is this cluster's from now on, whatever becomes of the platform's.
    pub(crate) exposed: ControlPlaneExposure,
    /// Further names in its certificate.
    pub(crate) certificate_names: Vec<String>,
    /// CPU and memory of its components, the platform's defaults included.
    pub(crate) resources: ControlPlaneResources,
}

/// How a hosted API server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exposure {
    /// By its Service alone.
    Service,
    /// By a host name that an Ingress controller knows.
    Ingress {
        /// The names.
        hosts: Hosts,
        /// Class of the Ingress.
        class: Option<String>,
        /// Which controller it is, since each spells passing TLS through in its own way.
        controller: Option<IngressControllerType>,
    },
    /// By a host name that a Gateway knows.
    Gateway {
        /// The names.
        hosts: Hosts,
        /// The Gateway.
        gateway: ObjectKey,
    },
}

/// Host names of a hosted API server that is not reached by an address of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hosts {
    /// Of the API server.
    pub(crate) api: String,
    /// Of the reverse tunnel's server.
    pub(crate) tunnel: String,
    /// Where both lead. Nodes need it, because no DNS has to know the names.
    pub(crate) address: String,
}

impl Exposure {
    /// The host names, if there are any.
    pub(crate) fn hosts(&self) -> Option<&Hosts> {
        match self {
            Self::Service => None,
            Self::Ingress { hosts, .. } | Self::Gateway { hosts, .. } => Some(hosts),
        }
    }
}

/// A control plane on machines of its own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Standalone {
    /// How many machines: an odd number.
    pub(crate) replicas: i32,
    /// Where the API server is reached; `None` until the load balancer is made. Machines wait for it.
    pub(crate) endpoint: Option<ControlPlaneEndpoint>,
    /// What a machine is like.
    pub(crate) machine: Machine,
    /// Its operating system.
    pub(crate) system: System,
    /// Key of who may log in.
    pub(crate) ssh_authorized_key: Option<String>,
    /// Further names in the certificate.
    pub(crate) certificate_names: Vec<String>,
}

/// Machines that are alike.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pool {
    /// Its name within the cluster.
    pub(crate) name: String,
    /// How many machines.
    pub(crate) replicas: i32,
    /// Version of their kubelets: that of the control plane, unless somebody holds the pool back.
    pub(crate) version: KubernetesVersion,
    /// What a machine is like.
    pub(crate) machine: Machine,
    /// Operating system.
    pub(crate) system: System,
    /// Key of who may log in.
    pub(crate) ssh_authorized_key: Option<String>,
    /// Labels of the nodes.
    pub(crate) labels: BTreeMap<String, String>,
    /// Taints of the nodes.
    pub(crate) taints: Vec<NodeTaint>,
}

/// What a machine is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// Virtual CPUs.
    pub(crate) cpu: i32,
    /// Memory.
    pub(crate) memory: Quantity,
    /// First disk.
    pub(crate) disk: Quantity,
    /// Image, as the provider names it; the provider's own default if absent.
    pub(crate) image: Option<String>,
}

/// An operating system that we can make a node of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum System {
    /// A machine of the local provider, which has all that a node needs.
    Local,
    /// Rocky Linux 9 and its relatives: packages are installed at the first boot.
    Rocky,
    /// Flatcar Container Linux: programs are put beside the read-only system.
    Flatcar,
    /// Kairos: programs are part of the image.
    Kairos,
    /// Bottlerocket: all of it is part of the image, and it is told by settings alone.
    Bottlerocket,
}

/// Where machines come from, and through which kinds of Cluster API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Infrastructure {
    /// A provider of Butler: `ButlerCluster`, `ButlerMachineTemplate`.
    Butler {
        /// Which kind of provider it is. Machines and nodes recognise each other by it.
        provider: Provider,
        /// Its configuration.
        config: NamespacedReference,
    },
    /// Cluster API's provider for Nutanix (CAPX).
    Nutanix(NutanixPlace),
    /// Cluster API's provider for `KubeVirt` (CAPK), on Harvester.
    Kubevirt(KubevirtPlace),
}

/// A place in Nutanix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NutanixPlace {
    /// Host of Prism Central.
    pub(crate) address: String,
    /// Port of Prism Central.
    pub(crate) port: i32,
    /// Whether its certificate goes unchecked.
    pub(crate) insecure: bool,
    /// Authorities that its certificate is checked by, in PEM.
    pub(crate) trust_bundle: Option<String>,
    /// The cluster (Prism Element) that machines run in.
    pub(crate) cluster: String,
    /// The subnet they are connected to.
    pub(crate) subnet: String,
    /// Where the credentials come from.
    pub(crate) credentials: SecretReference,
}

/// A place in Harvester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KubevirtPlace {
    /// Namespace of the machines, there.
    pub(crate) namespace: String,
    /// The network they are connected to, as `namespace/name`.
    pub(crate) network: String,
    /// Storage class of disks; that of the image if absent.
    pub(crate) storage_class: Option<String>,
    /// Secret with the kubeconfig.
    pub(crate) credentials: SecretReference,
}

/// How many characters of the UID tell the namespaces of clusters of one name apart.
const UID_LENGTH: usize = 8;

/// The namespace of all objects of a cluster. It is known before anything else about the cluster is.
pub(crate) fn tenant_namespace(cluster: &TenantCluster) -> String {
    let uid = cluster.uid().unwrap_or_default();
    let distinction: String = uid.chars().take(UID_LENGTH).collect();
    format!("{}-{distinction}", cluster.name_any())
}

/// Resolves what a cluster shall be, or says in words why it cannot be.
pub(crate) fn blueprint(
    cluster: &TenantCluster,
    surroundings: &Surroundings,
) -> Result<Blueprint, Vec<Finding>> {
    resolve::resolve(cluster, surroundings)
}
