//! A platform as `butleradm up` leaves it, and everybody who works on it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use butler_api::butler::{machine_request::MachineRole, provider_config::ProviderConfig};
use butler_controller::{
    butler_cluster::ButlerClusterReconciler,
    butler_config::ButlerConfigReconciler,
    butler_machine::ButlerMachineReconciler,
    ip_allocation::{IPAllocationReconciler, ORPHAN_GRACE_PERIOD},
    network_pool::NetworkPoolReconciler,
    provider_config::ProviderConfigReconciler,
    run::COMPONENT,
    tenant_cluster::TenantClusterReconciler,
};
use butler_provider::{
    Access, Capabilities, Credentials, MachineIdentity, MachineOrder, ProviderError,
    fake::{CAPABILITIES, Call, Cloud, Defect, FakeMachine},
    load_balancer_request::LoadBalancerRequestReconciler,
    machine_request::MachineRequestReconciler,
};
use butler_runtime::{
    object::{Kind, ObjectKey},
    reconciler::Bell,
};
use butler_testkit::simulator::{
    Chances, Deed, Failed, Moment, ObjectStore, Operation, Simulation,
    players::{self, text},
    seeds_asked_for,
};
use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};
use steward::{
    data_store::DataStoreReconciler,
    kubeconfig_generator::KubeconfigGeneratorReconciler,
    moves::Moves,
    settings::Settings,
    steward_control_plane::{
        ClusterApiSettings, StewardControlPlaneReconciler, elsewhere::Nowhere,
    },
    tenant_control_plane::{Ports, TenantControlPlaneReconciler},
};

use crate::{
    cluster_api,
    database::Database,
    scene::{self, SYSTEM, TENANTS},
    silence,
    steward_scene::{self, OneKey},
    wired::WiredProvider,
};

/// In how many worlds each story is told, unless `BUTLER_SEEDS` asks for more.
const SEEDS: u64 = 4;
/// A world that has not come to rest by then never will.
pub(crate) const STEPS: u64 = 400_000;
/// Longer than any story.
const STORE_PERIOD: Duration = Duration::from_hours(24);
/// Addresses for everybody.
const LARGE_POOL: &str = "10.213.0.0/24";
const STEWARD: &str = "steward";
const PROVIDER: &str = "butler-provider-local";

/// The worlds that stories are told in: so many from the first on, `BUTLER_SEEDS=1000`, or a range, `BUTLER_SEEDS=17..18`.
pub(crate) fn seeds() -> std::ops::Range<u64> {
    seeds_asked_for("BUTLER_SEEDS", SEEDS)
}

/// A platform in a world.
pub(crate) struct Platform {
    pub(crate) simulation: Simulation,
    pub(crate) cloud: Arc<Cloud>,
    pub(crate) database: Database,
    /// What was there before anybody asked for a cluster.
    pub(crate) before: BTreeSet<(Kind, ObjectKey)>,
}

/// How many processes believe to lead. With one there are more worlds in which a single mishap decides.
pub(crate) fn replicas(seed: u64) -> usize {
    if seed % 4 == 3 { 2 } else { 1 }
}

/// What the infrastructure of a world can do.
fn capabilities(seed: u64) -> Capabilities {
    Capabilities {
        user_data_later: seed.is_multiple_of(2),
        ..CAPABILITIES
    }
}

/// An infrastructure with bad days: it is busy, it is full, and makes room again.
fn cloud(seed: u64, defect: Option<Defect>) -> Arc<Cloud> {
    // On this host nobody has to show a password.
    let defects = [Defect::AcceptsAnyCredentials].into_iter().chain(defect);
    let cloud = Cloud::with_defects(defects);
    let busy = || ProviderError::retry("the infrastructure is busy; it is asked again");
    let full = || ProviderError::quota("there is no room; delete something");
    for turn in 0..seed % 4 {
        let error = if turn % 2 == 0 { full() } else { busy() };
        cloud.fail_next(Call::CreateMachine, error);
    }
    for _ in 0..seed % 3 {
        cloud.fail_next(Call::DeleteMachine, busy());
        cloud.fail_next(Call::ObserveMachine, busy());
    }
    Arc::new(cloud)
}

impl Platform {
    /// A platform at rest, of which nobody has asked anything, with addresses for many.
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_pool(seed, LARGE_POOL)
    }

    /// The same with a pool of this range.
    pub(crate) fn with_pool(seed: u64, range: &str) -> Self {
        Self::with(seed, range, &scene::fixed_ranges(), None)
    }

    /// The same with a pool of this range, from which Services get addresses like this.
    pub(crate) fn with_addresses(seed: u64, range: &str, addresses: &Value) -> Self {
        Self::with(seed, range, addresses, None)
    }

    /// The same on an infrastructure that breaks a rule.
    pub(crate) fn with_defect(seed: u64, defect: Defect) -> Self {
        Self::with(seed, LARGE_POOL, &scene::fixed_ranges(), Some(defect))
    }

    fn with(seed: u64, range: &str, addresses: &Value, defect: Option<Defect>) -> Self {
        let mut simulation = Simulation::new(seed);
        let cloud = cloud(seed, defect);
        let database = Database::new(simulation.wire());
        let namespaces = [SYSTEM, TENANTS, steward_scene::SYSTEM].map(|name| {
            (
                Kind::of::<Namespace>(),
                json!({ "metadata": { "name": name } }),
            )
        });
        let stores = [
            (
                steward_scene::secrets(),
                steward_scene::store_certificates("default"),
            ),
            (steward_scene::stores(), steward_scene::store("default")),
        ];
        let everything = namespaces.into_iter().chain(stores);
        for (kind, body) in everything.chain(scene::platform(range, addresses)) {
            let create = Operation::create(kind, body);
            simulation.store_mut().perform("admin", create).unwrap();
        }
        for _ in 0..replicas(seed) {
            butler(&mut simulation);
            steward(&mut simulation, &database);
            provider(&mut simulation, &cloud, seed);
        }
        simulation.foreign("services", players::services);
        simulation.foreign("deployments", silence::deployments);
        cluster_api::live(&mut simulation, &cloud, silence::answers);
        let mut platform = Self {
            simulation,
            cloud,
            database,
            before: BTreeSet::new(),
        };
        platform.holds_always(replicas(seed));
        platform.simulation.chances(Chances::calm());
        platform.simulation.run(STEPS).unwrap();
        platform.simulation.chances(rough(seed));
        platform.before = platform.objects();
        platform
    }

    /// Somebody does one thing after the other.
    pub(crate) fn user(&mut self, name: &str, steps: Vec<(Moment, Deed)>) {
        self.simulation.user(name, steps);
    }

    /// Somebody does something now.
    pub(crate) fn act(&mut self, deed: Deed) {
        self.user("somebody", vec![(Moment::Anytime, deed)]);
    }

    /// Every order for a machine arrives at the provider once more while the machine is there, and once more when it is gone, as
    /// in networks that keep what they could not deliver.
    pub(crate) fn orders_arrive_again(&mut self) {
        let cloud = Arc::clone(&self.cloud);
        let mut known = BTreeMap::<String, (FakeMachine, bool)>::new();
        self.simulation.foreign("network", move |store| {
            let standing = cloud.machines();
            let mut found = standing.iter();
            if let Some(new) = found.find(|found| !known.contains_key(&found.uid)) {
                known.insert(new.uid.clone(), (new.clone(), true));
                return Some(deliver_again(&cloud, store, new));
            }
            let is_there = |uid: &String| standing.iter().any(|found| found.uid == *uid);
            let requests = store.objects(&scene::requests());
            let is_asked_for = |uid: &String| {
                let mut requests = requests.iter();
                requests.any(|request| text(request, "/metadata/uid") == uid)
            };
            let mut known = known.iter_mut();
            let (_, (machine, is_held)) = known
                .find(|(uid, (_, is_held))| *is_held && !is_there(uid) && !is_asked_for(uid))?;
            *is_held = false;
            Some(deliver_again(&cloud, store, machine))
        });
    }

    /// Runs until the world is at rest.
    pub(crate) fn settles(&mut self) -> Result<(), Failed> {
        self.simulation.run(STEPS)?;
        Ok(())
    }
}

/// Delivers the order of a machine once more; gives the words for the log.
fn deliver_again(cloud: &Cloud, store: &ObjectStore, machine: &FakeMachine) -> String {
    let configs: Vec<ProviderConfig> = store.all().unwrap();
    let access = Access {
        config: configs.into_iter().next().unwrap(),
        credentials: Credentials::default(),
    };
    let order = MachineOrder {
        identity: MachineIdentity {
            uid: machine.uid.clone(),
            machine_name: machine.name.clone(),
            adopts: None,
        },
        role: MachineRole::Worker,
        size: machine.size,
        extra_disks: Vec::new(),
        image: None,
        labels: BTreeMap::new(),
        address: Some(machine.address),
        user_data: machine.user_data.clone(),
        network_data: None,
    };
    let answer = cloud.create_machine(&access, &order);
    format!("delivers the order of {} again: {answer:?}", machine.name)
}

/// How rough a world is. The platform is large: mishaps are spread over many more steps than in other stories.
pub(crate) fn rough(seed: u64) -> Chances {
    Chances {
        crash: 0.01,
        crashes: 30,
        unavailable: if seed % 5 == 4 { 0.05 } else { 0.02 },
        relist: 0.01,
        cut_off: 0.01,
        delay: 0.02,
    }
}

fn butler(simulation: &mut Simulation) {
    simulation.controller(COMPONENT, || ButlerConfigReconciler);
    simulation.controller(COMPONENT, ProviderConfigReconciler::default);
    simulation.controller(COMPONENT, NetworkPoolReconciler::default);
    simulation.controller(COMPONENT, || {
        IPAllocationReconciler::new(&Arc::default(), ORPHAN_GRACE_PERIOD)
    });
    simulation.controller(COMPONENT, || ButlerClusterReconciler);
    simulation.controller(COMPONENT, || ButlerMachineReconciler);
    simulation.controller(COMPONENT, TenantClusterReconciler::default);
}

fn steward(simulation: &mut Simulation, database: &Database) {
    let port = database.clone();
    simulation.controller(STEWARD, move || {
        let ports = Ports {
            stores: Arc::new(port.clone()),
            tenants: None,
            moves: Arc::new(Moves::new(Bell::default())),
            keys: Arc::new(OneKey),
            bell: Bell::default(),
        };
        TenantControlPlaneReconciler::new(Settings::default(), ports)
    });
    let port = database.clone();
    simulation.controller(STEWARD, move || {
        DataStoreReconciler::new(Settings::default(), Arc::new(port.clone()), STORE_PERIOD)
    });
    simulation.controller(STEWARD, || KubeconfigGeneratorReconciler);
    simulation.controller(STEWARD, || {
        let settings = ClusterApiSettings::default();
        StewardControlPlaneReconciler::new(settings, Arc::new(Nowhere), Bell::default())
    });
}

fn provider(simulation: &mut Simulation, cloud: &Arc<Cloud>, seed: u64) {
    let provider = WiredProvider::<true> {
        wire: simulation.wire(),
        cloud: Arc::clone(cloud),
        capabilities: capabilities(seed),
    };
    let (one, other) = (provider.clone(), provider);
    simulation.controller(PROVIDER, move || {
        MachineRequestReconciler::new(Arc::new(one.clone()), Bell::default())
    });
    simulation.controller(PROVIDER, move || {
        LoadBalancerRequestReconciler::new(Arc::new(other.clone()), Bell::default())
    });
}
