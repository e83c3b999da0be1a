//! `MachineRequest`: the contract by which a machine comes to be.
//!
//! Owns the wire form of a request, in both of its accepted spellings, and of a provider's answer. What the two
//! spellings mean is decided by [`crate::normalize::machine_request`]; no reader should look at the spellings itself.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;
use crate::name::LABEL_PATTERN;
use crate::reference::{NamespacedReference, SecretReference};
use crate::schema::{at_least_rule, processors_rule};

/// Asks a provider for one machine.
///
/// A provider watches the requests whose provider configuration is its own, makes the machine, and answers in the
/// status. The sizes may be given as whole numbers (`cpu`, `memoryMB`, `diskGB`) or as quantities (`resources`), the
/// provider as `providerRef` or `providerConfigRef`; both spellings mean the same.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "MachineRequest",
    plural = "machinerequests",
    shortname = "mr",
    namespaced,
    status = "MachineRequestStatus",
    derive = "PartialEq",
    doc = "Asks a provider for one machine and holds the provider's answer.",
    validation = Rule::new("has(self.spec.machineName) || (size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))")
        .message("metadata.name must be a DNS label of at most 63 characters, because it names the machine when spec.machineName is absent"),
    printcolumn(name = "Machine", type_ = "string", json_path = ".spec.machineName"),
    printcolumn(name = "Role", type_ = "string", json_path = ".spec.role"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "IP", type_ = "string", json_path = ".status.ipAddress"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.resources) != (has(self.cpu) || has(self.memoryMB) || has(self.diskGB))")
        .message("give the machine's size either as resources or as cpu, memoryMB and diskGB, not both and not neither"),
    validation = Rule::new("has(self.resources) || (has(self.cpu) && has(self.memoryMB) && has(self.diskGB))")
        .message("cpu, memoryMB and diskGB are all required when resources is absent"),
    validation = Rule::new("has(self.providerRef) != has(self.providerConfigRef)")
        .message("give the provider either as providerRef or as providerConfigRef, not both and not neither"),
    validation = Rule::new("!has(self.userData) || !has(self.userDataSecretRef)")
        .message("give the user data either as userData or as userDataSecretRef, not both"),
    validation = Rule::new("has(self.machineName) == has(oldSelf.machineName) && (!has(self.machineName) || self.machineName == oldSelf.machineName)")
        .message("machineName is immutable: delete this request and make a new one"),
    validation = Rule::new("has(self.providerRef) == has(oldSelf.providerRef) && (!has(self.providerRef) || self.providerRef == oldSelf.providerRef)")
        .message("providerRef is immutable: a machine cannot move to another provider"),
    validation = Rule::new("has(self.providerConfigRef) == has(oldSelf.providerConfigRef) && (!has(self.providerConfigRef) || self.providerConfigRef == oldSelf.providerConfigRef)")
        .message("providerConfigRef is immutable: a machine cannot move to another provider"),
    validation = Rule::new("self.role.replace('-', '') == oldSelf.role.replace('-', '')")
        .message("role is immutable: a machine cannot change from control plane to worker or back")
)]
pub struct MachineRequestSpec {
    /// The `ProviderConfig` that says where and with which credentials the machine is made; in this object's
    /// namespace if none is given. Exactly one of `providerRef` and `providerConfigRef` is required. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<NamespacedReference>,
    /// Another spelling of `providerRef`, with the same meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_config_ref: Option<NamespacedReference>,
    /// Name of the machine at the provider, and its host name: a DNS label of at most 63 characters. The name of this
    /// object if absent. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_PATTERN))]
    pub machine_name: Option<String>,
    /// What the machine is for in its cluster: `control-plane` (also written `controlplane`) or `worker`. Immutable,
    /// but for the spelling.
    pub role: MachineRoleSpelling,
    /// Number of virtual processors, 1 to 128. Required unless `resources` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 128))]
    pub cpu: Option<i32>,
    /// Memory in MiB, at least 1024. Required unless `resources` is given.
    #[serde(default, rename = "memoryMB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1024))]
    pub memory_mb: Option<i32>,
    /// Size of the root disk in GiB, at least 10. Required unless `resources` is given.
    #[serde(default, rename = "diskGB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10))]
    pub disk_gb: Option<i32>,
    /// The machine's size as Kubernetes quantities, instead of `cpu`, `memoryMB` and `diskGB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<MachineResources>,
    /// Disks beside the root disk, in the order in which the machine sees them. None if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_disks: Vec<ExtraDisk>,
    /// The image the machine boots, as the provider names it: `namespace/name` on Harvester, a UUID on Nutanix, an AMI
    /// on AWS, a template on Proxmox. The image of the provider configuration if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Cloud-config or other user data handed to the machine at its first boot. User data that carries a token or a key
    /// belongs in a Secret named by `userDataSecretRef` instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<SensitiveText>,
    /// Secret that holds the user data; the key is `value` if none is given. Excludes `userData`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data_secret_ref: Option<SecretReference>,
    /// Cloud-init network configuration for the first boot. The machine asks DHCP if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_data: Option<String>,
    /// Labels or tags to put on the machine at the provider, beside those the provider sets to find its own machines.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A machine's size as Kubernetes quantities.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineResources {
    /// Number of virtual processors, a whole number from 1 to 128.
    #[x_kube(validation = processors_rule())]
    pub cpu: Quantity,
    /// Memory, such as `16Gi`; at least `1Gi`. Rounded up to whole MiB.
    #[x_kube(validation = at_least_rule("memory", "1Gi", "16Gi"))]
    pub memory: Quantity,
    /// Size of the root disk, such as `100Gi`; at least `10Gi`. Rounded up to whole GiB.
    #[x_kube(validation = at_least_rule("disk", "10Gi", "100Gi"))]
    pub disk: Quantity,
}

/// A disk beside the root disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtraDisk {
    /// Size in GiB, at least 1.
    #[serde(rename = "sizeGB")]
    #[schemars(range(min = 1))]
    pub size_gb: i32,
    /// Storage class or storage pool of the provider that holds the disk. The provider's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
}

/// What a machine is for in its cluster, in one spelling.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[schemars(description = "")]
pub enum MachineRole {
    /// Runs the API server and etcd of its cluster.
    ControlPlane,
    /// Runs workloads only.
    Worker,
}

impl MachineRole {
    /// The spelling used in labels and in every object Butler writes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ControlPlane => "control-plane",
            Self::Worker => "worker",
        }
    }
}

impl fmt::Display for MachineRole {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The spellings of a role that a manifest may use; [`MachineRole`] is what they mean.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum MachineRoleSpelling {
    /// A control plane machine.
    #[serde(rename = "control-plane")]
    ControlPlane,
    /// A control plane machine, in Talos' spelling.
    #[serde(rename = "controlplane")]
    Controlplane,
    /// A worker machine.
    #[serde(rename = "worker")]
    Worker,
}

impl From<MachineRoleSpelling> for MachineRole {
    fn from(spelling: MachineRoleSpelling) -> Self {
        match spelling {
            MachineRoleSpelling::ControlPlane | MachineRoleSpelling::Controlplane => {
                Self::ControlPlane
            }
            MachineRoleSpelling::Worker => Self::Worker,
        }
    }
}

impl From<MachineRole> for MachineRoleSpelling {
    fn from(role: MachineRole) -> Self {
        match role {
            MachineRole::ControlPlane => Self::ControlPlane,
            MachineRole::Worker => Self::Worker,
        }
    }
}

/// Text that may hold keys or tokens: it serialises as it is, but debug output shows only its length.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SensitiveText(pub String);

impl fmt::Debug for SensitiveText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "[{} bytes withheld]", self.0.len())
    }
}

/// What the provider reports about the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineRequestStatus {
    /// Where the machine is in its life, for people. Programs read the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<MachinePhase>,
    /// The machine's identity at the provider: the UID of the virtual machine, a UUID, an instance ID.
    #[serde(
        default,
        rename = "providerID",
        skip_serializing_if = "Option::is_none"
    )]
    pub provider_id: Option<String>,
    /// The address at which the machine is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
    /// Every address of the machine, the private one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<String>,
    /// Hardware address of the interface that carries `ipAddress`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// Why the machine failed, as one word for programs. Empty while nothing failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Why the machine failed and what to do about it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// What is known about the machine, one entry for each aspect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// When this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// The `metadata.generation` of the request that this status answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Where a machine is in its life.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum MachinePhase {
    /// Asked for; the provider has not begun.
    Pending,
    /// The provider is making it, or it has no address yet.
    Creating,
    /// It runs and has an address.
    Running,
    /// It could not be made, or it was lost.
    Failed,
    /// It is being removed.
    Deleting,
    /// It is gone.
    Deleted,
    /// The provider cannot be asked.
    Unknown,
}

#[cfg(test)]
mod tests {
    use kube::core::cel::{validate_cel, validate_cel_update};
    use kube::{CustomResourceExt, Resource};
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn request(spec: &Value) -> MachineRequest {
        serde_json::from_value(json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1",
            "kind": "MachineRequest",
            "metadata": { "name": "mgmt1-cp-0", "namespace": "butler-system" },
            "spec": spec,
        }))
        .expect("the request parses")
    }

    fn refusal(spec: &Value) -> String {
        validate_cel(&request(spec))
            .expect_err("the request is refused")
            .to_string()
    }

    fn plain() -> Value {
        json!({
            "providerRef": { "name": "mgmt1-provider" },
            "machineName": "mgmt1-cp-0",
            "role": "control-plane",
            "cpu": 4, "memoryMB": 8192, "diskGB": 50,
        })
    }

    #[test]
    fn request_reads_back_as_written() {
        let mut spec = plain();
        spec["extraDisks"] = json!([{ "sizeGB": 100, "storageClass": "fast" }]);
        spec["labels"] = json!({ "rack": "a" });
        spec["userDataSecretRef"] = json!({ "name": "mgmt1-cp-0-bootstrap", "key": "value" });
        let request = request(&spec);
        assert_eq!(serde_json::to_value(&request.spec).unwrap(), spec);
        assert_eq!(
            validate_cel(&request).map_err(|errors| errors.to_string()),
            Ok(())
        );
    }

    #[test]
    fn definition_has_the_names_and_columns_users_know() {
        let definition = MachineRequest::crd();
        assert_eq!(MachineRequest::plural(&()), "machinerequests");
        assert_eq!(
            definition.spec.names.short_names,
            Some(vec!["mr".to_owned()])
        );
        let columns: Vec<_> = definition.spec.versions[0]
            .additional_printer_columns
            .iter()
            .flatten()
            .map(|column| column.name.as_str())
            .collect();
        assert_eq!(columns, ["Machine", "Role", "Phase", "IP", "Age"]);
        let schema = serde_json::to_value(&definition.spec.versions[0].schema).unwrap();
        let spec = &schema["openAPIV3Schema"]["properties"]["spec"];
        assert_eq!(
            spec["properties"]["role"]["enum"],
            json!(["control-plane", "controlplane", "worker"])
        );
        assert_eq!(spec["required"], json!(["role"]));
    }

    #[test]
    fn size_and_provider_are_given_exactly_once() {
        let mut both_sizes = plain();
        both_sizes["resources"] = json!({ "cpu": "4", "memory": "8Gi", "disk": "50Gi" });
        assert!(refusal(&both_sizes).contains("resources or as cpu, memoryMB and diskGB"));

        let mut no_disk = plain();
        no_disk.as_object_mut().unwrap().remove("diskGB");
        assert!(refusal(&no_disk).contains("diskGB are all required"));

        let mut both_providers = plain();
        both_providers["providerConfigRef"] = json!({ "name": "other" });
        assert!(refusal(&both_providers).contains("providerRef or as providerConfigRef"));

        let mut no_provider = plain();
        no_provider.as_object_mut().unwrap().remove("providerRef");
        assert!(refusal(&no_provider).contains("providerRef or as providerConfigRef"));
    }

    #[test]
    fn too_little_memory_is_refused_by_name() {
        let spec = json!({
            "providerConfigRef": { "name": "harvester-config" },
            "role": "controlplane",
            "resources": { "cpu": "4", "memory": "512Mi", "disk": "100Gi" },
        });
        assert!(refusal(&spec).contains("memory must be at least 1Gi"));
    }

    #[test]
    fn machine_keeps_its_name_and_provider_but_may_change_the_spelling_of_its_role() {
        let before = request(&plain());
        let mut spelled = plain();
        spelled["role"] = json!("controlplane");
        validate_cel_update(&request(&spelled), &before).expect("the same role in other letters");

        for (field, value) in [
            ("machineName", json!("other")),
            ("providerRef", json!({ "name": "other" })),
            ("role", json!("worker")),
        ] {
            let mut changed = plain();
            changed[field] = value;
            let refusal = validate_cel_update(&request(&changed), &before)
                .expect_err("the change is refused")
                .to_string();
            assert!(
                refusal.contains(&format!("{field} is immutable")),
                "{refusal}"
            );
        }
    }

    #[test]
    fn user_data_stays_out_of_debug_output() {
        let mut spec = plain();
        spec["userData"] = json!("token: abcdef.0123456789abcdef");
        let shown = format!("{:?}", request(&spec));
        assert!(!shown.contains("abcdef"), "{shown}");
        assert!(shown.contains("30 bytes withheld"), "{shown}");
    }
}
