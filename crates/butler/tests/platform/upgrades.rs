//! A newer version of Kubernetes: the control plane goes first, then the workers, one after the other.

use butler_api::cluster_api::steward_control_plane::StewardControlPlane;
use butler_runtime::object::Kind;
use butler_testkit::simulator::{
    Failed, Moment, ObjectStore, for_seeds,
    players::{is_deleting, text},
};

use crate::{
    laws::{machines_of, working},
    scene::{ask, delete, upgrade},
    world::{Platform, replicas, seeds},
};

const OLDER: &str = "v1.35.4";
const NEWER: &str = "v1.36.3";
const WORKERS: usize = 3;

/// No worker is newer than the control plane that serves.
fn nobody_is_ahead(store: &ObjectStore) -> Result<(), String> {
    for control_plane in store.objects(&Kind::of::<StewardControlPlane>()) {
        let serves = text(&control_plane, "/status/version");
        let name = text(&control_plane, "/metadata/name");
        let newer = machines_of(store, name).into_iter().find(|machine| {
            // Both have as many digits as the other: texts are in the order of versions.
            !serves.is_empty() && text(machine, "/spec/version") > serves
        });
        if let Some(machine) = newer {
            let machine = text(&machine, "/metadata/name");
            return Err(format!("{machine} is newer than {serves}"));
        }
    }
    Ok(())
}

/// Of two replicas that both believe to lead, a late one may say once more which version served before. What is said is no
/// measure then.
fn keeps_the_order(platform: &mut Platform, seed: u64) {
    if replicas(seed) == 1 {
        platform.always("no worker is ahead of its control plane", nobody_is_ahead);
    }
}

#[test]
fn an_upgrade_goes_through_the_control_plane_to_the_workers_one_by_one() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        keeps_the_order(&mut platform, seed);
        let workers = i64::try_from(WORKERS).unwrap();
        platform.user(
            "alice",
            vec![(Moment::Anytime, ask("shop", OLDER, workers))],
        );
        platform.settles()?;
        platform.is_ready("shop");
        platform.always("as many workers as were asked for", |store| {
            match working(store, "shop") {
                working if working >= WORKERS => Ok(()),
                working => Err(format!("{working} work")),
            }
        });
        platform.always("one more than asked for at most", |store| {
            let machines = machines_of(store, "shop");
            let standing = machines.iter().filter(|machine| !is_deleting(machine));
            match standing.count() {
                standing if standing <= WORKERS + 1 => Ok(()),
                standing => Err(format!("{standing} are there")),
            }
        });
        platform.act(upgrade("shop", NEWER));
        platform.settles()?;
        platform.is_ready("shop");
        platform.addresses_agree();
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_cluster_deleted_in_the_middle_of_an_upgrade_leaves_nothing() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        keeps_the_order(&mut platform, seed);
        platform.user("alice", vec![(Moment::Anytime, ask("shop", OLDER, 2))]);
        platform.settles()?;
        let moment = std::time::Duration::from_secs(seed % 11);
        platform.user(
            "bob",
            vec![
                (Moment::Anytime, upgrade("shop", NEWER)),
                (Moment::After(moment), delete("shop")),
            ],
        );
        platform.settles()?;
        platform.nothing_is_left();
        Ok::<(), Failed>(())
    })
    .unwrap();
}
