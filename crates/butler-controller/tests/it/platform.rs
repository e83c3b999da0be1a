//! The controllers as one process runs them, without a lease and without listeners, beside the tests.

use std::{thread, time::Duration};

use butler_controller::{
    butler_config::ButlerConfigReconciler, metrics, provider_config::ProviderConfigReconciler,
    run::COMPONENT,
};
use butler_runtime::{
    client::Component,
    controller::ControllerSettings,
    manager::{Manager, ManagerOptions},
    metrics::Metrics,
    shutdown::Shutdown,
};
use butler_testkit::ApiServer;
use kube::{Api, Client, Resource, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::{
    runtime::Runtime,
    sync::{OnceCell, oneshot},
};

use crate::scene::typed;

/// What takes longer than this has failed.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// What the people of the stories are to the API server.
const USER_AGENT: &str = "platform-engineer";

static PLATFORM: OnceCell<Platform> = OnceCell::const_new();

/// A management cluster on which the controllers run.
pub(crate) struct Platform {
    pub(crate) server: &'static ApiServer,
    pub(crate) metrics: Metrics,
}

impl Platform {
    /// The one that all stories of this process share. They keep apart by namespaces.
    pub(crate) async fn shared() -> &'static Self {
        PLATFORM.get_or_init(Self::start).await
    }

    async fn start() -> Self {
        let server = ApiServer::shared().await;
        let (started, metrics) = oneshot::channel();
        // A runtime of its own: that of the test which comes first ends with that test.
        thread::spawn(move || {
            Runtime::new().unwrap().block_on(async {
                let component = Component::new(COMPONENT, "test").unwrap();
                let mut manager = Manager::new(server.client_as(COMPONENT), component);
                manager.add(ButlerConfigReconciler, ControllerSettings::default());
                manager.add(
                    ProviderConfigReconciler::default(),
                    ControllerSettings::default(),
                );
                metrics::register(
                    manager.metrics(),
                    manager.caches(),
                    &std::sync::Arc::default(),
                    &std::sync::Arc::default(),
                );
                started.send(manager.metrics().clone()).ok();
                manager
                    .run(ManagerOptions::default(), Shutdown::new())
                    .await
                    .unwrap();
            });
        });
        Self {
            server,
            metrics: metrics.await.unwrap(),
        }
    }

    /// A client of the people in the stories.
    pub(crate) fn client(&self) -> Client {
        self.server.client_as(USER_AGENT)
    }
}

/// Creates an object from its manifest.
pub(crate) async fn create<K>(api: &Api<K>, manifest: Value) -> K
where
    K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    api.create(&PostParams::default(), &typed(manifest))
        .await
        .unwrap()
}
