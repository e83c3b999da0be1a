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
        image: Some(Some(image_of(asked))),
    }
}

/// The image with the programs of a version.
fn image_of(version: &str) -> String {
    format!("image of {version}")
}

/// A pool that shall have that image.
fn wish(name: &str, version: &str) -> Wish {
    Wish {
        name: name.to_owned(),
        image: Some(image_of(version)),
        has_programs: true,
        ..Wish::default()
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
    let wishes: Vec<_> = pools.iter().map(|pool| wish(pool, wanted)).collect();
    shown(&turns(&version(wanted), &version(wanted), &wishes, running))
}

/// The turns; an image is named where it is not that of the version.
fn shown(turns: &Turns) -> String {
    let pools: Vec<_> = turns
        .pools
        .iter()
        .map(|(pool, Turn { version, image })| {
            let image = image.clone().unwrap_or_default();
            let usual = image_of(&version.to_string());
            let image = Some(image).filter(|image| *image != usual);
            let image = image.map(|image| format!(" by {image}"));
            format!("{pool} {version}{}", image.unwrap_or_default())
        })
        .collect();
    let progress = match &turns.progress {
        Progress::Arrived => "arrived".to_owned(),
        Progress::Underway(text) => text.clone(),
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
    let mut plain = wish("workers", "v1.36.3");
    plain.has_programs = false;
    let plain = turns(&version("v1.36.3"), &version("v1.36.3"), &[plain], &running);
    insta::assert_snapshot!(shown(&plain), @"control plane v1.35.4, workers v1.35.4 by image of v1.32.1: the workers of the pool workers have v1.32.1, which an API server of v1.36.3 does not support; they go to v1.35.4 first");
    // Nobody has named an image with the programs of the version between.
    insta::assert_snapshot!(told("v1.36.3", &["workers"], &running), @"control plane v1.35.4, workers v1.32.1: the workers of the pool workers have v1.32.1, which an API server of v1.36.3 does not support; set spec.kubernetesVersion to v1.35.4 and name an image of it for them first");
}

#[test]
fn a_pool_that_is_added_during_an_upgrade_is_not_ahead_of_the_control_plane() {
    let pools = [("workers", pool("v1.35.4", "v1.35.4", true))];
    let running = running("v1.36.3", "v1.35.4", &pools);
    assert_eq!(
        told("v1.36.3", &["workers", "gpu"], &running),
        "control plane v1.36.3, workers v1.35.4: the control plane goes from v1.35.4 to v1.36.3",
        "its image has the programs of the new version"
    );
    let mut gpu = wish("gpu", "v1.35.4");
    gpu.has_programs = false;
    let wishes = [wish("workers", "v1.36.3"), gpu];
    let turns = turns(&version("v1.36.3"), &version("v1.36.3"), &wishes, &running);
    assert_eq!(
        shown(&turns),
        "control plane v1.36.3, gpu v1.35.4, workers v1.35.4: the control plane goes from v1.35.4 to v1.36.3"
    );
}

#[test]
fn another_image_for_the_version_that_runs_comes_at_once_to_all_pools() {
    let same = || pool("v1.36.3", "v1.36.3", true);
    let pools = [("workers", same()), ("gpu", same())];
    let running = running("v1.36.3", "v1.36.3", &pools);
    let wishes = ["workers", "gpu"].map(|name| Wish {
        image: Some("another".to_owned()),
        ..wish(name, "v1.36.3")
    });
    let turns = turns(&version("v1.36.3"), &version("v1.36.3"), &wishes, &running);
    assert_eq!(
        shown(&turns),
        "control plane v1.36.3, gpu v1.36.3 by another, workers v1.36.3 by another: arrived"
    );
}

#[test]
fn a_pool_whose_image_is_on_its_way_keeps_what_it_has_and_a_new_one_waits() {
    let pools = [("workers", pool("v1.35.4", "v1.35.4", true))];
    let running = running("v1.36.3", "v1.36.3", &pools);
    let wishes = ["workers", "gpu"].map(|name| Wish {
        is_awaited: true,
        ..wish(name, "v1.36.3")
    });
    let turns = turns(&version("v1.36.3"), &version("v1.36.3"), &wishes, &running);
    assert_eq!(
        shown(&turns),
        "control plane v1.36.3, workers v1.35.4: the workers of the pool workers go from v1.35.4 to v1.36.3"
    );
}

#[test]
fn the_image_of_a_version_that_is_refused_is_not_taken_either() {
    let pools = [("workers", pool("v1.35.4", "v1.35.4", true))];
    let running = running("v1.35.4", "v1.35.4", &pools);
    let wishes = [wish("workers", "v1.36.3")];
    let turns = turns(&version("v1.35.4"), &version("v1.36.3"), &wishes, &running);
    assert_eq!(
        shown(&turns),
        "control plane v1.35.4, workers v1.35.4: arrived"
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
    /// Whatever runs and whatever is wanted: no kubelet is told a version that its API server would not support, nor gets it by an
    /// image that has it.
    #[test]
    fn no_pool_is_ever_ahead_of_its_api_server(
        asked in 33_u64..=36, behind in 0_u64..=1, wanted in 31_u64..=38,
        first in 0_u64..=3, second in 0_u64..=3, settled in any::<bool>(),
        refused in any::<bool>(), awaited in any::<bool>(), has_programs in any::<bool>(),
    ) {
        let reported = asked - behind;
        let minor = |minor: u64| format!("v1.{minor}.0");
        let at = |back: u64| pool(&minor(reported - back), &minor(reported - back), settled);
        let running = running(&minor(asked), &minor(reported), &[("workers", at(first)), ("gpu", at(second))]);
        let wishes = ["workers", "gpu", "new"].map(|name| Wish {
            is_awaited: awaited && name != "gpu",
            has_programs,
            ..wish(name, &minor(wanted))
        });
        let may_be = if refused { asked } else { wanted };
        let turns = turns(&version(&minor(may_be)), &version(&minor(wanted)), &wishes, &running);
        let reported = version(&minor(reported));
        for (pool, told) in &turns.pools {
            prop_assert!(told.version.minor() <= reported.minor(), "{pool} {told:?} at {reported}");
            let has_its_image = told.image == Some(image_of(&told.version.to_string()));
            prop_assert!(!has_programs || has_its_image, "{pool} {told:?} at {reported}");
            let is_kept = running.pools.get(pool).is_some_and(|found| found.image == Some(told.image.clone()));
            prop_assert!(is_kept || told.version == version(&minor(wanted)) || !has_programs, "{pool} {told:?}");
        }
        let is_there = |pool: &str| turns.pools.contains_key(pool);
        prop_assert!(is_there("workers") && is_there("gpu"), "what is there stays");
        let moved = turns.control_plane != version(&minor(asked));
        prop_assert!(!moved || running.pools.values().all(|pool| turns.control_plane.supports_kubelet(&pool.oldest)));
    }
}
