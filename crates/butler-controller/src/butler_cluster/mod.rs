//! `ButlerCluster`: the infrastructure of a cluster, as Cluster API sees it.
//!
//! | | |
//! |---|---|
//! | reconciles | `ButlerCluster` |
//! | watches | Cluster of Cluster API (where it is installed), `ProviderConfig`, `ButlerMachine` |
//! | writes | nothing but the status; the finalizer is held while a `ButlerMachine` of the cluster exists |
//! | conditions | `Ready`; `Paused` |
//!
//! Machines are all the infrastructure there is, so a cluster is provisioned as soon as machines could be made for it: its
//! provider is ready, the endpoint that they join is known, and a control plane that needs no machines answers there. It stays
//! provisioned from then on.

mod observe;
mod plan;

use butler_api::{
    butler::provider_config::ProviderConfig,
    cluster_api::{
        butler_cluster::{ButlerCluster, ButlerClusterStatus},
        butler_machine::ButlerMachine,
    },
    keys::{annotations, finalizers},
};
use butler_runtime::{
    cache::Whole,
    failure::Failure,
    plan::Plan,
    reconciler::{Context, NoEffect, Reconciler, Sources},
};
use jiff::Timestamp;
use kube::ResourceExt;

use crate::cluster_api::{self, ClusterFacts, Owner};
pub use observe::{OwnerSight, ProviderSight, World};

/// The controller of [`ButlerCluster`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ButlerClusterReconciler;

impl Reconciler for ButlerClusterReconciler {
    const NAME: &'static str = "butlercluster";
    const FINALIZER: Option<&'static str> = Some(finalizers::BUTLER_CLUSTER);

    type Object = ButlerCluster;
    type Status = ButlerClusterStatus;
    type World = World;
    type Effect = NoEffect;

    fn sources(&self, sources: &mut Sources<'_, ButlerCluster>) {
        sources.reads::<ClusterFacts>(|owner, clusters| {
            let key = &owner.facts.key;
            clusters.keys_where(|cluster| {
                let cluster = &cluster.value.0;
                let owned = Owner::of_cluster(cluster).is_some_and(|owner| owner.key == *key);
                // Pausing goes by the label.
                owned || cluster_api::cluster_of(&cluster.metadata).as_ref() == Some(key)
            })
        });
        sources.reads::<Whole<ProviderConfig>>(|provider, clusters| {
            clusters
                .keys_where(|cluster| observe::provider_key(&cluster.value.0) == provider.facts.key)
        });
        sources.reads::<Whole<ButlerMachine>>(|machine, clusters| {
            let of = cluster_api::cluster_of(&machine.value.0.metadata);
            clusters.keys_where(|cluster| {
                let cluster = &cluster.value.0;
                // Until it is deleted, its machines do not matter.
                let deleting = cluster.metadata.deletion_timestamp.is_some();
                deleting && of.is_some() && observe::name_of_cluster(cluster) == of
            })
        });
    }

    fn paused(&self, cluster: &ButlerCluster, context: &Context) -> Option<String> {
        let annotation = annotations::CLUSTER_API_MANAGED_BY;
        if let Some(manager) = cluster.annotations().get(annotation) {
            let message = format!(
                "the annotation {annotation} says that {manager:?} manages it; remove it to go on"
            );
            return Some(message);
        }
        cluster_api::paused(&cluster.metadata, context.caches())
    }

    async fn observe(&self, cluster: &ButlerCluster, context: &Context) -> Result<World, Failure> {
        observe::observe(cluster, context).await
    }

    fn plan(
        &self,
        cluster: &ButlerCluster,
        world: &World,
        now: Timestamp,
    ) -> Plan<ButlerClusterStatus, NoEffect> {
        plan::plan(cluster, world, now)
    }

    async fn perform(
        &self,
        _: &ButlerCluster,
        effect: &NoEffect,
        _: &Context,
    ) -> Result<(), Failure> {
        match *effect {}
    }
}
