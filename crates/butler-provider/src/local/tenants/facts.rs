//! What is remembered of clusters.

use butler_api::{
    cluster_api::butler_cluster::ButlerCluster,
    keys::{annotations, labels, values},
};
use butler_runtime::{
    cache::Projection,
    object::{Kind, ObjectKey},
};
use kube::ResourceExt as _;
use serde_json::Value;

/// The infrastructure of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClusterFacts {
    pub(super) key: ObjectKey,
    pub(super) deleting: bool,
    /// The `ProviderConfig` of its machines.
    pub(super) provider: ObjectKey,
    /// The `TenantCluster` it was made from; itself if it was made from none.
    pub(super) tenant: ObjectKey,
    /// Whether its pods get their network from us.
    pub(super) pods: bool,
    /// What it says about Services that wait.
    pub(super) waiting: Told,
}

/// What a cluster says about Services that wait: how many, and since when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) count: Option<String>,
    pub(super) since: Option<String>,
}

impl Projection for ClusterFacts {
    // Installed with the others, but a platform may come to its definitions in steps.
    const OPTIONAL: bool = true;

    fn kind() -> Kind {
        Kind::of::<ButlerCluster>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let cluster: ButlerCluster = serde_json::from_value(object)?;
        let key = ObjectKey::of(&cluster);
        let marks = cluster.labels();
        let source = marks
            .get(labels::SOURCE_NAMESPACE)
            .zip(marks.get(labels::SOURCE_NAME));
        let said = |annotation: &str| cluster.annotations().get(annotation).cloned();
        let provider = &cluster.spec.provider_ref;
        Ok(Self {
            deleting: cluster.metadata.deletion_timestamp.is_some(),
            provider: ObjectKey {
                namespace: provider.namespace.clone().or_else(|| cluster.namespace()),
                name: provider.name.clone(),
            },
            tenant: source.map_or_else(
                || key.clone(),
                |(namespace, name)| ObjectKey::namespaced(namespace, name),
            ),
            pods: said(annotations::POD_NETWORK).as_deref() != Some(values::POD_NETWORK_NONE),
            waiting: Told {
                count: said(annotations::WAITING_LOAD_BALANCERS),
                since: said(annotations::WAITING_LOAD_BALANCERS_SINCE),
            },
            key,
        })
    }
}
