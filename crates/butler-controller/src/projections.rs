//! What controllers remember of kinds that several of them read.

use butler_api::{
    butler::{
        network_pool::NetworkPool,
        provider_config::{ProviderConfig, ScopeType},
        tenant_cluster::{TenantCluster, TenantClusterPhase},
    },
    keys::{annotations, labels, names},
    normalize::{team::fold_email, tenant_cluster},
};
use butler_runtime::{
    cache::{Caches, Projection, Whole},
    object::{Kind, ObjectKey},
};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::Value;

/// What an object says of itself under one type of condition, whatever the contract it follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Type of the condition.
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word why.
    pub reason: String,
    /// Why, for people; may be empty.
    pub message: String,
    /// Since when.
    pub since: Option<Timestamp>,
}

impl Said {
    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.status == "True"
    }

    /// What is said for people, else the one word.
    pub fn words(&self) -> &str {
        if self.message.is_empty() {
            &self.reason
        } else {
            &self.message
        }
    }

    /// Those of the conditions of an object that have one of these types. Older contracts leave out some fields.
    pub fn by(object: &Value, types: &[&str]) -> Vec<Self> {
        let conditions = object.pointer("/status/conditions");
        let conditions = conditions.and_then(Value::as_array);
        let text = |condition: &Value, field: &str| {
            let text = condition.get(field).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let read = |condition: &Value| Self {
            type_: text(condition, "type"),
            status: text(condition, "status"),
            reason: text(condition, "reason"),
            message: text(condition, "message"),
            since: text(condition, "lastTransitionTime").parse().ok(),
        };
        let said = conditions.into_iter().flatten().map(read);
        said.filter(|said| types.contains(&said.type_.as_str()))
            .collect()
    }
}

/// When the deletion of an object began, if it has.
pub(crate) fn deleted_at(object: &Value) -> Option<Timestamp> {
    let text = object.pointer("/metadata/deletionTimestamp")?.as_str()?;
    text.parse().ok()
}

/// What other controllers need to know of a tenant cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantClusterFacts {
    /// Where it is.
    pub key: ObjectKey,
    /// How far it has come.
    pub phase: Option<TenantClusterPhase>,
    /// Whether anything was made for it.
    pub begun: bool,
    /// The provider it asks for, else the one it runs on already; `None` means the default of its team or the platform.
    pub provider: Option<ObjectKey>,
    /// The team it counts for.
    pub team: String,
    /// The environment of the team that it counts for.
    pub environment: Option<String>,
    /// The person it counts for, in lower case.
    pub owner: Option<String>,
    /// How many workers it asks for, in all pools.
    pub workers: i32,
}

impl TenantClusterFacts {
    /// What is known of a cluster.
    pub fn of(cluster: &TenantCluster) -> Self {
        let status = cluster.status.as_ref();
        let settled = || status.and_then(|status| status.provider_config_ref.as_ref());
        let provider = cluster.spec.provider_config_ref.as_ref().or_else(settled);
        let owners = [annotations::OWNER, annotations::CREATOR_EMAIL];
        let mut owners = owners
            .iter()
            .filter_map(|key| cluster.annotations().get(*key));
        Self {
            key: ObjectKey::of(cluster),
            phase: status.and_then(|status| status.phase),
            begun: status.is_some_and(|status| status.tenant_namespace.is_some()),
            provider: provider.map(|provider| {
                let namespace = provider.namespace.as_deref();
                let namespace = namespace.unwrap_or(names::SYSTEM_NAMESPACE);
                ObjectKey::namespaced(namespace, &provider.name)
            }),
            team: Self::team_of(cluster),
            environment: cluster.labels().get(labels::ENVIRONMENT).cloned(),
            owner: owners.next().map(|owner| fold_email(owner)),
            workers: tenant_cluster::read(&cluster.spec).worker_replicas(),
        }
    }

    /// The team that a cluster counts for. A team's clusters live in the team's namespace, which has the team's name.
    pub fn team_of(cluster: &TenantCluster) -> String {
        let named = cluster.spec.team_ref.as_ref().map(|team| team.name.clone());
        let labelled = || cluster.labels().get(labels::TEAM).cloned();
        named
            .or_else(labelled)
            .or_else(|| cluster.namespace())
            .unwrap_or_default()
    }
}

impl Projection for TenantClusterFacts {
    fn kind() -> Kind {
        Kind::of::<TenantCluster>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        Ok(Self::of(&serde_json::from_value(object)?))
    }
}

/// A provider that may be taken where nobody names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderCandidate {
    /// Its name.
    pub name: String,
    /// The team that it is for alone, if it is.
    pub team: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl ProviderCandidate {
    /// What is known of a provider.
    pub(crate) fn of(provider: &ProviderConfig) -> Self {
        let scope = provider.spec.scope.as_ref();
        let scope = scope.filter(|scope| scope.kind == ScopeType::Team);
        Self {
            name: provider.name_any(),
            team: scope.map(|scope| {
                let team = scope.team_ref.as_ref();
                team.map(|team| team.name.clone()).unwrap_or_default()
            }),
            deleting: provider.metadata.deletion_timestamp.is_some(),
        }
    }

    /// The providers in the namespace of the platform.
    pub(crate) fn all(caches: &Caches) -> Vec<Self> {
        let providers = caches.store::<Whole<ProviderConfig>>().list();
        let providers = providers.iter().map(|provider| &provider.value.0);
        let own = providers
            .filter(|provider| provider.namespace().as_deref() == Some(names::SYSTEM_NAMESPACE));
        own.map(Self::of).collect()
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
