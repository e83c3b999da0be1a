//! What the stories about addresses have in common.

use std::{cell::Cell, sync::Arc, time::Duration};

use butler_api::{
    butler::{
        ip_allocation::IPAllocation, network_pool::NetworkPool,
        network_pool_ledger::NetworkPoolLedger,
    },
    keys::finalizers,
};
use butler_controller::{
    ip_allocation::{IPAllocationReconciler, ORPHAN_GRACE_PERIOD},
    network_pool::NetworkPoolReconciler,
    run::COMPONENT,
};
use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{
    Chances, Deed, Failed, Moment, ObjectStore, Operation, Simulation,
};
use kube::ResourceExt;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use serde_json::{Value, json};

use super::truth::Truth;
use crate::scene::{self, SYSTEM, TEAM, system};

const STEPS: u64 = 60_000;

pub(crate) fn allocation_kind() -> Kind {
    Kind::of::<IPAllocation>()
}

pub(crate) fn ledger_kind() -> Kind {
    Kind::of::<NetworkPoolLedger>()
}

/// All that there is of addresses.
pub(crate) fn truth(store: &ObjectStore) -> Truth {
    Truth {
        pools: store.all::<NetworkPool>().unwrap(),
        ledgers: store.all::<NetworkPoolLedger>().unwrap(),
        allocations: store.all::<IPAllocation>().unwrap(),
    }
}

/// A pool of this spec.
pub(crate) fn pool(name: &str, spec: &Value) -> Value {
    scene::object(&scene::pool_kind(), &system(name), json!({ "spec": spec }))
}

/// A window of a pool.
pub(crate) fn window(start: &str, end: &str) -> Value {
    json!({ "ranges": [{ "start": start, "end": end }] })
}

/// Exactly these addresses.
pub(crate) fn pinned(start: &str, end: &str) -> Value {
    json!({ "pinnedRange": { "startAddress": start, "endAddress": end } })
}

/// An allocation for the cluster `shop`, unless the wish names another owner.
pub(crate) fn allocation(name: &str, pool: &str, wish: &Value) -> Value {
    let mut spec = json!({
        "poolRef": { "name": pool },
        "tenantClusterRef": { "name": "shop", "namespace": TEAM },
        "type": "loadbalancer",
    });
    let wish = wish.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(wish);
    scene::object(&allocation_kind(), &system(name), json!({ "spec": spec }))
}

/// The same, with the mark of somebody who uses the addresses.
pub(crate) fn in_use(mut allocation: Value) -> Value {
    allocation["metadata"]["finalizers"] = json!([finalizers::ADDRESSES_IN_USE]);
    allocation
}

/// Asks for addresses.
pub(crate) fn ask(name: &str, pool: &str, wish: &Value) -> Deed {
    Deed::create(allocation_kind(), allocation(name, pool, wish))
}

/// Asks for addresses to be given back.
pub(crate) fn give_back(name: &str) -> Deed {
    Deed::delete(allocation_kind(), system(name))
}

/// Takes the mark off addresses that are not used any more.
pub(crate) fn stop_using(name: &str) -> Deed {
    Deed::edit(allocation_kind(), system(name), |body| {
        if let Some(marks) = body["metadata"]["finalizers"].as_array_mut() {
            marks.retain(|mark| mark != finalizers::ADDRESSES_IN_USE);
        }
    })
}

/// Sets what a pool gives out.
pub(crate) fn set_pool(name: &str, spec: Value) -> Deed {
    Deed::edit(scene::pool_kind(), system(name), move |body| {
        body["spec"] = spec.clone();
    })
}

/// A world with the cluster `shop` and more, and nobody at work yet.
pub(crate) fn world(seed: u64, more: impl IntoIterator<Item = (Kind, Value)>) -> Simulation {
    let mut simulation = Simulation::new(seed);
    let shop = ObjectKey::namespaced(TEAM, "shop");
    let scenery = [
        (scene::namespace_kind(), scene::namespace(SYSTEM)),
        (scene::namespace_kind(), scene::namespace(TEAM)),
        (scene::cluster_kind(), scene::cluster(&shop, None, 1)),
    ];
    for (kind, body) in scenery.into_iter().chain(more) {
        put(&mut simulation, kind, body);
    }
    simulation
}

/// Puts an object into the scene.
pub(crate) fn put(simulation: &mut Simulation, kind: Kind, body: Value) {
    let create = Operation::create(kind, body);
    simulation.store_mut().perform("admin", create).unwrap();
}

/// Puts an object with a status into the scene.
pub(crate) fn put_with_status(
    simulation: &mut Simulation,
    kind: &Kind,
    body: Value,
    status: Value,
) {
    let key = ObjectKey::in_body(&body);
    put(simulation, kind.clone(), body);
    let store = simulation.store_mut();
    store.update_status("admin", kind, &key, status);
}

/// Adds as many replicas of both controllers.
pub(crate) fn controllers(simulation: &mut Simulation, replicas: usize) {
    controllers_with_grace(simulation, replicas, ORPHAN_GRACE_PERIOD);
}

/// The same, that collect what has had no owner for this long.
pub(crate) fn controllers_with_grace(
    simulation: &mut Simulation,
    replicas: usize,
    grace: Duration,
) {
    for _ in 0..replicas {
        simulation.controller(COMPONENT, NetworkPoolReconciler::default);
        simulation.controller(COMPONENT, move || {
            IPAllocationReconciler::new(&Arc::default(), grace)
        });
    }
}

/// Adds what must hold at every moment. Only a moment that changed something is looked at.
pub(crate) fn holds_always(
    simulation: &mut Simulation,
    name: &str,
    check: fn(&Truth) -> Result<(), String>,
) {
    let looked_at = Cell::new(0);
    simulation.invariant(name, move |store| {
        let revision = store.revision();
        if looked_at.replace(revision) == revision {
            return Ok(());
        }
        check(&truth(store))
    });
}

/// A menu of deeds, taken at random in number and moment.
pub(crate) struct Whim(SmallRng);

impl Whim {
    pub(crate) fn new(seed: u64, person: u64) -> Self {
        Self(SmallRng::seed_from_u64(
            seed.wrapping_mul(37).wrapping_add(person),
        ))
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.0.random_range(0..from.len())].clone()
    }

    pub(crate) fn steps(
        mut self,
        count: usize,
        menu: impl Fn(&mut Self) -> Deed,
    ) -> Vec<(Moment, Deed)> {
        let moments = [
            Moment::Anytime,
            Moment::Anytime,
            Moment::After(Duration::from_secs(1)),
            Moment::AtRest,
        ];
        (0..count)
            .map(|_| (self.pick(&moments), menu(&mut self)))
            .collect()
    }
}

/// Runs to rest, and sees that all numbers agree.
pub(crate) fn runs(simulation: &mut Simulation) -> Result<(), Failed> {
    simulation.run(STEPS)?;
    let told = truth(simulation.store()).at_rest();
    told.unwrap_or_else(|lie| panic!("{lie}\n{}", simulation.log().tail(80)));
    Ok(())
}

/// Runs to rest, and sees that all numbers agree and that nothing is written any more.
pub(crate) fn comes_to_rest(simulation: &mut Simulation) -> Result<(), Failed> {
    runs(simulation)?;
    simulation.chances(Chances::calm());
    simulation.look_again();
    let outcome = simulation.run(STEPS)?;
    assert_eq!(
        outcome.writes,
        [],
        "another look changes nothing\n{}",
        simulation.log().tail(60)
    );
    simulation.chances(Chances::default());
    Ok(())
}

/// What an allocation shows: its addresses, or the reason why it has none.
pub(crate) fn shows(simulation: &Simulation, name: &str) -> String {
    let allocations = simulation.store().all::<IPAllocation>().unwrap();
    let allocation = allocations.iter().find(|one| one.name_any() == name);
    let Some(status) = allocation.and_then(|allocation| allocation.status.as_ref()) else {
        return "nothing".to_owned();
    };
    let ready = status.conditions.iter().find(|one| one.type_ == "Ready");
    let reason = || ready.map(|ready| ready.reason.clone());
    let ends = status
        .start_address
        .as_ref()
        .zip(status.end_address.as_ref());
    let addresses = ends.map(|(start, end)| format!("{start}-{end}"));
    addresses.or_else(reason).unwrap_or_default()
}
