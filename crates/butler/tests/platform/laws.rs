//! What must hold of a platform: at every moment, at rest, and when all its clusters are gone.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use butler_api::butler::{
    ip_allocation::IPAllocation,
    machine_request::MachineRequest,
    network_pool::NetworkPool,
    network_pool_ledger::NetworkPoolLedger,
    tenant_cluster::{ControlPlaneMode, TenantCluster},
};
use butler_provider::fake::Cloud;
use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{
    Chances, Failed, ObjectStore,
    players::{is_deleting, text},
};
use kube::ResourceExt;
use serde_json::Value;

use crate::{
    cluster_api::{holds, is_of_control_plane, machines},
    scene::{self, here},
    steward_scene,
    truth::Truth,
    world::{Platform, STEPS, rough},
};

impl Platform {
    /// Adds what must hold at every moment that changed something.
    pub(crate) fn holds_always(&mut self, replicas: usize) {
        let at_provider = Arc::clone(&self.cloud);
        self.always(
            "one machine for each request, and none without",
            move |store| each_machine_has_its_request(store, &at_provider),
        );
        self.always("no address is granted twice", |store| {
            truth(store).nothing_twice()
        });
        // Of two replicas that both believe to lead, a late one may set up what the other has just taken away. It takes it
        // away again: at rest nothing may be left, and that is for each story to look at.
        if replicas > 1 {
            return;
        }
        let contents = Arc::clone(&self.database.contents);
        self.always("what is in a store belongs to somebody", move |store| {
            let living: BTreeSet<_> = store
                .objects(&steward_scene::control_planes())
                .iter()
                .map(|found| text(found, "/metadata/uid").to_owned())
                .collect();
            let contents = contents.lock().unwrap();
            let mut owners = contents.keys().map(|(_, uid)| uid);
            let lost = owners.find(|uid| !living.contains(*uid));
            lost.map_or(Ok(()), |uid| Err(uid.clone()))
        });
    }

    /// Adds what must hold at every moment that changed something: an object, a thing at the provider, or a part of a database,
    /// of which no step makes or takes away more than one.
    pub(crate) fn always(
        &mut self,
        name: &str,
        check: impl Fn(&ObjectStore) -> Result<(), String> + 'static,
    ) {
        let looked_at = Cell::new(None);
        let cloud = Arc::clone(&self.cloud);
        let contents = Arc::clone(&self.database.contents);
        self.simulation.invariant(name, move |store| {
            let parts = contents.lock().unwrap().len();
            let moment = Some((store.revision(), cloud.revision(), parts));
            if looked_at.replace(moment) == moment {
                return Ok(());
            }
            check(store)
        });
    }

    /// Neither another look nor a restart writes anything.
    pub(crate) fn stays_at_rest(&mut self, seed: u64) -> Result<(), Failed> {
        self.simulation.chances(Chances::calm());
        for restart in [false, true] {
            if restart {
                self.simulation.restart();
            } else {
                self.simulation.look_again();
            }
            let outcome = self.simulation.run(STEPS)?;
            assert_eq!(
                outcome.writes,
                [],
                "restart: {restart}\n{}",
                self.simulation.log().tail(80)
            );
        }
        self.simulation.chances(rough(seed));
        Ok(())
    }

    /// A cluster is Ready as it was asked for last: in its words, in its Machines, and at the provider.
    pub(crate) fn is_ready(&self, name: &str) {
        let log = || self.simulation.log().tail(100);
        let body = self.tenant(name);
        let cluster: TenantCluster = serde_json::from_value(body.clone()).unwrap();
        let status = &body["status"];
        assert_eq!(status["phase"], "Ready", "{status:#}\n{}", log());
        assert_eq!(
            status["observedGeneration"],
            body["metadata"]["generation"],
            "{}",
            log()
        );
        let pools = butler_api::normalize::tenant_cluster::pools(&cluster.spec);
        let wanted: i32 = pools.iter().map(|pool| pool.replicas).sum();
        let wanted = usize::try_from(wanted).unwrap();
        assert_eq!(status["workerNodesReady"], wanted, "{status:#}\n{}", log());
        let machines = self.machines(name);
        let (of_control_plane, workers): (Vec<_>, Vec<_>) = machines
            .iter()
            .partition(|machine| is_of_control_plane(machine));
        assert_eq!(workers.len(), wanted, "{}", log());
        let plane = cluster.spec.control_plane.unwrap_or_default();
        let on_machines = plane.mode == ControlPlaneMode::Standalone;
        let wanted = plane.replicas * i32::from(on_machines);
        let wanted = usize::try_from(wanted).unwrap();
        assert_eq!(of_control_plane.len(), wanted, "{}", log());
        let version = body["spec"]["kubernetesVersion"].as_str().unwrap();
        let uids: BTreeSet<_> = self
            .cloud
            .machines()
            .into_iter()
            .map(|machine| machine.uid)
            .collect();
        for machine in &machines {
            assert_eq!(
                holds(machine, "Ready"),
                Some(true),
                "{machine:#}\n{}",
                log()
            );
            assert_eq!(machine["spec"]["version"], version);
            let key = ObjectKey::in_body(machine);
            let request = self.simulation.store().get(&scene::requests(), &key);
            let request = request.unwrap_or_else(|| panic!("{key} has a request\n{}", log()));
            assert!(uids.contains(text(&request, "/metadata/uid")), "{}", log());
        }
        assert_eq!(status["versions"]["controlPlane"], version, "{}", log());
    }

    /// What a cluster shows.
    pub(crate) fn tenant(&self, name: &str) -> Value {
        let store = self.simulation.store();
        let found = store.get(&scene::tenant_clusters(), &here(name));
        let found =
            found.unwrap_or_else(|| panic!("{name} is there\n{}", self.simulation.log().tail(80)));
        found.as_ref().clone()
    }

    /// The Machines of a cluster.
    pub(crate) fn machines(&self, name: &str) -> Vec<Arc<Value>> {
        machines_of(self.simulation.store(), name)
    }

    /// The Machine that is known by an identity.
    pub(crate) fn machine_known_as(&self, identity: &str) -> ObjectKey {
        let all = self.simulation.store().objects(&machines());
        let mut known = all
            .iter()
            .filter(|machine| text(machine, "/spec/providerID") == identity);
        ObjectKey::in_body(known.next().unwrap())
    }

    /// The identities of the machines of a cluster.
    pub(crate) fn machines_at_provider(&self, name: &str) -> BTreeSet<String> {
        let machines = self.machines(name).into_iter();
        machines
            .map(|machine| text(&machine, "/spec/providerID").to_owned())
            .collect()
    }

    /// All objects but what was said in passing.
    pub(crate) fn objects(&self) -> BTreeSet<(Kind, ObjectKey)> {
        let all = self.simulation.store().everything();
        let lasting = all.filter(|(kind, _, _)| kind.kind != "Event");
        lasting
            .map(|(kind, key, _)| (kind.clone(), key.clone()))
            .collect()
    }

    /// Nothing is left of clusters: no object, no machine, no load balancer, no part of a database, no address.
    pub(crate) fn nothing_is_left(&self) {
        let log = || self.simulation.log().tail(100);
        let objects = self.objects();
        let left: Vec<_> = objects
            .difference(&self.before)
            .filter(|(kind, _)| *kind != Kind::of::<NetworkPoolLedger>())
            .map(|(kind, key)| format!("{kind} {key}"))
            .collect();
        assert!(left.is_empty(), "{left:?}\n{}", log());
        assert_eq!(self.cloud.machines(), [], "{}", log());
        assert_eq!(self.cloud.load_balancers(), [], "{}", log());
        assert!(
            self.database.contents.lock().unwrap().is_empty(),
            "{}",
            log()
        );
        self.addresses_agree();
        let truth = truth(self.simulation.store());
        let granted: Vec<_> = truth.grants().into_values().flatten().collect();
        assert_eq!(granted, [], "{}", log());
    }

    /// Pools, ledgers and allocations say the same.
    pub(crate) fn addresses_agree(&self) {
        let told = truth(self.simulation.store()).at_rest();
        told.unwrap_or_else(|lie| panic!("{lie}\n{}", self.simulation.log().tail(100)));
    }
}

fn truth(store: &ObjectStore) -> Truth {
    Truth {
        pools: store.all::<NetworkPool>().unwrap(),
        ledgers: store.all::<NetworkPoolLedger>().unwrap(),
        allocations: store.all::<IPAllocation>().unwrap(),
    }
}

/// The Machines of a cluster.
pub(crate) fn machines_of(store: &ObjectStore, name: &str) -> Vec<Arc<Value>> {
    let all = store.objects(&machines()).into_iter();
    all.filter(|machine| machine["spec"]["clusterName"] == name)
        .collect()
}

/// How many Machines of a cluster work.
pub(crate) fn working(store: &ObjectStore, name: &str) -> usize {
    let all = machines_of(store, name);
    let works =
        |machine: &&Arc<Value>| !is_deleting(machine) && holds(machine, "Ready") == Some(true);
    all.iter().filter(works).count()
}

/// A machine at the provider is that of a request which exists, and no other is; no two have an address.
fn each_machine_has_its_request(store: &ObjectStore, cloud: &Cloud) -> Result<(), String> {
    let requests: Vec<MachineRequest> = store.all().unwrap();
    let asked: BTreeSet<_> = requests.iter().filter_map(ResourceExt::uid).collect();
    let mut owners = BTreeMap::new();
    let mut addresses = BTreeMap::new();
    for machine in cloud.machines() {
        if !asked.contains(&machine.uid) {
            return Err(format!("nobody asked for {machine:?}"));
        }
        if let Some(other) = owners.insert(machine.uid.clone(), machine.clone()) {
            return Err(format!("{machine:?} and {other:?} are for one request"));
        }
        if let Some(other) = addresses.insert(machine.address, machine.clone()) {
            return Err(format!("{machine:?} and {other:?} have one address"));
        }
    }
    Ok(())
}
