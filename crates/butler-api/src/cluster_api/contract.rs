//! What the Cluster API contract spells the same way for several kinds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::steward::kubernetes::NodeAddressType;

/// Labels and annotations of the objects made from a template.
pub use crate::steward::exposure::AdditionalMetadata as TemplateMetadata;

/// Where the API server of a cluster is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneEndpoint {
    /// Host name or IP address, without scheme and brackets.
    #[schemars(length(min = 1, max = 512))]
    pub host: String,
    /// Port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

/// Names an object of any kind in the namespace of the object that holds the reference. Which version is meant, the labels
/// of its CRD say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContractReference {
    /// API group.
    pub api_group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

/// Whether infrastructure exists, as Cluster API asks during the creation of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureInitialization {
    /// True once the infrastructure exists; it stays true from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// A place that fails as a whole, over which machines are spread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomain {
    /// Name of the domain: a zone, a rack, a hypervisor.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Whether machines of a control plane may run there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// What else the provider knows about the domain.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub attributes: std::collections::BTreeMap<String, String>,
}

/// An address of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineAddress {
    /// Kind of address.
    #[serde(rename = "type")]
    pub type_: NodeAddressType,
    /// The address or name.
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
}
