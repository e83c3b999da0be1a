//! Several tenants share one pool of addresses, and what happens to one is nothing to the others.

use std::{collections::BTreeSet, time::Duration};

use butler_testkit::simulator::{Failed, Moment, for_seeds};

use crate::{
    scene::{ask, delete, scale, upgrade},
    world::{Platform, seeds},
};

#[test]
fn two_tenants_in_one_pool_become_ready_and_one_goes() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        platform.user("alice", vec![(Moment::Anytime, ask("shop", "v1.36.3", 2))]);
        platform.user("bob", vec![(Moment::Anytime, ask("bank", "v1.35.4", 1))]);
        platform.settles()?;
        platform.is_ready("shop");
        platform.is_ready("bank");
        platform.addresses_agree();
        platform.stays_at_rest(seed)?;
        let before: BTreeSet<_> = platform.machines_at_provider("bank");
        platform.act(delete("shop"));
        platform.settles()?;
        platform.is_ready("bank");
        assert_eq!(platform.machines_at_provider("bank"), before);
        platform.act(delete("bank"));
        platform.settles()?;
        platform.nothing_is_left();
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn three_tenants_do_as_they_like_at_once() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        let wait = Moment::After(Duration::from_secs(seed % 5));
        platform.user(
            "alice",
            vec![
                (Moment::Anytime, ask("shop", "v1.36.3", 1)),
                (Moment::Anytime, scale("shop", 2)),
            ],
        );
        platform.user(
            "bob",
            vec![
                (Moment::Anytime, ask("bank", "v1.35.4", 1)),
                (wait, upgrade("bank", "v1.36.3")),
            ],
        );
        platform.user(
            "carol",
            vec![
                (Moment::Anytime, ask("blog", "v1.36.3", 1)),
                (wait, delete("blog")),
            ],
        );
        platform.settles()?;
        platform.is_ready("shop");
        platform.is_ready("bank");
        assert_eq!(platform.cloud.machines().len(), 3);
        platform.addresses_agree();
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn who_finds_no_address_left_waits_until_a_neighbour_goes() {
    for_seeds(seeds(), |seed| {
        // Eight addresses: two for Services and two for machines of the first, and not as many for the second.
        let mut platform = Platform::with_pool(seed, "10.213.0.0/29");
        platform.user("alice", vec![(Moment::Anytime, ask("shop", "v1.36.3", 3))]);
        platform.settles()?;
        platform.is_ready("shop");
        platform.user("bob", vec![(Moment::Anytime, ask("bank", "v1.36.3", 3))]);
        platform.settles()?;
        let bank = platform.tenant("bank");
        assert_ne!(bank["status"]["phase"], "Ready", "{bank:#}");
        platform.is_ready("shop");
        platform.act(delete("shop"));
        platform.settles()?;
        platform.is_ready("bank");
        platform.addresses_agree();
        platform.stays_at_rest(seed)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}
