//! A process that runs controllers: caches, leadership, health, metrics and an orderly end.
//!
//! Every replica keeps its caches warm and says when it is ready; only the leader works. A standby's queues fill with the keys
//! of all objects, so that taking over means a pass over each.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use kube::Client;
use rand::RngExt;
use tokio_util::sync::CancellationToken;

use crate::{
    admission::{Admission, AdmissionError, AdmissionSettings, Reach, Webhooks},
    cache::Caches,
    client::Component,
    controller::{AnyController, Controller, ControllerSettings},
    engine::Engine,
    kube_api_server::KubeApiServer,
    leader::{Elector, LeaderError, LeaderSettings, LeaseName, identity},
    metrics::Metrics,
    metrics_access::MetricsAccess,
    queue::Queue,
    reconciler::{Enqueue, Reconciler},
    serve::{Listener, ReadyChecks, ServeError, health_router, metrics_router},
    shutdown::{GRACE, Shutdown},
    task::TaskGroup,
    watch::{self, WatchSettings},
};

/// How long a standby server may take to answer its last request.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// Why a process had to end.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// A listener failed.
    #[error("could not serve health or metrics")]
    Serve(#[from] ServeError),
    /// Admission does not work.
    #[error("could not serve webhooks")]
    Admission(#[from] AdmissionError),
    /// The leadership was lost.
    #[error("could not keep the leadership")]
    Leader(#[from] LeaderError),
}

/// How a process runs.
#[derive(Clone, Debug, Default)]
pub struct ManagerOptions {
    /// The lease to lead by; without one this process works at once.
    pub lease: Option<LeaseName>,
    /// Timing of the election.
    pub leadership: LeaderSettings,
    /// Who we are among the candidates; the host's name if absent.
    pub identity: Option<String>,
    /// Where `/healthz` and `/readyz` are served.
    pub health: Option<SocketAddr>,
    /// Where `/metrics` is served.
    pub metrics: Option<SocketAddr>,
    /// Whether `/metrics` is only for those whom the API server allows it.
    pub metrics_authorization: bool,
    /// Where webhooks are served; nowhere if absent.
    pub webhooks: Option<WebhookOptions>,
    /// How caches are fed.
    pub watches: WatchSettings,
}

/// Where webhooks are served and how the API server finds them.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The namespace of the Secret with the certificates.
    pub namespace: String,
    /// How the API server reaches us.
    pub reach: Reach,
}

/// A process in the making.
pub struct Manager {
    client: Client,
    component: Component,
    caches: Arc<Caches>,
    metrics: Metrics,
    checks: ReadyChecks,
    controllers: Vec<Arc<dyn AnyController>>,
    webhooks: Webhooks,
}

impl Manager {
    /// A process called `component` that speaks through `client`.
    pub fn new(client: Client, component: Component) -> Self {
        let checks = ReadyChecks::new();
        Self {
            client,
            component,
            caches: Arc::default(),
            metrics: Metrics::new(),
            checks,
            controllers: Vec::new(),
            webhooks: Webhooks::new(),
        }
    }

    /// Where controllers register families of their own.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What readiness depends on beside the caches.
    pub fn checks(&self) -> &ReadyChecks {
        &self.checks
    }

    /// The caches of this process.
    pub fn caches(&self) -> &Arc<Caches> {
        &self.caches
    }

    /// The way to the API server, for reviewers that have to ask it.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Adds a controller.
    pub fn add<R: Reconciler>(&mut self, reconciler: R, settings: ControllerSettings) {
        let queue = Arc::new(Queue::default());
        self.metrics.queue(R::NAME, &queue);
        let enqueue: Enqueue = {
            let queue = Arc::clone(&queue);
            Arc::new(move |key| queue.add(key))
        };
        let api = Arc::new(KubeApiServer::counted(
            self.client.clone(),
            R::NAME,
            self.metrics.clone(),
        ));
        let caches = Arc::clone(&self.caches);
        let seed = rand::rng().random();
        let engine = Engine::new(
            reconciler,
            self.component.name(),
            api,
            caches,
            enqueue,
            seed,
        );
        self.controllers.push(Arc::new(Controller {
            engine,
            queue,
            settings,
            metrics: self.metrics.clone(),
        }));
    }

    /// Sets what is asked of us before the API server takes a manifest. Every replica answers, leader or not.
    pub fn review(&mut self, webhooks: Webhooks) {
        self.webhooks = webhooks;
    }

    /// Runs until the shutdown, or until the leadership is lost.
    pub async fn run(
        mut self,
        options: ManagerOptions,
        shutdown: Shutdown,
    ) -> Result<(), ManagerError> {
        let servers = self.serve(&options, &shutdown).await?;
        if let Some(webhooks) = options.webhooks.clone() {
            self.admit(webhooks, &servers, &shutdown).await?;
        }
        let watches = TaskGroup::new(shutdown.token());
        for store in self.caches.all() {
            let name = format!("watch-{}", store.kind());
            let stop = shutdown.token();
            let feed = watch::feed(self.client.clone(), store, options.watches);
            watches.spawn(&name, async move {
                tokio::select! { () = stop.cancelled() => {}, () = feed => {} }
            });
        }
        let outcome = self.work(options, &shutdown).await;
        shutdown.begin();
        for (group, grace) in [(watches, GRACE), (servers, LAST_REQUESTS)] {
            if let Err(error) = group.finish(grace).await {
                tracing::warn!(%error, "not everything ended in time");
            }
        }
        outcome
    }

    async fn serve(
        &self,
        options: &ManagerOptions,
        shutdown: &Shutdown,
    ) -> Result<TaskGroup, ServeError> {
        let unready = Arc::clone(&self.caches);
        self.checks.register("caches", move || {
            let waiting = unready
                .all()
                .into_iter()
                .filter(|store| !*store.synced().borrow());
            let kinds: Vec<_> = waiting.map(|store| store.kind().to_string()).collect();
            if kinds.is_empty() {
                Ok(())
            } else {
                Err(format!("not in sync: {}", kinds.join(", ")))
            }
        });
        let servers = TaskGroup::new(shutdown.token());
        let health = options
            .health
            .map(|address| ("health", address, health_router(self.checks.clone())));
        let metrics = options
            .metrics
            .map(|address| ("metrics", address, self.numbers(options)));
        for (purpose, address, router) in health.into_iter().chain(metrics) {
            let listener = Listener::bind(purpose, address).await?;
            let stop = shutdown.token();
            servers.spawn(purpose, async move {
                if let Err(error) = listener.serve(router, stop).await {
                    tracing::error!(%error, "a listener ended");
                }
            });
        }
        Ok(servers)
    }

    fn numbers(&self, options: &ManagerOptions) -> Router {
        let numbers = metrics_router(self.metrics.clone());
        if options.metrics_authorization {
            MetricsAccess::new(self.client.clone()).guard(numbers)
        } else {
            numbers
        }
    }

    async fn admit(
        &mut self,
        options: WebhookOptions,
        servers: &TaskGroup,
        shutdown: &Shutdown,
    ) -> Result<(), ManagerError> {
        let listener = Listener::bind("webhooks", options.listen).await?;
        let component = self.component.clone();
        let settings = AdmissionSettings {
            component,
            namespace: options.namespace,
            reach: options.reach,
        };
        let webhooks = std::mem::take(&mut self.webhooks);
        let admission = Admission::new(self.client.clone(), settings, webhooks)?;
        admission.add_ready_check(&self.checks);
        let stop = shutdown.clone();
        servers.spawn("webhooks", async move {
            if let Err(error) = admission.run(listener, stop.token()).await {
                // Without webhooks every write of our kinds is refused: better a new start.
                tracing::error!(%error, "webhooks ended");
                stop.begin();
            }
        });
        Ok(())
    }

    async fn work(&self, options: ManagerOptions, shutdown: &Shutdown) -> Result<(), ManagerError> {
        tokio::select! {
            () = shutdown.token().cancelled_owned() => return Ok(()),
            () = self.in_sync() => tracing::info!("caches are in sync"),
        }
        let controllers = self.controllers.clone();
        let run = move |token| run_all(controllers, token);
        match options.lease {
            None => run(shutdown.token()).await,
            Some(lease) => {
                let me = options.identity.unwrap_or_else(|| identity(&host_name()));
                let elector = Elector::new(
                    self.client.clone(),
                    lease,
                    me,
                    options.leadership,
                    self.metrics.clone(),
                );
                elector.run(shutdown.token(), run).await?;
            }
        }
        Ok(())
    }

    async fn in_sync(&self) {
        for store in self.caches.all() {
            // The sender lives in the store, which we hold: this cannot fail.
            let _ = store.synced().wait_for(|synced| *synced).await;
        }
    }
}

async fn run_all(controllers: Vec<Arc<dyn AnyController>>, token: CancellationToken) {
    futures::future::join_all(
        controllers
            .into_iter()
            .map(|controller| controller.run(token.clone())),
    )
    .await;
}

/// The pod's name in a cluster, the machine's elsewhere.
fn host_name() -> String {
    let pod = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME"));
    let file =
        || std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned());
    pod.or_else(|_| file())
        .unwrap_or_else(|_| "butler".to_owned())
}
