//! A machine dies, and another takes its place.

use butler_testkit::simulator::{Failed, Moment, Operation, for_seeds};
use serde_json::json;

use crate::{
    cluster_api::machines,
    scene::{ask, delete},
    world::{Platform, seeds},
};

#[test]
fn a_machine_that_dies_is_replaced() {
    for_seeds(seeds(), |seed| {
        let mut platform = Platform::new(seed);
        platform.user("alice", vec![(Moment::Anytime, ask("shop", "v1.36.3", 2))]);
        platform.settles()?;
        platform.is_ready("shop");
        let dead = platform.cloud.machines().remove(0);
        platform.cloud.destroy(&dead.uid);
        // Cluster API, which watches the nodes of the tenant, hears no more of this one.
        let machine = platform.machine_known_as(&format!("fake://{}", dead.id));
        let heard =
            json!({ "metadata": { "annotations": { "example.com/last-heard-of": "now" } } });
        let heard = Operation::Merge(machines(), machine, heard);
        let store = platform.simulation.store_mut();
        store.perform("tenant", heard).unwrap();
        platform.settles()?;
        platform.is_ready("shop");
        let living = platform.cloud.machines();
        assert!(living.iter().all(|machine| machine.uid != dead.uid));
        assert_eq!(living.len(), 2);
        platform.addresses_agree();
        platform.stays_at_rest(seed)?;
        platform.act(delete("shop"));
        platform.settles()?;
        platform.nothing_is_left();
        Ok::<(), Failed>(())
    })
    .unwrap();
}
