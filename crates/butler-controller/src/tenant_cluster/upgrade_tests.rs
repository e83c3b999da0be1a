//! An upgrade, one turn at a time.

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn version(text: &str) -> KubernetesVersion {
    text.parse().unwrap()
}

fn pool(asked: &str, oldest: &str, is_settled: bool) -> RunningPool {
    RunningPool {
        asked: version(asked),
        oldest: version(oldest),
        is_settled,
    }
}

/// A control plane that was told one version and reports another, with these pools.
fn running(asked: &str, reported: &str, pools: &[(&str, RunningPool)]) -> Running {
    Running {
        asked: Some(version(asked)),
        reported: Some(version(reported)),
        is_settled: asked == reported,
        pools: pools
            .iter()
            .map(|(name, pool)| ((*name).to_owned(), pool.clone()))
            .collect(),
    }
}

fn told(wanted: &str, pools: &[&str], running: &Running) -> String {
    let turns = turns(&version(wanted), pools, running);
    let pools: Vec<_> = turns
        .pools
        .iter()
        .map(|(pool, version)| format!("{pool} {version}"))
        .collect();
    let progress = match turns.progress {
        Progress::Arrived => "arrived".to_owned(),
        Progress::Underway(text) => text,
        Progress::Refused(text) => format!("refused: {text}"),
    };
    format!(
        "control plane {}, {}: {progress}",
        turns.control_plane,
        pools.join(", ")
    )
}

#[test]
fn a_new_cluster_is_made_of_one_version() {
    assert_eq!(
        told("v1.36.3", &["workers"], &Running::default()),
        "control plane v1.36.3, workers v1.36.3: arrived"
    );
}

#[test]
fn the_control_plane_goes_first_and_pools_follow_one_after_another() {
    let old = || pool("v1.35.4", "v1.35.4", true);
    let pools = ["workers", "gpu"];
    let steps = [
        running("v1.35.4", "v1.35.4", &[("workers", old()), ("gpu", old())]),
        running("v1.36.3", "v1.35.4", &[("workers", old()), ("gpu", old())]),
        running("v1.36.3", "v1.36.3", &[("workers", old()), ("gpu", old())]),
        running(
            "v1.36.3",
            "v1.36.3",
            &[
                ("workers", pool("v1.36.3", "v1.35.4", false)),
                ("gpu", old()),
            ],
        ),
        running(
            "v1.36.3",
            "v1.36.3",
            &[
                ("workers", pool("v1.36.3", "v1.36.3", false)),
                ("gpu", old()),
            ],
        ),
        running(
            "v1.36.3",
            "v1.36.3",
            &[
                ("workers", pool("v1.36.3", "v1.36.3", true)),
                ("gpu", old()),
            ],
        ),
        running(
            "v1.36.3",
            "v1.36.3",
            &[
                ("workers", pool("v1.36.3", "v1.36.3", true)),
                ("gpu", pool("v1.36.3", "v1.36.3", true)),
            ],
        ),
    ];
    let told: Vec<_> = steps
        .iter()
        .map(|running| told("v1.36.3", &pools, running))
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    control plane v1.36.3, gpu v1.35.4, workers v1.35.4: the control plane goes from v1.35.4 to v1.36.3
    control plane v1.36.3, gpu v1.35.4, workers v1.35.4: the control plane goes from v1.35.4 to v1.36.3
    control plane v1.36.3, gpu v1.35.4, workers v1.36.3: the workers of the pool workers go from v1.35.4 to v1.36.3
    control plane v1.36.3, gpu v1.35.4, workers v1.36.3: the workers of the pool workers go from v1.35.4 to v1.36.3
    control plane v1.36.3, gpu v1.35.4, workers v1.36.3: the workers of the pool gpu go from v1.35.4 to v1.36.3
    control plane v1.36.3, gpu v1.36.3, workers v1.36.3: the workers of the pool gpu go from v1.35.4 to v1.36.3
    control plane v1.36.3, gpu v1.36.3, workers v1.36.3: arrived
    ");
}

#[test]
fn a_step_that_kubernetes_does_not_support_is_refused_and_nothing_moves() {
    let pools = [("workers", pool("v1.34.2", "v1.34.2", true))];
    let running = running("v1.34.2", "v1.34.2", &pools);
    let told = [
        told("v1.36.3", &["workers"], &running),
        told("v1.33.9", &["workers"], &running),
        told("v1.37.0", &["workers"], &running),
    ];
    insta::assert_snapshot!(told.join("\n"), @r"
    control plane v1.34.2, workers v1.34.2: refused: spec.kubernetesVersion: cannot go from v1.34.2 to v1.36.3 in one step: upgrade one minor version at a time, first to v1.35.x
    control plane v1.34.2, workers v1.34.2: refused: spec.kubernetesVersion: cannot go from v1.34.2 back to v1.33.9: Kubernetes does not support going back to an older minor version
    control plane v1.34.2, workers v1.34.2: refused: spec.kubernetesVersion: v1.37.0 is not hosted by this release: choose a version from v1.29 to v1.36
    ");
}

#[test]
fn a_further_step_waits_until_the_former_one_is_taken() {
    let pools = [("workers", pool("v1.34.2", "v1.34.2", true))];
    let running = running("v1.35.4", "v1.34.2", &pools);
    insta::assert_snapshot!(told("v1.36.3", &["workers"], &running), @"control plane v1.35.4, workers v1.34.2: the control plane goes from v1.34.2 to v1.35.4 first, and to v1.36.3 after that");
}

#[test]
fn workers_that_fell_too_far_behind_are_brought_up_first() {
    let pools = [("workers", pool("v1.32.1", "v1.32.1", true))];
    let running = running("v1.35.4", "v1.35.4", &pools);
    insta::assert_snapshot!(told("v1.36.3", &["workers"], &running), @"control plane v1.35.4, workers v1.35.4: the workers of the pool workers have v1.32.1, which an API server of v1.36.3 does not support; they go to v1.35.4 first");
}

#[test]
fn a_pool_that_is_added_during_an_upgrade_is_not_ahead_of_the_control_plane() {
    let pools = [("workers", pool("v1.35.4", "v1.35.4", true))];
    let running = running("v1.36.3", "v1.35.4", &pools);
    assert_eq!(
        told("v1.36.3", &["workers", "gpu"], &running),
        "control plane v1.36.3, gpu v1.35.4, workers v1.35.4: the control plane goes from v1.35.4 to v1.36.3"
    );
}

#[test]
fn a_wish_that_is_taken_back_leads_back_to_the_patch_version_that_runs() {
    let pools = [("workers", pool("v1.36.1", "v1.36.1", true))];
    let running = running("v1.36.3", "v1.36.1", &pools);
    assert_eq!(
        told("v1.36.1", &["workers"], &running),
        "control plane v1.36.1, workers v1.36.1: arrived"
    );
}

proptest! {
    /// Whatever runs and whatever is wanted: no kubelet is told a version that its API server would not support.
    #[test]
    fn no_pool_is_ever_ahead_of_its_api_server(
        asked in 33_u64..=36, behind in 0_u64..=1, wanted in 31_u64..=38,
        first in 0_u64..=3, second in 0_u64..=3, settled in any::<bool>(),
    ) {
        let reported = asked - behind;
        let minor = |minor: u64| format!("v1.{minor}.0");
        let at = |back: u64| pool(&minor(reported - back), &minor(reported - back), settled);
        let running = running(&minor(asked), &minor(reported), &[("workers", at(first)), ("gpu", at(second))]);
        let turns = turns(&version(&minor(wanted)), &["workers", "gpu", "new"], &running);
        let reported = version(&minor(reported));
        for (pool, told) in &turns.pools {
            prop_assert!(told.minor() <= reported.minor(), "{pool} {told} at {reported}");
        }
        let moved = turns.control_plane != version(&minor(asked));
        prop_assert!(!moved || running.pools.values().all(|pool| turns.control_plane.supports_kubelet(&pool.oldest)));
    }
}
