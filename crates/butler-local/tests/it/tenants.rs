//! The Services of a tenant cluster take addresses of its ranges.

use std::{net::Ipv4Addr, sync::Arc};

use butler_api::{
    butler::ip_allocation::IPAllocation,
    keys::{annotations, finalizers::ADDRESSES_IN_USE},
};
use butler_host::network::PodNetwork;
use butler_local::{Allocations, Cluster, Departures, Tenant, Waiting};
use butler_testkit::{eventually, eventually_gone};
use kube::{ResourceExt as _, api::DeleteParams};
use serde_json::json;
use tokio::sync::watch;

use crate::{
    machines::{PATIENCE, Toys},
    scene::{COMPONENT, Scene},
};

const TENANT: &str = "shop";

/// A tenant on two of the three machines.
fn tenant(waiting: watch::Sender<Option<Waiting>>) -> Tenant {
    Tenant {
        namespace: "default".to_owned(),
        name: TENANT.to_owned(),
        machines: Arc::new(|id| id != "id-of-m3"),
        pods: true,
        grows: false,
        waiting,
    }
}

/// The network of the tenant, and what is told of who waits.
async fn tenancy(scene: &mut Scene) -> watch::Receiver<Option<Waiting>> {
    scene.end().await;
    let waiting = watch::Sender::new(None);
    let told = waiting.subscribe();
    scene.begin_as(Cluster::Tenant(tenant(waiting)));
    told
}

async fn until_waiting(told: &mut watch::Receiver<Option<Waiting>>, count: usize) {
    let is_so = |told: &Option<Waiting>| told.is_some_and(|told| told.count == count);
    let waiting = tokio::time::timeout(PATIENCE, told.wait_for(is_so));
    let well = waiting.await.is_ok();
    assert!(well, "{count} should wait: {:?}", *told.borrow());
}

async fn until_marked(scene: &Scene, range: &str, marked: bool) -> IPAllocation {
    let is_so = |found: Option<&IPAllocation>| {
        found.is_some_and(|found| {
            found.finalizers().contains(&ADDRESSES_IN_USE.to_owned()) == marked
        })
    };
    let what = if marked { "is in use" } else { "is not in use" };
    eventually(&scene.allocations(), range, what, PATIENCE, is_so).await
}

fn span(range: &IPAllocation) -> (Ipv4Addr, Ipv4Addr) {
    let status = range.status.clone().unwrap();
    let parsed = |text: Option<String>| text.unwrap().parse().unwrap();
    (parsed(status.start_address), parsed(status.end_address))
}

#[tokio::test(flavor = "multi_thread")]
async fn services_of_a_tenant_live_on_its_ranges() {
    let mut scene = Scene::set().await;
    scene.add_tenant(TENANT).await;
    let mut told = tenancy(&mut scene).await;

    // The cluster has no addresses: perhaps somebody else serves its Services. But who waits is known.
    scene.serve("web", json!({})).await;
    until_waiting(&mut told, 1).await;

    scene.grant(TENANT, "first", 2).await;
    let web = scene.address_of("web").await;
    let range = until_marked(&scene, "first", true).await;
    let (start, end) = span(&range);
    assert!((start..=end).contains(&web), "{web} is of {start}-{end}");
    assert_eq!(
        range.annotations()[annotations::ADDRESSES_USED_BY],
        COMPONENT
    );
    until_waiting(&mut told, 0).await;
    let service = scene.services().get("web").await.unwrap();
    let written = &service.annotations()[annotations::LOAD_BALANCER_ASSIGNED];
    assert_eq!(*written, web.to_string());

    // The third machine has a node that says it is of this cluster; it is somebody else's.
    let now = scene.hands.now();
    assert_ne!(now.holders(web), ["m3"]);
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_forget_the_pods_of_a_tenant_that_brings_a_network_of_its_own() {
    let mut scene = Scene::set().await;
    let all_know = |toys: &Toys| {
        let mut names = ["m1", "m2", "m3"].iter();
        names.all(|name| toys.pods(name).is_some_and(|pods| pods.own.is_some()))
    };
    scene.hands.until("all know their pods", all_know).await;
    scene.end().await;
    scene.begin_as(Cluster::Tenant(Tenant {
        pods: false,
        ..tenant(watch::Sender::new(None))
    }));
    let forgotten = |toys: &Toys| {
        let mut names = ["m1", "m2"].iter();
        names.all(|name| toys.pods(name) == Some(&PodNetwork::default()))
    };
    scene.hands.until("the tenant's forget", forgotten).await;
    let now = scene.hands.now();
    assert!(now.pods("m3").is_some_and(|pods| pods.own.is_some()));
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_tenant_that_is_gone() {
    let mut scene = Scene::set().await;
    scene.add_tenant(TENANT).await;
    let _told = tenancy(&mut scene).await;
    scene.grant(TENANT, "first", 2).await;
    scene.serve("web", json!({})).await;
    let web = scene.address_of("web").await;
    scene.end().await;
    let allocations = scene.allocations();
    allocations
        .delete("first", &DeleteParams::default())
        .await
        .unwrap();

    let known = Allocations::default();
    let client = scene.server.client_as(COMPONENT);
    let departures = Departures::new(
        Arc::clone(&scene.hands),
        known.clone(),
        client.clone(),
        COMPONENT,
    );
    let settling = async {
        known.synced().await;
        assert!(departures.settle(&|_| true).await);
        let held = |toys: &Toys| toys.holders(web).len() == 1;
        scene.hands.until("nothing is touched", held).await;
        // Whoever frees the range writes to it at the same time: what is stale is settled with the next news, as a provider does.
        let mut news = known.news();
        loop {
            assert!(departures.settle(&|_| false).await);
            news.changed().await.unwrap();
        }
    };
    tokio::select! {
        () = settling => {}
        () = known.keep(client) => {}
        () = eventually_gone(&allocations, "first", PATIENCE) => {}
    }
    assert_eq!(scene.hands.now().holders(web), Vec::<String>::new());
    scene.close().await;
}
