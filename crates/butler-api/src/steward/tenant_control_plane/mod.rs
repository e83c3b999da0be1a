//! `TenantControlPlane`: one hosted Kubernetes control plane.
//!
//! Owns the spec's frame and the rules that span its parts; the parts are in [`control_plane`] and [`network`] and in the
//! modules shared with `StewardControlPlane`, the status is in [`status`].

pub mod control_plane;
pub mod network;
pub mod status;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use control_plane::{
    AdditionalPort, ControlPlane, ControlPlaneGateway, ControlPlaneIngress, ControlPlaneService,
    TransportProtocol,
};
pub use network::NetworkProfile;
pub use status::{ControlPlanePhase, TenantControlPlaneStatus};

use super::addons::Addons;
use super::kubernetes::{AdmissionController, KubeletSettings, default_admission_controllers};
use crate::version::VERSION_PATTERN;

const SOURCE_RANGES: &str = "!has(self.networkProfile.loadBalancerSourceRanges) \
    || self.networkProfile.loadBalancerSourceRanges.size() == 0 \
    || self.controlPlane.service.serviceType == 'LoadBalancer'";

const CLASS: &str = "!has(self.networkProfile.loadBalancerClass) \
    || self.controlPlane.service.serviceType == 'LoadBalancer'";

const CLASS_PRESENCE: &str = "self.controlPlane.service.serviceType != 'LoadBalancer' \
    || oldSelf.controlPlane.service.serviceType != 'LoadBalancer' \
    || has(self.networkProfile.loadBalancerClass) == has(oldSelf.networkProfile.loadBalancerClass)";

/// What a hosted control plane should be.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "steward.butlerlabs.dev",
    version = "v1alpha1",
    kind = "TenantControlPlane",
    plural = "tenantcontrolplanes",
    shortname = "tcp",
    category = "steward",
    namespaced,
    status = "TenantControlPlaneStatus",
    derive = "PartialEq",
    doc = "One hosted Kubernetes control plane: API server, controller manager and scheduler as pods, with their certificates, address and data store.",
    scale(
        spec_replicas_path = ".spec.controlPlane.deployment.replicas",
        status_replicas_path = ".status.kubernetesResources.deployment.replicas",
        label_selector_path = ".status.kubernetesResources.deployment.selector"
    ),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".spec.kubernetes.version"
    ),
    printcolumn(
        name = "Installed Version",
        type_ = "string",
        json_path = ".status.kubernetesResources.version.version"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.kubernetesResources.version.status"
    ),
    printcolumn(
        name = "Control-Plane endpoint",
        type_ = "string",
        json_path = ".status.controlPlaneEndpoint"
    ),
    printcolumn(
        name = "Kubeconfig",
        type_ = "string",
        json_path = ".status.kubeconfig.admin.secretName"
    ),
    printcolumn(
        name = "Datastore",
        type_ = "string",
        json_path = ".status.storage.dataStoreName"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(oldSelf.dataStore) || has(self.dataStore)").message("dataStore cannot be removed: name another store to migrate to it"),
    validation = Rule::new("!has(oldSelf.dataStoreSchema) || has(self.dataStoreSchema)").message("dataStoreSchema cannot be removed"),
    validation = Rule::new("!has(oldSelf.dataStoreUsername) || has(self.dataStoreUsername)").message("dataStoreUsername cannot be removed"),
    validation = Rule::new(SOURCE_RANGES).message("networkProfile.loadBalancerSourceRanges needs controlPlane.service.serviceType LoadBalancer"),
    validation = Rule::new(CLASS).message("networkProfile.loadBalancerClass needs controlPlane.service.serviceType LoadBalancer"),
    validation = Rule::new(CLASS_PRESENCE).message("networkProfile.loadBalancerClass cannot be added or removed while the Service is a LoadBalancer: it is fixed when the load balancer is made")
)]
pub struct TenantControlPlaneSpec {
    /// The pods of the control plane and how they are reached.
    pub control_plane: ControlPlane,
    /// Version and settings of Kubernetes.
    pub kubernetes: KubernetesSettings,
    /// Addresses, ports and networks.
    #[serde(default)]
    pub network_profile: NetworkProfile,
    /// What is installed into the tenant cluster beside Kubernetes itself; nothing if absent.
    #[serde(default)]
    pub addons: Addons,
    /// Name of the `DataStore` that keeps the state; Steward's default store if absent. Naming another one migrates
    /// the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_store: Option<String>,
    /// Name of the database, or prefix of the keys, within the store. Derived from the object's UID if absent.
    /// Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("dataStoreSchema cannot be changed: the state is kept under it"))]
    pub data_store_schema: Option<String>,
    /// User of the control plane within the store. Derived from the object's UID if absent. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("dataStoreUsername cannot be changed: the state belongs to it"))]
    pub data_store_username: Option<String>,
    /// Resources that are kept in another store, such as Events; etcd stores only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_store_overrides: Vec<DataStoreOverride>,
    /// Kinds of writes that are refused, while a cluster is frozen for maintenance or over its limits.
    #[serde(default, skip_serializing_if = "WritePermissions::allows_all")]
    pub write_permissions: WritePermissions,
}

/// Version and settings of the hosted Kubernetes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesSettings {
    /// Version of Kubernetes, such as `v1.35.2`. Raise it by at most one minor at a time.
    #[schemars(regex(pattern = VERSION_PATTERN))]
    pub version: String,
    /// What kubelets of the tenant cluster are told; `{}` for the defaults.
    pub kubelet: KubeletSettings,
    /// Admission plugins of the API server. A list replaces the default one.
    #[serde(default = "default_admission_controllers")]
    pub admission_controllers: Vec<AdmissionController>,
}

/// A resource that is kept in a store of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.resource) && has(self.dataStore)").message("an override needs both resource and dataStore"))]
pub struct DataStoreOverride {
    /// The resource, as `<group>/<resource>`; the core group is empty, as in `/events`. Built-in resources only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// Name of the `DataStore` that keeps it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub data_store: String,
}

/// Kinds of writes the API server refuses. Reads, and the control plane's own writes, go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WritePermissions {
    /// Refuse to create objects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub block_creation: bool,
    /// Refuse to change objects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub block_update: bool,
    /// Refuse to delete objects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub block_deletion: bool,
}

impl WritePermissions {
    /// Whether nothing is refused.
    pub fn allows_all(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests;
