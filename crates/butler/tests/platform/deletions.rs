//! However and whenever a deletion comes, it ends, and nothing is left behind.

use std::{cell::Cell, rc::Rc, sync::Arc, time::Duration};

use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{Chances, Deed, Failed, Moment, for_seeds};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;

use crate::{
    scene::{ask, delete, scale, upgrade},
    silence::{Silence, answers_again, falls_silent},
    world::{Platform, seeds},
};

/// How long a node may be drained, and how long its volumes may take to be detached.
const DRAIN: SignedDuration = SignedDuration::from_mins(5);
const DETACH: SignedDuration = SignedDuration::from_mins(5);

/// Moments in the making of a cluster: at once, and after a few seconds of it.
fn soon(seed: u64) -> Moment {
    match seed % 8 {
        0 => Moment::Anytime,
        seconds => Moment::After(Duration::from_secs(seconds)),
    }
}

#[test]
fn a_cluster_deleted_while_it_is_made_leaves_nothing() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        platform.user(
            "alice",
            vec![
                (Moment::Anytime, ask("shop", "v1.36.3", 2)),
                (soon(seed), delete("shop")),
            ],
        );
        platform.settles()?;
        platform.nothing_is_left();
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_cluster_of_the_same_name_comes_after_the_one_that_is_deleted() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        platform.user(
            "alice",
            vec![
                (Moment::Anytime, ask("shop", "v1.36.3", 1)),
                (soon(seed), delete("shop")),
                (Moment::AtRest, ask("shop", "v1.36.3", 2)),
                (soon(seed + 3), scale("shop", 1)),
            ],
        );
        platform.settles()?;
        platform.is_ready("shop");
        assert_eq!(platform.cloud.machines().len(), 1);
        platform.addresses_agree();
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_namespace_deleted_under_a_cluster_does_not_keep_it_from_going() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        platform.user("alice", vec![(Moment::Anytime, ask("shop", "v1.36.3", 1))]);
        platform.settles()?;
        let tenant = platform.tenant("shop");
        let namespace = tenant["status"]["tenantNamespace"].as_str().unwrap();
        let namespace = ObjectKey::cluster(namespace);
        platform.user(
            "meddler",
            vec![(
                Moment::Anytime,
                Deed::delete(Kind::of::<Namespace>(), namespace),
            )],
        );
        platform.user("alice", vec![(soon(seed), delete("shop"))]);
        platform.settles()?;
        platform.nothing_is_left();
        Ok::<(), Failed>(())
    })
    .unwrap();
}

/// Notes when the last machine at the provider goes.
fn end_of_machines(platform: &mut Platform) -> Rc<Cell<Option<Timestamp>>> {
    let end = Rc::new(Cell::new(None));
    let (noted, cloud) = (Rc::clone(&end), Arc::clone(&platform.cloud));
    platform.always("the end of machines is noted", move |store| {
        if cloud.machines().is_empty() && noted.get().is_none() {
            noted.set(Some(store.now()));
        }
        Ok(())
    });
    end
}

#[test]
fn a_tenant_whose_api_server_does_not_answer_goes_when_its_drain_is_over() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        platform.user("alice", vec![(Moment::Anytime, ask("shop", "v1.36.3", 2))]);
        platform.settles()?;
        platform.is_ready("shop");
        platform.user(
            "fate",
            vec![(Moment::Anytime, falls_silent("shop", Silence::of(seed)))],
        );
        // Some delete it before anybody has noticed.
        if seed.is_multiple_of(3) {
            platform.settles()?;
            let machines = platform.cloud.machines();
            assert_eq!(machines.len(), 2, "nobody replaces what nobody can see");
            platform.stays_at_rest(seed)?;
        }
        let asked = platform.simulation.store().now();
        let end = end_of_machines(&mut platform);
        platform.user("alice", vec![(soon(seed), delete("shop"))]);
        platform.settles()?;
        let took = end.get().unwrap().duration_since(asked);
        assert!(took >= DRAIN + DETACH, "nobody drained them in {took:#}");
        platform.nothing_is_left();
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn an_api_server_that_falls_silent_at_a_bad_moment_keeps_no_tenant_from_going() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        let under_way = match seed % 4 {
            0 => vec![],
            1 => vec![(Moment::AtRest, scale("shop", 1))],
            2 => vec![(Moment::AtRest, scale("shop", 3))],
            _ => vec![(Moment::AtRest, upgrade("shop", "v1.36.3"))],
        };
        let mut steps = vec![(Moment::Anytime, ask("shop", "v1.35.4", 2))];
        steps.extend(under_way);
        let silence = falls_silent("shop", Silence::of(seed / 4));
        let (first, second) = if seed.is_multiple_of(3) {
            (delete("shop"), silence)
        } else {
            (silence, delete("shop"))
        };
        steps.push((soon(seed), first));
        steps.push((soon(seed / 8), second));
        platform.user("alice", steps);
        platform.settles()?;
        platform.nothing_is_left();
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn an_api_server_that_answers_again_lets_its_tenant_go_at_once() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        platform.user("alice", vec![(Moment::Anytime, ask("shop", "v1.36.3", 2))]);
        platform.settles()?;
        // Nothing else takes long.
        platform.simulation.chances(Chances::calm());
        let asked = platform.simulation.store().now();
        let end = end_of_machines(&mut platform);
        let after = Moment::After(Duration::from_secs(seed % 4 * 30));
        platform.user(
            "alice",
            vec![
                (Moment::Anytime, falls_silent("shop", Silence::of(seed))),
                (Moment::Anytime, delete("shop")),
                (after, answers_again("shop")),
            ],
        );
        platform.settles()?;
        let took = end.get().unwrap().duration_since(asked);
        assert!(took < DRAIN, "it took {took:#}");
        platform.nothing_is_left();
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}
