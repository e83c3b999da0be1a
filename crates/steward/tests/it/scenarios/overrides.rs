//! Some resources of a control plane have a store of their own, and no store goes while somebody's state is in it.

use butler_api::{conditions::types, steward::data_store::DataStore};
use butler_testkit::{eventually, eventually_gone};
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::{Api, api::DeleteParams};
use serde_json::json;
use steward_datastore::Store as _;

use super::{World, on_loopback};
use crate::{
    etcd::free_port,
    hosting::{PATIENCE, part},
    real::create,
    scene,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_kept_apart_and_a_store_goes_after_those_who_use_it() {
    let world = World::start().await;
    let second = world.etcd.start_beside().await;
    world.add_store("events", &second).await;
    let mut parts = on_loopback(free_port());
    parts["dataStoreOverrides"] = json!([{ "resource": "/events", "dataStore": "events" }]);
    world.ask("shop", parts).await;
    let ready = world.ready("shop").await;
    let shop = part(&ready);

    // Events are in the one store, everything else is in the other.
    let tenant = world.administrator("shop").await;
    let events = Api::<Event>::namespaced(tenant.clone(), "default");
    let event = json!({
        "metadata": { "name": "opened", "namespace": "default" },
        "involvedObject": { "kind": "Namespace", "name": "default", "namespace": "default" },
        "reason": "Opened", "message": "the shop is open", "type": "Normal",
    });
    create(&events, event).await;
    let namespaces = Api::<Namespace>::all(tenant);
    create(&namespaces, scene::namespace("counter")).await;
    let mine = format!("/{}/", shop.schema);
    let event = format!("{mine}events/default/opened");
    let namespace = format!("{mine}namespaces/counter");
    let (usual, apart) = (world.etcd.keys(&mine).await, second.keys(&mine).await);
    assert!(apart.contains(&event), "{apart:#?}");
    let is_event = |key: &&String| key.starts_with(&format!("{mine}events/"));
    assert_eq!(apart.iter().find(|key| !is_event(key)), None);
    assert!(usual.contains(&namespace), "{usual:#?}");
    assert_eq!(usual.iter().find(is_event), None);

    // A neighbour has its own part of the usual store, and something in it.
    let mut parts = on_loopback(free_port());
    parts["controlPlane"]["deployment"]["replicas"] = 0.into();
    world.ask("web", parts).await;
    world.rolled_out("web", "has no pods", |_| true).await;
    let web = world.control_planes().get("web").await.unwrap();
    let web = part(&web);
    let theirs = format!("/{}/", web.schema);
    let kept = format!("{theirs}namespaces/default");
    world.etcd.put(&kept).await;

    // A store in use does not go.
    let (stores, parameters) = (world.stores(), DeleteParams::default());
    stores.delete("events", &parameters).await.unwrap();
    let what = "says what it waits for";
    let held = eventually(&stores, "events", what, PATIENCE, |found| {
        let leaves = found.is_some_and(|found| found.metadata.deletion_timestamp.is_some());
        leaves && scene::ready(&json!(found)) == "False DeletionBlocked"
    })
    .await;
    assert_eq!(used_by(&held), ["payments/shop"]);
    let mut said = held.status.unwrap().conditions.into_iter();
    let ready = said.find(|condition| condition.type_ == types::READY);
    let message = ready.unwrap().message;
    assert!(message.contains("payments/shop"), "{message}");
    events.get("opened").await.unwrap();

    // With the control plane goes what it had in both stores, and then the store itself.
    let control_planes = world.control_planes();
    control_planes.delete("shop", &parameters).await.unwrap();
    eventually_gone(&control_planes, "shop", PATIENCE).await;
    for etcd in [&world.etcd, &second] {
        let store = etcd.store();
        assert!(store.tenant_state(&shop).await.unwrap().is_gone());
        assert_eq!(etcd.keys(&mine).await, [""; 0]);
    }
    eventually_gone(&stores, "events", PATIENCE).await;

    // The neighbour notices nothing.
    assert_eq!(world.etcd.keys(&theirs).await, [kept]);
    let state = world.etcd.store().tenant_state(&web).await.unwrap();
    assert!(state.is_complete());
    let what = "is used by the neighbour alone";
    eventually(&stores, "default", what, PATIENCE, |found| {
        found.is_some_and(|found| used_by(found) == ["payments/web"])
    })
    .await;
}

fn used_by(store: &DataStore) -> Vec<String> {
    store.status.clone().unwrap_or_default().used_by
}
