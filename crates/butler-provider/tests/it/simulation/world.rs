//! A world with one infrastructure, its controllers, a pool controller in a few lines, and people who ask for machines.

use std::{collections::BTreeSet, sync::Arc};

use butler_api::butler::{
    ip_allocation::IPAllocation,
    load_balancer_request::LoadBalancerRequest,
    machine_request::{MachinePhase, MachineRequest},
    provider_config::ProviderConfig,
};
use butler_provider::{
    AddressSource, Capabilities,
    fake::{CAPABILITIES, Cloud, PASSWORD},
    load_balancer_request::LoadBalancerRequestReconciler,
    machine_request::MachineRequestReconciler,
};
use butler_runtime::{
    object::{Kind, ObjectKey},
    reconciler::Bell,
};
use butler_testkit::simulator::{
    Chances, Deed, Failed, Moment, ObjectStore, Operation, Simulation,
};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::wired::WiredProvider;

pub(crate) const STEPS: u64 = 60_000;
pub(crate) const SYSTEM: &str = "butler-system";
pub(crate) const COMPONENT: &str = "butler-provider-nutanix";

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced(SYSTEM, name)
}

pub(crate) fn machines() -> Kind {
    Kind::of::<MachineRequest>()
}

pub(crate) fn load_balancers() -> Kind {
    Kind::of::<LoadBalancerRequest>()
}

pub(crate) fn encoded(text: &str) -> Value {
    json!(ByteString(text.as_bytes().to_vec()))
}

pub(crate) fn secret(name: &str, entry: &str, value: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": SYSTEM },
        "data": { entry: encoded(value) },
    })
}

pub(crate) fn configuration(name: &str, provider: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": SYSTEM },
        "spec": {
            "provider": provider,
            "credentialsRef": { "name": "login" },
            "network": { "mode": "ipam", "poolRefs": [{ "name": "full" }, { "name": "blue", "priority": -1 }] },
        },
    })
}

pub(crate) fn request(name: &str, provider: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": SYSTEM },
        "spec": {
            "providerRef": { "name": provider },
            "role": "worker", "cpu": 1, "memoryMB": 1024, "diskGB": 10,
            "userDataSecretRef": { "name": format!("{name}-bootstrap") },
        },
    })
}

/// A pool controller in a few lines: the pool `full` refuses, the others grant what nobody has.
pub(crate) fn pools(store: &mut ObjectStore) -> Option<String> {
    let kind = Kind::of::<IPAllocation>();
    let allocations: Vec<IPAllocation> = store.all().unwrap();
    let taken: BTreeSet<String> = allocations
        .iter()
        .filter_map(|allocation| allocation.status.as_ref()?.start_address.clone())
        .collect();
    let asked = allocations.iter().find(|allocation| {
        allocation.status.is_none() && allocation.metadata.deletion_timestamp.is_none()
    })?;
    let status = if asked.spec.pool_ref.name == "full" {
        json!({ "phase": "Failed" })
    } else {
        let free = |number: &u8| !taken.contains(&format!("10.213.73.{number}"));
        let address = asked.spec.pinned_range.as_ref().map_or_else(
            || format!("10.213.73.{}", (2..250).find(free).unwrap()),
            |pinned| pinned.start_address.clone(),
        );
        json!({ "phase": "Allocated", "startAddress": address, "endAddress": address })
    };
    let name = asked.name_any();
    store.update_status("pools", &kind, &key(&name), status);
    Some(format!("answers {name}"))
}

/// A world with one infrastructure and as many replicas of its controllers.
pub(crate) fn world(
    seed: u64,
    replicas: usize,
    capabilities: Capabilities,
) -> (Simulation, Arc<Cloud>) {
    let mut simulation = Simulation::new(seed);
    let cloud = Arc::new(Cloud::default());
    let scene = [
        (
            Kind::of::<Namespace>(),
            json!({ "metadata": { "name": SYSTEM } }),
        ),
        (Kind::of::<Secret>(), secret("login", "password", PASSWORD)),
        (
            Kind::of::<ProviderConfig>(),
            configuration("cloud", "nutanix"),
        ),
        (
            Kind::of::<ProviderConfig>(),
            configuration("elsewhere", "harvester"),
        ),
    ];
    for (kind, body) in scene {
        let create = Operation::create(kind, body);
        simulation.store_mut().perform("admin", create).unwrap();
    }
    simulation.foreign("pools", pools);
    let provider: WiredProvider = WiredProvider {
        wire: simulation.wire(),
        cloud: Arc::clone(&cloud),
        capabilities,
    };
    for _ in 0..replicas {
        let (one, other) = (provider.clone(), provider.clone());
        simulation.controller(COMPONENT, move || {
            MachineRequestReconciler::new(Arc::new(one.clone()), Bell::default())
        });
        simulation.controller(COMPONENT, move || {
            LoadBalancerRequestReconciler::new(Arc::new(other.clone()), Bell::default())
        });
    }
    let watched = Arc::clone(&cloud);
    simulation.invariant("one machine for each request", move |_| {
        let machines = watched.machines();
        let uids: BTreeSet<_> = machines.iter().map(|machine| &machine.uid).collect();
        let addresses: BTreeSet<_> = machines.iter().map(|machine| machine.address).collect();
        if uids.len() == machines.len() && addresses.len() == machines.len() {
            Ok(())
        } else {
            Err(format!("{machines:?}"))
        }
    });
    (simulation, cloud)
}

pub(crate) fn capabilities(seed: u64) -> Capabilities {
    Capabilities {
        addresses: if seed.is_multiple_of(3) {
            AddressSource::Infrastructure
        } else {
            AddressSource::Pools
        },
        user_data_later: seed.is_multiple_of(2),
        ..CAPABILITIES
    }
}

/// Somebody makes a request with its user data, in either order.
pub(crate) fn asks(simulation: &mut Simulation, name: &str) {
    let ask = Deed::create(machines(), request(name, "cloud"));
    let tell = Deed::create(
        Kind::of::<Secret>(),
        secret(&format!("{name}-bootstrap"), "value", "#cloud-config\n"),
    );
    simulation.user(&format!("{name}-asks"), vec![(Moment::Anytime, ask)]);
    simulation.user(&format!("{name}-tells"), vec![(Moment::Anytime, tell)]);
}

pub(crate) fn shown(simulation: &Simulation, name: &str) -> MachineRequest {
    let object = simulation.store().get(&machines(), &key(name)).unwrap();
    serde_json::from_value(object.as_ref().clone()).unwrap()
}

pub(crate) fn phase(simulation: &Simulation, name: &str) -> Option<MachinePhase> {
    shown(simulation, name)
        .status
        .and_then(|status| status.phase)
}

/// Neither another look nor a restart writes anything.
pub(crate) fn settles(simulation: &mut Simulation) -> Result<(), Failed> {
    simulation.chances(Chances::calm());
    for restart in [false, true] {
        if restart {
            simulation.restart();
        } else {
            simulation.look_again();
        }
        let outcome = simulation.run(STEPS)?;
        assert_eq!(
            outcome.writes,
            [],
            "restart: {restart}\n{}",
            simulation.log().tail(60)
        );
    }
    Ok(())
}
