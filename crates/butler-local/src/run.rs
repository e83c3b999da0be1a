//! Runs the network of one cluster: watches that feed the caches, and the two loops that they wake.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use butler_runtime::{
    backoff::Backoff,
    cache::{AnyStore, Change, Projection, Store},
    failure::Class,
    kube_api_server::KubeApiServer,
    object::ObjectKey,
    shutdown::Shutdown,
    watch::{self, WatchSettings},
};
use futures::{StreamExt as _, future::join_all};
use kube::Client;
use tokio::sync::Notify;

use crate::{
    allocations::Allocations,
    board::SharedBoard,
    books::{Books, Desk},
    cluster::{Cluster, Counter},
    fabric::Fabric,
    facts::{AllocationFacts, EndpointFacts, NodeFacts, ServiceFacts},
    hands::Hands,
    proxies::{Prober, SharedProxies},
    registry::Registry,
    source::Source,
};

/// Machines are near, and an address that nobody serves is missed: the wait stays short.
const BACKOFF: Backoff = Backoff {
    shortest: Duration::from_millis(250),
    longest: Duration::from_secs(30),
};

/// What the network of a cluster is made of.
pub struct ClusterNetworkSettings<H> {
    /// Whose network it is.
    pub cluster: Cluster,
    /// Speaks to that cluster: its Nodes and Services.
    pub cluster_client: Client,
    /// Speaks to the management cluster: its `IPAllocation` objects.
    pub management_client: Client,
    /// What is remembered of those; kept up to date by the caller, for all clusters at once.
    pub allocations: Allocations,
    /// The hands on the machines.
    pub hands: Arc<H>,
    /// Field manager, and who reports events: the component's name.
    pub manager: String,
}

/// The network of a Kubernetes cluster on local machines.
#[derive(Clone, Copy, Debug)]
pub struct ClusterNetwork;

impl ClusterNetwork {
    /// Keeps the network until the shutdown. What machines have stays with them afterwards, and is found again by the next
    /// process.
    pub async fn run<H: Hands>(settings: ClusterNetworkSettings<H>, shutdown: Shutdown) {
        let end = shutdown.token();
        tokio::select! {
            () = end.cancelled() => {}
            () = keep(settings) => {}
        }
    }
}

async fn keep<H: Hands>(settings: ClusterNetworkSettings<H>) {
    let ClusterNetworkSettings {
        cluster,
        cluster_client,
        management_client,
        allocations,
        hands,
        manager,
    } = settings;
    let manager: Arc<str> = manager.into();
    let mut news = allocations.news();
    let memories = Memories::with(allocations);
    let (fabric_bell, books_bell) = (Bell::default(), Bell::default());
    let (registry_bell, prober_bell) = (Bell::default(), Bell::default());
    memories.wake(&fabric_bell, &books_bell, &prober_bell);
    let proxies = SharedProxies::default();
    let board = SharedBoard::default();
    let source = Source::of(cluster, Arc::clone(&manager));
    let changes = hands.changes();
    let registry = Registry {
        hands: Arc::clone(&hands),
        memories: memories.clone(),
        cluster: cluster_client.clone(),
    };
    let prober = Prober {
        hands: Arc::clone(&hands),
        source: source.clone(),
        memories: memories.clone(),
        proxies: proxies.clone(),
        news: fabric_bell.clone(),
    };
    let fabric = Fabric {
        hands,
        source: source.clone(),
        memories: memories.clone(),
        board: board.clone(),
        proxies,
        news: books_bell.clone(),
        told: BTreeMap::new(),
    };
    let books = Books {
        source,
        memories: memories.clone(),
        board,
        desk: Desk {
            cluster: Arc::new(KubeApiServer::new(cluster_client.clone())),
            management: Arc::new(KubeApiServer::new(management_client)),
            manager,
        },
        unseen: BTreeMap::new(),
    };
    tokio::join!(
        memories.feed(cluster_client),
        async {
            memories.synced().await;
            fabric_bell.ring();
            books_bell.ring();
            registry_bell.ring();
            prober_bell.ring();
        },
        async {
            let mut changes = pin!(changes);
            while changes.next().await.is_some() {
                fabric_bell.ring();
                registry_bell.ring();
                prober_bell.ring();
            }
        },
        async {
            while news.changed().await.is_ok() {
                fabric_bell.ring();
                books_bell.ring();
            }
        },
        repeat(&fabric_bell, fabric),
        repeat(&books_bell, books),
        repeat(&registry_bell, registry),
        prober.keep(&prober_bell),
    );
}

/// What a loop does each time it is woken.
pub(crate) trait Pass: Send {
    /// One pass over everything. Says whether all went well.
    fn pass(&mut self) -> impl Future<Output = bool> + Send;
}

/// A pass whenever the bell rings, and again after a while if one did not go well.
async fn repeat(bell: &Bell, mut work: impl Pass) {
    let mut failures = 0;
    loop {
        if work.pass().await {
            failures = 0;
            bell.rung().await;
        } else {
            failures += 1;
            // One loop has nobody to be spread from, so there is no jitter.
            let wait = BACKOFF.after(failures, Class::Retry, 1.0);
            // Whoever rings comes too early for what has just failed, unless it is news about that.
            let _ = tokio::time::timeout(wait, bell.rung()).await;
        }
    }
}

/// Wakes a loop. Rung while the loop is at work, it brings one more pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bell(Arc<Notify>);

impl Bell {
    pub(crate) fn ring(&self) {
        self.0.notify_one();
    }

    pub(crate) async fn rung(&self) {
        self.0.notified().await;
    }
}

/// The caches of one cluster's network.
#[derive(Clone)]
pub(crate) struct Memories {
    pub(crate) nodes: Arc<Store<NodeFacts>>,
    pub(crate) services: Arc<Store<ServiceFacts>>,
    pub(crate) endpoints: Arc<Store<EndpointFacts>>,
    pub(crate) allocations: Allocations,
}

impl Memories {
    fn with(allocations: Allocations) -> Self {
        Self {
            nodes: Arc::default(),
            services: Arc::default(),
            endpoints: Arc::default(),
            allocations,
        }
    }

    /// Whether everything was seen once.
    pub(crate) fn are_synced(&self) -> bool {
        self.all().iter().all(|store| *store.synced().borrow())
    }

    /// The allocations for Services of the management cluster, by the UID of their Service.
    pub(crate) fn allocations_of_services(&self) -> BTreeMap<String, Vec<AllocationFacts>> {
        let mut found = BTreeMap::<_, Vec<_>>::new();
        for allocation in self.allocations.list() {
            let allocation = &allocation.value;
            if Counter::made(allocation)
                && let Some(service) = allocation.service.clone()
            {
                found.entry(service).or_default().push(allocation.clone());
            }
        }
        found
    }

    /// The nodes that have a ready endpoint of a Service.
    pub(crate) fn endpoint_nodes(&self, service: &ObjectKey) -> BTreeSet<String> {
        let slices = self.endpoints.list();
        let own = slices
            .iter()
            .filter(|slice| slice.value.service.as_ref() == Some(service));
        own.flat_map(|slice| slice.value.nodes.clone()).collect()
    }

    fn all(&self) -> [Arc<dyn AnyStore>; 4] {
        [
            any(&self.nodes),
            any(&self.services),
            any(&self.endpoints),
            self.allocations.any(),
        ]
    }

    async fn synced(&self) {
        for store in self.all() {
            // The sender lives as long as the store.
            let _ = store.synced().wait_for(|synced| *synced).await;
        }
    }

    async fn feed(&self, cluster: Client) {
        let stores = [any(&self.nodes), any(&self.services), any(&self.endpoints)];
        let feeds = stores
            .into_iter()
            .map(|store| watch::feed(cluster.clone(), store, WatchSettings::default()));
        join_all(feeds).await;
    }

    /// Which changes wake whom. Endpoints change often in ways that do not matter here. A Node that merely tells that it is alive
    /// may be that of a machine which somebody else has started, so it counts; and of Services and allocations every version
    /// is waited for by whoever wrote it.
    fn wake(&self, fabric: &Bell, books: &Bell, prober: &Bell) {
        listen(&self.nodes, fabric, |_| true);
        listen(&self.nodes, prober, differs);
        listen(&self.services, prober, differs);
        listen(&self.endpoints, fabric, differs);
        for bell in [fabric, books] {
            listen(&self.services, bell, |_| true);
        }
    }
}

fn any<P: Projection>(store: &Arc<Store<P>>) -> Arc<dyn AnyStore> {
    let store: Arc<Store<P>> = Arc::clone(store);
    store
}

fn listen<P: Projection>(store: &Store<P>, bell: &Bell, matters: fn(&Change<P>) -> bool) {
    let bell = bell.clone();
    store.listen(move |change| {
        if matters(change) {
            bell.ring();
        }
    });
}

fn differs<P: PartialEq>(change: &Change<P>) -> bool {
    let before = change.before.as_ref().map(|cached| &cached.value);
    before != change.after.as_ref().map(|cached| &cached.value)
}
