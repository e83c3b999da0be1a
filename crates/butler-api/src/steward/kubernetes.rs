//! Settings of the hosted Kubernetes itself: kubelet configuration, admission plugins.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What kubelets of the tenant cluster are told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeletSettings {
    /// JSON patches (RFC 6902) applied, in order, to the `KubeletConfiguration` that joining nodes read.
    #[serde(
        default,
        rename = "configurationJSONPatches",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub configuration_json_patches: Vec<JsonPatch>,
    /// Order in which the API server tries the addresses of a node, for logs, exec and port forwarding.
    #[serde(default = "default_address_types")]
    #[schemars(length(min = 1))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub preferred_address_types: Vec<NodeAddressType>,
    /// Cgroup driver of the kubelets. Kubernetes' own default, `systemd`, if absent. Deprecated: kubelets ask the
    /// container runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroupfs: Option<CgroupDriver>,
}

impl Default for KubeletSettings {
    fn default() -> Self {
        Self {
            configuration_json_patches: Vec::new(),
            preferred_address_types: default_address_types(),
            cgroupfs: None,
        }
    }
}

fn default_address_types() -> Vec<NodeAddressType> {
    vec![
        NodeAddressType::InternalIP,
        NodeAddressType::ExternalIP,
        NodeAddressType::Hostname,
    ]
}

/// Kinds of addresses a node or machine can have.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum NodeAddressType {
    /// The host name the node has given itself.
    Hostname,
    /// An address reachable inside the cluster.
    InternalIP,
    /// An address reachable from outside.
    ExternalIP,
    /// A DNS name that resolves inside the cluster.
    InternalDNS,
    /// A DNS name that resolves outside.
    ExternalDNS,
}

/// Who manages the cgroups of containers.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum CgroupDriver {
    /// systemd.
    Systemd,
    /// The kubelet writes to the cgroup file system itself.
    Cgroupfs,
}

/// One step of a JSON patch (RFC 6902).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.from) || !(self.op in ['move', 'copy'])").message("move and copy need from"))]
pub struct JsonPatch {
    /// What to do.
    pub op: JsonPatchOperation,
    /// JSON pointer to the place that changes, such as `/maxPods`.
    pub path: String,
    /// JSON pointer to the place that `move` and `copy` read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Any JSON value, for `add`, `replace` and `test`; null if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_value")]
    pub value: Option<Value>,
}

/// Operations of a JSON patch.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum JsonPatchOperation {
    /// Put `value` at `path`.
    Add,
    /// Take away what is at `path`.
    Remove,
    /// Put `value` in the place of what is at `path`.
    Replace,
    /// Take what is at `from` away and put it at `path`.
    Move,
    /// Put what is at `from` at `path` as well.
    Copy,
    /// Stop unless `path` holds `value`.
    Test,
}

/// Admission plugins of the API server. Names that Kubernetes has removed are accepted and left out for the versions
/// that no longer know them.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum AdmissionController {
    /// Admits everything; deprecated.
    AlwaysAdmit,
    /// Refuses everything; deprecated.
    AlwaysDeny,
    /// Makes every pod pull its images, so that a cached private image does not leak.
    AlwaysPullImages,
    /// Who may approve certificate signing requests.
    CertificateApproval,
    /// Who may sign certificate signing requests.
    CertificateSigning,
    /// Refuses client certificates for `system:masters`.
    CertificateSubjectRestriction,
    /// Gives Ingresses the default class.
    DefaultIngressClass,
    /// Gives volume claims the default storage class.
    DefaultStorageClass,
    /// Lets pods stay five minutes on a node that is not ready.
    DefaultTolerationSeconds,
    /// Refuses exec into pods with host rights; removed from Kubernetes.
    DenyEscalatingExec,
    /// Refuses exec into privileged pods; removed from Kubernetes.
    DenyExecOnPrivileged,
    /// Refuses external addresses on Services.
    DenyServiceExternalIPs,
    /// Limits the rate of Events.
    EventRateLimit,
    /// Adds tolerations for nodes with special hardware.
    ExtendedResourceToleration,
    /// Asks a webhook about images.
    ImagePolicyWebhook,
    /// Allows required anti-affinity by host name only.
    LimitPodHardAntiAffinityTopology,
    /// Enforces `LimitRange` objects.
    LimitRanger,
    /// Calls mutating webhooks.
    MutatingAdmissionWebhook,
    /// Creates namespaces on first use.
    NamespaceAutoProvision,
    /// Refuses objects in namespaces that do not exist.
    NamespaceExists,
    /// Guards namespaces that are going away and the system's own.
    NamespaceLifecycle,
    /// Limits kubelets to their own node and pods.
    NodeRestriction,
    /// Guards owner references.
    OwnerReferencesPermissionEnforcement,
    /// Lets volume claims grow only where the class allows it.
    PersistentVolumeClaimResize,
    /// Labels volumes with their zone; removed from Kubernetes.
    PersistentVolumeLabel,
    /// Node selectors by namespace.
    PodNodeSelector,
    /// Enforces the Pod Security Standards.
    PodSecurity,
    /// Pod security policies; removed from Kubernetes.
    PodSecurityPolicy,
    /// Tolerations by namespace.
    PodTolerationRestriction,
    /// Resolves priority classes.
    Priority,
    /// Enforces quotas.
    ResourceQuota,
    /// Applies runtime classes.
    RuntimeClass,
    /// Refuses some security contexts; removed from Kubernetes.
    SecurityContextDeny,
    /// Gives pods their service account.
    ServiceAccount,
    /// Keeps volumes and claims that are in use.
    StorageObjectInUseProtection,
    /// Taints new nodes until they are ready.
    TaintNodesByCondition,
    /// Calls validating webhooks.
    ValidatingAdmissionWebhook,
}

/// The plugins that are on when a manifest does not list any.
pub fn default_admission_controllers() -> Vec<AdmissionController> {
    use AdmissionController as Plugin;
    vec![
        Plugin::CertificateApproval,
        Plugin::CertificateSigning,
        Plugin::CertificateSubjectRestriction,
        Plugin::DefaultIngressClass,
        Plugin::DefaultStorageClass,
        Plugin::DefaultTolerationSeconds,
        Plugin::LimitRanger,
        Plugin::MutatingAdmissionWebhook,
        Plugin::NamespaceLifecycle,
        Plugin::PersistentVolumeClaimResize,
        Plugin::Priority,
        Plugin::ResourceQuota,
        Plugin::RuntimeClass,
        Plugin::ServiceAccount,
        Plugin::StorageObjectInUseProtection,
        Plugin::TaintNodesByCondition,
        Plugin::ValidatingAdmissionWebhook,
    ]
}
