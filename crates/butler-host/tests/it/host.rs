//! Real machines on this host.

use std::{fs, process::Command, time::Duration};

use butler_host::{
    cloud_config::MetaData,
    host::{Error, Host, MachineState, Seed, Wanted},
    network::NetworkError,
};
use pretty_assertions::assert_eq;
use tokio::task::JoinSet;

use crate::scene::{Scene, TOOL, chain, needs_a_host, output, pid};

#[tokio::test]
async fn a_machine_is_what_was_asked_for() {
    needs_a_host!();
    let scene = Scene::new().await;
    let host = &scene.host;
    let spec = scene.machine("worker-1", 10, "echo up and running; exec sleep infinity");
    let name = spec.name.clone();

    let made = host.create(spec.clone()).await.unwrap();
    assert_eq!(made.state, MachineState::Stopped);
    assert_eq!(
        host.create(spec.clone()).await.unwrap(),
        made,
        "nothing twice"
    );
    assert!(matches!(
        host.exec(&name, &["true"]).await,
        Err(Error::NotRunning { .. })
    ));

    let first = pid(&host.start(&name).await.unwrap().state);
    assert_eq!(pid(&host.start(&name).await.unwrap().state), first);
    assert_eq!(output(host, "worker-1", "hostname").await, "worker-1");
    assert_eq!(
        output(host, "worker-1", "cat /etc/machine-id").await,
        "0000000000004000800000000000000a"
    );
    assert_eq!(
        output(
            host,
            "worker-1",
            "cat /proc/1/comm; cat /proc/sys/net/ipv4/ip_forward"
        )
        .await,
        "sleep\n1"
    );
    let limits = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null \
                  || cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/cpu.max";
    let limits = output(host, "worker-1", limits).await;
    assert!(
        limits == "268435456\n50000" || limits == "268435456\n50000 100000",
        "{limits}"
    );
    output(
        host,
        "worker-1",
        "echo mine > /usr/of-a-machine; echo mine > /var/lib/data; echo gone > /run/volatile",
    )
    .await;
    assert!(
        !fs::exists("/usr/of-a-machine").unwrap(),
        "the host's /usr is its own"
    );
    assert_eq!(
        host.exec(&name, &["sh", "-c", "exit 7"])
            .await
            .unwrap()
            .code,
        Some(7)
    );
    assert_eq!(host.logs(&name, Some(1)).await.unwrap(), "up and running\n");

    // Nothing in it listens to the request to end, so it is ended.
    host.stop(&name, Duration::from_millis(50)).await.unwrap();
    host.stop(&name, Duration::ZERO).await.unwrap();
    let stopped = host.get(&name).await.unwrap().unwrap();
    assert_eq!(
        (stopped.state, stopped.wanted),
        (MachineState::Stopped, Some(Wanted::Stopped))
    );
    assert_eq!(host.recover().await.unwrap().len(), 0);
    assert_eq!(host.list().await.unwrap()[0].state, MachineState::Stopped);

    host.start(&name).await.unwrap();
    let kept = "cat /usr/of-a-machine /var/lib/data; test ! -e /run/volatile";
    assert_eq!(output(host, "worker-1", kept).await, "mine\nmine");
    assert_eq!(
        host.logs(&name, None).await.unwrap(),
        "up and running\nup and running\n"
    );

    host.delete(&name).await.unwrap();
    host.delete(&name).await.unwrap();
    assert_eq!(host.list().await.unwrap(), []);
    assert!(matches!(
        host.start(&name).await,
        Err(Error::NotFound { .. })
    ));
    scene.finish().await;
}

#[tokio::test]
async fn machines_reach_each_other_and_the_host_over_the_bridge() {
    needs_a_host!();
    let scene = Scene::new().await;
    let host = &scene.host;
    let listen = format!("{TOOL} listen 7000 \"$(hostname) answers\" & exec sleep infinity");
    for (name, number) in [("left", 10), ("right", 11)] {
        let spec = scene.machine(name, number, &listen);
        host.create(spec.clone()).await.unwrap();
        host.start(&spec.name).await.unwrap();
    }
    let address = |number| scene.machine("x", number, "").address.addr();

    let call = format!("{TOOL} connect {}:7000", address(11));
    assert_eq!(output(host, "left", &call).await, "right answers");
    let call = format!("{TOOL} connect {}:7000", address(10));
    assert_eq!(output(host, "right", &call).await, "left answers");
    let from_host = Command::new(env!("CARGO_BIN_EXE_butler-host-test-machine"))
        .args(["connect", &format!("{}:7000", address(10))])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&from_host.stdout), "left answers");

    // Without a gateway a machine knows its own range and nothing else.
    let routes = output(host, "left", "ip -4 route show").await;
    assert_eq!(routes.lines().count(), 1, "{routes}");
    scene.finish().await;
}

#[tokio::test]
async fn a_machine_is_never_another() {
    needs_a_host!();
    let scene = Scene::new().await;
    let host = &scene.host;
    let spec = scene.machine("worker", 10, "exec sleep infinity");
    host.create(spec.clone()).await.unwrap();

    let mut reborn = spec.clone();
    reborn.id = scene.machine("x", 99, "").id;
    assert!(matches!(
        host.create(reborn).await,
        Err(Error::AnotherMachine { .. })
    ));
    let mut larger = spec.clone();
    larger.memory_bytes += 1;
    assert!(matches!(
        host.create(larger).await,
        Err(Error::Differs { .. })
    ));
    let thief = scene.machine("thief", 10, "exec sleep infinity");
    assert_eq!(
        host.create(thief).await.unwrap_err().to_string(),
        format!(
            "the address {} of machine thief is taken by machine worker",
            spec.address.addr()
        )
    );
    let mut giant = scene.machine("giant", 11, "exec sleep infinity");
    giant.cpu_millicores = host.facts().cpu_millicores + 1;
    let error = host.create(giant).await.unwrap_err();
    assert!(matches!(error, Error::Spec(_)), "{error}");
    assert_eq!(host.list().await.unwrap().len(), 1);
    scene.finish().await;
}

#[tokio::test]
async fn what_runc_says_reaches_the_user() {
    needs_a_host!();
    let scene = Scene::new().await;
    let host = &scene.host;
    let mut spec = scene.machine("mute", 10, "");
    spec.init = vec!["/no/such/program".to_owned()];
    host.create(spec.clone()).await.unwrap();
    let words = chain(&host.start(&spec.name).await.unwrap_err());
    assert!(
        words.starts_with("could not create machine mute: "),
        "{words}"
    );
    assert!(words.contains("/no/such/program"), "{words}");
    assert_eq!(
        host.get(&spec.name).await.unwrap().unwrap().state,
        MachineState::Stopped
    );
    scene.finish().await;
}

#[tokio::test]
async fn user_data_reaches_a_running_machine_and_nobody_else() {
    needs_a_host!();
    let scene = Scene::new().await;
    let host = &scene.host;
    let spec = scene.machine("worker", 10, "exec sleep infinity");
    host.create(spec.clone()).await.unwrap();
    host.start(&spec.name).await.unwrap();
    let seed = |text: &str| Seed {
        user_data: text.as_bytes().to_vec(),
        meta_data: MetaData::new(spec.id.as_str(), "worker"),
    };
    let error = host
        .deliver(&spec.name, &seed("#cloud-config\nruncmd: no list\n"))
        .await
        .unwrap_err();
    assert_eq!(
        chain(&error),
        "the user data of machine worker was not delivered: runcmd of user data is not valid: it must be a list"
    );
    host.deliver(&spec.name, &seed("#cloud-config\nruncmd: [ls]\n"))
        .await
        .unwrap();
    let look = "cat /opt/butler/seed/user-data; stat --format %a /opt/butler/seed/user-data; touch /opt/butler/seed/x || echo read-only";
    assert_eq!(
        output(host, "worker", look).await,
        "#cloud-config\nruncmd: [ls]\n600\nread-only"
    );
    scene.finish().await;
}

#[tokio::test]
async fn a_range_or_a_bridge_of_others_is_refused_and_left_alone() {
    needs_a_host!();
    let scene = Scene::new().await;

    let mut colliding = scene.config.clone();
    colliding.state_directory = scene.directory().join("colliding");
    colliding.network.address = "127.213.0.1/24".parse().unwrap();
    let host = Host::open(colliding).unwrap();
    let words = chain(&host.up().await.unwrap_err());
    assert!(
        words.contains("collides with the route 127.0.0.0/8 dev lo"),
        "{words}"
    );
    host.down().await.unwrap();

    let bridge = scene.config.network.bridge.as_str();
    let ip = |arguments: &[&str]| {
        Command::new("ip")
            .args(arguments)
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(ip(&["link", "add", "name", bridge, "type", "bridge"]));
    let refused = scene.host.up().await;
    scene.host.clone().down().await.unwrap();
    let survived = ip(&["link", "show", "dev", bridge]);
    assert!(ip(&["link", "delete", "dev", bridge]));
    assert!(survived, "down took a bridge that was not ours");
    assert!(
        matches!(
            &refused,
            Err(Error::Network {
                source: NetworkError::Refused(_),
                ..
            })
        ),
        "{refused:?}"
    );

    let host = Host::open(scene.config.clone()).unwrap();
    host.up().await.unwrap();
    let mut other = scene.config.clone();
    other.network.address = "10.214.0.1/24".parse().unwrap();
    assert!(matches!(Host::open(other), Err(Error::OtherNetwork { .. })));
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_machines_come_and_go_at_once() {
    needs_a_host!();
    let scene = Scene::new().await;
    let mut starting = JoinSet::new();
    for number in 0..8 {
        let host = scene.host.clone();
        let spec = scene.machine(&format!("m-{number}"), 20 + number, "exec sleep infinity");
        starting.spawn(async move {
            let name = host.create(spec).await?.name;
            host.start(&name).await
        });
    }
    all_well(starting).await;
    let running = scene.host.list().await.unwrap();
    assert_eq!(running.len(), 8);
    let mut deleting = JoinSet::new();
    for machine in running {
        pid(&machine.state);
        let host = scene.host.clone();
        deleting.spawn(async move { host.delete(&machine.name).await });
    }
    all_well(deleting).await;
    assert_eq!(scene.host.list().await.unwrap(), []);
    scene.finish().await;
}

async fn all_well<T: 'static>(set: JoinSet<Result<T, Error>>) {
    for result in set.join_all().await {
        let failure = result.err().map(|error| chain(&error));
        assert_eq!(failure, None);
    }
}
