//! API servers of tenants that do not answer. It is written on the cluster, so that it can happen at any moment of a story.

use butler_api::butler::tenant_cluster::TenantCluster;
use butler_testkit::simulator::{
    Deed, ObjectStore,
    players::{self, text},
};
use kube::ResourceExt;

use crate::scene::{here, tenant_clusters};

const SILENCE: &str = "example.com/silence";

/// Why an API server does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// It serves, and Cluster API finds no way to it.
    Unreachable,
    /// None of its pods serves.
    Dead,
}

impl Silence {
    /// Worlds of both kinds.
    pub(crate) fn of(seed: u64) -> Self {
        if seed.is_multiple_of(2) {
            Self::Dead
        } else {
            Self::Unreachable
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Dead => "dead",
        }
    }
}

/// The API server of a cluster falls silent.
pub(crate) fn falls_silent(name: &str, silence: Silence) -> Deed {
    Deed::annotate(tenant_clusters(), here(name), SILENCE, silence.word())
}

/// It answers again.
pub(crate) fn answers_again(name: &str) -> Deed {
    Deed::annotate(tenant_clusters(), here(name), SILENCE, "over")
}

/// What is the matter with the API server of the cluster that is in a namespace.
fn silence(store: &ObjectStore, namespace: &str) -> Option<Silence> {
    let clusters: Vec<TenantCluster> = store.all().unwrap();
    let cluster = clusters.iter().find(|cluster| {
        let status = cluster.status.as_ref();
        let place = status.and_then(|status| status.tenant_namespace.as_deref());
        place == Some(namespace)
    })?;
    let word = cluster.annotations().get(SILENCE)?;
    let kinds = [Silence::Unreachable, Silence::Dead];
    kinds.into_iter().find(|silence| silence.word() == word)
}

/// Whether Cluster API reaches the API server of the cluster that is in a namespace.
pub(crate) fn answers(store: &ObjectStore, namespace: &str) -> bool {
    silence(store, namespace).is_none()
}

/// Rolls Deployments out. The pods of a dead API server do not serve.
pub(crate) fn deployments(store: &mut ObjectStore) -> Option<String> {
    players::deployments_that(store, |store, deployment| {
        let namespace = text(deployment, "/metadata/namespace");
        silence(store, namespace) != Some(Silence::Dead)
    })
}
