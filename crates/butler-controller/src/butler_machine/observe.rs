//! What the plan for a machine depends on. Cached; that its request does not exist is asked of the API server where more than
//! a wait depends on it, and so is bootstrap data that has to be translated.

use std::collections::BTreeMap;

use butler_api::{
    butler::{
        machine_request::{MachinePhase, MachineRequest},
        provider_config::{Provider, ProviderConfig},
    },
    cluster_api::{butler_cluster::ButlerCluster, butler_machine::ButlerMachine},
    conditions::{reasons, types},
    reference::NamespacedReference,
};
use butler_runtime::{
    cache::{Caches, Facts, Metadata, Projection, Whole},
    conditions::Finding,
    failure::Failure,
    object::{Kind, ObjectKey},
    reconciler::Context,
};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::Value;

use super::user_data::secret;
use crate::cluster_api::{self, ClusterFacts, MachineFacts, Owner};

/// The world around a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct World {
    /// The Machine it belongs to.
    pub machine: MachineSight,
    /// Whether the cluster's infrastructure is provisioned; `None` if the Cluster is not there.
    pub infrastructure_provisioned: Option<bool>,
    /// The provider it comes from.
    pub provider: ProviderSight,
    /// The request for it.
    pub request: RequestSight,
    /// Its user data, where that is written for it alone.
    pub user_data: UserDataSight,
}

/// What is seen of the Machine that owns a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MachineSight {
    /// Nobody owns it yet.
    #[default]
    Unset,
    /// The owner does not exist, or is not seen yet.
    Missing(ObjectKey),
    /// The owner is there.
    Found(MachineFacts),
}

/// What is seen of the provider a machine comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProviderSight {
    /// Neither the machine nor the infrastructure of its cluster names one.
    #[default]
    Unnamed,
    /// It does not exist.
    Missing(ObjectKey),
    /// It is there.
    Found {
        /// How it was named.
        reference: NamespacedReference,
        /// Which infrastructure it is.
        provider: Provider,
    },
}

/// What is seen under the name of the machine's request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RequestSight {
    /// Nothing.
    #[default]
    Absent,
    /// A request that is somebody else's.
    Foreign {
        /// Whether it is going away.
        deleting: bool,
    },
    /// The machine's own.
    Ours {
        /// Its UID.
        uid: String,
        /// Whether it is being deleted.
        deleting: bool,
        /// What it says.
        request: MachineRequestFacts,
    },
}

/// What is seen of user data that is written for one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UserDataSight {
    /// The machine reads its bootstrap data as it is, has been made, or has no bootstrap data yet.
    #[default]
    NotWanted,
    /// It is there.
    Written,
    /// Under its name there is something of somebody else.
    Foreign,
    /// It is not there and can be written.
    Writable,
    /// It is not there and cannot be written.
    Obstructed(Finding),
}

/// What a machine needs to know of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineRequestFacts {
    /// Where the machine is in its life.
    pub phase: Option<MachinePhase>,
    /// The machine's identity at the provider.
    pub provider_id: Option<String>,
    /// Its addresses, the one to reach it by first.
    pub addresses: Vec<String>,
    /// Why it failed, in one word.
    pub failure_reason: Option<String>,
    /// What the provider says about it.
    pub message: Option<String>,
    /// The labels that it asks for.
    pub labels: BTreeMap<String, String>,
}

impl Projection for MachineRequestFacts {
    fn kind() -> Kind {
        Kind::of::<MachineRequest>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let request: MachineRequest = serde_json::from_value(object)?;
        let status = request.status.unwrap_or_default();
        let mut addresses: Vec<_> = status.ip_address.into_iter().collect();
        for address in status.ip_addresses {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        let mut conditions = status.conditions.into_iter();
        let ready = conditions.find(|condition| condition.type_ == types::READY);
        let said = ready.map(|ready| ready.message);
        Ok(Self {
            phase: status.phase,
            provider_id: status.provider_id,
            addresses: addresses
                .into_iter()
                .filter(|address| !address.is_empty())
                .collect(),
            failure_reason: status.failure_reason,
            message: status
                .failure_message
                .into_iter()
                .chain(said)
                .find(|message| !message.is_empty()),
            labels: request.spec.labels,
        })
    }
}

pub(super) async fn observe(machine: &ButlerMachine, context: &Context) -> Result<World, Failure> {
    let caches = context.caches();
    let cluster = cluster_api::cluster_of(&machine.metadata)
        .and_then(|key| caches.store::<ClusterFacts>().get(&key));
    let infrastructure = cluster
        .as_ref()
        .and_then(|cluster| cluster.value.infrastructure.as_ref());
    let owner = owner(machine, caches);
    Ok(World {
        user_data: user_data(machine, &owner, context).await?,
        machine: owner,
        infrastructure_provisioned: cluster
            .as_ref()
            .map(|cluster| cluster.value.infrastructure_provisioned),
        provider: provider(machine, infrastructure, caches),
        request: request(machine, context).await?,
    })
}

fn owner(machine: &ButlerMachine, caches: &Caches) -> MachineSight {
    let Some(owner) = Owner::of_machine(machine) else {
        return MachineSight::Unset;
    };
    match owner.find::<MachineFacts>(caches) {
        Some(found) => MachineSight::Found(found.value.clone()),
        None => MachineSight::Missing(owner.key),
    }
}

/// The provider the machine names, else that of its cluster.
fn provider(
    machine: &ButlerMachine,
    infrastructure: Option<&ObjectKey>,
    caches: &Caches,
) -> ProviderSight {
    let own = machine.spec.shape.provider_ref.clone();
    let of_cluster = || {
        let cluster = caches
            .store::<Whole<ButlerCluster>>()
            .get(infrastructure?)?;
        Some(cluster.value.0.spec.provider_ref.clone())
    };
    let Some(reference) = own.or_else(of_cluster) else {
        return ProviderSight::Unnamed;
    };
    // A cluster and its machines are in one namespace.
    let own_namespace = || machine.namespace().unwrap_or_default();
    let namespace = reference.namespace.clone().unwrap_or_else(own_namespace);
    let key = ObjectKey::namespaced(namespace, &reference.name);
    match caches.store::<Whole<ProviderConfig>>().get(&key) {
        Some(found) => ProviderSight::Found {
            reference,
            provider: found.value.0.spec.provider,
        },
        None => ProviderSight::Missing(key),
    }
}

async fn request(machine: &ButlerMachine, context: &Context) -> Result<RequestSight, Failure> {
    let key = ObjectKey::of(machine);
    let uid = machine.uid().unwrap_or_default();
    if let Some(cached) = context.cache::<MachineRequestFacts>().get(&key) {
        return Ok(sight(&uid, &cached.facts, cached.value.clone()));
    }
    // Before a request is made, the API server itself refuses a second one. Before a machine is given up, or let go, it
    // must be true that there is none.
    let deleting = machine.metadata.deletion_timestamp.is_some();
    if !deleting && !was_made(machine) {
        return Ok(RequestSight::Absent);
    }
    let kind = Kind::of::<MachineRequest>();
    let Some(body) = context.api().get(&kind, &key).await? else {
        return Ok(RequestSight::Absent);
    };
    let facts = Facts::of(&body);
    let request = MachineRequestFacts::project(body).map_err(|error| {
        let message = format!("could not read the MachineRequest {key}: {error}; correct it");
        Failure::retry(reasons::OBSERVE_FAILED, message)
    })?;
    Ok(sight(&uid, &facts, request))
}

/// What is in Secrets is read, and what it becomes is tried, but only the outcome is remembered.
async fn user_data(
    machine: &ButlerMachine,
    owner: &MachineSight,
    context: &Context,
) -> Result<UserDataSight, Failure> {
    let deleting = machine.metadata.deletion_timestamp.is_some();
    let (Some(format), MachineSight::Found(owner)) = (machine.spec.shape.user_data_format, owner)
    else {
        return Ok(UserDataSight::NotWanted);
    };
    let Some(bootstrap_data) = owner.bootstrap_data.as_deref() else {
        return Ok(UserDataSight::NotWanted);
    };
    if deleting || owner.deleting || was_made(machine) {
        return Ok(UserDataSight::NotWanted);
    }
    let key = secret::key(machine);
    if let Some(found) = context.cache::<Metadata<Secret>>().get(&key) {
        let is_ours = found.facts.owner == machine.uid();
        return Ok(if is_ours {
            UserDataSight::Written
        } else {
            UserDataSight::Foreign
        });
    }
    let source = secret::Source {
        bootstrap_data,
        cluster: &owner.cluster,
    };
    let prepared = secret::prepared(machine, format, source, context.api()).await?;
    Ok(match prepared {
        Ok(_) => UserDataSight::Writable,
        Err(obstacle) => UserDataSight::Obstructed(obstacle),
    })
}

fn sight(uid: &str, facts: &Facts, request: MachineRequestFacts) -> RequestSight {
    if facts.owner.as_deref() == Some(uid) {
        RequestSight::Ours {
            uid: facts.uid.clone(),
            deleting: facts.deleting,
            request,
        }
    } else {
        RequestSight::Foreign {
            deleting: facts.deleting,
        }
    }
}

/// Whether the machine was there before.
pub(super) fn was_made(machine: &ButlerMachine) -> bool {
    let status = machine.status.as_ref();
    let initialization = status.and_then(|status| status.initialization);
    let provisioned = initialization.and_then(|initialization| initialization.provisioned);
    machine.spec.provider_id.is_some() || provisioned == Some(true)
}
