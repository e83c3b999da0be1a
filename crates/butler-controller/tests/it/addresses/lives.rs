//! How allocations and pools live and end.

use std::time::Duration;

use butler_runtime::object::ObjectKey;
use butler_testkit::simulator::{Deed, Moment, for_seeds};
use serde_json::json;

use super::{
    scene::{
        Whim, allocation, allocation_kind, ask, comes_to_rest, controllers, controllers_with_grace,
        give_back, holds_always, in_use, ledger_kind, pinned, pool, put, put_with_status, shows,
        stop_using, world,
    },
    truth::Truth,
};
use crate::scene::{self, TEAM, system};

/// A pool of 14 addresses, one page.
fn narrow() -> serde_json::Value {
    pool("narrow", &json!({ "cidr": "10.40.0.0/28" }))
}

/// A pool whose windows reach over two pages.
fn wide() -> serde_json::Value {
    let ranges = json!([{ "start": "10.41.3.250", "end": "10.41.4.5" }]);
    let spec = json!({ "cidr": "10.41.0.0/20", "tenantAllocation": { "ranges": ranges } });
    pool("wide", &spec)
}

/// Asks for addresses of both pools, uses them, stops using them and gives them back.
fn user_of_addresses(seed: u64, person: u64, count: usize) -> Vec<(Moment, Deed)> {
    Whim::new(seed, person).steps(count, |whim| {
        let name = format!("claim-{person}-{}", whim.pick(&[0, 1, 2]));
        let pool = whim.pick(&["narrow", "narrow", "wide"]);
        let wish = json!({ "count": whim.pick(&[1, 2, 4, 5, 7]) });
        match whim.pick(&[0, 1, 2, 3, 4]) {
            0 | 1 => {
                let used = in_use(allocation(&name, pool, &wish));
                Deed::create(allocation_kind(), used)
            }
            2 => ask(&name, pool, &wish),
            3 => give_back(&name),
            _ => stop_using(&name),
        }
    })
}

#[test]
fn addresses_in_use_are_nobody_elses_until_the_mark_is_taken_off() {
    for_seeds(0..120, |seed| {
        let pools = [narrow(), wide()].map(|pool| (scene::pool_kind(), pool));
        let mut simulation = world(seed, pools);
        controllers(&mut simulation, 1 + usize::from(seed % 3 == 0));
        holds_always(&mut simulation, "no address twice", Truth::nothing_twice);
        holds_always(&mut simulation, "what is used is kept", Truth::used_is_kept);
        for person in 0..3 {
            let steps = user_of_addresses(seed, person, 9);
            simulation.user(&format!("person-{person}"), steps);
        }
        comes_to_rest(&mut simulation)
    })
    .unwrap();
}

#[test]
fn the_addresses_of_a_cluster_that_is_gone_are_free_again_after_a_while() {
    for_seeds(0..100, |seed| {
        let bank = ObjectKey::namespaced(TEAM, "bank");
        let mut simulation = world(
            seed,
            [
                (scene::pool_kind(), narrow()),
                (scene::cluster_kind(), scene::cluster(&bank, None, 1)),
            ],
        );
        controllers_with_grace(&mut simulation, 1, Duration::from_mins(1));
        holds_always(&mut simulation, "no address twice", Truth::nothing_twice);
        let used = in_use(allocation("shop-1", "narrow", &json!({ "count": 5 })));
        let asking = vec![
            (Moment::Anytime, Deed::create(allocation_kind(), used)),
            (
                Moment::Anytime,
                ask("shop-2", "narrow", &json!({ "count": 4 })),
            ),
        ];
        simulation.user("shop", asking);
        let shop = ObjectKey::namespaced(TEAM, "shop");
        let ending = vec![(
            Whim::new(seed, 1).pick(&[Moment::Anytime, Moment::AtRest]),
            Deed::delete(scene::cluster_kind(), shop),
        )];
        simulation.user("owner", ending);
        comes_to_rest(&mut simulation)?;
        assert_eq!(shows(&simulation, "shop-1"), "nothing", "it is gone");
        assert_eq!(shows(&simulation, "shop-2"), "nothing", "it is gone");

        let mut wish = pinned("10.40.0.1", "10.40.0.14");
        wish["tenantClusterRef"] = json!({ "name": "bank", "namespace": TEAM });
        simulation.user("bank", vec![(Moment::Anytime, ask("all", "narrow", &wish))]);
        comes_to_rest(&mut simulation)?;
        assert_eq!(shows(&simulation, "all"), "10.40.0.1-10.40.0.14");
        Ok::<_, butler_testkit::simulator::Failed>(())
    })
    .unwrap();
}

#[test]
fn a_pool_in_use_stays_until_it_is_not_and_takes_its_ledgers_with_it() {
    for_seeds(0..150, |seed| {
        let pools = [narrow(), wide()].map(|pool| (scene::pool_kind(), pool));
        let mut simulation = world(seed, pools);
        controllers(&mut simulation, 1);
        holds_always(&mut simulation, "no address twice", Truth::nothing_twice);
        holds_always(
            &mut simulation,
            "who has addresses has a pool",
            Truth::pools_stay,
        );
        for person in 0..2 {
            let steps = user_of_addresses(seed, person, 6);
            simulation.user(&format!("person-{person}"), steps);
        }
        let moments = [Moment::Anytime, Moment::AtRest];
        let moment = Whim::new(seed, 9).pick(&moments);
        let ending =
            ["narrow", "wide"].map(|name| (moment, Deed::delete(scene::pool_kind(), system(name))));
        simulation.user("admin", ending.into());
        comes_to_rest(&mut simulation)?;

        let mut clearing = Vec::new();
        for claim in
            (0..2).flat_map(|person| (0..3).map(move |number| format!("claim-{person}-{number}")))
        {
            clearing.push((Moment::Anytime, give_back(&claim)));
            clearing.push((Moment::Anytime, stop_using(&claim)));
        }
        simulation.user("cleaner", clearing);
        comes_to_rest(&mut simulation)?;
        let left = super::scene::truth(simulation.store());
        assert_eq!(
            (left.pools.len(), left.ledgers.len(), left.allocations.len()),
            (0, 0, 0),
            "{}",
            simulation.log().tail(80)
        );
        Ok::<_, butler_testkit::simulator::Failed>(())
    })
    .unwrap();
}

#[test]
fn a_ledger_that_somebody_deletes_by_hand_loses_nothing() {
    for_seeds(0..150, |seed| {
        let pools = [narrow(), wide()].map(|pool| (scene::pool_kind(), pool));
        let mut simulation = world(seed, pools);
        controllers(&mut simulation, 1);
        holds_always(&mut simulation, "no address twice", Truth::nothing_twice);
        holds_always(
            &mut simulation,
            "the pool hides nothing",
            Truth::nothing_hidden,
        );
        for person in 0..2 {
            let steps = user_of_addresses(seed, person, 8);
            simulation.user(&format!("person-{person}"), steps);
        }
        let pages = ["narrow.0a280000", "wide.0a290000", "wide.0a290400"];
        let vandal = Whim::new(seed, 9).steps(6, |whim| {
            Deed::delete(ledger_kind(), system(whim.pick(&pages)))
        });
        simulation.user("vandal", vandal);
        comes_to_rest(&mut simulation)
    })
    .unwrap();
}

#[test]
fn allocations_of_an_older_installation_keep_their_addresses() {
    for_seeds(0..150, |seed| {
        let pools = [narrow(), wide()].map(|pool| (scene::pool_kind(), pool));
        let mut simulation = world(seed, pools);
        let kind = allocation_kind();
        // Somebody who was refused, and waits for longer than the others have their addresses.
        put(
            &mut simulation,
            kind.clone(),
            allocation("refused", "narrow", &json!({ "count": 3 })),
        );
        let had = [
            ("old-1", "narrow", "10.40.0.1", "10.40.0.4"),
            ("old-2", "narrow", "10.40.0.9", "10.40.0.9"),
            ("old-3", "wide", "10.41.3.254", "10.41.4.1"),
            ("old-leaving", "narrow", "10.40.0.6", "10.40.0.7"),
        ];
        for (name, pool, start, end) in had {
            let status = json!({ "phase": "Allocated", "startAddress": start, "endAddress": end });
            let body = in_use(allocation(name, pool, &json!({})));
            put_with_status(&mut simulation, &kind, body, status);
        }
        let leaving = butler_testkit::simulator::Operation::delete(kind, system("old-leaving"));
        simulation.store_mut().perform("admin", leaving).unwrap();
        controllers(&mut simulation, 1 + usize::from(seed % 3 == 0));
        holds_always(&mut simulation, "no address twice", Truth::nothing_shared);
        for person in 0..2 {
            let steps = user_of_addresses(seed, person, 6);
            simulation.user(&format!("person-{person}"), steps);
        }
        comes_to_rest(&mut simulation)?;
        assert_eq!(shows(&simulation, "old-1"), "10.40.0.1-10.40.0.4");
        assert_eq!(shows(&simulation, "old-2"), "10.40.0.9-10.40.0.9");
        assert_eq!(shows(&simulation, "old-3"), "10.41.3.254-10.41.4.1");
        assert_eq!(shows(&simulation, "old-leaving"), "10.40.0.6-10.40.0.7");

        simulation.user("old", vec![(Moment::Anytime, stop_using("old-leaving"))]);
        comes_to_rest(&mut simulation)?;
        assert_eq!(shows(&simulation, "old-leaving"), "nothing", "it is gone");
        Ok::<_, butler_testkit::simulator::Failed>(())
    })
    .unwrap();
}
