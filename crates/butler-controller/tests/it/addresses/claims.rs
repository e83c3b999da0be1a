//! How another controller takes addresses and lets them go: with nothing but plan-time objects.

use butler_api::{
    butler::{
        ip_allocation::{AllocationType, IPAllocation},
        machine_request::{MachineRequest, MachineRequestStatus},
    },
    keys::{finalizers, groups},
};
use butler_controller::{
    ip_allocation::IPAllocationReconciler, network_pool::NetworkPoolReconciler, run::COMPONENT,
};
use butler_ipam::{Claim, ClaimOwner, ClaimWish, Role, Standing, let_go, of_owner, standing};
use butler_runtime::{
    cache::Whole,
    failure::Failure,
    object::{Kind, Manifest, ObjectKey},
    plan::{Next, Plan, Prune},
    reconciler::{Context, NoEffect, Reconciler, Sources},
};
use butler_testkit::simulator::{
    Deed, Failed, Moment, ObjectStore, Operation, Simulation, for_seeds,
};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::truth::Truth;
use crate::scene::{self, SYSTEM, system};

const POOL: &str = "machines";
const MACHINES: [&str; 4] = ["one", "two", "three", "four"];

/// A provider that gives every machine an address. A machine is up while its status has one.
struct Addresses;

fn claim(machine: &MachineRequest) -> Claim {
    Claim {
        namespace: SYSTEM.to_owned(),
        pool: POOL.to_owned(),
        owner: ClaimOwner::Object {
            api_version: groups::BUTLER_API_VERSION.to_owned(),
            kind: "MachineRequest".to_owned(),
            namespace: machine.namespace(),
            name: machine.name_any(),
            uid: machine.uid().unwrap_or_default(),
        },
        kind: AllocationType::Nodes,
        role: Role::Initial,
        wish: ClaimWish::Count(1),
        team: None,
    }
}

impl Reconciler for Addresses {
    const NAME: &'static str = "addresses";
    const FINALIZER: Option<&'static str> = Some(finalizers::MACHINE_REQUEST);

    type Object = MachineRequest;
    type Status = MachineRequestStatus;
    type World = Option<IPAllocation>;
    type Effect = NoEffect;

    fn sources(&self, sources: &mut Sources<'_, MachineRequest>) {
        sources.owns_as::<Whole<IPAllocation>>();
    }

    async fn observe(
        &self,
        machine: &MachineRequest,
        context: &Context,
    ) -> Result<Option<IPAllocation>, Failure> {
        let allocations = context.cache::<Whole<IPAllocation>>().list();
        let all = allocations.iter().map(|cached| &cached.value.0);
        let claim = claim(machine);
        let mut of_machine = of_owner(&claim.owner, AllocationType::Nodes, all);
        Ok(of_machine.next().cloned())
    }

    fn plan(
        &self,
        machine: &MachineRequest,
        allocation: &Option<IPAllocation>,
        _: Timestamp,
    ) -> Plan<MachineRequestStatus, NoEffect> {
        let standing = standing(allocation.as_ref());
        let deleting = machine.metadata.deletion_timestamp.is_some();
        // The machine is shut down in the pass that finds it deleted: its status loses the address.
        let address = match &standing {
            Standing::Granted { range } if !deleting => Some(range.start().to_string()),
            _ => None,
        };
        let was_up = machine
            .status
            .as_ref()
            .is_some_and(|status| status.ip_address.is_some());
        let apply = match allocation {
            // Out of use, and only then let go.
            Some(allocation) if deleting => let_go(allocation).filter(|_| !was_up),
            None if deleting => None,
            _ => Some(claim(machine).wanted()),
        };
        Plan {
            apply: apply.iter().map(Manifest::of).collect(),
            prune: Prune::Unlisted,
            next: if deleting && standing == Standing::Missing {
                Next::Done
            } else {
                Next::AwaitChange
            },
            ..Plan::status(MachineRequestStatus {
                ip_address: address,
                ..MachineRequestStatus::default()
            })
        }
    }

    async fn perform(
        &self,
        _: &MachineRequest,
        effect: &NoEffect,
        _: &Context,
    ) -> Result<(), Failure> {
        match *effect {}
    }
}

fn machine_kind() -> Kind {
    Kind::of::<MachineRequest>()
}

fn machine(name: &str) -> Deed {
    let spec = json!({
        "providerRef": { "name": "local" },
        "role": "worker",
        "cpu": 1,
        "memoryMB": 1024,
        "diskGB": 10,
    });
    let body = scene::object(&machine_kind(), &system(name), json!({ "spec": spec }));
    Deed::create(machine_kind(), body)
}

fn no_machine(name: &str) -> Deed {
    Deed::delete(machine_kind(), system(name))
}

/// A machine that is up uses an address that is granted to it.
fn used_addresses_are_held(store: &ObjectStore) -> Result<(), String> {
    let allocations = store
        .all::<IPAllocation>()
        .map_err(|error| error.to_string())?;
    let machines = store
        .all::<MachineRequest>()
        .map_err(|error| error.to_string())?;
    for machine in machines {
        let address = machine
            .status
            .as_ref()
            .and_then(|status| status.ip_address.clone());
        let Some(address) = address else {
            continue;
        };
        let claim = claim(&machine);
        let mut of_machine = of_owner(&claim.owner, AllocationType::Nodes, &allocations);
        let held = of_machine.any(|allocation| {
            let status = allocation.status.as_ref();
            let start = status.and_then(|status| status.start_address.as_deref());
            let users = allocation.finalizers();
            let marked = users
                .iter()
                .any(|user| user == finalizers::ADDRESSES_IN_USE);
            start == Some(address.as_str()) && marked
        });
        if !held {
            let name = machine.name_any();
            return Err(format!("{name} uses {address}, which it does not hold"));
        }
    }
    Ok(())
}

#[test]
fn machines_take_and_let_go_of_addresses_by_plans_alone() {
    for_seeds(0..60, |seed| {
        let mut simulation = Simulation::new(seed);
        // Three addresses for four machines.
        let window = json!({ "ranges": [{ "start": "10.50.0.10", "end": "10.50.0.12" }] });
        let spec = json!({ "cidr": "10.50.0.0/24", "tenantAllocation": window });
        let pool = scene::object(&scene::pool_kind(), &system(POOL), json!({ "spec": spec }));
        for (kind, body) in [
            (scene::namespace_kind(), scene::namespace(SYSTEM)),
            (scene::pool_kind(), pool),
        ] {
            let create = Operation::create(kind, body);
            simulation.store_mut().perform("admin", create).unwrap();
        }
        simulation.controller(COMPONENT, NetworkPoolReconciler::default);
        simulation.controller(COMPONENT, IPAllocationReconciler::default);
        simulation.controller("butler-provider-local", || Addresses);
        simulation.invariant("what is used is held", used_addresses_are_held);
        let made = MACHINES.map(|name| (Moment::Anytime, machine(name)));
        simulation.user("maker", made.into());
        simulation.run(60_000)?;
        let up = |store: &ObjectStore| {
            let machines = store.all::<MachineRequest>().unwrap().into_iter();
            let addresses = machines.filter_map(|machine| machine.status?.ip_address);
            addresses.collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!(up(simulation.store()), 3, "{}", simulation.log().tail(60));

        // One goes: the one that waits gets its address.
        let gone = MACHINES[usize::try_from(seed % 4).unwrap()];
        simulation.user("mover", vec![(Moment::Anytime, no_machine(gone))]);
        simulation.run(60_000)?;
        assert_eq!(up(simulation.store()), 3, "{}", simulation.log().tail(60));

        let rest = MACHINES.map(|name| (Moment::Anytime, no_machine(name)));
        simulation.user("leaver", rest.into());
        simulation.run(60_000)?;
        let store = simulation.store();
        assert!(store.objects(&machine_kind()).is_empty(), "machines go");
        assert!(
            store.objects(&Kind::of::<IPAllocation>()).is_empty(),
            "nothing is left\n{}",
            simulation.log().tail(60)
        );
        let truth = Truth {
            pools: store.all().unwrap(),
            ledgers: store.all().unwrap(),
            allocations: store.all().unwrap(),
        };
        truth.at_rest().unwrap();
        let pool = store.get(&scene::pool_kind(), &ObjectKey::namespaced(SYSTEM, POOL));
        assert_eq!(pool.unwrap()["status"]["availableIPs"], 3);
        Ok::<(), Failed>(())
    })
    .unwrap();
}
