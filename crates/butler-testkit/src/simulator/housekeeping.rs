//! Kubernetes' own controllers that plans rely on: the garbage collector and the end of namespaces. Each clears away one
//! thing per step, in any order.

use rand::RngExt;

use super::{
    actor::{Actor, Move, World},
    store::{Garbage, ObjectStore},
};

/// One of Kubernetes' own controllers.
pub(super) struct Housekeeper {
    name: &'static str,
    find: fn(&ObjectStore) -> Vec<Garbage>,
    /// The revision at which there was nothing to do.
    idle_at: Option<u64>,
}

impl Housekeeper {
    pub(super) fn garbage_collector() -> Self {
        Self {
            name: "garbage-collector",
            find: ObjectStore::orphans,
            idle_at: None,
        }
    }

    pub(super) fn namespaces() -> Self {
        Self {
            name: "namespaces",
            find: ObjectStore::leftovers,
            idle_at: None,
        }
    }
}

impl Actor for Housekeeper {
    fn name(&self) -> &str {
        self.name
    }

    fn moves(&self, world: &World) -> Vec<Move> {
        let idle = self.idle_at == Some(world.store.revision());
        (!idle).then_some(Move::Act).into_iter().collect()
    }

    fn make(&mut self, _: &Move, world: &mut World) -> Option<String> {
        let garbage = (self.find)(&world.store);
        if garbage.is_empty() {
            self.idle_at = Some(world.store.revision());
            return None;
        }
        let index = world.random.random_range(0..garbage.len());
        garbage.get(index).map(|garbage| world.store.clear(garbage))
    }
}
