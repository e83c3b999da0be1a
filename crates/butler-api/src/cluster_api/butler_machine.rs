//! `ButlerMachine` and `ButlerMachineTemplate`: a machine of a tenant cluster, as Cluster API sees it.
//!
//! A `ButlerMachine` becomes a `MachineRequest` with the bootstrap data of its Machine; the provider does the rest. Machines whose
//! system does not read that data as it is say so in `userDataFormat`, and get a translation of it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::contract::{InfrastructureInitialization, MachineAddress, TemplateMetadata};
use crate::Quantity;
use crate::reference::NamespacedReference;

const SHAPE: &str = "self.cpu == oldSelf.cpu && self.memory == oldSelf.memory \
    && self.disk == oldSelf.disk \
    && (has(self.image) ? has(oldSelf.image) && self.image == oldSelf.image : !has(oldSelf.image)) \
    && (has(self.extraDisks) ? has(oldSelf.extraDisks) && self.extraDisks == oldSelf.extraDisks : !has(oldSelf.extraDisks)) \
    && (has(self.userDataFormat) ? has(oldSelf.userDataFormat) && self.userDataFormat == oldSelf.userDataFormat : !has(oldSelf.userDataFormat))";

const PLACE: &str = "(has(self.providerRef) ? has(oldSelf.providerRef) && self.providerRef == oldSelf.providerRef : !has(oldSelf.providerRef)) \
    && (has(self.network) ? has(oldSelf.network) && self.network == oldSelf.network : !has(oldSelf.network)) \
    && (has(self.failureDomain) ? has(oldSelf.failureDomain) && self.failureDomain == oldSelf.failureDomain : !has(oldSelf.failureDomain))";

const PROVIDER_ID: &str = "!has(oldSelf.providerID) \
    || (has(self.providerID) && self.providerID == oldSelf.providerID)";

const POSITIVE_QUANTITY: &str =
    "type(self) == int ? self > 0 : quantity(self).isGreaterThan(quantity('0'))";

/// The same as a pattern: in a list of unknown length the rule would be dearer than the API server allows.
const POSITIVE_QUANTITY_PATTERN: &str =
    r"^(0*[1-9][0-9]*(\.[0-9]*)?|0*\.[0-9]*[1-9][0-9]*)([KMGTPE]i|[kMGTPE])?$";

/// A machine, and how the cluster knows it.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "ButlerMachine",
    plural = "butlermachines",
    category = "cluster-api",
    namespaced,
    status = "ButlerMachineStatus",
    derive = "PartialEq",
    doc = "A machine of a tenant cluster that comes from a Butler provider.",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = r".metadata.labels['cluster\.x-k8s\.io/cluster-name']"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "ProviderID", type_ = "string", json_path = ".spec.providerID"),
    printcolumn(name = "CPU", type_ = "integer", json_path = ".spec.cpu", priority = 1),
    printcolumn(
        name = "Memory",
        type_ = "string",
        json_path = ".spec.memory",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(SHAPE).message("cpu, memory, disk, image, extraDisks and userDataFormat of a machine cannot be changed: roll out machines from a new ButlerMachineTemplate"),
    validation = Rule::new(PLACE).message("providerRef, network and failureDomain of a machine cannot be changed: roll out machines from a new ButlerMachineTemplate"),
    validation = Rule::new(PROVIDER_ID).message("providerID cannot be changed once it is set: it is how the node is recognised")
)]
pub struct ButlerMachineSpec {
    /// How the machine and its node recognise each other. Set by Butler once the machine exists.
    #[serde(
        default,
        rename = "providerID",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: Option<String>,
    /// What the machine is like.
    #[serde(flatten)]
    pub shape: MachineShape,
}

/// What a machine is like: everything about it but its identity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineShape {
    /// The `ProviderConfig` the machine comes from; the cluster's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<NamespacedReference>,
    /// Virtual CPUs.
    #[schemars(range(min = 1, max = 128))]
    pub cpu: i32,
    /// Memory, such as `8Gi`.
    #[x_kube(validation = Rule::new(POSITIVE_QUANTITY).message("memory must be a quantity greater than zero, such as 8Gi"))]
    pub memory: Quantity,
    /// Size of the first disk, such as `50Gi`.
    #[x_kube(validation = Rule::new(POSITIVE_QUANTITY).message("disk must be a quantity greater than zero, such as 50Gi"))]
    pub disk: Quantity,
    /// Image of the operating system, as the provider names it; the provider's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// How the machine reads what it shall do first, if not as cloud-init does. Its user data is then written by Butler, from
    /// the bootstrap data of its Machine: what cloud-init would fill in for `ds.meta_data.local_hostname` and
    /// `ds.meta_data.instance_id`, the machine's name and its identity, is filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data_format: Option<UserDataFormat>,
    /// Further disks, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_disks: Vec<ExtraDisk>,
    /// Labels of the machine in the infrastructure, where it knows labels or tags.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The machine's network, where it differs from the provider's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<MachineNetwork>,
    /// Where the machine should run, one of the cluster's failure domains. The one chosen by its Machine if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
}

/// How a machine reads what it shall do first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum UserDataFormat {
    /// Ignition, as Flatcar reads it. The bootstrap data must be Ignition as well.
    Ignition,
    /// Settings of Bottlerocket. The bootstrap data must be cloud-config that says nothing but how to join.
    Bottlerocket,
}

impl UserDataFormat {
    /// The word for it in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ignition => "ignition",
            Self::Bottlerocket => "bottlerocket",
        }
    }
}

/// A further disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtraDisk {
    /// Size of the disk, greater than zero, such as `100Gi`.
    #[schemars(extend("pattern" = POSITIVE_QUANTITY_PATTERN, "minimum" = 1))]
    pub size: Quantity,
    /// Kind of storage, as the provider names it; the provider's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
}

/// The network of a machine, where it differs from the provider's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineNetwork {
    /// Network or subnet, as the provider names it; the one of the `ProviderConfig` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Network configuration in the format of cloud-init, for machines without DHCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_data: Option<String>,
}

/// What is known about a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ButlerMachineStatus {
    /// How far the machine has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<InfrastructureInitialization>,
    /// The same in one word, for contract v1beta1.
    #[serde(default)]
    pub ready: bool,
    /// Addresses of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    /// Where the machine runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// Generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready` sums up the machine; `Paused` says whether anybody works on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Machines that are alike.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "ButlerMachineTemplate",
    plural = "butlermachinetemplates",
    category = "cluster-api",
    namespaced,
    derive = "PartialEq",
    doc = "What a MachineDeployment makes ButlerMachines from. To change machines, make a new template and refer to it.",
    printcolumn(name = "CPU", type_ = "integer", json_path = ".spec.template.spec.cpu"),
    printcolumn(
        name = "Memory",
        type_ = "string",
        json_path = ".spec.template.spec.memory"
    ),
    printcolumn(
        name = "Disk",
        type_ = "string",
        json_path = ".spec.template.spec.disk"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ButlerMachineTemplateSpec {
    /// The object to make.
    pub template: ButlerMachineTemplateResource,
}

/// A `ButlerMachine` to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ButlerMachineTemplateResource {
    /// Labels and annotations of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Spec of the object.
    pub spec: MachineShape,
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::testing;

    const MACHINE: &str = include_str!("../../../../examples/butler-machine.yaml");
    const TEMPLATE: &str = include_str!("../../../../examples/butler-machine-template.yaml");

    #[test]
    fn users_manifests_are_kept_as_written() {
        let machine: ButlerMachine = testing::read(MACHINE);
        assert_eq!(machine.spec.shape.memory, Quantity::new("8Gi"));
        let template: ButlerMachineTemplate = testing::read(TEMPLATE);
        assert_eq!(template.spec.template.spec.cpu, machine.spec.shape.cpu);
    }

    #[test]
    fn a_template_may_be_edited_because_cluster_api_tries_changes_on_it() {
        let schema = testing::field::<ButlerMachineTemplate>("spec").to_string();
        assert!(!schema.contains("oldSelf"), "{schema}");
    }
}
