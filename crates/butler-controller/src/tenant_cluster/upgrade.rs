//! Which version of Kubernetes is whose turn: the control plane goes first, then one pool after another.
//!
//! Pure. A step that Kubernetes does not support is refused in words, and everything stays at the version that runs. Nobody is
//! ever ahead of the control plane, and no pool moves before the one in front of it has arrived.

use std::collections::BTreeMap;

use butler_api::version::{KubernetesVersion, rules};

/// What runs now, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Running {
    /// The version that the control plane was told to have; `None` before there is one.
    pub(super) asked: Option<KubernetesVersion>,
    /// The oldest version that the control plane reports; `None` until it does.
    pub(super) reported: Option<KubernetesVersion>,
    /// Whether the control plane answers and nothing of an older kind is left of it.
    pub(super) is_settled: bool,
    /// The pools that there are.
    pub(super) pools: BTreeMap<String, RunningPool>,
}

/// A pool as it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunningPool {
    /// The version that it was told to have.
    pub(super) asked: KubernetesVersion,
    /// The oldest version that one of its machines has.
    pub(super) oldest: KubernetesVersion,
    /// Whether every machine is as it shall be.
    pub(super) is_settled: bool,
}

/// The versions of this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turns {
    /// Of the control plane.
    pub(super) control_plane: KubernetesVersion,
    /// Of each pool that was asked about.
    pub(super) pools: BTreeMap<String, KubernetesVersion>,
    /// How far it has come.
    pub(super) progress: Progress,
}

/// How far an upgrade has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Everything has the version that is wanted.
    Arrived,
    /// It goes on; the text says where it is.
    Underway(String),
    /// It cannot begin; the text says why, and what to do.
    Refused(String),
}

/// Whose turn it is on the way to `wanted`. `pools` are the pools that shall be, in their order.
pub(super) fn turns(wanted: &KubernetesVersion, pools: &[&str], running: &Running) -> Turns {
    let Some(asked) = &running.asked else {
        // Nothing runs: all of it is made at once.
        return Turns {
            control_plane: wanted.clone(),
            pools: pools
                .iter()
                .map(|pool| ((*pool).to_owned(), wanted.clone()))
                .collect(),
            progress: Progress::Arrived,
        };
    };
    let (control_plane, obstacle) = match control_plane(wanted, asked, running) {
        Ok(()) => (wanted.clone(), None),
        Err(obstacle) => (asked.clone(), Some(obstacle)),
    };
    let (pools, waits) = pools_in_turn(pools, &control_plane, running);
    let progress = match (obstacle, waits) {
        (Some(obstacle), _) => obstacle,
        (None, Some(text)) => Progress::Underway(text),
        (None, None) => Progress::Arrived,
    };
    Turns {
        control_plane,
        pools,
        progress,
    }
}

/// Whether the control plane may go from what it was told to what is wanted.
fn control_plane(
    wanted: &KubernetesVersion,
    asked: &KubernetesVersion,
    running: &Running,
) -> Result<(), Progress> {
    if wanted == asked {
        return Ok(());
    }
    let refused = |why: String| Err(Progress::Refused(format!("spec.kubernetesVersion: {why}")));
    // What runs may be behind what was asked for, and a step must be allowed from both.
    let reported = running.reported.as_ref().unwrap_or(asked);
    if let Err(refusal) = rules::check(Some(&asked.to_string()), &wanted.to_string()) {
        return refused(refusal.to_string());
    }
    if reported.check_step_to(wanted).is_err() {
        return Err(Progress::Underway(format!(
            "the control plane goes from {reported} to {asked} first, and to {wanted} after that"
        )));
    }
    let mut pools = running.pools.iter();
    if let Some((pool, found)) = pools.find(|(_, pool)| !wanted.supports_kubelet(&pool.oldest)) {
        return Err(Progress::Underway(format!(
            "the workers of the pool {pool} have {}, which an API server of {wanted} does not support; they go to {asked} first",
            found.oldest
        )));
    }
    Ok(())
}

/// The version of each pool, and what the next one waits for.
fn pools_in_turn(
    pools: &[&str],
    control_plane: &KubernetesVersion,
    running: &Running,
) -> (BTreeMap<String, KubernetesVersion>, Option<String>) {
    let mut turns = BTreeMap::new();
    let mut waits = None;
    let reported = running.reported.as_ref();
    if reported != Some(control_plane) || !running.is_settled {
        let from = reported.filter(|reported| *reported != control_plane);
        waits = from.map(|from| format!("the control plane goes from {from} to {control_plane}"));
    }
    let arrived = reported == Some(control_plane) && running.is_settled;
    let mut blocked = !arrived;
    for pool in pools {
        let version = match running.pools.get(*pool) {
            // A new pool joins what is there: a kubelet must not be ahead of the API server.
            None => reported.filter(|reported| *reported < control_plane),
            Some(found) if found.asked == *control_plane => None,
            Some(found) if blocked => Some(&found.asked),
            Some(_) => None,
        };
        let version = version.unwrap_or(control_plane).clone();
        if let Some(found) = running.pools.get(*pool) {
            let is_behind = found.oldest != *control_plane || found.asked != *control_plane;
            if is_behind && waits.is_none() {
                let from = &found.oldest;
                waits = Some(format!(
                    "the workers of the pool {pool} go from {from} to {control_plane}"
                ));
            }
            blocked |= is_behind || !found.is_settled;
        }
        turns.insert((*pool).to_owned(), version);
    }
    (turns, waits)
}

#[cfg(test)]
#[path = "upgrade_tests.rs"]
mod tests;
