//! Killed at any moment, nothing is lost, made twice or left.

use std::{fs, path::Path, process::Command, time::Duration};

use butler_host::host::{Error, Host, MachineState, Wanted};
use pretty_assertions::assert_eq;

use crate::scene::{Scene, chain, needs_a_host, output, pid};

#[tokio::test]
async fn everything_is_found_again_after_the_process_was_killed() {
    needs_a_host!();
    let scene = Scene::new().await;
    let spec = scene.machine("survivor", 10, "exec sleep infinity");
    let name = spec.name.clone();
    scene.host.create(spec.clone()).await.unwrap();
    let first = pid(&scene.host.start(&name).await.unwrap().state);

    // Another process, which knows nothing but the state directory.
    let again = Host::open(scene.config.clone()).unwrap();
    let found = again.list().await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(pid(&found[0].state), first);
    assert_eq!(found[0].spec.as_ref(), Some(&spec));
    assert_eq!(pid(&again.create(spec.clone()).await.unwrap().state), first);
    assert_eq!(again.recover().await.unwrap().len(), 0);
    assert_eq!(pid(&again.get(&name).await.unwrap().unwrap().state), first);

    // All its processes are killed and its network is gone, as when the host is started anew.
    let killed = Command::new("kill")
        .args(["-9", &first.to_string()])
        .status();
    assert!(killed.unwrap().success());
    while fs::read_dir(format!("/proc/{first}/task")).is_ok_and(|tasks| tasks.count() > 0) {
        tokio::task::yield_now().await;
    }
    for arguments in [
        [
            "netns",
            "delete",
            &format!("butler-{}.survivor", scene.config.cluster),
        ],
        ["link", "delete", scene.config.network.bridge.as_str()],
    ] {
        assert!(
            Command::new("ip")
                .args(arguments)
                .status()
                .unwrap()
                .success()
        );
    }
    let dead = again.get(&name).await.unwrap().unwrap();
    assert_eq!(
        (dead.state, dead.wanted),
        (MachineState::Stopped, Some(Wanted::Running))
    );
    assert_eq!(again.recover().await.unwrap().len(), 0);
    let second = pid(&again.get(&name).await.unwrap().unwrap().state);
    assert_ne!(second, first);
    let address = output(&again, "survivor", "ip -4 -brief address show dev eth0").await;
    assert!(address.contains(&spec.address.to_string()), "{address}");
    scene.finish().await;
}

#[tokio::test]
async fn a_machine_that_was_half_made_is_completed_or_deleted() {
    needs_a_host!();
    let scene = Scene::new().await;
    let host = &scene.host;

    // Killed before the record was written.
    fs::create_dir_all(scene.machine_directory("nameless")).unwrap();
    let listed = host.list().await.unwrap();
    assert!(
        matches!(&listed[0].state, MachineState::Broken { reason } if reason == "it was half made"),
        "{listed:?}"
    );
    host.delete(&"nameless".parse().unwrap()).await.unwrap();

    // Killed while the disk was made: starting completes it.
    let spec = scene.machine("half", 10, "exec sleep infinity");
    host.create(spec.clone()).await.unwrap();
    let directory = scene.machine_directory("half");
    fs::remove_dir_all(directory.join("disk/rootfs/etc")).unwrap();
    fs::rename(directory.join("disk"), directory.join("disk.new")).unwrap();
    host.start(&spec.name).await.unwrap();
    assert_eq!(output(host, "half", "cat /etc/hostname").await, "half");

    // Killed between runc's create and its start: the record says it runs, and the container waits.
    host.stop(&spec.name, Duration::ZERO).await.unwrap();
    let root = scene.config.state_directory.join("runc");
    let created = Command::new("runc")
        .arg("--root")
        .arg(&root)
        .args(["create", "--bundle"])
        .arg(directory.join("bundle"))
        .arg("half")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(created.success());
    assert_eq!(
        host.get(&spec.name).await.unwrap().unwrap().state,
        MachineState::Stopped
    );
    pid(&host.start(&spec.name).await.unwrap().state);

    // A record that was spoiled can only be deleted, and is, with all that runs.
    fs::write(directory.join("machine.json"), "{").unwrap();
    let broken = host.get(&spec.name).await.unwrap().unwrap();
    assert!(
        matches!(broken.state, MachineState::Broken { .. }),
        "{broken:?}"
    );
    assert!(matches!(
        host.start(&spec.name).await,
        Err(Error::Record { .. })
    ));
    host.delete(&spec.name).await.unwrap();
    scene.finish().await;
}

#[tokio::test]
async fn whenever_the_process_is_killed_the_machine_is_made_once() {
    needs_a_host!();
    let scene = Scene::new().await;
    let host = &scene.host;
    let state = &scene.config.state_directory;
    let spec = scene.machine("victim", 10, "exec sleep infinity");
    let machine = scene.machine_directory("victim");
    let namespace = format!("/run/netns/butler-{}.victim", scene.config.cluster);
    let bridge = scene.config.network.bridge.as_str();
    for milestone in [
        // Only the first of them makes the bridge.
        Path::new("/sys/class/net").join(bridge),
        machine.join("machine.json"),
        machine.join("disk.new"),
        machine.join("disk"),
        namespace.into(),
        machine.join("bundle/config.json"),
        state.join("runc/victim"),
        state.join("runc/victim/state.json"),
    ] {
        let mut maker = Command::new(env!("CARGO_BIN_EXE_butler-host-test-machine"))
            .arg("make")
            .arg(state)
            .args([scene.config.cluster.as_str(), bridge])
            .arg(scene.config.network.address.to_string())
            .arg(serde_json::to_string(&spec).unwrap())
            .spawn()
            .unwrap();
        while !milestone.exists() && maker.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        assert!(milestone.exists(), "{milestone:?} was never there");
        maker.kill().unwrap();
        maker.wait().unwrap();

        host.create(spec.clone()).await.unwrap();
        let started = host.start(&spec.name).await;
        let started = started.map_err(|error| format!("{milestone:?}: {}", chain(&error)));
        pid(&started.unwrap().state);
        assert_eq!(output(host, "victim", "hostname").await, "victim");
        assert_eq!(host.list().await.unwrap().len(), 1);
        host.delete(&spec.name).await.unwrap();
    }
    scene.finish().await;
}
