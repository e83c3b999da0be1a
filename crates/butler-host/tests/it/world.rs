//! A network of its own for a test: one namespace for the host and all its machines, and one for the world beyond it, which
//! has a public address and a private one. Nothing that is sent here leaves these namespaces.

use std::{
    process::{Child, Command, Stdio},
    sync::Mutex,
};

/// The world's public address.
pub(crate) const PUBLIC: &str = "198.51.100.1";
/// The world's private address.
pub(crate) const PRIVATE: &str = "10.99.0.1";
/// The host's address on its way out.
pub(crate) const UPLINK: &str = "198.51.100.2";
/// What machines have as their range in a world: the world knows the way, so that what gets out would be answered.
pub(crate) const MACHINES: &str = "10.213.72.0/24";

/// Names of namespaces of worlds begin with this.
pub(crate) const WORLD_PREFIX: &str = "butler-test-";

/// Tells the test that it runs in the host's namespace, and which is the world's.
const INSIDE: &str = "BUTLER_HOST_TEST_WORLD";
const PROGRAM: &str = env!("CARGO_BIN_EXE_butler-host-test-machine");

/// The world, as the host's namespace sees it.
pub(crate) struct World {
    beyond: String,
    children: Mutex<Vec<Child>>,
}

/// Runs a story in a world. The test is run again, as a process of its own in the host's namespace.
pub(crate) fn tell<Story: Future<Output = ()>>(test: &str, story: impl FnOnce(World) -> Story) {
    if let Ok(beyond) = std::env::var(INSIDE) {
        let world = World {
            beyond,
            children: Mutex::default(),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(story(world));
        return;
    }
    let namespaces = Namespaces::new();
    let status = Command::new("nsenter")
        .arg(format!("--net=/run/netns/{}", namespaces.host))
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, &namespaces.beyond)
        .status()
        .expect("nsenter");
    assert!(status.success(), "see above for what failed in {test}");
}

impl World {
    /// Runs the tests' program beyond the host until the world ends.
    pub(crate) fn beyond(&self, arguments: &[&str]) {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.beyond, PROGRAM]);
        self.keep(command.args(arguments));
    }

    /// Runs the tests' program on the host until the world ends.
    pub(crate) fn on_host(&self, arguments: &[&str]) {
        self.keep(Command::new(PROGRAM).args(arguments));
    }

    fn keep(&self, command: &mut Command) {
        let child = command.stdin(Stdio::null()).spawn().expect("a child");
        self.children.lock().expect("children").push(child);
    }

    /// What the tests' program prints beyond the host.
    pub(crate) fn printed_beyond(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.beyond, PROGRAM]);
        printed(command.args(arguments))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for child in self.children.get_mut().expect("children") {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What the tests' program prints on the host.
pub(crate) fn from_host(arguments: &[&str]) -> String {
    printed(Command::new(PROGRAM).args(arguments))
}

fn printed(command: &mut Command) -> String {
    let output = command.output().expect("output");
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Runs a program of the host, which must end well, and gives what it prints.
pub(crate) fn run(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    printed(Command::new(words[0]).args(&words[1..]))
}

/// Removed also when the test fails.
struct Namespaces {
    host: String,
    beyond: String,
}

impl Namespaces {
    fn new() -> Self {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let name = |role| format!("{WORLD_PREFIX}{}-{number}-{role}", std::process::id());
        let namespaces = Self {
            host: name("host"),
            beyond: name("beyond"),
        };
        let Self { host, beyond } = &namespaces;
        for line in [
            format!("ip netns add {host}"),
            format!("ip netns add {beyond}"),
            format!("ip -n {host} link set lo up"),
            format!("ip -n {beyond} link set lo up"),
            format!("ip -n {host} link add up0 type veth peer name up0 netns {beyond}"),
            format!("ip -n {host} address add {UPLINK}/24 dev up0"),
            format!("ip -n {host} address add 10.99.0.2/24 dev up0"),
            format!("ip -n {beyond} address add {PUBLIC}/24 dev up0"),
            format!("ip -n {beyond} address add {PRIVATE}/24 dev up0"),
            format!("ip -n {host} link set up0 up"),
            format!("ip -n {beyond} link set up0 up"),
            format!("ip -n {host} route add default via {PUBLIC}"),
            format!("ip -n {beyond} route add {MACHINES} via {UPLINK}"),
        ] {
            run(&line);
        }
        namespaces
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [&self.host, &self.beyond] {
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}
