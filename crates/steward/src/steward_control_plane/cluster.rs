//! What is read of Cluster API's own objects: the Cluster a control plane belongs to, and who is paused.
//!
//! Cluster API sets the owner reference and the label with the cluster's name; until it has, there is nothing to do.

use butler_api::{
    cluster_api::{
        cluster::{Cluster, ClusterNetwork},
        contract::ContractReference,
        steward_control_plane::StewardControlPlane,
    },
    keys::{annotations, labels},
};
use butler_runtime::{
    cache::{Caches, Projection},
    object::{Kind, ObjectKey},
};
use kube::{Resource, ResourceExt};
use serde_json::Value;

/// What a control plane needs to know of its Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// How to go on, if all that belongs to it is to be left alone.
    pub paused: Option<String>,
    /// Its networks.
    pub network: ClusterNetwork,
    /// Its infrastructure, if it has any.
    pub infrastructure: Option<ContractReference>,
}

impl Projection for ClusterFacts {
    const OPTIONAL: bool = true;

    fn kind() -> Kind {
        Kind::of::<Cluster>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let cluster = serde_json::from_value::<Cluster>(object)?;
        let paused = cluster.how_to_go_on();
        let spec = cluster.spec;
        let infrastructure = spec.infrastructure_ref;
        Ok(Self {
            paused,
            network: spec.cluster_network,
            infrastructure: infrastructure.filter(|reference| !reference.name.is_empty()),
        })
    }
}

/// What is seen of the Cluster that owns a control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClusterSight {
    /// Nobody owns it yet.
    #[default]
    Unset,
    /// The owner does not exist, or is not seen yet.
    Missing(ObjectKey),
    /// The owner is there.
    Found(ObjectKey, ClusterFacts),
}

/// The key and UID of the Cluster that owns a control plane, once Cluster API said so.
pub(super) fn owner(control_plane: &StewardControlPlane) -> Option<(ObjectKey, &str)> {
    let group = Cluster::group(&());
    let mut owners = control_plane.owner_references().iter();
    let owner = owners.find(|owner| {
        let owners_group = owner.api_version.split_once('/').map(|(group, _)| group);
        owner.kind == Cluster::kind(&()) && owners_group == Some(&*group)
    })?;
    let namespace = control_plane.namespace().unwrap_or_default();
    let key = ObjectKey::namespaced(namespace, &owner.name);
    Some((key, owner.uid.as_str()))
}

/// The Cluster a control plane belongs to: the owner, else the one of the label.
pub(super) fn cluster_of(control_plane: &StewardControlPlane) -> Option<ObjectKey> {
    let labelled = || {
        let name = control_plane.labels().get(labels::CLUSTER_API_CLUSTER)?;
        let namespace = control_plane.namespace().unwrap_or_default();
        Some(ObjectKey::namespaced(namespace, name))
    };
    owner(control_plane).map(|(key, _)| key).or_else(labelled)
}

/// The very Cluster that owns a control plane; not one of the same name that came after it.
pub(super) fn sight(control_plane: &StewardControlPlane, caches: &Caches) -> ClusterSight {
    let Some((key, uid)) = owner(control_plane) else {
        return ClusterSight::Unset;
    };
    let found = caches.store::<ClusterFacts>().get(&key);
    match found.filter(|found| found.facts.uid == uid) {
        Some(found) => ClusterSight::Found(key, found.value.clone()),
        None => ClusterSight::Missing(key),
    }
}

/// How to go on with a control plane that is paused, by itself or with its Cluster.
pub(super) fn paused(control_plane: &StewardControlPlane, caches: &Caches) -> Option<String> {
    let annotation = annotations::CLUSTER_API_PAUSED;
    if control_plane.annotations().contains_key(annotation) {
        return Some(format!("remove the annotation {annotation} to go on"));
    }
    let key = cluster_of(control_plane)?;
    let cluster = caches.store::<ClusterFacts>().get(&key)?;
    cluster.value.paused.clone()
}
