//! Versions that are supported, that may follow the running one, and that the team may use.

use butler_api::{
    butler::provider_config::Provider,
    conditions::{reasons, types},
    keys::annotations,
    version::{
        KubernetesVersion,
        rules::{self, VersionRefusal},
    },
};
use butler_runtime::object::ObjectKey;
use kube::ResourceExt;

use super::{Breach, Case};

const FIELD: &str = "spec.kubernetesVersion";

pub(super) fn breaches(case: &Case<'_>) -> Vec<Breach> {
    let wanted = case.cluster.spec.kubernetes_version.as_str();
    let status = case.cluster.status.as_ref();
    let versions = status.and_then(|status| status.versions.as_ref());
    let running = versions.and_then(|versions| versions.control_plane.as_deref());
    let version = match rules::check(running, wanted) {
        Ok(version) => version,
        Err(refusal) => {
            let reason = match refusal {
                VersionRefusal::Step(_) => reasons::VERSION_SKEW,
                VersionRefusal::Unreadable(_) | VersionRefusal::Unsupported { .. } => {
                    reasons::VALIDATION_FAILED
                }
            };
            return vec![Breach::new(
                (types::READY, reason),
                FIELD,
                refusal.to_string(),
            )];
        }
    };
    let oldest = versions.and_then(|versions| versions.oldest_worker.as_deref());
    let found = [
        left_behind(&version, oldest),
        allowed(case, &version),
        at_provider(case, &version),
    ];
    found.into_iter().flatten().collect()
}

/// Workers must not be so old that the new control plane cannot serve them.
fn left_behind(version: &KubernetesVersion, oldest: Option<&str>) -> Option<Breach> {
    let oldest: KubernetesVersion = oldest?.parse().ok()?;
    let rule = format!(
        "{version} cannot serve workers of {oldest}, which the cluster still has: wait until they are upgraded"
    );
    (oldest <= *version && !version.supports_kubelet(&oldest))
        .then(|| Breach::new((types::READY, reasons::VERSION_SKEW), FIELD, rule))
}

/// Whether the team may use this version. `v1.31` stands for all of its patch versions.
fn allowed(case: &Case<'_>, version: &KubernetesVersion) -> Option<Breach> {
    let team = case.counted_team()?;
    let allowed = &team
        .spec
        .resource_limits
        .as_ref()?
        .allowed_kubernetes_versions;
    let with_letter = |text: &str| format!("v{}", text.trim_start_matches('v'));
    let covers = |text: &String| {
        let text = with_letter(text);
        text == version.to_string() || text == version.series()
    };
    if allowed.is_empty() || allowed.iter().any(covers) {
        return None;
    }
    let rule = format!(
        "the Team {} may not use {version}: choose one of {}",
        team.name_any(),
        allowed.join(", ")
    );
    Some(Breach::new(
        (types::READY, reasons::VALIDATION_FAILED),
        FIELD,
        rule,
    ))
}

/// Whether machines of the provider can have this version, where somebody has written down which they can have.
fn at_provider(case: &Case<'_>, version: &KubernetesVersion) -> Option<Breach> {
    let provider = case.provider?;
    let known = provider
        .annotations()
        .get(annotations::KUBERNETES_VERSIONS)?;
    let versions = known.split(',');
    let mut versions = versions.filter_map(|text| text.trim().parse::<KubernetesVersion>().ok());
    if versions.any(|known| known == *version) {
        return None;
    }
    let mut rule = format!(
        "machines of the ProviderConfig {} cannot have {version}: choose one of {}",
        ObjectKey::of(provider),
        known.replace(',', ", ")
    );
    if provider.spec.provider == Provider::Local {
        let command = format!("butleradm image kubernetes {}", version.bare());
        rule = format!("{rule}, or have it on this host by \"{command}\"");
    }
    Some(Breach::new(
        (types::READY, reasons::VALIDATION_FAILED),
        FIELD,
        rule,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tenant_rules::testing::{Scene, cluster, team};

    fn told(wanted: &str, running: Option<&str>, oldest: Option<&str>) -> String {
        let mut scene = Scene::new(cluster(&json!({"kubernetesVersion": wanted})));
        scene.settle(&json!({"versions": {"controlPlane": running, "oldestWorker": oldest}}));
        scene.told(super::breaches)
    }

    #[test]
    fn versions_go_up_one_minor_at_a_time_and_never_back() {
        assert_eq!(told("v1.36.3", None, None), "");
        assert_eq!(told("1.36.3", Some("v1.35.4"), Some("v1.35.4")), "");
        insta::assert_snapshot!(told("v1.28.0", None, None), @"spec.kubernetesVersion: v1.28.0 is not hosted by this release: choose a version from v1.29 to v1.36");
        insta::assert_snapshot!(told("v1.36.3", Some("v1.34.1"), None), @"spec.kubernetesVersion: cannot go from v1.34.1 to v1.36.3 in one step: upgrade one minor version at a time, first to v1.35.x");
        insta::assert_snapshot!(told("v1.34.1", Some("v1.35.4"), None), @"spec.kubernetesVersion: cannot go from v1.35.4 back to v1.34.1: Kubernetes does not support going back to an older minor version");
        insta::assert_snapshot!(told("v1.36.3", Some("v1.35.4"), Some("v1.32.0")), @"spec.kubernetesVersion: v1.36.3 cannot serve workers of v1.32.0, which the cluster still has: wait until they are upgraded");
    }

    #[test]
    fn a_version_that_no_machine_of_the_provider_can_have_is_refused_with_the_command_that_brings_it()
     {
        let mut scene = Scene::new(cluster(&json!({"kubernetesVersion": "1.34.1"})));
        assert_eq!(scene.told(super::breaches), "", "nobody knows");
        let key = "butler.butlerlabs.dev/kubernetes-versions".to_owned();
        let provider = scene.provider.as_mut().unwrap();
        let notes = provider.metadata.annotations.get_or_insert_default();
        notes.insert(key, "v1.35.4,v1.36.3".to_owned());
        insta::assert_snapshot!(scene.told(super::breaches), @r#"spec.kubernetesVersion: machines of the ProviderConfig butler-system/default cannot have v1.34.1: choose one of v1.35.4, v1.36.3, or have it on this host by "butleradm image kubernetes 1.34.1""#);
        scene.cluster = cluster(&json!({"kubernetesVersion": "1.35.4"}));
        assert_eq!(scene.told(super::breaches), "");
    }

    #[test]
    fn a_team_is_kept_to_the_versions_it_may_use() {
        let mut scene = Scene::new(cluster(&json!({"kubernetesVersion": "v1.36.3"})));
        scene.mode("Optional");
        let limits = |versions: &[&str]| {
            team(
                "payments",
                &json!({"resourceLimits": {"allowedKubernetesVersions": versions}}),
            )
        };
        scene.team = Some(limits(&["v1.35", "1.36.2"]));
        insta::assert_snapshot!(scene.told(super::breaches), @"spec.kubernetesVersion: the Team payments may not use v1.36.3: choose one of v1.35, 1.36.2");
        scene.team = Some(limits(&["1.36"]));
        assert_eq!(scene.told(super::breaches), "");
    }
}
