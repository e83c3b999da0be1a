//! The tunnel between a real API server and a tenant's network that it has no route to.

mod isolated;
mod scene;
mod tenant;

use std::time::Duration;

use butler_testkit::{
    process::{is_running, until},
    requires, skip,
};

use self::scene::{Scene, Transport};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

macro_rules! needs_networks {
    () => {
        requires!(
            skip::root(),
            skip::command("ip"),
            skip::command("nsenter"),
            skip::command("unshare"),
        );
    };
}

/// What a request through the tunnel comes to, sooner or later.
async fn eventually_says(scene: &Scene, words: &str) {
    let said = std::sync::Mutex::new(String::new());
    let met = until(PATIENCE, async || {
        let answer = scene.ask_webhook().await;
        let met = answer.contains(words);
        *said.lock().unwrap() = answer;
        met.then_some(())
    });
    assert!(
        met.await.is_some(),
        "{words:?} was waited for, and not {said:?}"
    );
}

#[test]
fn an_api_server_reaches_what_only_an_agent_can() {
    needs_networks!();
    isolated::tell(
        "tunnel::an_api_server_reaches_what_only_an_agent_can",
        async |networks| {
            let mut scene = Scene::start(networks, Transport::Socket).await;
            scene.start_server();
            scene.cannot_be_reached_directly().await;
            eventually_says(&scene, "no agent of the tunnel is connected").await;

            scene.start_agent(0);
            eventually_says(&scene, tenant::VERDICT).await;
            assert_eq!(scene.ask_pod().await, tenant::GREETING);
            assert_eq!(scene.pod_log().await, tenant::LOG);
            println!("memory: {}", scene.memory());
        },
    );
}

#[test]
fn either_end_may_die_and_come_back() {
    needs_networks!();
    isolated::tell(
        "tunnel::either_end_may_die_and_come_back",
        async |networks| {
            let mut scene = Scene::start(networks, Transport::Socket).await;
            let server = scene.start_server();
            let first = scene.start_agent(0);
            eventually_says(&scene, tenant::VERDICT).await;

            scene.kill(server).await;
            let refused = scene.ask_webhook().await;
            assert!(!refused.contains(tenant::VERDICT), "{refused}");
            let server = scene.start_server();
            eventually_says(&scene, tenant::VERDICT).await;

            let second = scene.start_agent(1);
            scene.has_agents(2).await;
            scene.kill(first).await;
            eventually_says(&scene, tenant::VERDICT).await;
            scene.has_agents(1).await;
            scene.kill(second).await;
            scene.has_agents(0).await;
            scene.start_agent(0);
            eventually_says(&scene, tenant::VERDICT).await;
            assert!(is_running(server), "the server has seen all of it");
        },
    );
}

#[test]
fn the_api_server_may_be_on_another_host_than_the_tunnels_server() {
    needs_networks!();
    isolated::tell(
        "tunnel::the_api_server_may_be_on_another_host_than_the_tunnels_server",
        async |networks| {
            let mut scene = Scene::start(networks, Transport::Network).await;
            scene.start_server();
            scene.start_agent(0);
            eventually_says(&scene, tenant::VERDICT).await;
        },
    );
}
