//! The networks of tenant clusters whose machines are on this host: one for each, for as long as the cluster is there.
//!
//! Owns: when such a network begins, begins anew and ends, and that nothing is left of one that ended. Everything is watched by
//! caches that the process has anyway, but for `ButlerCluster`; a tenant costs three watches of its own API server, and none
//! of the management cluster's.
//!
//! Must not: let one tenant wait for another. Each runs in a task of its own; what is awaited here is the management cluster
//! and this host.

mod facts;
mod network;
mod plan;
mod report;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use butler_api::butler::{machine_request::MachineRequest, provider_config::ProviderConfig};
use butler_host::host::Host;
use butler_local::{Allocations, Departures};
use butler_runtime::{
    backoff::Backoff,
    cache::{AnyStore, Caches, Metadata, Projection, Store, Whole},
    client::Component,
    failure::Class,
    object::ObjectKey,
    shutdown::Shutdown,
    task,
};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use tokio::{sync::Notify, task::JoinHandle};

use network::Ground;
use plan::{Course, ProviderFacts, Wanted};
use report::Clusters;

const BACKOFF: Backoff = Backoff {
    shortest: Duration::from_millis(500),
    longest: Duration::from_secs(30),
};

/// Keeps the networks of tenants.
pub(super) struct Tenants {
    ground: Ground,
    providers: Arc<Store<Whole<ProviderConfig>>>,
    secrets: Arc<Store<Metadata<Secret>>>,
    departures: Departures<Host>,
    running: BTreeMap<ObjectKey, Running>,
    bell: Arc<Notify>,
}

/// The network of one tenant.
struct Running {
    wanted: Wanted,
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

impl Running {
    /// Ends at once: what machines have stays with them.
    async fn end(self) {
        self.shutdown.begin();
        // A panic was told where it happened.
        let _ = self.task.await;
    }
}

impl Tenants {
    /// Reads the caches of the process. Has to be called before they are fed.
    pub(super) fn new(
        caches: &Caches,
        host: Host,
        management: Client,
        component: Component,
        allocations: Allocations,
    ) -> Self {
        let host = Arc::new(host);
        let departures = Departures::new(
            Arc::clone(&host),
            allocations.clone(),
            management.clone(),
            component.name(),
        );
        let tenants = Self {
            ground: Ground {
                host,
                management,
                component,
                allocations,
                requests: caches.store::<Whole<MachineRequest>>(),
                clusters: Clusters::new(caches.store()),
            },
            providers: caches.store(),
            secrets: caches.store(),
            departures,
            running: BTreeMap::new(),
            bell: Arc::default(),
        };
        listen(&tenants.ground.clusters.store, &tenants.bell, |_| true);
        listen(&tenants.providers, &tenants.bell, |_| true);
        let is_kubeconfig = |key: &ObjectKey| {
            key.name
                .ends_with(butler_api::keys::names::KUBECONFIG_SUFFIX)
        };
        listen(&tenants.secrets, &tenants.bell, is_kubeconfig);
        tenants
    }

    /// Keeps them until the shutdown.
    pub(super) async fn run(mut self, shutdown: Shutdown) {
        let end = shutdown.token();
        tokio::select! {
            () = end.cancelled() => {}
            () = self.keep() => {}
        }
        for (_, running) in std::mem::take(&mut self.running) {
            running.end().await;
        }
    }

    async fn keep(&mut self) {
        self.synced().await;
        let mut news = self.ground.allocations.news();
        let mut failures = 0;
        loop {
            let wait = if self.pass().await {
                failures = 0;
                None
            } else {
                failures += 1;
                Some(BACKOFF.after(failures, Class::Retry, 1.0))
            };
            tokio::select! {
                () = self.bell.notified() => {}
                // The sender is ours, and lives.
                _ = news.changed() => {}
                () = again(wait) => {}
            }
        }
    }

    /// Nothing is decided before everything was seen once: a machine whose request is not known would be nobody's.
    async fn synced(&self) {
        let clusters = Arc::clone(&self.ground.clusters.store);
        let requests = Arc::clone(&self.ground.requests);
        let providers = Arc::clone(&self.providers);
        let secrets = Arc::clone(&self.secrets);
        let stores: [Arc<dyn AnyStore>; 4] = [clusters, requests, providers, secrets];
        for store in stores {
            // The sender lives as long as the store.
            let _ = store.synced().wait_for(|synced| *synced).await;
        }
        self.ground.allocations.synced().await;
    }

    /// Brings the networks in step with the clusters. Says whether all went well.
    async fn pass(&mut self) -> bool {
        let course = self.course();
        for key in self.running.keys().cloned().collect::<Vec<_>>() {
            let goes_on = course.unclear.contains(&key)
                || course.wanted.get(&key) == self.running.get(&key).map(|kept| &kept.wanted);
            if let Some(running) = self.running.remove(&key) {
                if goes_on {
                    self.running.insert(key, running);
                } else {
                    tracing::info!(tenant = %running.wanted.tenant, "the network of a tenant ends here");
                    running.end().await;
                }
            }
        }
        for (key, wanted) in course.wanted {
            if self.running.contains_key(&key) {
                continue;
            }
            let shutdown = Shutdown::new();
            let network = network::keep(
                self.ground.clone(),
                key.clone(),
                wanted.clone(),
                shutdown.clone(),
            );
            let task = task::spawn("tenant", network);
            let running = Running {
                wanted,
                shutdown,
                task,
            };
            self.running.insert(key, running);
        }
        let there = course.there;
        self.departures
            .settle(&|tenant| there.contains(tenant))
            .await
    }

    fn course(&self) -> Course {
        let clusters = self.ground.clusters.store.list();
        let provider = |key: &ObjectKey| {
            let found = self.providers.get(key)?;
            Some(ProviderFacts::of(&found.value.0))
        };
        let version = |key: &ObjectKey| Some(self.secrets.get(key)?.facts.resource_version.clone());
        let clusters = clusters.iter().map(|cluster| &cluster.value);
        plan::course(clusters, provider, version)
    }
}

async fn again(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

fn listen<P: Projection>(store: &Store<P>, bell: &Arc<Notify>, matters: fn(&ObjectKey) -> bool) {
    let bell = Arc::clone(bell);
    store.listen(move |change| {
        if matters(&change.key) {
            bell.notify_one();
        }
    });
}
