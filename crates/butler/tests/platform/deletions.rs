//! However and whenever a deletion comes, it ends, and nothing is left behind.

use std::time::Duration;

use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{Deed, Failed, Moment, for_seeds};
use k8s_openapi::api::core::v1::Namespace;

use crate::{
    scene::{ask, delete, scale},
    world::{Platform, seeds},
};

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
