//! The script, on the simulator.

use std::sync::{Arc, Mutex, PoisonError};

use butler_runtime::{
    api_server::ApiServer,
    object::{Kind, ObjectKey},
};
use butler_testkit::simulator::{ObjectStore, SimulatedApiServer};
use futures::{FutureExt, executor::block_on, future::BoxFuture};

use super::{
    runner::{Ground, assert_as_recorded, run},
    script::script,
};

struct Simulated {
    store: Arc<Mutex<ObjectStore>>,
    api: SimulatedApiServer,
}

impl Ground for Simulated {
    fn api(&self) -> &dyn ApiServer {
        &self.api
    }

    fn until_gone<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey) -> BoxFuture<'a, ()> {
        async move {
            let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
            store.housekeep();
            assert!(store.get(kind, key).is_none(), "{kind} {key} does not go");
        }
        .boxed()
    }
}

#[test]
fn the_simulator_answers_as_recorded() {
    let store = Arc::new(Mutex::new(ObjectStore::new()));
    let ground = Simulated {
        api: SimulatedApiServer::direct("parity", Arc::clone(&store)),
        store,
    };
    let observed = block_on(run(&ground, script()));
    assert_as_recorded(&observed);
}
