//! Which provider a cluster runs on, and who chose it: the cluster itself, what it runs on already, its team, the platform, the
//! one called `default`, or else the first by name of those that it may use.
//!
//! Must not: take another in the place of one that somebody names and that does not exist.

use butler_api::{
    butler::{
        butler_config::{ButlerConfig, MultiTenancyMode},
        team::Team,
        tenant_cluster::TenantCluster,
    },
    keys::names::{DEFAULT_PROVIDER_CONFIG, SYSTEM_NAMESPACE},
    reference::NamespacedReference,
};
use butler_runtime::object::ObjectKey;
use kube::ResourceExt;

use super::mode;
use crate::projections::{ProviderCandidate, TenantClusterFacts};

/// Who has a say where a cluster names no provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Voices<'a> {
    /// Settings of the platform, if there are any.
    pub(crate) config: Option<&'a ButlerConfig>,
    /// The team of the cluster, if there is such a one.
    pub(crate) team: Option<&'a Team>,
    /// The providers in the namespace of the platform.
    pub(crate) candidates: &'a [ProviderCandidate],
}

/// Who chose a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chooser {
    /// The cluster names it.
    Cluster,
    /// The cluster runs on it, whatever others would choose now.
    Past,
    /// It is that of the team.
    Team,
    /// It is the default of the platform.
    Platform,
    /// Nobody names one, and it is called `default`.
    Name,
    /// Nobody names one, and it is the first that may be taken.
    First,
    /// Nobody names one, and there is none to take.
    Nobody,
}

/// A provider that was chosen. It may not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) key: ObjectKey,
    pub(crate) by: Chooser,
}

impl Choice {
    fn in_system(name: &str, by: Chooser) -> Self {
        let key = ObjectKey::namespaced(SYSTEM_NAMESPACE, name);
        Self { key, by }
    }

    /// Which one was taken, and why, in a sentence without its end.
    pub(crate) fn words(&self) -> String {
        let why = match self.by {
            Chooser::Cluster => "which the cluster names",
            Chooser::Past => "on which the cluster runs already",
            Chooser::Team => "the one of its team",
            Chooser::Platform => "the default of the platform",
            Chooser::Name | Chooser::Nobody => "because nobody names one and it is called default",
            Chooser::First => {
                "because nobody names one, none is called default, and it is the first by name that the cluster may use"
            }
        };
        format!("machines come from the ProviderConfig {}, {why}", self.key)
    }
}

/// The provider of a cluster.
pub(crate) fn choice_of(cluster: &TenantCluster, voices: &Voices<'_>) -> Choice {
    if let Some(named) = &cluster.spec.provider_config_ref {
        return Choice {
            key: key_of(named),
            by: Chooser::Cluster,
        };
    }
    let usual = usual(&TenantClusterFacts::team_of(cluster), voices);
    let status = cluster.status.as_ref();
    let settled = status.and_then(|status| status.provider_config_ref.as_ref());
    match settled.map(key_of) {
        Some(key) if key != usual.key => Choice {
            key,
            by: Chooser::Past,
        },
        _ => usual,
    }
}

/// The provider of clusters of a team that name none and run on none yet.
pub(crate) fn usual(team: &str, voices: &Voices<'_>) -> Choice {
    let of_team = voices
        .team
        .and_then(|team| team.spec.provider_config_ref.as_ref());
    if let Some(named) = of_team {
        return Choice::in_system(&named.name, Chooser::Team);
    }
    let config = voices.config.map(|config| &config.spec);
    let of_platform = config.and_then(|spec| spec.default_provider_config_ref.as_ref());
    if let Some(named) = of_platform {
        return Choice::in_system(&named.name, Chooser::Platform);
    }
    let mut candidates = voices.candidates.iter();
    if candidates.any(|candidate| candidate.name == DEFAULT_PROVIDER_CONFIG) {
        return Choice::in_system(DEFAULT_PROVIDER_CONFIG, Chooser::Name);
    }
    let candidates = voices.candidates.iter();
    let usable = candidates.filter(|candidate| may_use(team, candidate, voices));
    match usable.min_by_key(|candidate| &candidate.name) {
        Some(first) => Choice::in_system(&first.name, Chooser::First),
        None => Choice::in_system(DEFAULT_PROVIDER_CONFIG, Chooser::Nobody),
    }
}

fn key_of(reference: &NamespacedReference) -> ObjectKey {
    let namespace = reference.namespace.as_deref().unwrap_or(SYSTEM_NAMESPACE);
    ObjectKey::namespaced(namespace, &reference.name)
}

/// Whether a cluster of a team could run on a provider. What it could not use, or what is about to go, is not taken unasked.
fn may_use(team: &str, candidate: &ProviderCandidate, voices: &Voices<'_>) -> bool {
    let counted = voices
        .team
        .filter(|_| mode(voices.config) != MultiTenancyMode::Disabled);
    let is_theirs = |theirs: &String| {
        team == theirs && counted.is_some_and(|counted| counted.name_any() == *theirs)
    };
    let limits = counted.and_then(|counted| counted.spec.resource_limits.as_ref());
    let is_allowed = limits.is_none_or(|limits| {
        let allowed = &limits.allowed_providers;
        allowed.is_empty() || allowed.contains(&candidate.name)
    });
    !candidate.deleting && is_allowed && candidate.team.as_ref().is_none_or(is_theirs)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::tenant_rules::testing::{cluster, team};

    fn candidate(name: &str) -> ProviderCandidate {
        ProviderCandidate {
            name: name.to_owned(),
            team: None,
            deleting: false,
        }
    }

    fn config(spec: &Value) -> ButlerConfig {
        serde_json::from_value(json!({ "metadata": { "name": "butler" }, "spec": spec })).unwrap()
    }

    /// What is taken, in words, with each voice after the other falling silent.
    fn told(cluster: &TenantCluster, voices: &Voices<'_>) -> String {
        choice_of(cluster, voices).words()
    }

    #[test]
    fn the_closest_voice_that_names_a_provider_is_heard() {
        let (named, plain) = (
            cluster(&json!({ "providerConfigRef": { "name": "nutanix", "namespace": "clouds" } })),
            cluster(&json!({})),
        );
        let payments = team(
            "payments",
            &json!({ "providerConfigRef": { "name": "harvester" } }),
        );
        let platform = config(&json!({ "defaultProviderConfigRef": { "name": "proxmox" } }));
        let candidates = ["aws", "default", "proxmox"].map(candidate);
        let mut voices = Voices {
            config: Some(&platform),
            team: Some(&payments),
            candidates: &candidates,
        };
        let mut lines = vec![told(&named, &voices), told(&plain, &voices)];
        voices.team = None;
        lines.push(told(&plain, &voices));
        voices.config = None;
        lines.push(told(&plain, &voices));
        let others = ["proxmox", "aws"].map(candidate);
        voices.candidates = &others;
        lines.push(told(&plain, &voices));
        insta::assert_snapshot!(lines.join("\n"), @r"
        machines come from the ProviderConfig clouds/nutanix, which the cluster names
        machines come from the ProviderConfig butler-system/harvester, the one of its team
        machines come from the ProviderConfig butler-system/proxmox, the default of the platform
        machines come from the ProviderConfig butler-system/default, because nobody names one and it is called default
        machines come from the ProviderConfig butler-system/aws, because nobody names one, none is called default, and it is the first by name that the cluster may use
        ");
    }

    #[test]
    fn a_provider_that_is_named_and_does_not_exist_is_not_replaced_by_another() {
        let platform = config(&json!({ "defaultProviderConfigRef": { "name": "proxmox" } }));
        let candidates = [candidate("aws")];
        let voices = Voices {
            config: Some(&platform),
            team: None,
            candidates: &candidates,
        };
        let choice = choice_of(&cluster(&json!({})), &voices);
        assert_eq!(choice, Choice::in_system("proxmox", Chooser::Platform));
    }

    #[test]
    fn what_the_cluster_could_not_use_is_not_taken_unasked() {
        let theirs = ProviderCandidate {
            team: Some("ledger".to_owned()),
            ..candidate("aws")
        };
        let going = ProviderCandidate {
            deleting: true,
            ..candidate("azure")
        };
        let ours = ProviderCandidate {
            team: Some("payments".to_owned()),
            ..candidate("gcp")
        };
        let candidates = [
            theirs,
            going,
            ours,
            candidate("local"),
            candidate("nutanix"),
        ];
        let payments = team("payments", &json!({}));
        let limits = json!({ "resourceLimits": { "allowedProviders": ["nutanix"] } });
        let limited = team("payments", &limits);
        let taken = |team: Option<&Team>, mode: &str| {
            let config = config(&json!({ "multiTenancy": { "mode": mode } }));
            let voices = Voices {
                config: Some(&config),
                team,
                candidates: &candidates,
            };
            choice_of(&cluster(&json!({})), &voices).key.name
        };
        assert_eq!(taken(Some(&payments), "Optional"), "gcp");
        assert_eq!(taken(Some(&limited), "Optional"), "nutanix");
        assert_eq!(taken(None, "Optional"), "local");
        assert_eq!(taken(Some(&payments), "Disabled"), "local");
    }

    #[test]
    fn a_cluster_stays_where_it_runs_whatever_comes_before_it_now() {
        let mut shop = cluster(&json!({}));
        let settled = json!({ "providerConfigRef": { "name": "nutanix" } });
        shop.status = Some(serde_json::from_value(settled).unwrap());
        let before = [candidate("nutanix")];
        let mut voices = Voices {
            config: None,
            team: None,
            candidates: &before,
        };
        assert_eq!(choice_of(&shop, &voices).by, Chooser::First);
        let after = ["aws", "nutanix"].map(candidate);
        voices.candidates = &after;
        insta::assert_snapshot!(told(&shop, &voices), @"machines come from the ProviderConfig butler-system/nutanix, on which the cluster runs already");
    }
}
