//! What machines reach, with the whole stack in a network of its own.

use std::{collections::BTreeMap, collections::BTreeSet, fs, net::Ipv4Addr, time::Duration};

use butler_host::{
    firewall::ServedPorts,
    host::{Error, Host, ServiceAddresses},
    machine::MachineSpec,
    network::{Egress, NetworkSpec, PodNetwork},
};
use ipnet::Ipv4Net;
use pretty_assertions::assert_eq;

use crate::{
    scene::{Scene, TOOL, needs_a_host, output},
    world::{self, PRIVATE, PUBLIC, UPLINK, World, from_host, run},
};

const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";
const HOST: &str = "10.213.72.1";

macro_rules! needs_a_world {
    () => {
        needs_a_host!();
        butler_testkit::requires!(
            butler_testkit::skip::command("nsenter"),
            butler_testkit::skip::command("arping"),
        );
    };
}

fn network(spec: &mut NetworkSpec, egress: Egress) {
    spec.address = "10.213.72.1/24".parse().expect("a range");
    spec.egress = egress;
    spec.guarded = vec![
        "10.244.0.0/16".parse().expect("a range"),
        "10.96.0.0/12".parse().expect("a range"),
    ];
}

/// Starts a machine whose way out is the host.
async fn start(scene: &Scene, name: &str, number: u8, line: &str) -> MachineSpec {
    let mut spec = scene.machine(name, number, line);
    spec.gateway = Some(scene.config.network.host());
    scene.host.create(spec.clone()).await.expect("a machine");
    scene
        .host
        .start(&spec.name)
        .await
        .expect("a machine that runs");
    spec
}

/// What a machine gets when it tries once.
async fn reach(host: &Host, name: &str, target: &str) -> String {
    output(host, name, &format!("{TOOL} reach {target}")).await
}

#[test]
fn without_egress_nothing_leaves_the_bridge() {
    needs_a_world!();
    world::tell(
        "network::without_egress_nothing_leaves_the_bridge",
        async |world: World| {
            // Somebody else lets this host pass packets on.
            fs::write(FORWARDING, "1").unwrap();
            let scene = Scene::with_network(|spec| network(spec, Egress::Off)).await;
            let host = &scene.host;
            world.beyond(&["mirror", "7000"]);
            world.on_host(&["listen", "5000", "images"]);
            world.on_host(&["listen", "22", "the host's own"]);
            for target in [PUBLIC, PRIVATE] {
                from_host(&["connect", &format!("{target}:7000")]);
            }
            start(&scene, "worker", 10, "exec sleep infinity").await;

            for target in [PUBLIC, PRIVATE] {
                let answer = reach(host, "worker", &format!("{target}:7000")).await;
                assert_eq!(answer, "unreachable", "{target}");
            }
            for port in [22, 53] {
                for address in [HOST, UPLINK] {
                    let answer = reach(host, "worker", &format!("{address}:{port}")).await;
                    assert_eq!(answer, "refused", "{address}:{port}");
                }
            }
            let question = format!("{TOOL} ask {HOST}:53");
            assert_eq!(output(host, "worker", &question).await, "refused");
            assert_eq!(reach(host, "worker", "10.213.72.1:5000").await, "images");
            assert_eq!(
                reach(host, "worker", &format!("{UPLINK}:5000")).await,
                "refused"
            );
            // Nothing programmed leads there, so it does not leave by the host's default route either.
            for nowhere in ["10.244.1.1:80", "10.96.0.1:443"] {
                assert_eq!(from_host(&["reach", nowhere]), "unreachable");
            }
            scene.finish().await;
            assert_eq!(fs::read_to_string(FORWARDING).unwrap().trim(), "1");
        },
    );
}

#[test]
fn with_egress_public_addresses_are_reached_and_private_ones_never() {
    needs_a_world!();
    world::tell(
        "network::with_egress_public_addresses_are_reached_and_private_ones_never",
        async |world: World| {
            let scene = Scene::with_network(|spec| network(spec, Egress::Off)).await;
            scene.host.up().await.unwrap();
            assert_eq!(fs::read_to_string(FORWARDING).unwrap().trim(), "0");

            // The same machines, from now on with a way out.
            let mut config = scene.config.clone();
            config.network.egress = Egress::Nat;
            let host = Host::open(config).unwrap();
            host.up().await.unwrap();
            assert_eq!(fs::read_to_string(FORWARDING).unwrap().trim(), "1");
            world.beyond(&["mirror", "7000"]);
            world.on_host(&["listen", "53", "names"]);
            world.on_host(&["listen", "22", "the host's own"]);
            for target in [PUBLIC, PRIVATE] {
                from_host(&["connect", &format!("{target}:7000")]);
            }
            let line = format!("{TOOL} listen 7000 worker & exec sleep infinity");
            let spec = start(&scene, "worker", 10, &line).await;

            let answer = reach(&host, "worker", &format!("{PUBLIC}:7000")).await;
            assert_eq!(answer, UPLINK, "it goes by the host's address");
            let answer = reach(&host, "worker", &format!("{PRIVATE}:7000")).await;
            assert_eq!(answer, "unreachable");
            assert_eq!(reach(&host, "worker", "10.213.72.1:53").await, "names");
            assert_eq!(reach(&host, "worker", "10.213.72.1:22").await, "refused");

            // From outside nobody gets in, although the world knows the way.
            let worker = format!("{}:7000", spec.address.addr());
            assert_eq!(from_host(&["connect", &worker]), "worker");
            assert_eq!(world.printed_beyond(&["reach", &worker]), "silence");

            // A machine that starts does not change what was decided by `up`.
            start(&scene, "second", 11, "exec sleep infinity").await;
            let answer = reach(&host, "second", &format!("{PUBLIC}:7000")).await;
            assert_eq!(answer, UPLINK);
            scene.finish().await;
            assert_eq!(fs::read_to_string(FORWARDING).unwrap().trim(), "0");
        },
    );
}

#[test]
fn two_installations_share_a_host_and_each_leaves_alone() {
    needs_a_world!();
    world::tell(
        "network::two_installations_share_a_host_and_each_leaves_alone",
        async |_world: World| {
            let scene = Scene::with_network(|spec| network(spec, Egress::Nat)).await;
            let mut config = scene.config.clone();
            config.state_directory = scene.directory().join("second");
            config.cluster = "second".parse().unwrap();
            config.network.bridge = "bsecond".parse().unwrap();
            config.network.address = "10.213.73.1/24".parse().unwrap();
            let second = Host::open(config).unwrap();
            for host in [&scene.host, &second] {
                host.up().await.unwrap();
                host.up().await.unwrap();
                assert_eq!(host.warnings().await.unwrap(), []);
            }
            let instances = "/proc/sys/fs/inotify/max_user_instances";
            let raised = fs::read_to_string(instances).unwrap();
            assert!(raised.trim().parse::<u32>().unwrap() >= 8192, "{raised}");
            assert_eq!(run("ip route show proto 98").lines().count(), 4);

            second.down().await.unwrap();
            assert_eq!(fs::read_to_string(FORWARDING).unwrap().trim(), "1");
            assert_eq!(fs::read_to_string(instances).unwrap(), raised);
            assert_eq!(run("ip route show proto 98").lines().count(), 2);
            let tables = run("nft list tables");
            assert_eq!(tables.lines().count(), 1, "{tables}");

            // Somebody else's firewall is theirs; it is told.
            run("nft add table ip theirs");
            run(
                "nft add chain ip theirs forward { type filter hook forward priority 0 ; policy drop ; }",
            );
            assert_eq!(scene.host.warnings().await.unwrap().len(), 1);
            run("nft delete table ip theirs");
            scene.finish().await;
        },
    );
}

/// A network namespace in a machine, joined as the plugin joins a pod, with an address of its own.
async fn pod(host: &Host, machine: &str, network: &str) {
    let line = format!(
        "set -e; ip link add cni0 type bridge; ip address add {network}.1/24 dev cni0; ip link set cni0 up; \
         ip netns add pod; ip -n pod link set lo up; ip link add v0 type veth peer name eth0 netns pod; \
         ip link set v0 master cni0; ip link set v0 up; ip -n pod address add {network}.2/24 dev eth0; \
         ip -n pod link set eth0 up; ip -n pod route add default via {network}.1"
    );
    output(host, machine, &line).await;
}

#[test]
fn pods_reach_pods_as_themselves_and_the_rest_as_their_machine() {
    needs_a_world!();
    world::tell(
        "network::pods_reach_pods_as_themselves_and_the_rest_as_their_machine",
        async |world: World| {
            let scene = Scene::with_network(|spec| network(spec, Egress::Nat)).await;
            let host = &scene.host;
            world.beyond(&["mirror", "7000"]);
            let line = format!("{TOOL} mirror 7001 & exec sleep infinity");
            let left = start(&scene, "left", 10, &line).await;
            let right = start(&scene, "right", 11, &line).await;
            let pods: [Ipv4Net; 2] =
                ["10.244.1.0/24", "10.244.2.0/24"].map(|net| net.parse().unwrap());
            let of_left = PodNetwork {
                own: Some(pods[0]),
                peers: BTreeMap::from([(pods[1], right.address.addr())]),
            };
            let of_right = PodNetwork {
                own: Some(pods[1]),
                peers: BTreeMap::from([(pods[0], left.address.addr())]),
            };
            assert_eq!(
                host.pod_network(&left.name).await.unwrap(),
                PodNetwork::default()
            );
            for _ in 0..2 {
                host.set_pod_network(&left.name, &of_left).await.unwrap();
                host.set_pod_network(&right.name, &of_right).await.unwrap();
            }
            assert_eq!(host.pod_network(&left.name).await.unwrap(), of_left);
            let config = output(host, "left", "cat /etc/cni/net.d/10-butler.conflist").await;
            assert!(config.contains("10.244.1.0/24"), "{config}");

            pod(host, "left", "10.244.1").await;
            pod(host, "right", "10.244.2").await;
            let listen = format!("ip netns exec pod {TOOL} mirror 7000 >/dev/null 2>&1 &");
            output(host, "right", &listen).await;
            let from_pod = async |target: &str| {
                output(
                    host,
                    "left",
                    &format!("ip netns exec pod {TOOL} connect {target}"),
                )
                .await
            };
            assert_eq!(from_pod("10.244.2.2:7000").await, "10.244.1.2");
            let machine = format!("{}:7001", right.address.addr());
            assert_eq!(from_pod(&machine).await, left.address.addr().to_string());
            assert_eq!(from_pod(&format!("{PUBLIC}:7000")).await, UPLINK);
            let private = format!("ip netns exec pod {TOOL} reach {PRIVATE}:7000");
            assert_eq!(output(host, "left", &private).await, "unreachable");

            // The other machine leaves the cluster, and its route goes; one that others made stays.
            output(host, "left", "ip route add 10.245.0.0/24 via 10.213.72.11").await;
            let alone = PodNetwork {
                peers: BTreeMap::new(),
                ..of_left.clone()
            };
            host.set_pod_network(&left.name, &alone).await.unwrap();
            let routes = output(host, "left", "ip route show").await;
            assert!(!routes.contains("10.244.2.0/24"), "{routes}");
            assert!(routes.contains("10.245.0.0/24"), "{routes}");

            // After the host was started anew, a machine finds what it had.
            host.stop(&right.name, Duration::ZERO).await.unwrap();
            run(&format!(
                "ip netns delete butler-{}.right",
                scene.config.cluster
            ));
            host.start(&right.name).await.unwrap();
            let routes = output(host, "right", "ip route show proto 98").await;
            assert!(
                routes.starts_with("10.244.1.0/24 via 10.213.72.10"),
                "{routes}"
            );

            let wrong = PodNetwork {
                own: Some("10.213.0.0/16".parse().unwrap()),
                ..PodNetwork::default()
            };
            let refused = host.set_pod_network(&left.name, &wrong).await;
            assert!(
                matches!(refused, Err(Error::PodNetwork { .. })),
                "{refused:?}"
            );
            scene.finish().await;
        },
    );
}

#[test]
fn an_address_of_a_service_moves_and_opens_nothing_else() {
    needs_a_world!();
    world::tell(
        "network::an_address_of_a_service_moves_and_opens_nothing_else",
        async |_world: World| {
            let scene = Scene::with_network(|spec| network(spec, Egress::Off)).await;
            let host = &scene.host;
            let line = |name: &str| {
                format!(
                    "{TOOL} listen 10250 kubelet & {TOOL} listen 6443 {name} & exec sleep infinity"
                )
            };
            let left = start(&scene, "left", 10, &line("left")).await;
            let right = start(&scene, "right", 11, &line("right")).await;
            for machine in [&left, &right] {
                for port in [10250, 6443] {
                    from_host(&["connect", &format!("{}:{port}", machine.address.addr())]);
                }
            }
            let address: Ipv4Addr = "10.213.72.200".parse().unwrap();
            let served = ServedPorts {
                tcp: BTreeSet::from([6443]),
                ..ServedPorts::default()
            };
            let addresses = ServiceAddresses::from([(address, served)]);
            let reach = |port: u16| from_host(&["reach", &format!("{address}:{port}")]);

            host.set_service_addresses(&left.name, &addresses)
                .await
                .unwrap();
            assert_eq!(reach(6443), "left");
            assert_eq!(reach(10250), "refused");

            host.set_service_addresses(&right.name, &addresses)
                .await
                .unwrap();
            assert_eq!(reach(6443), "right", "at once");
            assert_eq!(reach(10250), "refused");
            // The first machine of a control plane reaches itself by the address that all others use.
            let itself = format!("{TOOL} reach {address}:6443");
            assert_eq!(output(host, "right", &itself).await.trim(), "right");
            assert_eq!(
                host.service_addresses(&left.name).await.unwrap(),
                BTreeMap::new()
            );
            assert_eq!(
                host.service_addresses(&right.name).await.unwrap(),
                addresses
            );

            // A port of a Service is sent on before it arrives, as kube-proxy does it.
            for rule in [
                "add table ip proxy",
                "add chain ip proxy prerouting { type nat hook prerouting priority dstnat ; }",
                "add rule ip proxy prerouting ip daddr 10.213.72.200 tcp dport 80 dnat to 10.213.72.10:6443",
                "add chain ip proxy postrouting { type nat hook postrouting priority srcnat ; }",
                "add rule ip proxy postrouting ct status dnat masquerade",
            ] {
                output(host, "right", &format!("nft '{rule}'")).await;
            }
            assert_eq!(reach(80), "left");

            // Its machine is started anew on a host that was started anew: it is there again.
            host.stop(&right.name, Duration::ZERO).await.unwrap();
            run(&format!(
                "ip netns delete butler-{}.right",
                scene.config.cluster
            ));
            host.start(&right.name).await.unwrap();
            assert_eq!(from_host(&["connect", &format!("{address}:6443")]), "right");

            // Somebody else gives the machine an address, and takes it back; this one stays.
            let other: Ipv4Addr = "10.213.72.201".parse().unwrap();
            let more = ServiceAddresses::from([(other, ServedPorts::default())]);
            let (none, nothing) = (BTreeSet::new(), BTreeMap::new());
            host.change_service_addresses(&right.name, &none, &more)
                .await
                .unwrap();
            let both = host.service_addresses(&right.name).await.unwrap();
            assert_eq!(both.into_keys().collect::<Vec<_>>(), [address, other]);
            assert_eq!(reach(6443), "right");
            host.change_service_addresses(&right.name, &BTreeSet::from([other]), &nothing)
                .await
                .unwrap();
            assert_eq!(
                host.service_addresses(&right.name).await.unwrap(),
                addresses
            );

            host.set_service_addresses(&right.name, &BTreeMap::new())
                .await
                .unwrap();
            let gone = reach(6443);
            assert!(
                ["silence", "unreachable"].contains(&gone.as_str()),
                "{gone}"
            );
            let refused = async |address: Ipv4Addr| {
                let wrong = ServiceAddresses::from([(address, ServedPorts::default())]);
                host.set_service_addresses(&right.name, &wrong)
                    .await
                    .unwrap_err()
            };
            let error = refused(left.address.addr()).await;
            assert!(matches!(error, Error::AddressTaken { .. }), "{error}");
            let error = refused(scene.config.network.host()).await;
            assert!(matches!(error, Error::ServiceAddress { .. }), "{error}");
            host.set_service_addresses(&left.name, &addresses)
                .await
                .unwrap();
            let thief = scene.machine("thief", 200, "exec sleep infinity");
            assert!(matches!(
                host.create(thief).await,
                Err(Error::AddressTaken { .. })
            ));
            scene.finish().await;
        },
    );
}
