//! What the controller remembers of the objects a tenant cluster is made of: conclusions, not bodies.
//!
//! Kinds of Cluster API and of other projects may be absent from the management cluster: while one is, there is none of it.

use butler_api::{
    cluster_api::{
        butler_machine::ButlerMachineTemplate,
        kubeadm_control_plane::KubeadmControlPlane,
        machine_group::{MachineDeployment, MachineSet},
        steward_control_plane::StewardControlPlane,
    },
    conditions::types,
    keys::labels,
    steward::tenant_control_plane::TenantControlPlane,
};
use butler_runtime::{cache::Projection, object::Kind};
use jiff::Timestamp;
use serde_json::Value;

use super::kinds;
use crate::projections::{Said, deleted_at};

/// What is known of a control plane, whoever runs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlPlaneFacts {
    /// When its deletion began.
    pub deleted_at: Option<Timestamp>,
    /// The version it shall have.
    pub wanted: Option<String>,
    /// The oldest version that runs.
    pub version: Option<String>,
    /// Whether it answered once.
    pub initialized: bool,
    /// Whether it answers now.
    pub available: bool,
    /// Whether what runs is not yet what shall run.
    pub rolling_out: bool,
    /// Name of the template of its machines, if it has machines.
    pub template: Option<String>,
    /// What it says of itself.
    pub conditions: Vec<Said>,
}

/// What is remembered of the conditions of a control plane.
const CONTROL_PLANE_CONDITIONS: [&str; 4] = [
    types::AVAILABLE,
    types::READY,
    types::ROLLING_OUT,
    types::DELETING,
];

impl ControlPlaneFacts {
    /// Takes them from a control plane of either contract of Cluster API.
    pub fn of(object: &Value) -> Self {
        let at = |pointer: &str| object.pointer(pointer);
        let text = |pointer: &str| at(pointer).and_then(Value::as_str).map(str::to_owned);
        let flag = |pointer: &str| at(pointer).and_then(Value::as_bool) == Some(true);
        let conditions = Said::by(object, &CONTROL_PLANE_CONDITIONS);
        let holds = |type_: &str| {
            let mut said = conditions.iter();
            said.find(|said| said.type_ == type_).map(Said::holds)
        };
        Self {
            deleted_at: deleted_at(object),
            wanted: text("/spec/version"),
            version: oldest_version(object).or_else(|| text("/status/version")),
            initialized: flag("/status/initialization/controlPlaneInitialized")
                || flag("/status/initialized"),
            available: holds(types::AVAILABLE).unwrap_or_else(|| flag("/status/ready")),
            rolling_out: holds(types::ROLLING_OUT) == Some(true),
            template: text("/spec/machineTemplate/spec/infrastructureRef/name"),
            conditions,
        }
    }
}

/// The oldest of the versions that a control plane counts, where it counts them.
fn oldest_version(object: &Value) -> Option<String> {
    let versions = object.pointer("/status/versions")?.as_array()?;
    let versions = versions
        .iter()
        .filter_map(|entry| entry["version"].as_str());
    let parsed = versions.filter_map(|version| {
        let parsed: butler_api::version::KubernetesVersion = version.parse().ok()?;
        Some((parsed, version.to_owned()))
    });
    parsed.min().map(|(_, version)| version)
}

/// What is known of the infrastructure of a cluster, whoever makes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InfrastructureFacts {
    /// When its deletion began.
    pub deleted_at: Option<Timestamp>,
    /// What it says of itself.
    pub conditions: Vec<Said>,
}

impl InfrastructureFacts {
    /// Takes them from infrastructure of any kind.
    pub fn of(object: &Value) -> Self {
        Self {
            deleted_at: deleted_at(object),
            conditions: Said::by(object, &[types::READY]),
        }
    }
}

/// What is known of the control plane behind a `StewardControlPlane`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostedFacts {
    /// What it says of itself, the parts before the whole.
    pub conditions: Vec<Said>,
}

/// What is remembered of the conditions of a hosted control plane, the parts before the whole.
const HOSTED_CONDITIONS: [&str; 5] = [
    types::DATA_STORE_READY,
    types::CERTIFICATES_READY,
    types::ENDPOINT_READY,
    types::AVAILABLE,
    types::TENANT_CONFIGURED,
];

/// What is known of machines that are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeploymentFacts {
    /// When its deletion began.
    pub deleted_at: Option<Timestamp>,
    /// How many machines there shall be.
    pub wanted: Option<i32>,
    /// The version they shall have.
    pub version: Option<String>,
    /// Machines whose nodes are ready.
    pub ready: i32,
    /// Machines that are as they shall be.
    pub updated: i32,
    /// Machines that there are, old ones among them.
    pub present: i32,
    /// Whether its controller has seen what is wanted.
    pub is_observed: bool,
    /// Name of the template of its machines.
    pub template: Option<String>,
    /// What it says of itself.
    pub conditions: Vec<Said>,
}

impl DeploymentFacts {
    /// Whether every machine is as it shall be, and works.
    pub fn is_settled(&self) -> bool {
        let wanted = self.wanted.unwrap_or_default();
        self.is_observed && self.present == wanted && self.updated == wanted && self.ready >= wanted
    }

    /// Whether machines of an older kind are left.
    pub fn is_rolling(&self) -> bool {
        !self.is_observed || self.updated < self.present
    }
}

impl Projection for DeploymentFacts {
    const OPTIONAL: bool = true;

    fn kind() -> Kind {
        Kind::of::<MachineDeployment>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let deleted_at = deleted_at(&object);
        let conditions = Said::by(&object, &[types::AVAILABLE, types::DELETING]);
        let deployment: MachineDeployment = serde_json::from_value(object)?;
        let machine = deployment.spec.template.spec;
        let status = deployment.status;
        let count = |count: Option<i32>| count.unwrap_or_default();
        Ok(Self {
            deleted_at,
            wanted: deployment.spec.replicas,
            version: machine.version,
            ready: count(status.ready_replicas),
            updated: count(status.up_to_date_replicas),
            present: count(status.replicas),
            is_observed: status.observed_generation.is_some()
                && status.observed_generation == deployment.metadata.generation,
            template: machine.infrastructure_ref.map(|template| template.name),
            conditions,
        })
    }
}

/// The templates that machines are made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineSetFacts {
    /// Name of the `MachineDeployment` it belongs to.
    pub deployment: Option<String>,
    /// Kind and name of each template that it refers to.
    pub templates: Vec<(String, String)>,
}

impl Projection for MachineSetFacts {
    const OPTIONAL: bool = true;

    fn kind() -> Kind {
        Kind::of::<MachineSet>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let set: MachineSet = serde_json::from_value(object)?;
        let labels = set.metadata.labels.unwrap_or_default();
        let machine = set.spec.template.spec;
        let references = [machine.infrastructure_ref, machine.bootstrap.config_ref];
        Ok(Self {
            deployment: labels.get(labels::CLUSTER_API_MACHINE_DEPLOYMENT).cloned(),
            templates: references
                .into_iter()
                .flatten()
                .map(|reference| (reference.kind, reference.name))
                .collect(),
        })
    }
}

impl Projection for HostedFacts {
    const OPTIONAL: bool = true;

    fn kind() -> Kind {
        Kind::of::<TenantControlPlane>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let mut conditions = Said::by(&object, &HOSTED_CONDITIONS);
        conditions.sort_by_key(|said| {
            let mut order = HOSTED_CONDITIONS.iter();
            order.position(|type_| *type_ == said.type_)
        });
        Ok(Self { conditions })
    }
}

/// Facts of objects that this controller applies, of a kind that may be absent.
macro_rules! applied {
    ($($(#[$doc:meta])* $name:ident($facts:ty) = $kind:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(super) struct $name(pub(super) $facts);

        impl Projection for $name {
            const LABELS: Option<&'static str> = Some(labels::OWNER_UID);
            const OPTIONAL: bool = true;

            fn kind() -> Kind {
                $kind
            }

            fn project(object: Value) -> Result<Self, serde_json::Error> {
                Ok(Self(<$facts>::of(&object)))
            }
        }
    )*};
}

/// That an object exists, and nothing more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Existence;

impl Existence {
    fn of(_: &Value) -> Self {
        Self
    }
}

/// What is known of a template of machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TemplateFacts {
    /// The image of the machines; `None` leaves it to the provider.
    pub(super) image: Option<String>,
}

impl TemplateFacts {
    /// Takes them from a template of any kind, as [`super::build`] writes them.
    pub(super) fn of(object: &Value) -> Self {
        let at = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let image = at("/spec/template/spec/image")
            .or_else(|| at("/spec/template/spec/image/uuid"))
            .or_else(|| at("/spec/template/spec/image/name"))
            .or_else(|| {
                at("/spec/template/spec/virtualMachineTemplate/spec/dataVolumeTemplates/0/metadata/annotations/harvesterhci.io~1imageId")
            });
        Self {
            image: image.filter(|image| !image.is_empty()).map(str::to_owned),
        }
    }
}

/// What is known of what watches over machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HealthFacts {
    /// Whether it replaces machines whose nodes are not ready.
    pub(super) judges_nodes: bool,
}

impl HealthFacts {
    fn of(object: &Value) -> Self {
        let judged = object.pointer("/spec/checks/unhealthyNodeConditions");
        let judged = judged.and_then(Value::as_array);
        Self {
            judges_nodes: judged.is_some_and(|judged| !judged.is_empty()),
        }
    }
}

applied! {
    /// A control plane that Steward hosts.
    StewardFacts(ControlPlaneFacts) = Kind::of::<StewardControlPlane>();
    /// A control plane that Kamaji hosts.
    KamajiFacts(ControlPlaneFacts) = kinds::kamaji_control_plane();
    /// A control plane on machines of its own.
    KubeadmFacts(ControlPlaneFacts) = Kind::of::<KubeadmControlPlane>();
    /// Infrastructure that CAPX makes.
    NutanixFacts(InfrastructureFacts) = kinds::nutanix_cluster();
    /// Infrastructure that CAPK makes.
    KubevirtFacts(InfrastructureFacts) = kinds::kubevirt_cluster();
    /// Machines of Butler's own providers.
    ButlerTemplate(TemplateFacts) = Kind::of::<ButlerMachineTemplate>();
    /// Machines that CAPX makes.
    NutanixTemplate(TemplateFacts) = kinds::nutanix_machine_template();
    /// Machines that CAPK makes.
    KubevirtTemplate(TemplateFacts) = kinds::kubevirt_machine_template();
    /// What machines boot with.
    BootstrapTemplate(Existence) = kinds::kubeadm_config_template();
    /// When machines are replaced.
    HealthCheck(HealthFacts) = kinds::machine_health_check();
}

/// Where a Gateway is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GatewayAddress(pub(super) Option<String>);

impl Projection for GatewayAddress {
    const OPTIONAL: bool = true;

    fn kind() -> Kind {
        kinds::gateway()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let address = object.pointer("/status/addresses/0/value");
        Ok(Self(address.and_then(Value::as_str).map(str::to_owned)))
    }
}
