//! Tenant clusters that could not be made, or may not be, are refused at once; so is the deletion of a protected one.

use std::{fmt::Debug, sync::Arc};

use butler_api::{
    butler::{
        butler_config::ButlerConfig, network_pool::NetworkPool, provider_config::ProviderConfig,
        team::Team, tenant_cluster::TenantCluster,
    },
    keys::names,
};
use butler_runtime::{
    admission::{Denial, Operation, Review, ValidateWithReads, Verdict},
    cache::{Cacheable, Caches, Whole},
    object::ObjectKey,
};
use kube::{Api, Client, api::ListParams};
use serde::de::DeserializeOwned;

use crate::{
    projections::{ProviderCandidate, TenantClusterFacts},
    tenant_rules::{
        Breach, Case, Chooser, Voices, choice_of, deletion, false_creator, forbidden_changes,
        new_breaches, pools_of, team_of,
    },
};

/// Refuses by [`crate::tenant_rules`]. The controller holds what slips through: two clusters that are created in the same moment
/// do not see each other here.
pub(super) struct TenantClusterRules {
    caches: Arc<Caches>,
    client: Client,
}

/// What the rules are judged by, beside the cluster itself.
#[derive(Debug, Default)]
struct Surroundings {
    config: Option<ButlerConfig>,
    team: Option<Team>,
    candidates: Vec<ProviderCandidate>,
    provider: Option<ProviderConfig>,
    pools: Vec<NetworkPool>,
    others: Vec<TenantClusterFacts>,
}

impl TenantClusterRules {
    pub(super) fn new(caches: &Arc<Caches>, client: &Client) -> Self {
        // A cache that nobody asked for before the start is never filled.
        caches.store::<Whole<ButlerConfig>>();
        caches.store::<Whole<Team>>();
        caches.store::<Whole<ProviderConfig>>();
        caches.store::<Whole<NetworkPool>>();
        caches.store::<TenantClusterFacts>();
        Self {
            caches: Arc::clone(caches),
            client: client.clone(),
        }
    }

    async fn surroundings(&self, cluster: &TenantCluster) -> Result<Surroundings, Denial> {
        let config = self.cached::<ButlerConfig>(&ObjectKey::cluster(names::BUTLER_CONFIG));
        let team_key = ObjectKey::cluster(team_of(cluster));
        let mut team = self.cached::<Team>(&team_key);
        if team.is_none() && cluster.spec.team_ref.is_some() {
            team = read(Api::all(self.client.clone()), &team_key, "spec.teamRef").await?;
        }
        let mut candidates = ProviderCandidate::all(&self.caches);
        let chosen = |candidates: &[ProviderCandidate]| {
            let voices = Voices {
                config: config.as_ref(),
                team: team.as_ref(),
                candidates,
            };
            choice_of(cluster, &voices)
        };
        if chosen(&candidates).by == Chooser::Nobody {
            candidates = self.listed().await?;
        }
        let provider_key = chosen(&candidates).key;
        let mut provider = self.cached::<ProviderConfig>(&provider_key);
        if provider.is_none() {
            let namespace = provider_key.namespace.as_deref().unwrap_or_default();
            let api = Api::namespaced(self.client.clone(), namespace);
            provider = read(api, &provider_key, "spec.providerConfigRef").await?;
        }
        let pools = provider.iter().flat_map(pools_of);
        let own = ObjectKey::of(cluster);
        let others = self.caches.store::<TenantClusterFacts>().list();
        let others = others.iter().map(|other| &other.value);
        Ok(Surroundings {
            pools: pools.filter_map(|key| self.cached(&key)).collect(),
            others: others.filter(|other| other.key != own).cloned().collect(),
            config,
            team,
            candidates,
            provider,
        })
    }

    /// The providers that may be taken where nobody names one, when no cache knows any.
    async fn listed(&self) -> Result<Vec<ProviderCandidate>, Denial> {
        let api = Api::<ProviderConfig>::namespaced(self.client.clone(), names::SYSTEM_NAMESPACE);
        let found = api.list(&ListParams::default()).await.map_err(|_| {
            let field = "spec.providerConfigRef";
            Denial::new(
                field,
                "the ProviderConfigs could not be looked up just now: try again",
            )
        })?;
        Ok(found.iter().map(ProviderCandidate::of).collect())
    }

    fn cached<K: Cacheable + Clone>(&self, key: &ObjectKey) -> Option<K> {
        let found = self.caches.store::<Whole<K>>().get(key)?;
        Some(found.value.0.clone())
    }
}

/// Whoever creates a provider and a cluster in one breath is faster than a watch: what a cache has not is asked for. What cannot be
/// looked up is refused, for nobody could say whose limits apply.
async fn read<K: Clone + Debug + DeserializeOwned>(
    api: Api<K>,
    key: &ObjectKey,
    field: &str,
) -> Result<Option<K>, Denial> {
    let found = api.get_opt(&key.name).await;
    found.map_err(|_| {
        Denial::new(
            field,
            format!("{key} could not be looked up just now: try again"),
        )
    })
}

impl ValidateWithReads<TenantCluster> for TenantClusterRules {
    const OPERATIONS: &'static [Operation] =
        &[Operation::Create, Operation::Update, Operation::Delete];

    async fn validate(&self, review: &Review<'_, TenantCluster>) -> Verdict {
        if is_settled(review) {
            return Ok(Vec::new());
        }
        let surroundings = if review.operation == Operation::Delete {
            Surroundings::default()
        } else {
            let found = self.surroundings(review.object).await;
            found.map_err(|denial| vec![denial])?
        };
        judge(review, &surroundings)
    }
}

/// Whether there is nothing to judge: a cluster that goes is not held up, and labels and the like that no rule reads neither.
fn is_settled(review: &Review<'_, TenantCluster>) -> bool {
    let cluster = review.object;
    let same = |old: &TenantCluster| {
        old.spec == cluster.spec
            && old.metadata.labels == cluster.metadata.labels
            && old.metadata.annotations == cluster.metadata.annotations
    };
    review.operation == Operation::Update
        && (cluster.metadata.deletion_timestamp.is_some() || review.old.is_some_and(same))
}

fn judge(review: &Review<'_, TenantCluster>, surroundings: &Surroundings) -> Verdict {
    if review.operation == Operation::Delete {
        return verdict(deletion(review.object).into_iter().collect());
    }
    let case = Case {
        cluster: review.object,
        config: surroundings.config.as_ref(),
        team: surroundings.team.as_ref(),
        candidates: &surroundings.candidates,
        provider: surroundings.provider.as_ref(),
        pools: &surroundings.pools,
        others: &surroundings.others,
    };
    let mut breaches = new_breaches(&case, review.old);
    match review.old {
        Some(old) => breaches.extend(forbidden_changes(&case, old)),
        None => breaches.extend(false_creator(&case, review.user)),
    }
    verdict(breaches)
}

fn verdict(breaches: Vec<Breach>) -> Verdict {
    if breaches.is_empty() {
        return Ok(Vec::new());
    }
    let denials = breaches.into_iter();
    Err(denials
        .map(|breach| Denial::new(breach.field, breach.rule))
        .collect())
}

#[cfg(test)]
#[path = "tenant_clusters_tests.rs"]
mod tests;
