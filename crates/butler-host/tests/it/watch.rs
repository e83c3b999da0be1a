//! Machines that end, and who is told.

use std::time::Duration;

use butler_host::host::Ended;
use pretty_assertions::assert_eq;

use crate::{
    scene::{Scene, needs_a_host, pid},
    world::run,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_machine_is_told_at_once() {
    needs_a_host!();
    let scene = Scene::new().await;
    let host = &scene.host;
    let mut watch = host.watch_machines();
    let spec = scene.machine("mortal", 10, "exec sleep infinity");
    host.create(spec.clone()).await.unwrap();
    host.ended(&spec.name).await.unwrap();
    let first = pid(&host.start(&spec.name).await.unwrap().state);
    let given_up = tokio::time::timeout(Duration::from_millis(200), watch.next()).await;
    assert!(given_up.is_err(), "nothing has ended");

    run(&format!("kill -9 {first}"));
    let soon = Duration::from_secs(10);
    let ended = tokio::time::timeout(soon, watch.next()).await.unwrap();
    let expected = |pid| Ended {
        name: spec.name.clone(),
        pid,
    };
    assert_eq!(ended.unwrap(), expected(first));
    host.ended(&spec.name).await.unwrap();

    // It is started again by somebody else who has the same host, and has ended before anybody looks.
    let second = pid(&host.clone().start(&spec.name).await.unwrap().state);
    host.stop(&spec.name, Duration::ZERO).await.unwrap();
    let ended = tokio::time::timeout(soon, watch.next()).await.unwrap();
    assert_eq!(ended.unwrap(), expected(second));

    // Who begins to watch now is told of what ends from now on.
    let mut late = host.watch_machines();
    let third = pid(&host.start(&spec.name).await.unwrap().state);
    host.delete(&spec.name).await.unwrap();
    let ended = tokio::time::timeout(soon, late.next()).await.unwrap();
    assert_eq!(ended.unwrap(), expected(third));
    scene.finish().await;
}
