//! What the plan for a provider depends on. Cached, but for the Secret's content, which is read once per version.

use std::collections::BTreeMap;

use butler_api::{
    butler::{
        butler_config::ButlerConfig,
        provider_config::{NetworkMode, ProviderConfig, ScopeType},
        team::Team,
    },
    keys::names,
};
use butler_runtime::{
    cache::{Caches, Metadata, Whole},
    failure::Failure,
    object::ObjectKey,
    reconciler::Context,
};
use k8s_openapi::api::core::v1::Secret;

use super::{
    credentials::{CredentialsShape, Shapes},
    key_in,
};
use crate::{
    projections::{NetworkPoolFacts, ProviderCandidate, TenantClusterFacts},
    tenant_rules::{Choice, Chooser, Voices, usual},
};

/// The world around a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    /// The credentials' shape; `None` if their Secret does not exist or none is named.
    pub credentials: Option<CredentialsShape>,
    /// Whether the team it belongs to exists.
    pub team_exists: bool,
    /// The address pools it names: `None` if one does not exist, else how many addresses it still has, if it said so.
    pub pools: BTreeMap<ObjectKey, Option<Option<i32>>>,
    /// What the teams run on it.
    pub usage: BTreeMap<String, Usage>,
    /// The clusters that run on it.
    pub clusters: Vec<ObjectKey>,
}

/// What a team runs on a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Clusters.
    pub clusters: i32,
    /// Worker nodes of these.
    pub nodes: i32,
}

pub(super) async fn observe(
    provider: &ProviderConfig,
    shapes: &Shapes,
    context: &Context,
) -> Result<World, Failure> {
    let key = ObjectKey::of(provider);
    let teams = context.cache::<Whole<Team>>();
    let pool_cache = context.cache::<NetworkPoolFacts>();
    let mut world = World {
        credentials: credentials(provider, shapes, context).await?,
        team_exists: team(provider)
            .is_some_and(|team| teams.get(&ObjectKey::cluster(team)).is_some()),
        ..World::default()
    };
    for pool in pools(provider) {
        let facts = pool_cache.get(&pool).map(|pool| pool.value.available);
        world.pools.insert(pool, facts);
    }
    for cluster in users(context.caches(), &key) {
        let usage = world.usage.entry(cluster.team.clone()).or_default();
        usage.clusters = usage.clusters.saturating_add(1);
        usage.nodes = usage.nodes.saturating_add(cluster.workers);
        world.clusters.push(cluster.key.clone());
    }
    Ok(world)
}

async fn credentials(
    provider: &ProviderConfig,
    shapes: &Shapes,
    context: &Context,
) -> Result<Option<CredentialsShape>, Failure> {
    let Some(key) = credentials_key(provider) else {
        return Ok(None);
    };
    let Some(secret) = context.cache::<Metadata<Secret>>().get(&key) else {
        shapes.forget(&key);
        return Ok(None);
    };
    shapes
        .of(
            provider,
            &key,
            &secret.facts.resource_version,
            context.api(),
        )
        .await
        .map(Some)
}

/// The clusters that run on a provider, by name or because nobody named another.
pub(crate) fn users(caches: &Caches, provider: &ObjectKey) -> Vec<TenantClusterFacts> {
    let usual = Usual::look(caches);
    let clusters = caches.store::<TenantClusterFacts>().list();
    let facts = clusters.iter().map(|cluster| &cluster.value);
    let runs_here =
        |cluster: &&TenantClusterFacts| usual.settled(cluster).as_ref() == Some(provider);
    facts.filter(runs_here).cloned().collect()
}

/// The provider a cluster runs on, if that is settled.
pub(crate) fn provider_of(caches: &Caches, cluster: &TenantClusterFacts) -> Option<ObjectKey> {
    Usual::look(caches).settled(cluster)
}

/// Who has a say where clusters name no provider.
struct Usual<'a> {
    config: Option<ButlerConfig>,
    candidates: Vec<ProviderCandidate>,
    caches: &'a Caches,
}

impl<'a> Usual<'a> {
    fn look(caches: &'a Caches) -> Self {
        let config = caches
            .store::<Whole<ButlerConfig>>()
            .get(&ObjectKey::cluster(names::BUTLER_CONFIG));
        Self {
            config: config.map(|config| config.value.0.clone()),
            candidates: ProviderCandidate::all(caches),
            caches,
        }
    }

    /// The provider that counts for a cluster. What is taken because it comes first counts once the cluster says so: nothing
    /// of it is made before, and another may come first until then.
    fn settled(&self, cluster: &TenantClusterFacts) -> Option<ObjectKey> {
        let Choice { key, by } = self.choice(cluster);
        (by != Chooser::First).then_some(key)
    }

    fn choice(&self, cluster: &TenantClusterFacts) -> Choice {
        if let Some(named) = &cluster.provider {
            return Choice {
                key: named.clone(),
                by: Chooser::Cluster,
            };
        }
        let team = ObjectKey::cluster(&cluster.team);
        let team = self.caches.store::<Whole<Team>>().get(&team);
        let voices = Voices {
            config: self.config.as_ref(),
            team: team.as_ref().map(|team| &team.value.0),
            candidates: &self.candidates,
        };
        usual(&cluster.team, &voices)
    }
}

/// Whether the platform's settings can make this provider the default.
pub(super) fn may_be_default(key: &ObjectKey) -> bool {
    key.namespace.as_deref() == Some(names::SYSTEM_NAMESPACE)
}

/// The Secret that holds the credentials.
pub(super) fn credentials_key(provider: &ProviderConfig) -> Option<ObjectKey> {
    let reference = provider.spec.credentials_ref.as_ref()?;
    Some(key_in(
        provider,
        reference.namespace.as_deref(),
        &reference.name,
    ))
}

/// The team it belongs to, if to one.
pub(super) fn team(provider: &ProviderConfig) -> Option<&str> {
    let scope = provider
        .spec
        .scope
        .as_ref()
        .filter(|scope| scope.kind == ScopeType::Team)?;
    scope.team_ref.as_ref().map(|team| team.name.as_str())
}

/// The address pools it gives addresses from.
pub(super) fn pools(provider: &ProviderConfig) -> Vec<ObjectKey> {
    let network = provider
        .spec
        .network
        .as_ref()
        .filter(|network| network.mode == NetworkMode::Ipam);
    let references = network.into_iter().flat_map(|network| &network.pool_refs);
    references
        .map(|pool| key_in(provider, None, &pool.name))
        .collect()
}
