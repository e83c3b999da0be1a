//! Whether the object that addresses are for still exists.
//!
//! Watched kinds only: what is not watched is left to Kubernetes' own garbage collection, by owner references.

use butler_api::{
    butler::{
        ip_allocation::IPAllocation, load_balancer_request::LoadBalancerRequest,
        machine_request::MachineRequest, tenant_cluster::TenantCluster,
    },
    keys::labels,
};
use butler_runtime::{
    cache::{AnyStore, Caches, Metadata},
    failure::Failure,
    object::{Kind, ObjectKey},
    reconciler::Context,
};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::ResourceExt;
use serde_json::Value;

use super::infrastructure::{NodeAddresses, ServiceAddresses};
use crate::projections::TenantClusterFacts;

/// How the owner of an allocation was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It exists.
    Present,
    /// It does not, and the API server itself says so.
    Gone,
    /// Nobody here watches objects of its kind.
    Unwatched,
}

/// Whom an allocation is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sought {
    kind: Kind,
    key: ObjectKey,
    uid: Option<String>,
}

/// The owner to look for, if it is of a kind that is watched.
pub(crate) fn sought(allocation: &IPAllocation) -> Option<Sought> {
    if let Some(cluster) = &allocation.spec.tenant_cluster_ref {
        return Some(Sought {
            kind: Kind::of::<TenantCluster>(),
            key: ObjectKey::namespaced(&cluster.namespace, &cluster.name),
            uid: made_for(allocation),
        });
    }
    let owner = allocation.spec.owner_ref.as_ref()?;
    let kind = watched()
        .into_iter()
        .find(|kind| kind.api_version() == owner.api_version && kind.kind == owner.kind)?;
    let namespace = kind.namespaced.then(|| {
        let named = owner.namespace.clone();
        named.or_else(|| allocation.metadata.namespace.clone())
    });
    Some(Sought {
        key: ObjectKey {
            namespace: namespace.flatten(),
            name: owner.name.clone(),
        },
        kind,
        uid: owner.uid.clone(),
    })
}

/// The UID of the tenant cluster that a controller made the allocation for: another cluster may have its name since.
fn made_for(allocation: &IPAllocation) -> Option<String> {
    let labels = allocation.labels();
    let kind = labels.get(labels::OWNER_KIND)?;
    let uid = labels.get(labels::OWNER_UID)?;
    (*kind == Kind::of::<TenantCluster>().kind).then(|| uid.clone())
}

impl Sought {
    /// Whether it is of this kind and name.
    pub(crate) fn is(&self, kind: &Kind, key: &ObjectKey) -> bool {
        self.kind == *kind && self.key == *key
    }
}

/// The kinds of owners that are watched, beside tenant clusters.
fn watched() -> [Kind; 4] {
    [
        Kind::of::<MachineRequest>(),
        Kind::of::<LoadBalancerRequest>(),
        Kind::of::<Service>(),
        Kind::of::<Node>(),
    ]
}

/// Looks for the owner of an allocation. That a cache does not show it is no proof, so the API server is asked then.
pub(crate) async fn look_for(
    allocation: &IPAllocation,
    context: &Context,
) -> Result<Presence, Failure> {
    let Some(sought) = sought(allocation) else {
        return Ok(Presence::Unwatched);
    };
    let matches = |uid: &str| sought.uid.as_deref().is_none_or(|wanted| wanted == uid);
    if cached_uid(&sought, context.caches()).is_some_and(|uid| matches(&uid)) {
        return Ok(Presence::Present);
    }
    let object = context.api().get(&sought.kind, &sought.key).await?;
    let uid = object.as_ref().and_then(|object| {
        let uid = object.pointer("/metadata/uid");
        uid.and_then(Value::as_str)
    });
    Ok(if uid.is_some_and(matches) {
        Presence::Present
    } else {
        Presence::Gone
    })
}

fn cached_uid(sought: &Sought, caches: &Caches) -> Option<String> {
    let stores: [std::sync::Arc<dyn AnyStore>; 5] = [
        caches.store::<TenantClusterFacts>(),
        caches.store::<Metadata<MachineRequest>>(),
        caches.store::<Metadata<LoadBalancerRequest>>(),
        caches.store::<ServiceAddresses>(),
        caches.store::<NodeAddresses>(),
    ];
    let store = stores
        .into_iter()
        .find(|store| store.kind() == sought.kind)?;
    store.facts(&sought.key).map(|facts| facts.uid)
}
