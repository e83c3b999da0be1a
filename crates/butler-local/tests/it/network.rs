//! Nodes, machines and Services come and go.

use std::collections::BTreeMap;

use butler_api::{
    butler::ip_allocation::IPAllocation,
    keys::finalizers::{ADDRESSES_IN_USE, SERVICE_LOAD_BALANCER},
};
use butler_local::{PodNetwork, ProxyAnswer};
use butler_testkit::{eventually, eventually_all, eventually_gone};
use k8s_openapi::api::{core::v1::Service, events::v1::Event};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    machines::{PATIENCE, Toys},
    scene::{COMPONENT, Scene, condition, ingress, machine_address},
};

fn pods_of(own: u8, peers: &[u8]) -> PodNetwork {
    let range = |number: u8| format!("10.244.{number}.0/24").parse().unwrap();
    PodNetwork {
        own: Some(range(own)),
        peers: peers
            .iter()
            .map(|peer| (range(*peer), machine_address(*peer)))
            .collect(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_know_the_ways_to_each_others_pods() {
    let scene = Scene::set().await;
    let knows = |name: &'static str, own: u8, peers: &'static [u8]| {
        move |toys: &Toys| toys.pods(name) == Some(&pods_of(own, peers))
    };
    let hands = &scene.hands;
    hands
        .until("the first knows all", knows("m1", 1, &[2, 3]))
        .await;
    hands
        .until("the third knows all", knows("m3", 3, &[1, 2]))
        .await;

    // A fourth comes: the machine first, its node later.
    hands.add("m4", machine_address(4));
    scene.join(4).await;
    hands
        .until("the fourth is known", knows("m1", 1, &[2, 3, 4]))
        .await;
    hands
        .until("the fourth knows", knows("m4", 4, &[1, 2, 3]))
        .await;

    // One starts again, and has forgotten everything.
    hands.start("m2");
    hands
        .until("the second knows again", knows("m2", 2, &[1, 3, 4]))
        .await;

    // A node goes.
    let nodes = scene.nodes();
    nodes.delete("n3", &DeleteParams::default()).await.unwrap();
    hands
        .until("the third is forgotten", knows("m1", 1, &[2, 4]))
        .await;
    let forgets = |toys: &Toys| toys.pods("m3") == Some(&PodNetwork::default());
    hands.until("the third forgets", forgets).await;
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_served_moved_and_given_back() {
    let mut scene = Scene::set().await;
    scene.serve("web", json!({})).await;
    let address = scene.address_of("web").await;
    let holders = scene.hands.now().holders(address);
    assert_eq!(holders, ["m1"], "the first of three that are idle");
    let found = scene.services().get("web").await.unwrap();
    assert_eq!(found.finalizers(), [SERVICE_LOAD_BALANCER]);
    let allocations = scene
        .allocations()
        .list(&ListParams::default())
        .await
        .unwrap();
    let [allocation] = allocations.items.as_slice() else {
        panic!("one allocation: {allocations:?}");
    };
    assert!(
        allocation
            .finalizers()
            .contains(&ADDRESSES_IN_USE.to_owned())
    );
    let allocation = allocation.name_any();

    // Its machine dies.
    scene.hands.kill("m1");
    let moved = |toys: &Toys| toys.holders(address) == ["m2"];
    scene.hands.until("the second serves it", moved).await;
    let told = scene.until_told("web", "AddressServed", "machine m2").await;
    assert_eq!(ingress(&told), Some(address), "it is the same address");

    // The node of the next one is not heard of any more; the first is back by then, and has nothing. Whichever works serves it.
    scene.hands.start("m1");
    scene.set_ready("n2", false).await;
    let moved = |toys: &Toys| {
        let holders = toys.holders(address);
        holders == ["m1"] || holders == ["m3"]
    };
    let now = scene.hands.until("another serves it", moved).await;
    let holders = now.holders(address);
    let serves = format!("machine {}", holders[0]);
    scene.until_told("web", "AddressServed", &serves).await;

    // The process is another one: nothing moves, and nothing is written but about what is new.
    scene.end().await;
    scene.set_ready("n2", true).await;
    let mark = scene.server.audit().mark();
    scene.begin();
    scene.serve("second", json!({})).await;
    let second = scene.address_of("second").await;
    assert_ne!(second, address);
    let writes = scene.server.audit().since(mark).writes();
    // A name is not known before an object is made.
    let (made, changed) = writes
        .by_user_agent(COMPONENT)
        .partition(|request| request.verb == "create");
    let others = changed.filter(|request| !request.name.starts_with("second"));
    assert!(others.is_empty(), "{others}");
    let asked = made.for_resource("ipallocations");
    assert_eq!(asked.count(), 1, "{asked}");
    assert_eq!(scene.hands.now().holders(address), holders);

    // The Service is deleted.
    scene.delete_service("web").await;
    eventually_gone(&scene.services(), "web", PATIENCE).await;
    assert_eq!(scene.hands.now().holders(address), Vec::<String>::new());
    eventually_gone(&scene.allocations(), &allocation, PATIENCE).await;
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_put_nowhere_while_another_machine_may_have_it() {
    let scene = Scene::set().await;
    scene.serve("web", json!({})).await;
    let address = scene.address_of("web").await;
    scene.hands.set_stubborn(Some("m1"));
    scene.hands.kill("m1");
    // It is asked again and again.
    let asked = |toys: &Toys| toys.stubborn.as_ref().is_some_and(|(_, asked)| *asked >= 3);
    let meanwhile = scene.hands.until("it was asked to let go", asked).await;
    assert_eq!(meanwhile.holders(address), ["m1"]);
    scene.hands.set_stubborn(None);
    let moved = |toys: &Toys| toys.holders(address) == ["m2"];
    scene.hands.until("the second serves it", moved).await;

    // Nor is it given back.
    scene.hands.set_stubborn(Some("m2"));
    scene.delete_service("web").await;
    scene.hands.until("it was asked to let go", asked).await;
    let service = scene.services().get("web").await.unwrap();
    assert_eq!(service.finalizers(), [SERVICE_LOAD_BALANCER]);
    let allocations = scene.allocations().list(&ListParams::default()).await;
    let marked = |found: &IPAllocation| found.metadata.deletion_timestamp.is_none();
    assert!(allocations.unwrap().items.iter().all(marked));
    scene.hands.set_stubborn(None);
    eventually_gone(&scene.services(), "web", PATIENCE).await;
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wished_address_is_given_or_refused_in_words() {
    let scene = Scene::set().await;
    let wish = json!({ "loadBalancerIP": "10.213.76.103" });
    scene.serve("first", wish.clone()).await;
    let address = scene.address_of("first").await;
    assert_eq!(address.to_string(), "10.213.76.103");

    // Another one wants the same.
    scene.serve("rival", wish).await;
    let refused = scene.until_told("rival", "PinnedRangeTaken", "").await;
    assert_eq!(ingress(&refused), None);
    let events: Api<Event> = Api::namespaced(scene.server.client_as("story"), "default");
    let told = |events: &[Event]| {
        events.iter().any(|event| {
            let regarding = event.regarding.as_ref();
            event.reason.as_deref() == Some("SyncLoadBalancerFailed")
                && regarding.is_some_and(|object| object.name.as_deref() == Some("rival"))
        })
    };
    eventually_all(&events, "", "tell of the refusal", PATIENCE, told).await;

    // The first does not want a load balancer any more, and the rival gets what it wished.
    let plain = json!({ "spec": {
        "type": "ClusterIP", "loadBalancerIP": null, "externalTrafficPolicy": null,
    } });
    scene.patch_service("first", plain).await;
    let left_alone = |found: Option<&Service>| {
        found.is_some_and(|found| found.finalizers().is_empty() && condition(found).is_none())
    };
    eventually(&scene.services(), "first", "is plain", PATIENCE, left_alone).await;
    assert_eq!(scene.address_of("rival").await, address);

    // What is no address is told as well.
    scene.serve("typo", json!({ "ipFamilies": ["IPv4"] })).await;
    let old = scene.address_of("typo").await;
    let annotation = json!({ "metadata": { "annotations": {
        "butler.butlerlabs.dev/load-balancer-address": "10.213.76.1O4",
    } } });
    scene.patch_service("typo", annotation).await;
    let told = scene
        .until_told("typo", "InvalidAddress", "10.213.76.1O4")
        .await;
    assert_eq!(ingress(&told), Some(old), "it keeps what it had");
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_follows_endpoints_and_keeps_away_from_excluded_nodes() {
    let scene = Scene::set().await;
    scene
        .serve("local", json!({ "externalTrafficPolicy": "Local" }))
        .await;
    scene
        .until_told("local", "NoHealthyMachine", "ready endpoint")
        .await;
    scene.set_endpoints("local", &["n2"]).await;
    let address = scene.address_of("local").await;
    assert_eq!(scene.hands.now().holders(address), ["m2"]);
    scene.set_endpoints("local", &["n3"]).await;
    let moved = |toys: &Toys| toys.holders(address) == ["m3"];
    scene.hands.until("it follows", moved).await;

    scene.serve("web", json!({})).await;
    let web = scene.address_of("web").await;
    let holder = scene.hands.now().holders(web);
    assert_eq!(holder, ["m1"]);
    let label = json!({ "metadata": { "labels": {
        "node.kubernetes.io/exclude-from-external-load-balancers": "",
    } } });
    scene
        .nodes()
        .patch("n1", &PatchParams::default(), &Patch::Merge(label))
        .await
        .unwrap();
    let left = |toys: &Toys| toys.holders(web) == ["m2"];
    scene
        .hands
        .until("it leaves the excluded machine", left)
        .await;
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_comes_to_a_machine_whose_kube_proxy_works_and_leaves_a_node_that_goes() {
    let scene = Scene::set().await;
    // All three are nodes since a moment ago, and none passes anything on yet.
    let now = jiff::Timestamp::now().to_string();
    for number in 1..=3 {
        scene
            .hands
            .set_proxy(&format!("m{number}"), ProxyAnswer::Nothing);
        let node = format!("n{number}");
        scene.set_ready_since(&node, false, &now).await;
        scene.set_ready_since(&node, true, &now).await;
    }
    scene.serve("web", json!({})).await;
    scene
        .until_told("web", "NoHealthyMachine", "kube-proxy")
        .await;
    scene.hands.set_proxy("m3", ProxyAnswer::InStep);
    let address = scene.address_of("web").await;
    assert_eq!(scene.hands.now().holders(address), ["m3"]);

    // The node is about to go: the address stays until another machine works, and leaves before the node does.
    let cordon = json!({ "spec": { "unschedulable": true } });
    scene
        .nodes()
        .patch("n3", &PatchParams::default(), &Patch::Merge(cordon))
        .await
        .unwrap();
    scene.hands.set_proxy("m2", ProxyAnswer::InStep);
    let moved = |toys: &Toys| toys.holders(address) == ["m2"];
    scene.hands.until("the second serves it", moved).await;

    // One that is behind is left at once.
    scene.hands.set_proxy("m2", ProxyAnswer::Behind);
    scene.hands.set_proxy("m1", ProxyAnswer::InStep);
    let moved = |toys: &Toys| toys.holders(address) == ["m1"];
    scene.hands.until("the first serves it", moved).await;
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_a_kube_proxy_that_answers_is_served_all_the_same() {
    let scene = Scene::set().await;
    for name in ["m1", "m2", "m3"] {
        scene.hands.set_proxy(name, ProxyAnswer::Nothing);
    }
    // Its nodes are ready for long, and perhaps something else does what kube-proxy does elsewhere.
    scene.serve("web", json!({})).await;
    let address = scene.address_of("web").await;
    assert_eq!(scene.hands.now().holders(address), ["m1"]);
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_pool_is_told_and_served_as_soon_as_there_is_room() {
    let scene = Scene::set().await;
    let mut addresses = BTreeMap::new();
    for number in 1..=5 {
        let name = format!("web-{number}");
        scene.serve(&name, json!({})).await;
        addresses.insert(scene.address_of(&name).await, name);
    }
    assert_eq!(addresses.len(), 5, "each has its own");
    let spread = scene.hands.now();
    for toy in spread.machines.values() {
        let count = toy.machine.service_addresses.len();
        assert!((1..=2).contains(&count), "{spread:?}");
    }
    scene.serve("late", json!({})).await;
    scene.until_told("late", "PoolExhausted", "").await;
    scene.delete_service("web-3").await;
    let late = scene.address_of("late").await;
    assert_eq!(addresses.get(&late).map(String::as_str), Some("web-3"));

    // Somebody deletes an allocation that is in use: the Service gives the address up and asks for another.
    let allocations = scene.allocations();
    let all = allocations.list(&ListParams::default()).await.unwrap();
    let of_late = |found: &&IPAllocation| found.name_any().starts_with("late-");
    let taken = all.items.iter().find(of_late).unwrap();
    let uid = taken.uid();
    let name = taken.name_any();
    allocations
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    let anew = |found: Option<&IPAllocation>| found.is_some_and(|found| found.uid() != uid);
    eventually(&allocations, &name, "is another one", PATIENCE, anew).await;
    let again = scene.address_of("late").await;
    let served = |toys: &Toys| toys.holders(again).len() == 1;
    scene.hands.until("it is served again", served).await;
    scene.close().await;
}
