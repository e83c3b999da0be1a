//! What controllers remember of kinds that several of them read.

use butler_api::{
    butler::{
        network_pool::NetworkPool,
        tenant_cluster::{TenantCluster, TenantClusterPhase},
    },
    keys::{labels, names},
};
use butler_runtime::{
    cache::Projection,
    object::{Kind, ObjectKey},
};
use kube::ResourceExt;
use serde_json::Value;

/// What other controllers need to know of a tenant cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantClusterFacts {
    /// Where it is.
    pub key: ObjectKey,
    /// How far it has come.
    pub phase: Option<TenantClusterPhase>,
    /// The provider it asks for; `None` means the platform's default.
    pub provider: Option<ObjectKey>,
    /// The team it counts for.
    pub team: String,
    /// How many workers it asks for.
    pub workers: i32,
}

impl Projection for TenantClusterFacts {
    fn kind() -> Kind {
        Kind::of::<TenantCluster>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let cluster: TenantCluster = serde_json::from_value(object)?;
        let key = ObjectKey::of(&cluster);
        let named_team = cluster.spec.team_ref.as_ref().map(|team| team.name.clone());
        let labelled_team = || cluster.labels().get(labels::TEAM).cloned();
        Ok(Self {
            phase: cluster.status.as_ref().and_then(|status| status.phase),
            provider: cluster.spec.provider_config_ref.as_ref().map(|provider| {
                let namespace = provider
                    .namespace
                    .as_deref()
                    .unwrap_or(names::SYSTEM_NAMESPACE);
                ObjectKey::namespaced(namespace, &provider.name)
            }),
            // A team's clusters live in the team's namespace, which has the team's name.
            team: named_team
                .or_else(labelled_team)
                .unwrap_or_else(|| key.namespace.clone().unwrap_or_default()),
            workers: cluster.spec.workers.replicas,
            key,
        })
    }
}

/// What other controllers need to know of an address pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkPoolFacts {
    /// Addresses that can still be given out, if the pool has counted them.
    pub available: Option<i32>,
}

impl Projection for NetworkPoolFacts {
    fn kind() -> Kind {
        Kind::of::<NetworkPool>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let pool: NetworkPool = serde_json::from_value(object)?;
        Ok(Self {
            available: pool.status.and_then(|status| status.available_ips),
        })
    }
}
