//! The pods of a control plane: images, arguments, resources, placement, extras.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DeploymentStrategy, RollingUpdateDeployment};
use k8s_openapi::api::core::v1::{
    Affinity, Container, Toleration, TopologySpreadConstraint, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::container_resources::ContainerResources;
use super::exposure::AdditionalMetadata;

/// The registry of the Kubernetes project, from which images come unless told otherwise.
pub const DEFAULT_REGISTRY: &str = "registry.k8s.io";

/// Where the pods of a control plane run and how they are replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPlacement {
    /// Labels a node must have to run the control plane.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Runtime class of the pods, for instance a sandboxed runtime; the default one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,
    /// How pods are replaced. By default a full set of new pods is ready before the old ones go. See `kubectl explain
    /// deployment.spec.strategy`.
    #[serde(default = "blue_green")]
    #[schemars(schema_with = "super::embedded::schema_of::<DeploymentStrategy>")]
    pub strategy: DeploymentStrategy,
    /// Taints the pods tolerate. See `kubectl explain pod.spec.tolerations`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::embedded::schema_of::<Vec<Toleration>>")]
    pub tolerations: Vec<Toleration>,
    /// Which nodes and neighbours the pods seek or avoid. If absent, replicas avoid each other's node. See `kubectl
    /// explain pod.spec.affinity`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::embedded::schema_of::<Affinity>")]
    pub affinity: Option<Affinity>,
    /// How the pods spread over zones and nodes. A missing label selector selects the control plane's own pods. See
    /// `kubectl explain pod.spec.topologySpreadConstraints`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::embedded::schema_of::<Vec<TopologySpreadConstraint>>")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Service account of the pods, in the control plane's namespace.
    #[serde(default = "default_service_account")]
    pub service_account_name: String,
    /// Labels and annotations to add to the Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,
    /// Labels and annotations to add to the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_additional_metadata: Option<AdditionalMetadata>,
}

impl Default for DeploymentPlacement {
    fn default() -> Self {
        Self {
            node_selector: BTreeMap::new(),
            runtime_class_name: None,
            strategy: blue_green(),
            tolerations: Vec::new(),
            affinity: None,
            topology_spread_constraints: Vec::new(),
            service_account_name: default_service_account(),
            additional_metadata: None,
            pod_additional_metadata: None,
        }
    }
}

fn blue_green() -> DeploymentStrategy {
    DeploymentStrategy {
        type_: Some("RollingUpdate".to_owned()),
        rolling_update: Some(RollingUpdateDeployment {
            max_surge: Some(IntOrString::String("100%".to_owned())),
            max_unavailable: Some(IntOrString::Int(0)),
        }),
    }
}

fn default_service_account() -> String {
    "default".to_owned()
}

/// The Deployment of a `TenantControlPlane`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneDeployment {
    /// Where the images of the Kubernetes components come from.
    #[serde(default)]
    pub registry_settings: RegistrySettings,
    /// How many copies of the control plane run. Zero puts it to sleep: its data and address stay.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// Placement and replacement of the pods.
    #[serde(flatten)]
    pub placement: DeploymentPlacement,
    /// Requests and limits of the components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ComponentResources>,
    /// Further command line arguments of the components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_args: Option<ComponentArguments>,
    /// Containers to run to completion before the components start. See `kubectl explain pod.spec.initContainers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::embedded::schema_of::<Vec<Container>>")]
    pub additional_init_containers: Vec<Container>,
    /// Containers to run beside the components. See `kubectl explain pod.spec.containers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::embedded::schema_of::<Vec<Container>>")]
    pub additional_containers: Vec<Container>,
    /// Volumes to add to the pods. See `kubectl explain pod.spec.volumes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::embedded::schema_of::<Vec<Volume>>")]
    pub additional_volumes: Vec<Volume>,
    /// Where the components mount those volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_volume_mounts: Option<ComponentVolumeMounts>,
}

impl Default for ControlPlaneDeployment {
    fn default() -> Self {
        Self {
            registry_settings: RegistrySettings::default(),
            replicas: default_replicas(),
            placement: DeploymentPlacement::default(),
            resources: None,
            extra_args: None,
            additional_init_containers: Vec::new(),
            additional_containers: Vec::new(),
            additional_volumes: Vec::new(),
            additional_volume_mounts: None,
        }
    }
}

/// How many copies of a control plane run when a manifest does not say.
pub(crate) fn default_replicas() -> i32 {
    2
}

/// Image names, put together as `<registry>/<image>:<version><tagSuffix>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrySettings {
    /// Registry and path before the image name.
    #[serde(default = "default_registry")]
    pub registry: String,
    /// What follows the Kubernetes version in the image tag, for images built elsewhere; nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag_suffix: Option<String>,
    /// Name of the API server's image.
    #[serde(default = "default_api_server_image")]
    pub api_server_image: String,
    /// Name of the controller manager's image.
    #[serde(default = "default_controller_manager_image")]
    pub controller_manager_image: String,
    /// Name of the scheduler's image.
    #[serde(default = "default_scheduler_image")]
    pub scheduler_image: String,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self {
            registry: default_registry(),
            tag_suffix: None,
            api_server_image: default_api_server_image(),
            controller_manager_image: default_controller_manager_image(),
            scheduler_image: default_scheduler_image(),
        }
    }
}

/// The registry a manifest that names none gets.
pub(crate) fn default_registry() -> String {
    DEFAULT_REGISTRY.to_owned()
}

fn default_api_server_image() -> String {
    "kube-apiserver".to_owned()
}

fn default_controller_manager_image() -> String {
    "kube-controller-manager".to_owned()
}

fn default_scheduler_image() -> String {
    "kube-scheduler".to_owned()
}

/// Requests and limits, component by component. Steward's own modest requests apply where one is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentResources {
    /// Of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server: Option<ContainerResources>,
    /// Of the controller manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_manager: Option<ContainerResources>,
    /// Of the scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<ContainerResources>,
    /// Of kine, which stands between the API server and a database that is not etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kine: Option<ContainerResources>,
}

/// Command line arguments, component by component, each written `--flag=value`. They win over Steward's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentArguments {
    /// For the API server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_server: Vec<String>,
    /// For the controller manager.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controller_manager: Vec<String>,
    /// For the scheduler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scheduler: Vec<String>,
    /// For kine, where the data store is not etcd.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kine: Vec<String>,
}

/// Volume mounts, component by component, as in a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentVolumeMounts {
    /// Of the API server. See `kubectl explain pod.spec.containers.volumeMounts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::embedded::schema_of::<Vec<VolumeMount>>")]
    pub api_server: Vec<VolumeMount>,
    /// Of the controller manager. See `kubectl explain pod.spec.containers.volumeMounts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::embedded::schema_of::<Vec<VolumeMount>>")]
    pub controller_manager: Vec<VolumeMount>,
    /// Of the scheduler. See `kubectl explain pod.spec.containers.volumeMounts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::embedded::schema_of::<Vec<VolumeMount>>")]
    pub scheduler: Vec<VolumeMount>,
}
