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

/// A cluster comes and goes on an infrastructure with a defect, where every order for a machine arrives again. Gives what was found
/// out, if anything was.
fn comes_and_goes(platform: &mut Platform) -> Result<(), Failed> {
    platform.orders_arrive_again();
    platform.user("alice", vec![(Moment::Anytime, ask("shop", "v1.36.3", 1))]);
    platform.settles()?;
    platform.is_ready("shop");
    platform.act(delete("shop"));
    platform.settles()
}

/// In every world the law about machines finds the defect out, for this reason.
fn is_found_out(defect: Defect, why: &str) {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::with_defect(seed, defect);
        let failed = comes_and_goes(&mut platform).expect_err(why);
        let Problem::Broken { invariant, message } = &failed.problem else {
            return Err(failed);
        };
        assert_eq!(invariant, "one machine for each request, and none without");
        assert!(message.contains(why), "{message}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn orders_that_arrive_twice_or_too_late_change_nothing() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        comes_and_goes(&mut platform)?;
        platform.nothing_is_left();
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn an_infrastructure_that_keeps_what_it_deletes_is_found_out() {
    is_found_out(Defect::KeepsWhatItDeletes, "nobody asked for");
}

#[test]
fn an_infrastructure_that_makes_two_machines_is_found_out() {
    is_found_out(Defect::MakesTwo, "are for one request");
}

#[test]
fn an_infrastructure_that_makes_a_machine_after_its_deletion_is_found_out() {
    is_found_out(Defect::MakesAfterDeletion, "nobody asked for");
}
