//! From nothing to a cluster that works, whatever happens on the way.

use butler_provider::fake::Defect;
use butler_testkit::simulator::{Failed, Moment, Problem, for_seeds};

use crate::{
    scene::{ask, delete},
    world::{Platform, seeds},
};

#[test]
fn a_cluster_that_is_asked_for_becomes_ready_and_leaves_nothing_when_it_goes() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        platform.user("alice", vec![(Moment::Anytime, ask("shop", "v1.36.3", 2))]);
        platform.settles()?;
        platform.is_ready("shop");
        platform.addresses_agree();
        platform.stays_at_rest(seed)?;
        platform.act(delete("shop"));
        platform.settles()?;
        platform.nothing_is_left();
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn an_infrastructure_that_keeps_what_it_deletes_is_found_out() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::with_defect(seed, Defect::KeepsWhatItDeletes);
        platform.user("alice", vec![(Moment::Anytime, ask("shop", "v1.36.3", 1))]);
        platform.settles()?;
        platform.is_ready("shop");
        platform.act(delete("shop"));
        let failed = platform
            .settles()
            .expect_err("a machine is left that nobody asked for");
        let Problem::Broken { invariant, .. } = &failed.problem else {
            return Err(failed);
        };
        assert_eq!(invariant, "one machine for each request, and none without");
        Ok(())
    })
    .unwrap();
}
