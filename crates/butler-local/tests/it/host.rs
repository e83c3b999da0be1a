//! The hands of a real host: machines that run, on a bridge of the test's own. Nothing is sent anywhere else.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Write as _,
    net::Ipv4Addr,
    process::Command,
    time::Duration,
};

use butler_host::{
    firewall::ServedPorts,
    host::{Host, HostConfig, ServiceAddresses},
    machine::{DiskContents, MachineSpec},
    network::NetworkSpec,
};
use butler_local::{AddressChange, Hands, LocalMachine, PodNetwork};
use futures::{StreamExt as _, stream::BoxStream};
use ipnet::Ipv4Net;
use tempfile::TempDir;

use crate::machines::PATIENCE;

/// A host with nothing on it, and nothing left of it afterwards.
struct Place {
    host: Host,
    _directory: TempDir,
    // One test at a time makes machines on this host, so that others can tell what they have left.
    _turn: File,
}

impl Place {
    async fn make() -> Self {
        let turn = tokio::task::spawn_blocking(|| {
            let file = File::create(std::env::temp_dir().join("butler-host-tests.lock")).unwrap();
            file.lock().unwrap();
            file
        });
        let turn = turn.await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let address = Ipv4Net::new_assert(address(1), 24);
        let host = Host::open(HostConfig {
            state_directory: directory.path().join("state"),
            cluster: "g76".parse().unwrap(),
            network: NetworkSpec::new("g76".parse().unwrap(), address),
        });
        Self {
            host: host.unwrap(),
            _directory: directory,
            _turn: turn,
        }
    }

    async fn create(&self, name: &str, number: u8) -> MachineSpec {
        let spec = MachineSpec {
            name: name.parse().unwrap(),
            id: id(number).parse().unwrap(),
            hostname: name.to_owned(),
            cpu_millicores: 500,
            memory_bytes: 256 * 1024 * 1024,
            address: Ipv4Net::new_assert(address(number), 24),
            gateway: None,
            init: ["/bin/sleep", "infinity"].map(str::to_owned).to_vec(),
            binds: Vec::new(),
            disk: DiskContents::default(),
        };
        self.host.create(spec.clone()).await.unwrap();
        spec
    }

    async fn machine(&self, name: &str) -> LocalMachine {
        let machines = self.host.machines().await.unwrap();
        let mut found = machines.into_iter();
        found.find(|machine| machine.name.as_str() == name).unwrap()
    }
}

impl Drop for Place {
    /// A test that failed leaves nothing either.
    fn drop(&mut self) {
        let host = self.host.clone();
        let cleaner = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(host.down())
        });
        let outcome = cleaner.join();
        if !matches!(outcome, Ok(Ok(()))) {
            let _ = writeln!(std::io::stderr(), "the host was not cleaned: {outcome:?}");
        }
    }
}

fn id(number: u8) -> String {
    format!("00000000-0000-4000-8000-0000000000{number:02x}")
}

fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 213, 76, number)
}

async fn change(changes: &mut BoxStream<'static, ()>) {
    let told = tokio::time::timeout(PATIENCE, changes.next()).await;
    assert_eq!(told.ok().flatten(), Some(()), "the change is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_host_does_as_it_is_asked_and_tells_what_happens() {
    butler_testkit::requires!(
        butler_testkit::skip::root(),
        butler_testkit::skip::command("runc"),
        butler_testkit::skip::command("ip"),
        butler_testkit::skip::command("nft"),
        butler_testkit::skip::command("arping"),
    );
    let place = Place::make().await;
    let host = &place.host;
    let first = place.create("first", 10).await;
    let second = place.create("second", 11).await;
    let mut changes = host.changes();
    host.start(&first.name).await.unwrap();
    change(&mut changes).await;
    host.start(&second.name).await.unwrap();
    let machine = place.machine("first").await;
    assert_eq!((machine.id, machine.address), (id(10), address(10)));
    let life = machine.life.unwrap();

    let pods: Ipv4Net = "10.244.11.0/24".parse().unwrap();
    let network = PodNetwork {
        own: Some("10.244.10.0/24".parse().unwrap()),
        peers: BTreeMap::from([(pods, address(11))]),
    };
    Hands::set_pod_network(host, &first.name, &network)
        .await
        .unwrap();
    assert_eq!(host.pod_network(&first.name).await.unwrap(), network);

    // An address of somebody else is neither shown nor touched.
    let served = ServedPorts {
        tcp: BTreeSet::from([6443]),
        ..ServedPorts::default()
    };
    let theirs = ServiceAddresses::from([(address(200), served)]);
    host.set_service_addresses(&first.name, &theirs)
        .await
        .unwrap();
    let ours = BTreeSet::from([address(201)]);
    let put_on = AddressChange {
        put_on: ours.clone(),
        ..AddressChange::default()
    };
    Hands::change_service_addresses(host, &first.name, &put_on)
        .await
        .unwrap();
    assert_eq!(place.machine("first").await.service_addresses, ours);

    // Its first process is killed: that is told, and the address can be taken off what is left of it.
    let killed = Command::new("kill")
        .args(["-9", &life.to_string()])
        .status();
    assert!(killed.unwrap().success());
    tokio::time::timeout(PATIENCE, async {
        while place.machine("first").await.is_running() {
            change(&mut changes).await;
        }
    })
    .await
    .unwrap();
    let take_off = AddressChange {
        take_off: ours.clone(),
        ..AddressChange::default()
    };
    Hands::change_service_addresses(host, &first.name, &take_off)
        .await
        .unwrap();
    let left = host.service_addresses(&first.name).await.unwrap();
    assert_eq!(left, theirs);
    Hands::change_service_addresses(host, &second.name, &put_on)
        .await
        .unwrap();
    assert_eq!(place.machine("second").await.service_addresses, ours);

    // From one that is gone it can be taken too.
    host.stop(&second.name, Duration::ZERO).await.unwrap();
    host.delete(&second.name).await.unwrap();
    Hands::change_service_addresses(host, &second.name, &take_off)
        .await
        .unwrap();
}
