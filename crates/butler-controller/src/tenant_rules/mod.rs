//! The rules a tenant cluster must keep, beyond what its definition can say. Pure.
//!
//! Admission refuses by them ([`breaches`], [`forbidden_changes`]), and the controller holds what slipped through by the same
//! [`breaches`]: each names the condition and the reason to report it under. Both put everything that has a say into a [`Case`].
//!
//! Must not: read anything but its arguments, nor fill in what the cluster leaves open.

mod access;
mod addons;
mod changes;
mod limits;
mod machines;
mod names;
mod own_range;
mod provider;
mod ranges;
#[cfg(test)]
pub(crate) mod testing;
mod versions;

use butler_api::butler::{
    butler_config::{ButlerConfig, MultiTenancyMode},
    network_pool::NetworkPool,
    provider_config::{NetworkMode, PoolReference, ProviderConfig},
    team::Team,
    tenant_cluster::TenantCluster,
};
use butler_runtime::object::ObjectKey;

pub(crate) use changes::{deletion, forbidden_changes};
pub(crate) use limits::false_creator;
pub(crate) use own_range::{own_range, pool_of};
pub(crate) use provider::{Choice, Chooser, Voices, choice_of, usual};

use crate::projections::{ProviderCandidate, TenantClusterFacts};

/// Everything that has a say about a tenant cluster.
#[derive(Clone, Debug)]
pub(crate) struct Case<'a> {
    /// The cluster.
    pub(crate) cluster: &'a TenantCluster,
    /// Settings of the platform, if there are any.
    pub(crate) config: Option<&'a ButlerConfig>,
    /// The team that [`team_of`] names, if there is such a one.
    pub(crate) team: Option<&'a Team>,
    /// The providers that may be taken where nobody names one.
    pub(crate) candidates: &'a [ProviderCandidate],
    /// The provider that [`choice_of`] names, if there is such a one.
    pub(crate) provider: Option<&'a ProviderConfig>,
    /// Those of the provider's pools that exist.
    pub(crate) pools: &'a [NetworkPool],
    /// All other tenant clusters.
    pub(crate) others: &'a [TenantClusterFacts],
}

/// A rule that a tenant cluster breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    /// The condition that does not hold because of it.
    pub(crate) condition: &'static str,
    /// The reason of that condition.
    pub(crate) reason: &'static str,
    /// The field, as it is written in the manifest.
    pub(crate) field: String,
    /// What is wrong with it, and what to do.
    pub(crate) rule: String,
    /// By how much a limit is exceeded, and which one it is.
    excess: Option<(&'static str, i64)>,
}

impl Breach {
    fn new(
        (condition, reason): (&'static str, &'static str),
        field: impl Into<String>,
        rule: impl Into<String>,
    ) -> Self {
        Self {
            condition,
            reason,
            field: field.into(),
            rule: rule.into(),
            excess: None,
        }
    }

    fn exceeding(mut self, limit: &'static str, by: i64) -> Self {
        self.excess = Some((limit, by));
        self
    }

    /// Whether it is new, or worse than before: what was so already must not hold up other changes.
    fn is_worse_than(&self, before: &Self) -> bool {
        match (self.excess, before.excess) {
            (Some((limit, by)), Some((limit_before, by_before))) => {
                limit != limit_before || by > by_before
            }
            _ => self != before,
        }
    }

    /// Field and rule in one sentence, as conditions have it.
    pub(crate) fn message(&self) -> String {
        format!("{}: {}", self.field, self.rule)
    }
}

impl Case<'_> {
    /// The team, unless teams are not looked at here.
    fn counted_team(&self) -> Option<&Team> {
        self.team
            .filter(|_| mode(self.config) != MultiTenancyMode::Disabled)
    }

    /// Who has a say in the choice of the provider.
    fn voices(&self) -> Voices<'_> {
        Voices {
            config: self.config,
            team: self.team,
            candidates: self.candidates,
        }
    }

    /// The provider that was looked for.
    pub(crate) fn choice(&self) -> Choice {
        choice_of(self.cluster, &self.voices())
    }
}

/// Every rule that the cluster breaks, the ones to mend first coming first.
pub(crate) fn breaches(case: &Case<'_>) -> Vec<Breach> {
    let mut found = names::breaches(case);
    found.extend(access::breaches(case));
    found.extend(versions::breaches(case));
    found.extend(ranges::breaches(case));
    found.extend(own_range::breaches(case));
    found.extend(machines::breaches(case));
    found.extend(addons::breaches(case));
    found.extend(limits::breaches(case));
    found
}

/// The rules that a change breaks and that the cluster kept before, or broke less.
pub(crate) fn new_breaches(case: &Case<'_>, old: Option<&TenantCluster>) -> Vec<Breach> {
    let before = old.map(|cluster| {
        breaches(&Case {
            cluster,
            ..case.clone()
        })
    });
    let before = before.unwrap_or_default();
    let mut found = breaches(case);
    found.retain(|breach| before.iter().all(|before| breach.is_worse_than(before)));
    found
}

/// Whether clusters must belong to teams.
fn mode(config: Option<&ButlerConfig>) -> MultiTenancyMode {
    let tenancy = config.and_then(|config| config.spec.multi_tenancy.as_ref());
    tenancy.map(|tenancy| tenancy.mode).unwrap_or_default()
}

/// The name of the team that a cluster belongs to, if there is a team of that name: the one it names, else the one in whose
/// namespace it is.
pub(crate) fn team_of(cluster: &TenantCluster) -> String {
    TenantClusterFacts::team_of(cluster)
}

/// The pools that a provider gives addresses from, those that are asked first at the front.
pub(crate) fn pools_of(provider: &ProviderConfig) -> Vec<ObjectKey> {
    let namespace = provider.metadata.namespace.as_deref().unwrap_or_default();
    let network = provider.spec.network.as_ref();
    let network = network.filter(|network| network.mode == NetworkMode::Ipam);
    let pools = network.into_iter().flat_map(|network| &network.pool_refs);
    let mut pools: Vec<_> = pools.collect();
    pools.sort_by_key(|pool| std::cmp::Reverse(pool.priority));
    let key = |pool: &PoolReference| ObjectKey::namespaced(namespace, &pool.name);
    pools.into_iter().map(key).collect()
}
