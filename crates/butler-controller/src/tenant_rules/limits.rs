//! Limits of the team, its environment and the provider.
//!
//! They are counted for creations and for every change alike, and for clusters that name no provider too. Who exceeds a limit
//! already may do everything that does not make it worse.

use butler_api::{
    butler::team::{EnvironmentLimits, TeamEnvironment},
    conditions::{reasons, types},
    keys::annotations,
    normalize::team,
};
use kube::ResourceExt;

use super::{Breach, Case, usual};
use crate::projections::TenantClusterFacts;

/// A limit: which one, of what, of whom, the field that a cluster counts by, and the reason to report it under.
struct Limit {
    name: &'static str,
    what: &'static str,
    of: String,
    field: &'static str,
    reason: &'static str,
}

impl Limit {
    /// What is wrong, if more would be used than there may be.
    fn check(self, most: Option<i32>, used: i64) -> Option<Breach> {
        let most = i64::from(most?);
        let rule = format!(
            "{} would have {used} {} and may have {most}: ask for less, or have the limit raised",
            self.of, self.what
        );
        (used > most).then(|| {
            Breach::new((types::QUOTA_SATISFIED, self.reason), self.field, rule)
                .exceeding(self.name, used - most)
        })
    }
}

const NAME: &str = "metadata.name";
const WORKERS: &str = "spec.workers.replicas";

pub(super) fn breaches(case: &Case<'_>) -> Vec<Breach> {
    let own = TenantClusterFacts::of(case.cluster);
    let mut found = of_team(case, &own);
    found.extend(of_environment(case, &own));
    found.extend(of_provider(case, &own));
    found
}

/// Clusters and workers of those others that count, with the cluster itself.
fn used(
    case: &Case<'_>,
    own: &TenantClusterFacts,
    counts: impl Fn(&TenantClusterFacts) -> bool,
) -> (i64, i64) {
    let others = case.others.iter().filter(|other| other.team == own.team);
    let others = others.filter(|other| counts(other));
    let (clusters, workers) = others.fold((1, 0), |(clusters, workers), other| {
        (clusters + 1, workers + i64::from(other.workers))
    });
    (clusters, workers + i64::from(own.workers))
}

fn of_team(case: &Case<'_>, own: &TenantClusterFacts) -> Vec<Breach> {
    let Some(team) = case.counted_team() else {
        return Vec::new();
    };
    let platform = case
        .config
        .and_then(|config| config.spec.default_team_limits.as_ref());
    let limits = match team::limits(team.spec.resource_limits.as_ref(), platform) {
        Ok(limits) => limits,
        Err(error) => {
            let rule = format!(
                "the limits of the Team {} cannot be counted: {error}",
                team.name_any()
            );
            let kind = (types::QUOTA_SATISFIED, reasons::VALIDATION_FAILED);
            return vec![Breach::new(kind, "spec.teamRef", rule)];
        }
    };
    let (clusters, workers) = used(case, own, |_| true);
    let limit = |name, what, field| Limit {
        name,
        what,
        of: format!("the Team {}", team.name_any()),
        field,
        reason: reasons::QUOTA_EXCEEDED,
    };
    let per_cluster = Limit {
        of: "the cluster".to_owned(),
        ..limit("workers of a cluster", "workers", WORKERS)
    };
    let found = [
        limit("clusters of a team", "clusters", NAME).check(limits.clusters, clusters),
        limit("workers of a team", "workers", WORKERS).check(limits.total_nodes, workers),
        per_cluster.check(limits.nodes_per_cluster, i64::from(own.workers)),
    ];
    found.into_iter().flatten().collect()
}

/// The environment of the cluster, if it has limits.
fn environment<'a>(
    case: &'a Case<'_>,
    own: &TenantClusterFacts,
) -> Option<(&'a TeamEnvironment, &'a EnvironmentLimits)> {
    let mut environments = case.counted_team()?.spec.environments.iter();
    let environment = environments.find(|one| Some(&one.name) == own.environment.as_ref())?;
    Some((environment, environment.limits.as_ref()?))
}

/// Zero sets no limit in an environment.
fn positive(limit: Option<i32>) -> Option<i32> {
    limit.filter(|limit| *limit > 0)
}

/// Where the clusters of each member are counted, nobody can make one in the name of another. `user` is who asks.
pub(crate) fn false_creator(case: &Case<'_>, user: &str) -> Option<Breach> {
    let own = TenantClusterFacts::of(case.cluster);
    let (environment, limits) = environment(case, &own)?;
    positive(limits.max_clusters_per_member)?;
    let creator = case.cluster.annotations().get(annotations::CREATOR_EMAIL)?;
    let rule = format!(
        "must be {user}, as that is who asks: the environment {} limits the clusters of each member",
        environment.name
    );
    let field = format!("metadata.annotations[{}]", annotations::CREATOR_EMAIL);
    let kind = (types::QUOTA_SATISFIED, reasons::VALIDATION_FAILED);
    (team::fold_email(creator) != team::fold_email(user)).then(|| Breach::new(kind, field, rule))
}

fn of_environment(case: &Case<'_>, own: &TenantClusterFacts) -> Vec<Breach> {
    let Some((environment, limits)) = environment(case, own) else {
        return Vec::new();
    };
    let (clusters, _) = used(case, own, |other| other.environment == own.environment);
    let all = Limit {
        name: "clusters of an environment",
        what: "clusters",
        of: format!("the environment {}", environment.name),
        field: NAME,
        reason: reasons::ENVIRONMENT_QUOTA_EXCEEDED,
    };
    let of_member = of_member(
        case,
        own,
        environment,
        positive(limits.max_clusters_per_member),
    );
    let all = all.check(positive(limits.max_clusters), clusters);
    all.into_iter().chain(of_member).collect()
}

fn of_member(
    case: &Case<'_>,
    own: &TenantClusterFacts,
    environment: &TeamEnvironment,
    most: Option<i32>,
) -> Option<Breach> {
    most?;
    let Some(owner) = &own.owner else {
        let rule = format!(
            "the environment {} limits the clusters of each member: say whose this one is, by e-mail",
            environment.name
        );
        let field = format!("metadata.annotations[{}]", annotations::CREATOR_EMAIL);
        let kind = (types::QUOTA_SATISFIED, reasons::PER_MEMBER_CAP_EXCEEDED);
        return Some(Breach::new(kind, field, rule));
    };
    let (clusters, _) = used(case, own, |other| {
        other.environment == own.environment && other.owner == own.owner
    });
    let limit = Limit {
        name: "clusters of a member",
        what: "clusters",
        of: format!("{owner} in the environment {}", environment.name),
        field: NAME,
        reason: reasons::PER_MEMBER_CAP_EXCEEDED,
    };
    limit.check(most, clusters)
}

fn of_provider(case: &Case<'_>, own: &TenantClusterFacts) -> Vec<Breach> {
    let Some(limits) = case
        .provider
        .and_then(|provider| provider.spec.limits.as_ref())
    else {
        return Vec::new();
    };
    let key = case.choice().key;
    // Others of the team that name none have the same default.
    let (clusters, workers) = used(case, own, |other| {
        let theirs = other.provider.as_ref();
        theirs.map_or_else(
            || usual(&other.team, &case.voices()).key == key,
            |theirs| *theirs == key,
        )
    });
    let limit = |name, what, field| Limit {
        name,
        what,
        of: format!("{} on the ProviderConfig {key}", own.team),
        field,
        reason: reasons::QUOTA_EXCEEDED,
    };
    let found = [
        limit("clusters on a provider", "clusters", NAME)
            .check(limits.max_clusters_per_team, clusters),
        limit("workers on a provider", "workers", WORKERS)
            .check(limits.max_nodes_per_team, workers),
    ];
    found.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{
        projections::TenantClusterFacts,
        tenant_rules::{
            new_breaches,
            testing::{Scene, cluster, cluster_named, team},
        },
    };

    fn limited(limits: &Value, spec: &Value) -> Scene {
        let mut scene = Scene::new(cluster(spec));
        scene.mode("Optional");
        scene.team = Some(team("payments", &json!({"resourceLimits": limits})));
        let others =
            ["one", "two"].map(|name| cluster_named(name, &json!({"workers": {"replicas": 3}})));
        scene.others = others.iter().map(TenantClusterFacts::of).collect();
        scene
    }

    #[test]
    fn limits_of_the_team_hold_for_clusters_that_name_no_provider_too() {
        let limits = json!({"maxClusters": 2, "maxTotalNodes": 9, "maxNodesPerCluster": 3});
        let spec =
            json!({"workers": {"replicas": 2}, "nodePools": [{"name": "gpu", "replicas": 2}]});
        insta::assert_snapshot!(limited(&limits, &spec).told(super::breaches), @r"
        metadata.name: the Team payments would have 3 clusters and may have 2: ask for less, or have the limit raised
        spec.workers.replicas: the Team payments would have 10 workers and may have 9: ask for less, or have the limit raised
        spec.workers.replicas: the cluster would have 4 workers and may have 3: ask for less, or have the limit raised
        ");
        let limits = json!({"maxClusters": 3, "maxTotalNodes": 10, "maxNodesPerCluster": 4});
        assert_eq!(limited(&limits, &spec).told(super::breaches), "");
    }

    #[test]
    fn growing_is_counted_as_creating_is() {
        let limits = json!({"maxTotalNodes": 8});
        let before = cluster(&json!({"workers": {"replicas": 2}}));
        let refused = |replicas: i32| {
            let scene = limited(&limits, &json!({"workers": {"replicas": replicas}}));
            !new_breaches(&scene.case(), Some(&before)).is_empty()
        };
        assert!(!refused(2));
        assert!(refused(3));
    }

    #[test]
    fn who_exceeds_a_limit_already_may_shrink_and_change_other_things() {
        let limits = json!({"maxTotalNodes": 7});
        let before = cluster(&json!({"workers": {"replicas": 5}}));
        let refused = |replicas: i32| {
            let scene = limited(&limits, &json!({"workers": {"replicas": replicas}}));
            !new_breaches(&scene.case(), Some(&before)).is_empty()
        };
        assert!(!refused(4));
        assert!(!refused(5));
        assert!(refused(6));
    }

    #[test]
    fn limits_that_cannot_be_read_stop_a_cluster_and_are_not_passed_over() {
        let scene = limited(&json!({"maxMemory": "much"}), &json!({}));
        insta::assert_snapshot!(scene.told(super::breaches), @"spec.teamRef: the limits of the Team payments cannot be counted: reading the team limit spec.resourceLimits.maxMemory: the value cannot be used; write an amount such as 200 or 1Ti");
    }

    #[test]
    fn limits_of_the_provider_count_what_runs_there_by_default() {
        let mut scene = limited(&json!({}), &json!({"workers": {"replicas": 1}}));
        scene.provide(&json!({"provider": "local", "limits": {"maxClustersPerTeam": 2, "maxNodesPerTeam": 6}}));
        insta::assert_snapshot!(scene.told(super::breaches), @r"
        metadata.name: payments on the ProviderConfig butler-system/default would have 3 clusters and may have 2: ask for less, or have the limit raised
        spec.workers.replicas: payments on the ProviderConfig butler-system/default would have 7 workers and may have 6: ask for less, or have the limit raised
        ");
        let elsewhere = cluster_named("one", &json!({"providerConfigRef": {"name": "other"}}));
        scene.others = vec![TenantClusterFacts::of(&elsewhere)];
        assert_eq!(scene.told(super::breaches), "");
    }

    #[test]
    fn a_member_has_a_limit_in_an_environment() {
        let mut scene = limited(&json!({}), &json!({}));
        scene.team = Some(team(
            "payments",
            &json!({"environments": [
                {"name": "dev", "limits": {"maxClusters": 2, "maxClustersPerMember": 1}},
            ]}),
        ));
        for other in &mut scene.others {
            other.environment = Some("dev".to_owned());
        }
        scene.others[0].owner = Some("ada@example.com".to_owned());
        scene.label("butler.butlerlabs.dev/environment", "dev");
        insta::assert_snapshot!(scene.told(super::breaches), @r"
        metadata.name: the environment dev would have 3 clusters and may have 2: ask for less, or have the limit raised
        metadata.annotations[butler.butlerlabs.dev/creator-email]: the environment dev limits the clusters of each member: say whose this one is, by e-mail
        ");
        scene.annotate("butler.butlerlabs.dev/creator-email", "Ada@Example.com");
        insta::assert_snapshot!(scene.told(super::breaches), @r"
        metadata.name: the environment dev would have 3 clusters and may have 2: ask for less, or have the limit raised
        metadata.name: ada@example.com in the environment dev would have 2 clusters and may have 1: ask for less, or have the limit raised
        ");
        assert_eq!(super::false_creator(&scene.case(), "ada@example.com"), None);
        let refused = super::false_creator(&scene.case(), "mallory@example.com").unwrap();
        insta::assert_snapshot!(refused.message(), @"metadata.annotations[butler.butlerlabs.dev/creator-email]: must be mallory@example.com, as that is who asks: the environment dev limits the clusters of each member");
    }
}
