//! What is known about a hosted control plane.

pub mod addons;
pub mod resources;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DataStoreOverride;
pub use addons::AddonsStatus;
pub use resources::{ControlPlanePhase, KubernetesResources};

/// What is known about a hosted control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantControlPlaneStatus {
    /// `host:port` under which the API server is reached; absent until its address is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<String>,
    /// Objects in the management cluster that make up the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_resources: Option<KubernetesResources>,
    /// Where the state is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageState>,
    /// Certificates and the Secrets that hold them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificates: Option<CertificateStates>,
    /// Kubeconfigs and the Secrets that hold them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<KubeconfigStates>,
    /// The kubeadm configuration that joining nodes read.
    #[serde(
        default,
        rename = "kubeadmconfig",
        skip_serializing_if = "Option::is_none"
    )]
    pub kubeadm_config: Option<KubeadmConfigState>,
    /// What kubeadm would have set up in the tenant cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeadm_phase: Option<KubeadmPhaseState>,
    /// The addons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addons: Option<AddonsStatus>,
    /// How long it took to each stage on the way to the first `Ready`. Stages overlap, so each counts from the creation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub stages: Vec<PassedStage>,
    /// Generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How the control plane is doing, in standard conditions; `Ready` sums them up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// A stage that a control plane passed for the first time. It stays as it is, whatever happens to the control plane later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PassedStage {
    /// The condition that became true.
    pub name: String,
    /// When it did.
    pub passed_at: Time,
    /// How many seconds after the control plane was created.
    pub seconds: i64,
}

/// A Secret that Steward keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretState {
    /// Name of the Secret, in the control plane's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// Fingerprint of its contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// When its contents last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update: Option<Time>,
}

/// Something that Steward keeps up to date without an object to name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChecksumState {
    /// Fingerprint of what was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// When it was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update: Option<Time>,
}

/// An object that Steward keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectState {
    /// Name of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the object; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update: Option<Time>,
}

/// Where the state of a control plane is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageState {
    /// Driver of the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Name of the `DataStore`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_store_name: Option<String>,
    /// The Secret with the connection's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<StorageConfigState>,
    /// What was set up within the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<StorageSetupState>,
    /// The resources that are kept in other stores, since it was set up. They stay there, whatever the spec says later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrides: Option<Vec<DataStoreOverride>>,
    /// The Secret with the control plane's client certificate for the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<SecretState>,
    /// A move to another store that is under way, or that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<MigrationState>,
}

/// A move of the state from one store to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationState {
    /// Name of the `DataStore` it leaves.
    pub from: String,
    /// Name of the `DataStore` it goes to.
    pub to: String,
    /// How far it has come.
    pub stage: MigrationStage,
    /// When it began.
    pub started: Time,
    /// When it reached this stage.
    pub since: Time,
    /// How many entries were copied and found again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<i64>,
    /// Why it goes back, or went back, to the store it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How far a move of the state to another store has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "")]
pub enum MigrationStage {
    /// Writes are refused, and the state is copied.
    Copying,
    /// The new store has all of the state, and pods that use it take the place of the others. Writes are refused.
    Switching,
    /// All pods use the new store; the old one is closed to them. Writes are refused.
    Sealing,
    /// Writes are accepted again, and what is left in the old store is removed.
    Finishing,
    /// Something went wrong after the copy: pods that use the old store come back. Writes are refused.
    RollingBack,
    /// Something went wrong: writes are accepted again, and what is left in the new store is removed.
    Returning,
    /// The state stayed where it was. Nothing more is done before somebody changes `spec.dataStore`.
    Failed,
}

/// The Secret with the settings of the connection to the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageConfigState {
    /// Name of the Secret, in the control plane's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// Fingerprint of its contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

/// What was set up for a control plane within its store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageSetupState {
    /// Database or key prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// User that may read and write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Fingerprint of the set-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update: Option<Time>,
}

/// Certificates of a control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStates {
    /// Authority of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<SecretState>,
    /// Serving certificate of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server: Option<SecretState>,
    /// Certificate the API server shows to kubelets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server_kubelet_client: Option<SecretState>,
    /// Authority of the aggregation layer.
    #[serde(
        default,
        rename = "frontProxyCA",
        skip_serializing_if = "Option::is_none"
    )]
    pub front_proxy_ca: Option<SecretState>,
    /// Certificate the API server shows to aggregated APIs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front_proxy_client: Option<SecretState>,
    /// Key pair that signs service account tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sa: Option<SecretState>,
    /// Certificates of an etcd of the control plane's own. Kept for objects of older releases, never written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<EtcdCertificateStates>,
}

/// Certificates of an etcd of the control plane's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdCertificateStates {
    /// Authority of that etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<SecretState>,
    /// Certificate the API server shows to that etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server: Option<SecretState>,
}

/// Kubeconfigs of a control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeconfigStates {
    /// For people: cluster administrator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin: Option<SecretState>,
    /// For the controller manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_manager: Option<SecretState>,
    /// For the scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<SecretState>,
}

/// The kubeadm configuration that joining nodes read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeadmConfigState {
    /// Name of the `ConfigMap`, in `kube-system` of the tenant cluster.
    #[serde(
        default,
        rename = "configmapName",
        skip_serializing_if = "Option::is_none"
    )]
    pub config_map_name: Option<String>,
    /// Fingerprint of its contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// When its contents last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update: Option<Time>,
}

/// What kubeadm would have set up in the tenant cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeadmPhaseState {
    /// Bootstrap tokens and the roles that go with them.
    pub bootstrap_token: ChecksumState,
}
