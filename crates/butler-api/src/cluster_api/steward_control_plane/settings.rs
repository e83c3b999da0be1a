//! What a `StewardControlPlane` and its template can both say.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Volume, VolumeMount};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::steward::addons::{AddonImage, Konnectivity, KubeProxy, TcpProxy, WorkerBootstrap};
use crate::steward::container_resources::ContainerResources;
use crate::steward::deployment::{DeploymentPlacement, default_registry};
use crate::steward::exposure::{
    ADDRESS_MESSAGE, ADDRESS_RULE, ADDRESSES_MESSAGE, ADDRESSES_RULE, CERTIFICATE_NAMES_MESSAGE,
    CERTIFICATE_NAMES_RULE, HOSTNAME_PATTERN, IngressControllerType, PARENTS_MESSAGE, PARENTS_RULE,
    ParentReference, RANGES_MESSAGE, RANGES_RULE, ServiceType,
};
use crate::steward::kubernetes::{AdmissionController, CgroupDriver, KubeletSettings};

const SOURCE_RANGES: &str = "!has(self.loadBalancerConfig) \
    || !has(self.loadBalancerConfig.loadBalancerSourceRanges) \
    || self.loadBalancerConfig.loadBalancerSourceRanges.size() == 0 \
    || self.serviceType == 'LoadBalancer'";

const CLASS: &str = "!has(self.loadBalancerConfig) \
    || !has(self.loadBalancerConfig.loadBalancerClass) || self.serviceType == 'LoadBalancer'";

/// Everything about a control plane but its version, its replicas and its address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneSettings {
    /// Name of the `DataStore` that keeps the state; Steward's default store if absent. Naming another one migrates
    /// the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_store_name: Option<String>,
    /// Name of the database, or prefix of the keys, within the store. Derived from the control plane's UID if absent.
    /// Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_store_schema: Option<String>,
    /// User of the control plane within the store. Derived from the control plane's UID if absent. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_store_username: Option<String>,
    /// What is installed into the tenant cluster beside Kubernetes itself; nothing if absent.
    #[serde(default)]
    pub addons: ControlPlaneAddons,
    /// Admission plugins of the API server; Steward's default list if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admission_controllers: Vec<AdmissionController>,
    /// Registry, and path before the image names, of the Kubernetes components.
    #[serde(default = "default_registry")]
    pub registry: String,
    /// The API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server: Option<ComponentSettings>,
    /// The controller manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_manager: Option<ComponentSettings>,
    /// The scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<ComponentSettings>,
    /// kine, which stands between the API server and a database that is not etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kine: Option<KineSettings>,
    /// What kubelets of the tenant cluster are told.
    #[serde(default = "systemd_kubelet")]
    pub kubelet: KubeletSettings,
    /// How the API server is reached.
    #[serde(default)]
    pub network: ControlPlaneNetwork,
    /// The pods of the control plane.
    #[serde(default)]
    pub deployment: DeploymentSettings,
}

impl Default for ControlPlaneSettings {
    fn default() -> Self {
        Self {
            data_store_name: None,
            data_store_schema: None,
            data_store_username: None,
            addons: ControlPlaneAddons::default(),
            admission_controllers: Vec::new(),
            registry: default_registry(),
            api_server: None,
            controller_manager: None,
            scheduler: None,
            kine: None,
            kubelet: systemd_kubelet(),
            network: ControlPlaneNetwork::default(),
            deployment: DeploymentSettings::default(),
        }
    }
}

fn systemd_kubelet() -> KubeletSettings {
    KubeletSettings {
        cgroupfs: Some(CgroupDriver::Systemd),
        ..KubeletSettings::default()
    }
}

/// Addons of a control plane. One that is absent is not installed; an empty object installs it with defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneAddons {
    /// `CoreDNS`: names of Services and pods.
    #[serde(default, rename = "coreDNS", skip_serializing_if = "Option::is_none")]
    pub core_dns: Option<CoreDnsSettings>,
    /// kube-proxy: Services on every node. Leave it out where the network plugin does this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_proxy: Option<KubeProxy>,
    /// Konnectivity: the way of the API server to nodes and pods it cannot dial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub konnectivity: Option<Konnectivity>,
    /// A proxy in the tenant cluster through which pods reach an API server that stands behind an Ingress or Gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_proxy: Option<TcpProxy>,
    /// What nodes need beside the Kubernetes API in order to join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_bootstrap: Option<WorkerBootstrap>,
}

/// `CoreDNS` and the addresses of its Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoreDnsSettings {
    /// Image of `CoreDNS`.
    #[serde(flatten)]
    pub image: AddonImage,
    /// Addresses of the DNS Service, within the cluster's Service network; `network.dnsServiceIPs` if absent.
    #[serde(
        default,
        rename = "dnsServiceIPs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 16), inner(length(max = 64)))]
    #[x_kube(validation = Rule::new(ADDRESSES_RULE).message(ADDRESSES_MESSAGE))]
    pub dns_service_ips: Vec<String>,
}

/// A component of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentSettings {
    /// Name of the component's image; the official one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub container_image_name: Option<String>,
    /// Further arguments, each written `--flag=value`. They win over Steward's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_args: Vec<String>,
    /// Where the component mounts volumes of `deployment.extraVolumes`. See `kubectl explain
    /// pod.spec.containers.volumeMounts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::embedded::schema_of::<Vec<VolumeMount>>")]
    pub extra_volume_mounts: Vec<VolumeMount>,
    /// Requests and limits of the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ContainerResources>,
}

/// kine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KineSettings {
    /// Further arguments, each written `--flag=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_args: Vec<String>,
    /// Requests and limits of kine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ContainerResources>,
}

/// How the API server is reached. Port, Service and pod networks and the domain come from the Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(has(self.ingress) && has(self.gateway))").message("ingress and gateway exclude each other: the API server has one public host name"),
    validation = Rule::new(SOURCE_RANGES).message("loadBalancerConfig.loadBalancerSourceRanges needs serviceType LoadBalancer"),
    validation = Rule::new(CLASS).message("loadBalancerConfig.loadBalancerClass needs serviceType LoadBalancer")
)]
pub struct ControlPlaneNetwork {
    /// Kind of Service in front of the control plane.
    #[serde(default)]
    pub service_type: ServiceType,
    /// Address of the API server, if it is known beforehand. Otherwise the address of the Service is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new(ADDRESS_RULE).message(ADDRESS_MESSAGE))]
    pub service_address: Option<String>,
    /// Labels to add to the Service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub service_labels: BTreeMap<String, String>,
    /// Annotations to add to the Service, for instance for a cloud's load balancer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub service_annotations: BTreeMap<String, String>,
    /// Names and addresses to add to the API server's certificate. The host of `ingress` or `gateway` is added anyway.
    #[serde(default, rename = "certSANs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 253)))]
    #[x_kube(validation = Rule::new(CERTIFICATE_NAMES_RULE).message(CERTIFICATE_NAMES_MESSAGE))]
    pub cert_sans: Vec<String>,
    /// Addresses of the DNS Service, within the cluster's Service network; its tenth address (IPv4) or sixteenth
    /// (IPv6) if absent.
    #[serde(
        default,
        rename = "dnsServiceIPs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 16), inner(length(max = 64)))]
    #[x_kube(validation = Rule::new(ADDRESSES_RULE).message(ADDRESSES_MESSAGE))]
    pub dns_service_ips: Vec<String>,
    /// Settings of the load balancer; only with `serviceType` `LoadBalancer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_config: Option<LoadBalancerSettings>,
    /// Reach the API server by an Ingress that passes TLS through. Not together with `gateway`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<IngressSettings>,
    /// Reach the API server by a `TLSRoute` of the Gateway API. Not together with `ingress`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewaySettings>,
}

/// Settings of the load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerSettings {
    /// Networks that may connect to the load balancer, where it can tell; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 64)))]
    #[x_kube(validation = Rule::new(RANGES_RULE).message(RANGES_MESSAGE))]
    pub load_balancer_source_ranges: Vec<String>,
    /// Which load balancer implementation serves the Service; the default one if absent. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub load_balancer_class: Option<String>,
}

/// An Ingress in front of the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngressSettings {
    /// Class of the Ingress; the management cluster's default class if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_name: Option<String>,
    /// Public host name of the API server, with a port if it is not 443.
    pub hostname: String,
    /// Which controller serves the Ingress; `generic` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_type: Option<IngressControllerType>,
    /// Labels to add to the Ingress.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_labels: BTreeMap<String, String>,
    /// Annotations to add to the Ingress.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_annotations: BTreeMap<String, String>,
}

/// Gateways in front of the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySettings {
    /// Gateways whose listeners pass TLS through to the control plane.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(validation = Rule::new(PARENTS_RULE).message(PARENTS_MESSAGE))]
    pub parent_refs: Vec<ParentReference>,
    /// Public host name of the API server.
    #[schemars(length(min = 1, max = 253), regex(pattern = HOSTNAME_PATTERN))]
    pub hostname: String,
    /// Labels to add to the routes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_labels: BTreeMap<String, String>,
    /// Annotations to add to the routes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_annotations: BTreeMap<String, String>,
}

/// The pods of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentSettings {
    /// Placement and replacement of the pods.
    #[serde(flatten)]
    pub placement: DeploymentPlacement,
    /// Containers to run to completion before the components start. See `kubectl explain pod.spec.initContainers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::embedded::schema_of::<Vec<Container>>")]
    pub extra_init_containers: Vec<Container>,
    /// Containers to run beside the components. See `kubectl explain pod.spec.containers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::embedded::schema_of::<Vec<Container>>")]
    pub extra_containers: Vec<Container>,
    /// Volumes to add to the pods. See `kubectl explain pod.spec.volumes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::embedded::schema_of::<Vec<Volume>>")]
    pub extra_volumes: Vec<Volume>,
    /// Another cluster to run the control plane in; the management cluster if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_cluster_reference: Option<ExternalClusterReference>,
}

/// A cluster, other than the management cluster, that runs control planes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalClusterReference {
    /// Name of the Secret with that cluster's kubeconfig.
    pub kubeconfig_secret_name: String,
    /// Key in the Secret that holds the kubeconfig.
    pub kubeconfig_secret_key: String,
    /// Namespace of the Secret; the namespace of the control plane if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret_namespace: Option<String>,
    /// Namespace in that cluster for the `TenantControlPlane`.
    pub deployment_namespace: String,
}
