//! A process that reads a kind which the cluster may not have, as Cluster API's before it is installed.

use std::{sync::Arc, time::Duration};

use butler_runtime::{
    cache::{Projection, Store},
    client::Component,
    controller::ControllerSettings,
    manager::{Manager, ManagerError, ManagerOptions},
    object::Kind,
    shutdown::Shutdown,
    task,
    watch::WatchSettings,
};
use butler_testkit::{ApiServer, TestNamespace, eventually, eventually_gone};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, PostParams},
    runtime::{conditions::is_crd_established, wait::Condition},
};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle, time::timeout};

use crate::{
    engine_workshop::{Keeper, definition, quiet_server},
    http::PATIENCE,
};

/// Soon enough for a test.
const AT_ONCE: WatchSettings = WatchSettings {
    absent_kinds: Duration::from_millis(50),
};

/// That a lantern is there.
struct Lantern;

impl Projection for Lantern {
    const OPTIONAL: bool = true;

    fn kind() -> Kind {
        Kind {
            group: "lanterns.butler.test".to_owned(),
            version: "v1".to_owned(),
            kind: "Lantern".to_owned(),
            plural: "lanterns".to_owned(),
            namespaced: true,
        }
    }

    fn project(_: Value) -> Result<Self, serde_json::Error> {
        Ok(Self)
    }
}

/// A process that knows lanterns.
struct Watchman {
    lanterns: Arc<Store<Lantern>>,
    changes: watch::Receiver<()>,
    shutdown: Shutdown,
    run: JoinHandle<Result<(), ManagerError>>,
}

impl Watchman {
    /// Starts and waits until the process says that it is ready.
    async fn ready(server: &ApiServer) -> Self {
        let component = Component::new("watchman", "test").expect("valid");
        let mut manager = Manager::new(server.client_as("watchman"), component);
        // A process without a controller ends at once. Of beacons there are none here.
        manager.add(Keeper, ControllerSettings::default());
        let lanterns = manager.caches().store::<Lantern>();
        let (tell, changes) = watch::channel(());
        lanterns.listen(move |_| tell.send_replace(()));
        let (checks, caches) = (manager.checks().clone(), Arc::clone(manager.caches()));
        let options = ManagerOptions {
            watches: AT_ONCE,
            ..ManagerOptions::default()
        };
        let shutdown = Shutdown::new();
        let run = task::spawn("watchman", manager.run(options, shutdown.clone()));
        for store in caches.all() {
            let mut synced = store.synced();
            let in_sync = timeout(PATIENCE, synced.wait_for(|synced| *synced)).await;
            in_sync.expect("in time").expect("the store lives");
        }
        assert_eq!(checks.report(), (true, "[+]caches ok\nready\n".to_owned()));
        Self {
            lanterns,
            changes,
            shutdown,
            run,
        }
    }

    async fn until_it_knows(&mut self, count: usize) {
        let lanterns = Arc::clone(&self.lanterns);
        let known = self.changes.wait_for(|()| lanterns.len() == count);
        let known = timeout(PATIENCE, known).await.map(|known| known.is_ok());
        assert_eq!(known, Ok(true), "there are {}", self.lanterns.len());
    }

    async fn stop(self) {
        self.shutdown.begin();
        self.run.await.expect("no panic").expect("an orderly end");
    }
}

async fn install(server: &ApiServer) -> String {
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
    let definition = definition(&Lantern::kind());
    let name = definition.name_any();
    let parameters = PostParams::default();
    definitions.create(&parameters, &definition).await.unwrap();
    eventually(&definitions, &name, "is served", PATIENCE, |found| {
        is_crd_established().matches_object(found)
    })
    .await;
    name
}

async fn uninstall(server: &ApiServer, name: &str) {
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
    let parameters = DeleteParams::default();
    definitions.delete(name, &parameters).await.unwrap();
    eventually_gone(&definitions, name, PATIENCE).await;
}

async fn light(server: &ApiServer, namespace: &TestNamespace, name: &str) {
    let resource = Lantern::kind().api_resource();
    let lanterns: Api<DynamicObject> =
        Api::namespaced_with(server.client(), namespace.name(), &resource);
    let body = json!({ "apiVersion": "lanterns.butler.test/v1", "kind": "Lantern", "metadata": { "name": name } });
    let body = serde_json::from_value(body).unwrap();
    lanterns
        .create(&PostParams::default(), &body)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_optional_kind_may_come_and_go_and_come_again() {
    let server = quiet_server().await;
    let namespace = server.namespace("lanterns").await;
    let mut watchman = Watchman::ready(server).await;
    assert!(watchman.lanterns.is_empty(), "nobody serves lanterns yet");

    let definition = install(server).await;
    light(server, &namespace, "first").await;
    light(server, &namespace, "second").await;
    watchman.until_it_knows(2).await;

    uninstall(server, &definition).await;
    watchman.until_it_knows(0).await;

    install(server).await;
    light(server, &namespace, "third").await;
    watchman.until_it_knows(1).await;
    watchman.stop().await;
    uninstall(server, &definition).await;
}
