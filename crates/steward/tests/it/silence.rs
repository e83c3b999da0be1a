//! A store that swallows what it is asked holds up the control planes that use it, and no others.

use std::{future::pending, sync::Arc, time::Duration};

use butler_api::{
    conditions::types,
    steward::{data_store::DataStore, tenant_control_plane::TenantControlPlane},
};
use butler_runtime::{
    client::Component,
    manager::{Manager, ManagerOptions},
    reconciler::Bell,
    shutdown::Shutdown,
    task,
};
use butler_testkit::{ApiServer, Options, eventually};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::Api;
use serde_json::json;
use steward::{
    run::{self, COMPONENT, Surroundings},
    settings::Settings,
    store::{StoreAccess, StoreAnswer, StoreGrant, StorePort},
};

use crate::{
    real::{PATIENCE, create, serve, set_the_scene, until_ready},
    scene::{self, SYSTEM, TEAM, here},
};

/// As many are worked on at the same time.
const WORKERS: usize = 4;
/// More than that wait for the store that does not answer.
const HELD: usize = 3 * WORKERS;
/// A pass that waits for a store without an end takes a minute.
const PROMPT: Duration = Duration::from_secs(30);

/// Stores of which one never answers.
struct Hole;

impl Hole {
    fn answer(store: &StoreAccess) -> StoreAnswer<'static> {
        let is_hole = store.name == "hole";
        Box::pin(async move {
            if is_hole {
                pending::<()>().await;
            }
            Ok(())
        })
    }
}

impl StorePort for Hole {
    fn check<'a>(&'a self, store: &'a StoreAccess) -> StoreAnswer<'a> {
        Self::answer(store)
    }

    fn ensure<'a>(&'a self, store: &'a StoreAccess, _: &'a StoreGrant) -> StoreAnswer<'a> {
        Self::answer(store)
    }

    fn discard<'a>(&'a self, store: &'a StoreAccess, _: &'a StoreGrant) -> StoreAnswer<'a> {
        Self::answer(store)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_planes_on_a_store_that_never_answers_hold_up_nobody_else() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let client = server.client_as("story");
    set_the_scene(&client).await;
    let secrets = Api::<Secret>::namespaced(client.clone(), SYSTEM);
    create(&secrets, scene::store_certificates("hole")).await;
    create(&Api::<DataStore>::all(client.clone()), scene::store("hole")).await;
    let mut manager = Manager::new(
        server.client_as(COMPONENT),
        Component::new(COMPONENT, "test").unwrap(),
    );
    let surroundings = Surroundings {
        stores: Arc::new(Hole),
        tenants: None,
        bell: Bell::default(),
    };
    run::add(&mut manager, &Settings::default(), surroundings, WORKERS);
    let shutdown = Shutdown::new();
    task::spawn(
        COMPONENT,
        manager.run(ManagerOptions::default(), shutdown.clone()),
    );

    let control_planes = Api::<TenantControlPlane>::namespaced(client.clone(), TEAM);
    for number in 0..HELD {
        let body = scene::control_plane(
            &here(&format!("held-{number}")),
            json!({ "dataStore": "hole" }),
        );
        create(&control_planes, body).await;
    }
    // Someone waits for the store by now, and all others are behind.
    let is_waited_for = |found: Option<&TenantControlPlane>| {
        let status = found.and_then(|found| found.status.as_ref());
        status.is_some_and(|status| status.storage.is_some())
    };
    for number in 0..HELD {
        let (name, what) = (format!("held-{number}"), "wants its part");
        eventually(&control_planes, &name, what, PATIENCE, is_waited_for).await;
    }
    create(
        &control_planes,
        scene::control_plane(&here("shop"), json!({})),
    )
    .await;
    let deployments = Api::<Deployment>::namespaced(client.clone(), TEAM);
    let story = async {
        serve(&client, "shop").await;
        until_ready(&client, "shop").await
    };
    tokio::time::timeout(PROMPT, story).await.unwrap();

    // Those who wait are told for what, and have nothing that could not work.
    let told = |found: Option<&TenantControlPlane>| {
        let status = found.and_then(|found| found.status.as_ref());
        let conditions = status.map(|status| status.conditions.clone());
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|found| {
            found.type_ == types::RECONCILED && found.message.contains("DataStore hole")
        })
    };
    for name in ["held-0", "held-11"] {
        eventually(&control_planes, name, "is told", PATIENCE, told).await;
        assert_eq!(deployments.get_opt(name).await.unwrap(), None);
    }
    shutdown.begin();
}
