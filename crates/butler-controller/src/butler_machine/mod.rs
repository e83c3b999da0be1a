//! `ButlerMachine`: a machine of a cluster, as Cluster API sees it.
//!
//! | | |
//! |---|---|
//! | reconciles | `ButlerMachine` |
//! | watches | Machine and Cluster of Cluster API (where it is installed), `ButlerCluster`, `ProviderConfig`, `MachineRequest`, Secret (metadata) |
//! | writes | one `MachineRequest` of the same name, made once and deleted with it; a Secret with its user data, where it cannot read its bootstrap data as it is; its own `spec.providerID`; the status |
//! | conditions | `BootstrapDataReady`, `MachineProvisioned`, `Ready`; `Paused` |
//!
//! A machine is made once. If its `MachineRequest` is lost afterwards, or fails, the machine says so and stays as it is: to
//! replace it is the decision of whoever keeps the Machine, such as a health check.

mod observe;
mod perform;
mod plan;
mod request;
mod user_data;
mod wanted;

use butler_api::{
    butler::{machine_request::MachineRequest, provider_config::ProviderConfig},
    cluster_api::{
        butler_cluster::ButlerCluster,
        butler_machine::{ButlerMachine, ButlerMachineStatus},
    },
    keys::finalizers,
};
use butler_runtime::{
    cache::{Metadata, Store, Whole},
    failure::Failure,
    object::ObjectKey,
    plan::Plan,
    reconciler::{Context, Reconciler, Sources},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde::Serialize;
use std::collections::BTreeMap;

use crate::cluster_api::{self, ClusterFacts, MachineFacts, Owner};
pub use observe::{
    MachineRequestFacts, MachineSight, ProviderSight, RequestSight, UserDataSight, World,
};

/// What server-side apply cannot do for a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Effect {
    /// Asks a provider for the machine. Created, not applied: a request of the same name that is somebody else's must not be
    /// taken over.
    Request(Box<MachineRequest>),
    /// Writes the user data that the machine reads, from its bootstrap data.
    WriteUserData {
        /// Name of the Secret with the bootstrap data.
        bootstrap_data: String,
        /// Name of the cluster, whose authority the machine has to know.
        cluster: String,
    },
    /// Changes labels of the request that has this UID; those without a value go.
    Relabel {
        /// UID of the request.
        uid: String,
        /// The labels that differ.
        labels: BTreeMap<String, Option<String>>,
    },
    /// Deletes the request that has this UID, and with it the machine.
    Remove {
        /// UID of the request.
        uid: String,
    },
}

/// The controller of [`ButlerMachine`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ButlerMachineReconciler;

impl Reconciler for ButlerMachineReconciler {
    const NAME: &'static str = "butlermachine";
    const FINALIZER: Option<&'static str> = Some(finalizers::BUTLER_MACHINE);

    type Object = ButlerMachine;
    type Status = ButlerMachineStatus;
    type World = World;
    type Effect = Effect;

    fn sources(&self, sources: &mut Sources<'_, ButlerMachine>) {
        sources.reads::<MachineFacts>(|owner, machines| {
            let key = &owner.facts.key;
            machines.keys_where(|machine| {
                Owner::of_machine(&machine.value.0).is_some_and(|owner| owner.key == *key)
            })
        });
        sources.reads::<ClusterFacts>(|cluster, machines| of_cluster(machines, &cluster.facts.key));
        sources.reads::<Whole<ButlerCluster>>(|infrastructure, machines| {
            let cluster = cluster_api::cluster_of(&infrastructure.value.0.metadata);
            cluster.map_or_else(Vec::new, |cluster| of_cluster(machines, &cluster))
        });
        // Who uses a provider is not said by the machine alone; one that has its identity does not ask for it any more.
        sources.reads::<Whole<ProviderConfig>>(|_, machines| {
            machines.keys_where(|machine| machine.value.0.spec.provider_id.is_none())
        });
        // Its bootstrap data, the authority of its cluster, what was made of both.
        sources.reads::<Metadata<Secret>>(|secret, machines| {
            let namespace = &secret.facts.key.namespace;
            machines.keys_where(|machine| {
                let machine = &machine.value.0;
                let spec = &machine.spec;
                spec.shape.user_data_format.is_some()
                    && spec.provider_id.is_none()
                    && machine.metadata.namespace == *namespace
            })
        });
        sources.reads::<MachineRequestFacts>(|request, machines| {
            let machine = machines.get(&request.facts.key);
            machine
                .map(|machine| machine.facts.key.clone())
                .into_iter()
                .collect()
        });
    }

    fn paused(&self, machine: &ButlerMachine, context: &Context) -> Option<String> {
        cluster_api::paused(&machine.metadata, context.caches())
    }

    async fn observe(&self, machine: &ButlerMachine, context: &Context) -> Result<World, Failure> {
        observe::observe(machine, context).await
    }

    fn plan(
        &self,
        machine: &ButlerMachine,
        world: &World,
        now: Timestamp,
    ) -> Plan<ButlerMachineStatus, Effect> {
        plan::plan(machine, world, now)
    }

    async fn perform(
        &self,
        machine: &ButlerMachine,
        effect: &Effect,
        context: &Context,
    ) -> Result<(), Failure> {
        perform::perform(machine, effect, context).await
    }
}

/// The machines of a Cluster.
fn of_cluster(machines: &Store<Whole<ButlerMachine>>, cluster: &ObjectKey) -> Vec<ObjectKey> {
    machines.keys_where(|machine| {
        cluster_api::cluster_of(&machine.value.0.metadata).as_ref() == Some(cluster)
    })
}
