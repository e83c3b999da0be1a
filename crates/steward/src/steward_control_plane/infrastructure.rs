//! The infrastructure of a cluster, which must know where the API server is: how each kind is told, and what it must not be told.
//!
//! Owns the table of kinds. Which version of a kind is meant, the labels of its definition say, as Cluster API's contract has it.

use std::collections::BTreeSet;

use butler_api::{
    cluster_api::contract::{ContractReference, ControlPlaneEndpoint},
    conditions::reasons,
    keys::labels,
};
use butler_runtime::{
    cache::{Caches, Fetch, Projection},
    conditions::Finding,
    object::{Kind, ObjectKey},
};
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::{Value, json};

use super::Effect;

/// How a kind of infrastructure learns the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It is written into its spec.
    Tell,
    /// The same, and it is declared ready: its own controller does not, since it made no endpoint.
    TellAndDeclareReady,
    /// The same in the words of `OpenStack`.
    TellOpenStack,
    /// Its owner writes it; it must be the same.
    Check,
    /// It is written where nothing is; else it must be the same.
    TellIfUnset,
}

const KINDS: &[(&str, Manner)] = &[
    ("AWSCluster", Manner::Tell),
    ("AzureCluster", Manner::Tell),
    ("ButlerCluster", Manner::Tell),
    ("HetznerCluster", Manner::Tell),
    ("IonosCloudCluster", Manner::Tell),
    ("KubevirtCluster", Manner::TellAndDeclareReady),
    ("NutanixCluster", Manner::TellAndDeclareReady),
    ("PacketCluster", Manner::TellAndDeclareReady),
    ("OpenStackCluster", Manner::TellOpenStack),
    ("Metal3Cluster", Manner::Check),
    ("MetalStackCluster", Manner::Check),
    ("ProxmoxCluster", Manner::TellIfUnset),
    ("TinkerbellCluster", Manner::TellIfUnset),
    ("VSphereCluster", Manner::TellIfUnset),
];

/// How a kind is told, if it is one of the table or one that the operator named.
pub(super) fn manner_of(kind: &str, further: &BTreeSet<String>) -> Option<Manner> {
    let mut kinds = KINDS.iter();
    let known = kinds.find(|(name, _)| *name == kind);
    let known = known.map(|(_, manner)| *manner);
    known.or_else(|| further.contains(kind).then_some(Manner::Tell))
}

/// The contracts of Cluster API that infrastructure can follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contract {
    /// The older one.
    V1Beta1,
    /// The current one.
    V1Beta2,
}

/// Which versions of a kind follow Cluster API's contracts. Nothing of kinds that have nothing to do with Cluster API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContractVersions {
    current: Option<String>,
    older: Option<String>,
}

impl ContractVersions {
    /// The version to use, and the contract it follows.
    fn newest(&self) -> Option<(&str, Contract)> {
        let current = self.current.as_deref();
        let older = self.older.as_deref();
        let current = current.map(|version| (version, Contract::V1Beta2));
        current.or_else(|| older.map(|version| (version, Contract::V1Beta1)))
    }
}

impl Projection for ContractVersions {
    const FETCH: Fetch = Fetch::Metadata;

    fn kind() -> Kind {
        Kind::of::<CustomResourceDefinition>()
    }

    fn project(mut object: Value) -> Result<Self, serde_json::Error> {
        let metadata: ObjectMeta = serde_json::from_value(object["metadata"].take())?;
        let labels = metadata.labels.unwrap_or_default();
        // Of several versions, the last is the newest.
        let last = |label: &str| {
            let versions = labels.get(label)?;
            versions.rsplit('_').next().map(str::to_owned)
        };
        Ok(Self {
            current: last(labels::CLUSTER_API_CONTRACT_V1BETA2),
            older: last(labels::CLUSTER_API_CONTRACT_V1BETA1),
        })
    }
}

/// The resource name of a kind, as Cluster API derives it.
fn plural(kind: &str) -> String {
    format!("{}s", kind.to_ascii_lowercase())
}

/// The definition of a kind, as Cluster API names it.
pub(super) fn definition_of(reference: &ContractReference) -> String {
    format!("{}.{}", plural(&reference.kind), reference.api_group)
}

/// The kind that a reference means and the contract it follows, as far as its definition is there.
pub(super) fn resolve(reference: &ContractReference, caches: &Caches) -> Option<(Kind, Contract)> {
    let definition = ObjectKey::cluster(definition_of(reference));
    let found = caches.store::<ContractVersions>().get(&definition)?;
    let (version, contract) = found.value.newest()?;
    let kind = Kind {
        group: reference.api_group.clone(),
        version: version.to_owned(),
        kind: reference.kind.clone(),
        plural: plural(&reference.kind),
        namespaced: true,
    };
    Some((kind, contract))
}

/// What is seen of the infrastructure of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum InfrastructureSight {
    /// The cluster has none.
    #[default]
    Unset,
    /// The operator has told Steward to leave infrastructure alone.
    LeftAlone,
    /// Nobody knows how its kind is told.
    Unsupported(String),
    /// The definition of its kind is not there, or does not name a contract.
    Undefined(String),
    /// It does not exist.
    Missing {
        /// Its kind.
        kind: String,
        /// Its key.
        key: ObjectKey,
    },
    /// It is there.
    Found(Infrastructure),
}

/// The infrastructure of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Infrastructure {
    /// Its kind.
    pub kind: Kind,
    /// Its key.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// How it is told.
    pub manner: Manner,
    /// The contract it follows.
    pub contract: Contract,
    /// The endpoint it knows, if any.
    pub endpoint: Option<ControlPlaneEndpoint>,
    /// Whether it is declared ready.
    pub declared_ready: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl Infrastructure {
    /// Reads an object.
    pub(super) fn of(body: &Value, kind: Kind, contract: Contract, manner: Manner) -> Self {
        let (host, port) = match manner {
            Manner::TellOpenStack => ("/spec/apiServerFixedIP", "/spec/apiServerPort"),
            _ => (
                "/spec/controlPlaneEndpoint/host",
                "/spec/controlPlaneEndpoint/port",
            ),
        };
        let text = |pointer| body.pointer(pointer).and_then(Value::as_str);
        let host = text(host).filter(|host| !host.is_empty());
        let port = body.pointer(port).and_then(Value::as_i64).unwrap_or(0);
        Self {
            key: ObjectKey::in_body(body),
            uid: text("/metadata/uid").unwrap_or_default().to_owned(),
            manner,
            contract,
            endpoint: host.map(|host| ControlPlaneEndpoint {
                host: host.to_owned(),
                port: i32::try_from(port).unwrap_or_default(),
            }),
            declared_ready: body.pointer(ready_pointer(contract)) == Some(&json!(true)),
            deleting: text("/metadata/deletionTimestamp").is_some(),
            kind,
        }
    }

    fn tell(&self, endpoint: &ControlPlaneEndpoint) -> Effect {
        let spec = match self.manner {
            Manner::TellOpenStack => {
                json!({ "apiServerFixedIP": endpoint.host, "apiServerPort": endpoint.port })
            }
            _ => json!({ "controlPlaneEndpoint": endpoint }),
        };
        Effect::TellInfrastructure {
            kind: self.kind.clone(),
            key: self.key.clone(),
            patch: json!({ "metadata": { "uid": self.uid }, "spec": spec }),
        }
    }

    fn declare_ready(&self) -> Effect {
        let status = match self.contract {
            Contract::V1Beta1 => json!({ "ready": true }),
            Contract::V1Beta2 => json!({ "initialization": { "provisioned": true } }),
        };
        Effect::DeclareInfrastructureReady {
            kind: self.kind.clone(),
            key: self.key.clone(),
            status,
        }
    }

    fn differs(&self, known: &ControlPlaneEndpoint, endpoint: &ControlPlaneEndpoint) -> Finding {
        let message = format!(
            "the {} {} says that the API server is at {}, but it is at {}; correct its spec.controlPlaneEndpoint, or give the control plane that address by network.serviceAddress",
            self.kind,
            self.key,
            shown(known),
            shown(endpoint),
        );
        Finding::new(false, reasons::FAILED, message)
    }

    fn settle(&self, endpoint: &ControlPlaneEndpoint) -> (Finding, Vec<Effect>) {
        let what = format!("the {} {}", self.kind, self.key);
        if self.deleting {
            let message = format!("{what} is being deleted");
            return (Finding::new(false, reasons::PENDING, message), Vec::new());
        }
        let mut effects = Vec::new();
        match (self.manner, &self.endpoint) {
            (_, Some(known)) if known == endpoint => {}
            (Manner::Check, None) => {
                let message = format!(
                    "{what} has no spec.controlPlaneEndpoint; set it to {}",
                    shown(endpoint)
                );
                return (Finding::new(false, reasons::FAILED, message), Vec::new());
            }
            (Manner::Check | Manner::TellIfUnset, Some(known)) => {
                return (self.differs(known, endpoint), Vec::new());
            }
            _ => effects.push(self.tell(endpoint)),
        }
        if self.manner == Manner::TellAndDeclareReady && !self.declared_ready {
            effects.push(self.declare_ready());
        }
        let finding = if effects.is_empty() {
            Finding::new(
                true,
                reasons::SUCCEEDED,
                format!("{what} knows the endpoint"),
            )
        } else {
            Finding::new(
                false,
                reasons::PENDING,
                format!("{what} is told the endpoint"),
            )
        };
        (finding, effects)
    }
}

const fn ready_pointer(contract: Contract) -> &'static str {
    match contract {
        Contract::V1Beta1 => "/status/ready",
        Contract::V1Beta2 => "/status/initialization/provisioned",
    }
}

/// An endpoint as people write it.
pub(super) fn shown(endpoint: &ControlPlaneEndpoint) -> String {
    let ControlPlaneEndpoint { host, port } = endpoint;
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Whether the infrastructure knows the endpoint, and what is to be done so that it does.
pub(super) fn settle(
    sight: &InfrastructureSight,
    endpoint: Option<&ControlPlaneEndpoint>,
) -> (Finding, Vec<Effect>) {
    let only =
        |answer: bool, reason, message: String| (Finding::new(answer, reason, message), Vec::new());
    match sight {
        InfrastructureSight::Unset => only(
            true,
            reasons::NOT_REQUIRED,
            "the Cluster has no spec.infrastructureRef".to_owned(),
        ),
        InfrastructureSight::LeftAlone => only(
            true,
            reasons::NOT_REQUIRED,
            "Steward is told to leave infrastructure alone".to_owned(),
        ),
        InfrastructureSight::Unsupported(kind) => only(
            false,
            reasons::UNSUPPORTED,
            format!(
                "Steward does not know how a {kind} learns its endpoint; if it has a spec.controlPlaneEndpoint, start Steward with --dynamic-infrastructure-clusters={kind}"
            ),
        ),
        InfrastructureSight::Undefined(definition) => only(
            false,
            reasons::PENDING,
            format!(
                "waiting for the definition {definition} with a label of Cluster API's contract; install its provider"
            ),
        ),
        InfrastructureSight::Missing { kind, key } => only(
            false,
            reasons::PENDING,
            format!("waiting for the {kind} {key}"),
        ),
        InfrastructureSight::Found(found) => match endpoint {
            Some(endpoint) => found.settle(endpoint),
            None => only(
                false,
                reasons::PENDING,
                format!(
                    "the {} {} is told the endpoint when it is known",
                    found.kind, found.key
                ),
            ),
        },
    }
}

#[cfg(test)]
#[path = "infrastructure_tests.rs"]
mod tests;
