//! Which version of Kubernetes, and which image, is whose turn: the control plane goes first, then one pool after another.
//!
//! Pure. A step that Kubernetes does not support is refused in words, and everything stays at the version that runs. Nobody is
//! ever ahead of the control plane, and no pool moves before the one in front of it has arrived. The programs of a version may be in
//! an image, so the image that was asked for with a version comes with that version, and not before.

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
    /// The image that its machines are made from, if that is known.
    pub(super) image: Option<Image>,
}

/// An image as the provider names it; `None` leaves it to the provider.
pub(super) type Image = Option<String>;

/// A pool that shall be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    /// Its name.
    pub(super) name: String,
    /// The image that its machines shall have.
    pub(super) image: Image,
    /// Whether that image is still on its way to the provider.
    pub(super) is_awaited: bool,
    /// Whether the programs of a version are in the image, and not brought by the first steps of a machine.
    pub(super) has_programs: bool,
}

/// A pool as it is told to be now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// Its version.
    pub(super) version: KubernetesVersion,
    /// Its image.
    pub(super) image: Image,
}

/// The versions of this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turns {
    /// Of the control plane.
    pub(super) control_plane: KubernetesVersion,
    /// Of each pool that can be there now; the others wait for their image, or for the control plane.
    pub(super) pools: BTreeMap<String, Turn>,
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

/// Whose turn it is on the way to `wanted`. `pools` are the pools that shall be, in their order, and their images were chosen for the
/// version `meant`: another one, if that is refused.
pub(super) fn turns(
    wanted: &KubernetesVersion,
    meant: &KubernetesVersion,
    pools: &[Wish],
    running: &Running,
) -> Turns {
    let Some(asked) = &running.asked else {
        // Nothing runs: all of it is made at once.
        let made = pools.iter().filter_map(|pool| {
            let turn = pool.turn(wanted.clone(), wanted, running.pools.get(&pool.name));
            Some((pool.name.clone(), turn?))
        });
        return Turns {
            control_plane: wanted.clone(),
            pools: made.collect(),
            progress: Progress::Arrived,
        };
    };
    let (control_plane, obstacle) = match control_plane(wanted, asked, pools, running) {
        Ok(()) => (wanted.clone(), None),
        Err(obstacle) => (asked.clone(), Some(obstacle)),
    };
    let (pools, waits) = pools_in_turn(pools, &control_plane, meant, running);
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
    wishes: &[Wish],
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
        let mut wishes = wishes.iter();
        let has_programs = wishes.any(|wish| wish.name == *pool && wish.has_programs);
        let way = if has_programs {
            format!("set spec.kubernetesVersion to {asked} and name an image of it for them first")
        } else {
            format!("they go to {asked} first")
        };
        return Err(Progress::Underway(format!(
            "the workers of the pool {pool} have {}, which an API server of {wanted} does not support; {way}",
            found.oldest
        )));
    }
    Ok(())
}

impl Wish {
    /// Whether nobody has named an image with the programs of a version.
    fn lacks(&self, version: &KubernetesVersion, meant: &KubernetesVersion) -> bool {
        self.has_programs && version != meant
    }

    /// The pool at a version; `None` if it cannot be there yet. One that is there keeps its image until the new one is at the
    /// provider, and the version is the one that this was chosen for.
    fn turn(
        &self,
        version: KubernetesVersion,
        meant: &KubernetesVersion,
        found: Option<&RunningPool>,
    ) -> Option<Turn> {
        let image = match found.and_then(|found| found.image.as_ref()) {
            Some(image) if self.is_awaited || version != *meant => image,
            _ if self.is_awaited => return None,
            // Its kubelets would be ahead of the API server.
            None if found.is_none() && self.lacks(&version, meant) => return None,
            _ => &self.image,
        };
        Some(Turn {
            version,
            image: image.clone(),
        })
    }
}

/// Each pool as it shall be now, and what the next one waits for.
fn pools_in_turn(
    pools: &[Wish],
    control_plane: &KubernetesVersion,
    meant: &KubernetesVersion,
    running: &Running,
) -> (BTreeMap<String, Turn>, Option<String>) {
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
        let name = &pool.name;
        let found = running.pools.get(name);
        let version = match found {
            // A new pool joins what is there: a kubelet must not be ahead of the API server.
            None => reported.filter(|reported| *reported < control_plane),
            Some(found) if found.asked == *control_plane => None,
            // Version and image come together: a version without its programs would be none.
            Some(found) if blocked || pool.is_awaited || pool.lacks(control_plane, meant) => {
                Some(&found.asked)
            }
            Some(_) => None,
        };
        let version = version.unwrap_or(control_plane).clone();
        if let Some(found) = found {
            let is_behind = found.oldest != *control_plane || found.asked != *control_plane;
            if is_behind && waits.is_none() {
                let from = &found.oldest;
                waits = Some(format!(
                    "the workers of the pool {name} go from {from} to {control_plane}"
                ));
            }
            blocked |= is_behind || !found.is_settled;
        }
        let turn = pool.turn(version, meant, found);
        turns.extend(turn.map(|turn| (name.clone(), turn)));
    }
    (turns, waits)
}

#[cfg(test)]
#[path = "upgrade_tests.rs"]
mod tests;
