//! What the plan for the infrastructure of a cluster depends on. Cached, but for the last look at its machines.

use butler_api::{
    butler::provider_config::ProviderConfig,
    cluster_api::{
        butler_cluster::ButlerCluster, butler_machine::ButlerMachine,
        contract::ControlPlaneEndpoint,
    },
    conditions::types,
    keys::labels,
};
use butler_runtime::{
    cache::{Caches, Whole},
    conditions::holds,
    failure::Failure,
    object::{Kind, ObjectKey},
    reconciler::Context,
};

use crate::cluster_api::{self, ClusterFacts, Owner};

/// The world around the infrastructure of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    /// The Cluster it belongs to.
    pub owner: OwnerSight,
    /// The provider its machines come from.
    pub provider: ProviderSight,
    /// Its machines; looked for only when it is deleted.
    pub machines: Vec<ObjectKey>,
}

/// What is seen of the Cluster that owns the infrastructure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OwnerSight {
    /// Nobody owns it yet.
    #[default]
    Unset,
    /// The owner does not exist, or is not seen yet.
    Missing(ObjectKey),
    /// The owner is there.
    Found {
        /// Where it says that the API server is reached.
        endpoint: Option<ControlPlaneEndpoint>,
        /// Whether its control plane, which needs none of its machines, has not answered yet.
        awaits_control_plane: bool,
    },
}

/// What is seen of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProviderSight {
    /// It does not exist.
    #[default]
    Missing,
    /// Clusters cannot be made with it, and why.
    NotReady(String),
    /// Clusters can be made with it.
    Ready,
}

pub(super) async fn observe(cluster: &ButlerCluster, context: &Context) -> Result<World, Failure> {
    let caches = context.caches();
    let mut world = World {
        owner: owner(cluster, caches),
        provider: provider(cluster, caches),
        machines: Vec::new(),
    };
    if cluster.metadata.deletion_timestamp.is_some()
        && let Some(of) = name_of_cluster(cluster)
    {
        world.machines = machines(&of, caches);
        if world.machines.is_empty() {
            // That a cache shows none is no proof, and after this nothing holds the cluster back.
            world.machines = listed_machines(&of, context).await?;
        }
    }
    Ok(world)
}

fn owner(cluster: &ButlerCluster, caches: &Caches) -> OwnerSight {
    let Some(owner) = Owner::of_cluster(cluster) else {
        return OwnerSight::Unset;
    };
    match owner.find::<ClusterFacts>(caches) {
        Some(found) => OwnerSight::Found {
            endpoint: found.value.endpoint.clone(),
            awaits_control_plane: found.value.awaits_control_plane,
        },
        None => OwnerSight::Missing(owner.key),
    }
}

fn provider(cluster: &ButlerCluster, caches: &Caches) -> ProviderSight {
    let providers = caches.store::<Whole<ProviderConfig>>();
    let Some(provider) = providers.get(&provider_key(cluster)) else {
        return ProviderSight::Missing;
    };
    let status = provider.value.0.status.as_ref();
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    if holds(conditions, types::READY) {
        return ProviderSight::Ready;
    }
    let mut said = conditions.iter();
    let said = said.find(|condition| condition.type_ == types::READY);
    let message = said.map_or("nobody has looked at it yet", |said| said.message.as_str());
    ProviderSight::NotReady(message.to_owned())
}

/// The provider a cluster's machines come from.
pub(super) fn provider_key(cluster: &ButlerCluster) -> ObjectKey {
    let reference = &cluster.spec.provider_ref;
    let own = || cluster.metadata.namespace.clone().unwrap_or_default();
    let namespace = reference.namespace.clone().unwrap_or_else(own);
    ObjectKey::namespaced(namespace, &reference.name)
}

/// The Cluster whose machines these are: the owner, else the one of the label.
pub(super) fn name_of_cluster(cluster: &ButlerCluster) -> Option<ObjectKey> {
    let owner = Owner::of_cluster(cluster).map(|owner| owner.key);
    owner.or_else(|| cluster_api::cluster_of(&cluster.metadata))
}

fn machines(of: &ObjectKey, caches: &Caches) -> Vec<ObjectKey> {
    let machines = caches.store::<Whole<ButlerMachine>>();
    machines.keys_where(|machine| {
        cluster_api::cluster_of(&machine.value.0.metadata).as_ref() == Some(of)
    })
}

async fn listed_machines(of: &ObjectKey, context: &Context) -> Result<Vec<ObjectKey>, Failure> {
    let kind = Kind::of::<ButlerMachine>();
    let selector = format!("{}={}", labels::CLUSTER_API_CLUSTER, of.name);
    let listed = context
        .api()
        .list(&kind, of.namespace.as_deref(), Some(&selector))
        .await?;
    Ok(listed.iter().map(ObjectKey::in_body).collect())
}
