//! The local provider under examination, with real machines.

use std::{net::IpAddr, net::Ipv4Addr, process::Command, sync::Arc};

use butler_api::{
    butler::provider_config::ProviderConfig, name::MachineName,
    normalize::machine_size::MachineSize,
};
use butler_host::{
    host::{self, Host, HostConfig},
    machine::{Bind, DiskContents, MachineSpec},
    network::NetworkSpec,
};
use butler_provider::{
    Access, Credentials, MachineIdentity, UserData,
    conformance::{self, FoundMachine, Inventory, Outcome, Subject},
    local::{LocalProvider, LocalSettings, ServiceAddresses},
};
use butler_testkit::{requires, skip};
use futures::{FutureExt as _, future::BoxFuture};
use ipnet::Ipv4Net;
use serde_json::json;
use tempfile::TempDir;

const INIT: &str = "/opt/butler/bin/init";
const TRACE: &str = "/etc/butler-conformance";

/// Addresses on machines, by the command for it.
struct ByCommand(Host);

impl ByCommand {
    async fn ip(&self, machine: &MachineName, line: String) -> Result<(), host::Error> {
        let output = self.0.exec(machine, &["sh", "-c", &line]).await?;
        assert!(output.success(), "{line}: {output:?}");
        Ok(())
    }
}

impl ServiceAddresses for ByCommand {
    fn place<'a>(
        &'a self,
        machine: &'a MachineName,
        address: Ipv4Addr,
        _: u16,
    ) -> BoxFuture<'a, Result<(), host::Error>> {
        let line = format!("ip address replace {address}/32 dev eth0");
        self.ip(machine, line).boxed()
    }

    fn withdraw<'a>(
        &'a self,
        machine: &'a MachineName,
        address: Ipv4Addr,
    ) -> BoxFuture<'a, Result<(), host::Error>> {
        let line = format!("ip address delete {address}/32 dev eth0 || true");
        self.ip(machine, line).boxed()
    }
}

struct LocalSubject {
    settings: LocalSettings,
    host: Host,
    directory: Arc<TempDir>,
}

impl LocalSubject {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let config = HostConfig {
            state_directory: directory.path().join("state"),
            cluster: "c73".parse().expect("name"),
            network: NetworkSpec::new(
                "c73br0".parse().expect("name"),
                "10.213.73.1/24".parse().expect("address"),
            ),
        };
        let host = Host::open(config.clone()).expect("a host");
        let settings = LocalSettings {
            host: config,
            gateway: None,
            init: vec![INIT.to_owned()],
            node_parts: Arc::new(|_, mut spec: MachineSpec| {
                spec.binds.push(Bind {
                    source: env!("CARGO_BIN_EXE_butler-provider-test-machine").into(),
                    destination: INIT.into(),
                    writable: false,
                });
                Ok(spec)
            }),
            service_addresses: Some(Arc::new(ByCommand(host.clone()))),
        };
        Self {
            settings,
            host,
            directory: Arc::new(directory),
        }
    }
}

impl Subject for LocalSubject {
    type Provider = LocalProvider;

    async fn start(&self) -> Arc<LocalProvider> {
        let host = Host::open(self.settings.host.clone()).expect("a host");
        Arc::new(LocalProvider::new(host, self.settings.clone()))
    }

    fn access(&self) -> Access {
        let config = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1",
            "kind": "ProviderConfig",
            "metadata": { "name": "local", "namespace": "butler-system" },
            "spec": { "provider": "local", "local": { "bridge": "c73br0" } },
        });
        let config: ProviderConfig = serde_json::from_value(config).expect("a configuration");
        Access {
            config,
            credentials: Credentials::default(),
        }
    }

    fn refused_access(&self) -> Option<Access> {
        None
    }

    fn sizes(&self) -> [MachineSize; 2] {
        [64, 96].map(|memory_mib| MachineSize {
            cpu: 1,
            memory_mib,
            disk_gib: 10,
        })
    }

    fn too_large(&self) -> MachineSize {
        let mebibytes = self.host.facts().memory_bytes / (1024 * 1024);
        MachineSize {
            cpu: 1,
            memory_mib: u32::try_from(mebibytes).expect("little") + 1,
            disk_gib: 10,
        }
    }

    fn address(&self, number: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 213, 73, number + 2]))
    }

    fn user_data(&self) -> UserData {
        let text = format!(
            "## template: jinja\n#cloud-config\nwrite_files:\n- path: {TRACE}\n  content: of {{{{ ds.meta_data.local_hostname }}}}\n"
        );
        UserData::new(text)
    }

    async fn has_trace(&self, identity: &MachineIdentity) -> bool {
        let name = identity.machine_name.parse().expect("name");
        let output = self.host.exec(&name, &["cat", TRACE]).await;
        let expected = format!("of {}", identity.machine_name);
        output.is_ok_and(|output| output.text().trim() == expected)
    }

    async fn inventory(&self) -> Inventory {
        let machines = self.host.list().await.expect("machines").into_iter();
        let directory = self.settings.host.state_directory.join("load-balancers");
        let records = std::fs::read_dir(directory).into_iter().flatten().flatten();
        Inventory {
            machines: machines
                .map(|machine| {
                    let spec = machine.spec.expect("a whole machine");
                    FoundMachine {
                        name: machine.name.to_string(),
                        cpu: u32::try_from(spec.cpu_millicores / 1000).expect("few"),
                        memory_mib: u32::try_from(spec.memory_bytes >> 20).expect("little"),
                    }
                })
                .collect(),
            load_balancers: records
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect(),
        }
    }

    async fn plant(&self, name: &str, address: Option<IpAddr>) -> Option<String> {
        let Some(IpAddr::V4(address)) = address else {
            return None;
        };
        let id = "73737373-7373-4373-8373-737373737373";
        let spec = MachineSpec {
            name: name.parse().expect("name"),
            id: id.parse().expect("id"),
            hostname: name.to_owned(),
            cpu_millicores: 1000,
            memory_bytes: 64 << 20,
            address: Ipv4Net::new(address, 24).expect("address"),
            gateway: None,
            init: vec!["/bin/sleep".to_owned(), "infinity".to_owned()],
            binds: Vec::new(),
            disk: DiskContents::default(),
        };
        self.host.create(spec).await.expect("a machine");
        self.host
            .start(&name.parse().expect("name"))
            .await
            .expect("a running machine");
        Some(id.to_owned())
    }
}

/// What is left of the machines in the kernel.
fn leftovers() -> Vec<String> {
    let listed = |arguments: &[&str]| {
        let output = Command::new("ip").args(arguments).output().expect("ip");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let lines = listed(&["-oneline", "link", "show"]) + &listed(&["netns", "list"]);
    let ours = lines
        .lines()
        .filter(|line| line.contains("c73br0") || line.contains("butler-c73"));
    ours.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_on_this_host_keep_the_contract() {
    requires!(skip::root(), skip::command("runc"), skip::command("ip"));
    let subject = LocalSubject::new();
    let host = subject.host.clone();
    let directory = Arc::clone(&subject.directory);
    let report = conformance::run(subject).await;
    let down = host.down().await;
    drop(directory);
    assert!(report.passed(), "{report}");
    down.expect("nothing is in the way of taking everything down");
    assert_eq!(leftovers(), Vec::<String>::new());
    let skipped = |case: &&conformance::CaseReport| matches!(case.outcome, Outcome::Skipped(_));
    let skipped: Vec<_> = report.cases.iter().filter(skipped).collect();
    assert_eq!(
        skipped.len(),
        1,
        "only credentials are not needed\n{report}"
    );
}
