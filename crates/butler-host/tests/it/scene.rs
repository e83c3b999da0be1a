//! A host to test on: a state directory, a bridge and a range of its own, and nothing left of them afterwards.
//!
//! Traffic stays on addresses of that bridge.

use std::{
    collections::BTreeSet,
    error::Error as _,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use butler_host::{
    host::{Error, Host, HostConfig, MachineState},
    machine::{Bind, DiskContents, MachineSpec},
    network::NetworkSpec,
};
use ipnet::Ipv4Net;
use tempfile::TempDir;

use crate::world::WORLD_PREFIX;

/// The program that tests run in machines, as machines see it.
pub(crate) const TOOL: &str = "/opt/butler/bin/machine";

/// Returns from a test, telling that it is skipped, on a machine that cannot have machines.
macro_rules! needs_a_host {
    () => {
        butler_testkit::requires!(
            butler_testkit::skip::root(),
            butler_testkit::skip::command("runc"),
            butler_testkit::skip::command("ip"),
            butler_testkit::skip::command("nft"),
        );
    };
}
pub(crate) use needs_a_host;

/// A place to make machines in.
pub(crate) struct Scene {
    pub(crate) host: Host,
    pub(crate) config: HostConfig,
    before: BTreeSet<String>,
    settings: Option<Vec<String>>,
    directory: TempDir,
    finished: bool,
    // One scene at a time on this machine, so that what is left over can be told from what others have.
    _turn: File,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::with_network(|_| ()).await
    }

    /// With another network than the usual one.
    pub(crate) async fn with_network(change: impl FnOnce(&mut NetworkSpec)) -> Self {
        let turn = tokio::task::spawn_blocking(|| {
            let file = File::create(std::env::temp_dir().join("butler-host-tests.lock"))
                .expect("a file for the turn");
            file.lock().expect("our turn");
            file
        })
        .await
        .expect("our turn");
        let before = traces();
        let settings = settings();
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = HostConfig {
            state_directory: directory.path().join("state"),
            cluster: format!("test{}", std::process::id()).parse().expect("name"),
            network: NetworkSpec::new(
                format!("bt{}", std::process::id() % 100_000_000)
                    .parse()
                    .expect("name"),
                free_address(),
            ),
        };
        change(&mut config.network);
        let host = Host::open(config.clone()).expect("a host");
        Self {
            host,
            config,
            before,
            settings,
            directory,
            finished: false,
            _turn: turn,
        }
    }

    /// The directory in which the state directory is.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn machine_directory(&self, name: &str) -> PathBuf {
        self.config.state_directory.join("machines").join(name)
    }

    /// A machine whose first process is a line for the shell. The number makes its address and its id.
    pub(crate) fn machine(&self, name: &str, number: u8, line: &str) -> MachineSpec {
        let network = self.config.network.address;
        let mut octets = network.addr().octets();
        octets[3] = number;
        MachineSpec {
            name: name.parse().expect("name"),
            id: format!("00000000-0000-4000-8000-0000000000{number:02x}")
                .parse()
                .expect("id"),
            hostname: name.to_owned(),
            cpu_millicores: 500,
            memory_bytes: 256 * 1024 * 1024,
            address: Ipv4Net::new(octets.into(), network.prefix_len()).expect("address"),
            gateway: None,
            init: ["/bin/sh", "-c", line].map(str::to_owned).to_vec(),
            binds: vec![Bind {
                source: env!("CARGO_BIN_EXE_butler-host-test-machine").into(),
                destination: TOOL.into(),
                writable: false,
            }],
            disk: DiskContents::default(),
        }
    }

    /// Takes everything down and fails if anything is left.
    pub(crate) async fn finish(mut self) {
        self.host.clone().down().await.expect("down");
        self.finished = true;
        assert!(!self.config.state_directory.exists());
        pretty_assertions::assert_eq!(traces(), self.before, "something was left behind");
        // Settings are back when the last installation has let go, and another program may have one.
        if let (Some(before), Some(after)) = (&self.settings, settings()) {
            pretty_assertions::assert_eq!(
                after,
                *before,
                "a setting of the kernel is not as before"
            );
        }
    }
}

impl Drop for Scene {
    /// A test that failed leaves nothing either.
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let host = self.host.clone();
        let cleaner = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(host.down())
        });
        match cleaner.join() {
            Ok(Ok(())) => {}
            other => {
                let _ = writeln!(std::io::stderr(), "the host was not cleaned: {other:?}");
            }
        }
    }
}

/// Settings of the kernel that machines, or programs in them, change.
const SETTINGS: [&str; 9] = [
    "fs/inotify/max_user_instances",
    "fs/inotify/max_user_watches",
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
];

fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().expect("ip");
    assert!(output.status.success(), "ip {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Settings of the kernel, unless somebody holds them.
fn settings() -> Option<Vec<String>> {
    let read = |path| {
        let value = fs::read_to_string(Path::new("/proc/sys").join(path)).unwrap_or_default();
        format!("{path} {}", value.trim())
    };
    let is_held = Path::new("/run/butler/sysctls.json").exists();
    (!is_held).then(|| SETTINGS.map(read).to_vec())
}

/// All that a host keeps in the kernel but settings: filters, interfaces, routes, namespaces, mounts and control groups.
fn traces() -> BTreeSet<String> {
    let mut traces = BTreeSet::new();
    let rules = Command::new("nft").args(["list", "ruleset"]).output();
    let rules = String::from_utf8(rules.expect("nft").stdout).expect("text");
    traces.extend(rules.lines().map(|line| format!("filter {line}")));
    for line in ip(&["-oneline", "link", "show"]).lines() {
        let name = line.split(": ").nth(1).unwrap_or(line);
        traces.insert(format!("interface {name}"));
    }
    for line in ip(&["-4", "route", "show", "table", "all"]).lines() {
        traces.insert(format!("route {line}"));
    }
    for line in ip(&["netns", "list"]).lines() {
        // Those of other tests, which wait for their turn.
        if line.starts_with(WORLD_PREFIX) {
            continue;
        }
        traces.insert(format!("namespace {line}"));
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        // Where `ip netns` keeps its names is made by its first use on a machine, and stays.
        let is_world = fields[4].contains(WORLD_PREFIX);
        if fields[4] != "/run/netns" && !is_world {
            traces.insert(format!("mount {}", fields[4]));
        }
        if line.contains(" - cgroup") {
            let groups = fs::read_dir(fields[4]).expect("groups").flatten();
            for group in groups.filter(|entry| entry.path().is_dir()) {
                traces.insert(format!("control group {}", group.path().display()));
            }
        }
    }
    traces
}

/// The host's address in a range that nobody has a route to.
fn free_address() -> Ipv4Net {
    let routes: Vec<Ipv4Net> = ip(&["-4", "route", "show", "table", "all"])
        .lines()
        .flat_map(str::split_whitespace)
        .filter_map(|word| {
            word.parse().ok().or_else(|| {
                word.parse()
                    .ok()
                    .map(|address| Ipv4Net::new_assert(address, 32))
            })
        })
        .collect();
    (100..200u8)
        .map(|third| Ipv4Net::new_assert([10, 213, third, 1].into(), 24))
        .find(|address| {
            let range = address.trunc();
            !routes
                .iter()
                .any(|route| route.contains(&range) || range.contains(route))
        })
        .expect("a free range in 10.213.0.0/16")
}

/// The first process of a machine, which must run.
pub(crate) fn pid(state: &MachineState) -> u32 {
    let running = match state {
        MachineState::Running { pid } => Some(*pid),
        MachineState::Stopped | MachineState::Broken { .. } => None,
    };
    assert!(running.is_some(), "it does not run: {state:?}");
    running.unwrap_or_default()
}

/// All that an error says, down to its cause.
pub(crate) fn chain(error: &Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}

/// What a line for the shell prints in a machine, where it must end well.
pub(crate) async fn output(host: &Host, name: &str, line: &str) -> String {
    let output = host
        .exec(&name.parse().expect("name"), &["sh", "-c", line])
        .await
        .expect("a running machine");
    assert!(
        output.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.text().trim().to_owned()
}
