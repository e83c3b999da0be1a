//! Whether a cluster may be where it is, and use the provider that it asks for.

use butler_api::{
    butler::{
        butler_config::MultiTenancyMode,
        provider_config::ScopeType,
        team::{Team, TeamPhase},
    },
    conditions::{reasons, types},
    keys::{labels, names},
};
use kube::ResourceExt;

use super::{Breach, Case, Choice, Chooser, mode, team_of};

/// The condition that says whether the cluster may be where it is.
const ACCESS: &str = types::PROVIDER_ACCESS_GRANTED;

pub(super) fn breaches(case: &Case<'_>) -> Vec<Breach> {
    let found = [
        tenancy(case),
        environment(case),
        provider(case),
        moved(case),
        allowed(case),
    ];
    found.into_iter().flatten().collect()
}

/// Whether the cluster is in the namespace where it belongs.
fn tenancy(case: &Case<'_>) -> Option<Breach> {
    let named = case.cluster.spec.team_ref.as_ref();
    let violation = |field: &str, rule: String| {
        Some(Breach::new(
            (ACCESS, reasons::TENANCY_VIOLATION),
            field,
            rule,
        ))
    };
    match (mode(case.config), named, case.team) {
        (MultiTenancyMode::Disabled, _, _) | (MultiTenancyMode::Optional, None, Some(_)) => None,
        (MultiTenancyMode::Enforced, None, _) => {
            let rule = "every cluster belongs to a team here: name it, and create the cluster in its namespace";
            violation("spec.teamRef", rule.to_owned())
        }
        (MultiTenancyMode::Optional, None, None) => {
            let default = case
                .config
                .map_or(names::DEFAULT_TENANT_NAMESPACE, |config| {
                    &config.spec.default_namespace
                });
            let rule = format!(
                "a cluster without a team belongs into the namespace {default}: create it there, or name its team in \
                 spec.teamRef"
            );
            (case.cluster.namespace().as_deref() != Some(default))
                .then(|| violation("metadata.namespace", rule))
                .flatten()
        }
        (_, Some(named), None) => {
            let rule = format!(
                "the Team {} does not exist: create it, or name another",
                named.name
            );
            Some(Breach::new(
                (ACCESS, reasons::TEAM_NOT_FOUND),
                "spec.teamRef",
                rule,
            ))
        }
        (_, Some(_), Some(team)) => {
            let name = team.name_any();
            let home = home(team);
            if case.cluster.namespace().as_deref() != Some(&home) {
                let rule = format!(
                    "clusters of the Team {name} belong into the namespace {home}: create the cluster there, or name another \
                     team"
                );
                return violation("spec.teamRef", rule);
            }
            let phase = team.status.as_ref().and_then(|status| status.phase);
            let rule = format!("the Team {name} is being deleted: name another");
            (phase == Some(TeamPhase::Terminating))
                .then(|| violation("spec.teamRef", rule))
                .flatten()
        }
    }
}

fn home(team: &Team) -> String {
    let told = team
        .status
        .as_ref()
        .and_then(|status| status.namespace.clone());
    told.unwrap_or_else(|| team.name_any())
}

/// Whether the cluster says which environment of its team it is in, if the team has any.
fn environment(case: &Case<'_>) -> Option<Breach> {
    let team = case.counted_team()?;
    let environments: Vec<_> = team
        .spec
        .environments
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    let label = case.cluster.labels().get(labels::ENVIRONMENT);
    let rule = match label {
        _ if environments.is_empty() => return None,
        Some(label) if environments.contains(&label.as_str()) => return None,
        Some(label) => format!("the Team {} has no environment {label}", team.name_any()),
        None => format!(
            "the Team {} has environments, and the cluster must be in one",
            team.name_any()
        ),
    };
    let rule = format!("{rule}: give one of {}", environments.join(", "));
    let field = format!("metadata.labels[{}]", labels::ENVIRONMENT);
    Some(Breach::new(
        (ACCESS, reasons::TENANCY_VIOLATION),
        field,
        rule,
    ))
}

/// Whether the provider exists, and is for this team.
fn provider(case: &Case<'_>) -> Option<Breach> {
    let field = "spec.providerConfigRef";
    let Choice { key, by } = case.choice();
    let Some(provider) = case.provider else {
        let rule = match by {
            Chooser::Cluster => {
                format!("the ProviderConfig {key} does not exist: create it, or name another")
            }
            Chooser::Nobody => format!(
                "names none, and there is no ProviderConfig in the namespace {} that the cluster may use: create one, or \
                 name one",
                names::SYSTEM_NAMESPACE
            ),
            Chooser::Past | Chooser::Team | Chooser::Platform | Chooser::Name | Chooser::First => {
                format!(
                    "names none, and the default ProviderConfig {key} does not exist: create it, or name one"
                )
            }
        };
        return Some(Breach::new(
            (ACCESS, reasons::PROVIDER_CONFIG_NOT_FOUND),
            field,
            rule,
        ));
    };
    let scope = provider.spec.scope.as_ref();
    let scope = scope.filter(|scope| scope.kind == ScopeType::Team)?;
    let theirs = scope
        .team_ref
        .as_ref()
        .map_or("", |team| team.name.as_str());
    let rule = format!("the ProviderConfig {key} is for the team {theirs} alone: name another");
    let is_theirs = case
        .counted_team()
        .is_some_and(|team| team.name_any() == theirs)
        && team_of(case.cluster) == theirs;
    (!is_theirs).then(|| Breach::new((ACCESS, reasons::PROVIDER_ACCESS_DENIED), field, rule))
}

/// Machines do not move: a cluster stays on the provider that it runs on.
fn moved(case: &Case<'_>) -> Option<Breach> {
    let settled = case.cluster.status.as_ref()?.provider_config_ref.as_ref()?;
    let namespace = settled
        .namespace
        .as_deref()
        .unwrap_or(names::SYSTEM_NAMESPACE);
    let asked = case.choice().key;
    let stays = asked.name == settled.name && asked.namespace.as_deref() == Some(namespace);
    let rule = format!(
        "cannot be changed to {asked}: the cluster runs on {namespace}/{}; create a new cluster instead",
        settled.name
    );
    (!stays).then(|| {
        Breach::new(
            (types::READY, reasons::VALIDATION_FAILED),
            "spec.providerConfigRef",
            rule,
        )
    })
}

/// Whether the team may use this provider.
fn allowed(case: &Case<'_>) -> Option<Breach> {
    let team = case.counted_team()?;
    let allowed = &team.spec.resource_limits.as_ref()?.allowed_providers;
    let asked = case.choice().key;
    if allowed.is_empty() || allowed.contains(&asked.name) {
        return None;
    }
    let rule = format!(
        "the Team {} may not use the ProviderConfig {}: name one of {}",
        team.name_any(),
        asked.name,
        allowed.join(", ")
    );
    let kind = (ACCESS, reasons::PROVIDER_ACCESS_DENIED);
    Some(Breach::new(kind, "spec.providerConfigRef", rule))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tenant_rules::testing::{Scene, cluster, team};

    #[test]
    fn a_provider_that_does_not_exist_is_told_by_name() {
        let mut scene = Scene::new(cluster(&json!({"providerConfigRef": {"name": "harvestr"}})));
        scene.provider = None;
        insta::assert_snapshot!(scene.told(super::breaches), @"spec.providerConfigRef: the ProviderConfig butler-system/harvestr does not exist: create it, or name another");
        let mut scene = Scene::new(cluster(&json!({})));
        scene.provider = None;
        insta::assert_snapshot!(scene.told(super::breaches), @"spec.providerConfigRef: names none, and there is no ProviderConfig in the namespace butler-system that the cluster may use: create one, or name one");
        let named = json!({"metadata": {"name": "butler"}, "spec": {"defaultProviderConfigRef": {"name": "gone"}}});
        scene.config = Some(serde_json::from_value(named).unwrap());
        insta::assert_snapshot!(scene.told(super::breaches), @"spec.providerConfigRef: names none, and the default ProviderConfig butler-system/gone does not exist: create it, or name one");
    }

    #[test]
    fn a_provider_of_another_team_is_not_for_us() {
        let mut scene = Scene::new(cluster(&json!({"teamRef": {"name": "payments"}})));
        scene.mode("Optional");
        scene.team = Some(team("payments", &json!({})));
        scene.provide(
            &json!({"provider": "local", "scope": {"type": "team", "teamRef": {"name": "ledger"}}}),
        );
        insta::assert_snapshot!(scene.told(super::breaches), @"spec.providerConfigRef: the ProviderConfig butler-system/default is for the team ledger alone: name another");
        scene.provide(&json!({"provider": "local", "scope": {"type": "team", "teamRef": {"name": "payments"}}}));
        assert_eq!(scene.told(super::breaches), "");
        // Where teams are not looked at, nobody is of that team.
        scene.mode("Disabled");
        assert_ne!(scene.told(super::breaches), "");
    }

    #[test]
    fn a_cluster_belongs_where_its_team_lives() {
        let mut scene = Scene::new(cluster(&json!({})));
        scene.mode("Enforced");
        insta::assert_snapshot!(scene.told(super::breaches), @"spec.teamRef: every cluster belongs to a team here: name it, and create the cluster in its namespace");
        scene.mode("Optional");
        insta::assert_snapshot!(scene.told(super::breaches), @"metadata.namespace: a cluster without a team belongs into the namespace butler-tenants: create it there, or name its team in spec.teamRef");
        // In the namespace of a team it belongs to that team, also if it does not say so.
        scene.team = Some(team("payments", &json!({})));
        assert_eq!(scene.told(super::breaches), "");
        scene.cluster = cluster(&json!({"teamRef": {"name": "ledger"}}));
        scene.team = None;
        insta::assert_snapshot!(scene.told(super::breaches), @"spec.teamRef: the Team ledger does not exist: create it, or name another");
        scene.team = Some(team("ledger", &json!({})));
        insta::assert_snapshot!(scene.told(super::breaches), @"spec.teamRef: clusters of the Team ledger belong into the namespace ledger: create the cluster there, or name another team");
        scene.mode("Disabled");
        assert_eq!(scene.told(super::breaches), "");
    }

    #[test]
    fn a_team_with_environments_wants_to_know_which() {
        let mut scene = Scene::new(cluster(&json!({})));
        scene.mode("Optional");
        scene.team = Some(team(
            "payments",
            &json!({"environments": [{"name": "dev"}, {"name": "prod"}]}),
        ));
        insta::assert_snapshot!(scene.told(super::breaches), @"metadata.labels[butler.butlerlabs.dev/environment]: the Team payments has environments, and the cluster must be in one: give one of dev, prod");
        scene.label("butler.butlerlabs.dev/environment", "test");
        insta::assert_snapshot!(scene.told(super::breaches), @"metadata.labels[butler.butlerlabs.dev/environment]: the Team payments has no environment test: give one of dev, prod");
        scene.label("butler.butlerlabs.dev/environment", "dev");
        assert_eq!(scene.told(super::breaches), "");
    }

    #[test]
    fn a_cluster_stays_on_its_provider() {
        let mut scene = Scene::new(cluster(&json!({"providerConfigRef": {"name": "nutanix"}})));
        scene
            .settle(&json!({"providerConfigRef": {"name": "local", "namespace": "butler-system"}}));
        insta::assert_snapshot!(scene.told(super::breaches), @"spec.providerConfigRef: cannot be changed to butler-system/nutanix: the cluster runs on butler-system/local; create a new cluster instead");
        // Another default leaves it where it is.
        let mut scene = Scene::new(cluster(&json!({})));
        scene.settle(&json!({"providerConfigRef": {"name": "local"}}));
        assert_eq!(scene.told(super::breaches), "");
    }

    #[test]
    fn a_team_is_kept_to_the_providers_it_may_use() {
        let mut scene = Scene::new(cluster(&json!({})));
        scene.mode("Optional");
        scene.team = Some(team(
            "payments",
            &json!({"resourceLimits": {"allowedProviders": ["harvester"]}}),
        ));
        insta::assert_snapshot!(scene.told(super::breaches), @"spec.providerConfigRef: the Team payments may not use the ProviderConfig default: name one of harvester");
    }
}
