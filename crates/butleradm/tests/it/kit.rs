//! What the stories of this folder share: an installation of their own, and the commands a user would type.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
    time::{Duration, Instant},
};

use butler_assets::{Asset, Component, Resolver, Settings};
use serde_json::Value;

/// How long a user would wait.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);
const GLANCE: Duration = Duration::from_millis(300);

/// An installation with state, home and range of its own. Dropped, it is gone, however the story ended.
pub(crate) struct Installation {
    pub(crate) name: &'static str,
    pub(crate) range: &'static str,
    directory: tempfile::TempDir,
}

impl Installation {
    pub(crate) fn new(name: &'static str, range: &'static str) -> Self {
        Self {
            name,
            range,
            directory: tempfile::Builder::new()
                .prefix("butleradm-")
                .tempdir()
                .unwrap(),
        }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.home()
            .join(format!(".butler/{}-kubeconfig", self.name))
    }

    /// `butleradm` as its user would run it.
    pub(crate) fn butleradm(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_butleradm"));
        command
            .args(["--name", self.name])
            .arg("--state-directory")
            .arg(self.state())
            .args(arguments)
            .env("HOME", self.home())
            // Programs and images are those of all tests: a home of one's own would build them anew.
            .env("BUTLER_CACHE", Settings::from_env().unwrap().cache);
        command
    }

    /// Runs `butleradm`, shows what it says, and demands that it ends well.
    pub(crate) fn well(&self, arguments: &[&str]) -> String {
        let output = self.butleradm(arguments).output().unwrap();
        show(&output);
        assert!(output.status.success(), "butleradm {arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// `kubectl` with the kubeconfig that `up` wrote; gives what it prints.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        self.kubectl_with(arguments, "")
    }

    /// The same, with a text as its input.
    pub(crate) fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        use std::io::Write as _;
        let mut child = Command::new(kubectl())
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(arguments)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// What `kubectl get … -o json` shows.
    pub(crate) fn get(&self, arguments: &[&str]) -> Value {
        let mut all = vec!["get", "-o", "json"];
        all.extend(arguments);
        serde_json::from_str(&self.kubectl(&all).unwrap()).unwrap()
    }

    pub(crate) fn apply(&self, manifest: &str) {
        self.kubectl_with(&["apply", "-f", "-"], manifest).unwrap();
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        if self.state().exists() {
            if std::thread::panicking() {
                show(&self.butleradm(&["status"]).output().unwrap());
            }
            show(&self.butleradm(&["down"]).output().unwrap());
        }
    }
}

pub(crate) fn show(output: &Output) {
    eprintln!(
        "{}{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
}

/// The program of the version that the cluster runs.
fn kubectl() -> &'static Path {
    static KUBECTL: OnceLock<PathBuf> = OnceLock::new();
    KUBECTL.get_or_init(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let resolver = Resolver::new(Settings::from_env().unwrap());
        let asset = Asset::default_of(Component::Kubectl);
        runtime.block_on(resolver.resolve(&asset)).unwrap()
    })
}

/// Asks again until the answer is yes. The thing asked has no watch: it is a user's command.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(words) => assert!(
                began.elapsed() < PATIENCE,
                "waited in vain for {what}: {words}"
            ),
        }
        std::thread::sleep(GLANCE);
    }
}

/// Settings of the kernel that `up` or a kubelet changes.
const SETTINGS: [&str; 7] = [
    "net/ipv4/ip_forward",
    "fs/inotify/max_user_instances",
    "fs/inotify/max_user_watches",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
];

/// Everything of the host that `down` must leave as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Traces(Vec<(&'static str, String)>);

impl Traces {
    pub(crate) fn look() -> Self {
        let commands: [(&str, &[&str]); 4] = [
            ("interfaces", &["ip", "-o", "link", "show"]),
            ("namespaces", &["ip", "netns", "list"]),
            ("routes", &["ip", "route", "show", "table", "all"]),
            ("rules", &["nft", "list", "ruleset"]),
        ];
        let mut traces: Vec<(&str, String)> = commands
            .into_iter()
            .map(|(what, command)| {
                let output = Command::new(command[0])
                    .args(&command[1..])
                    .output()
                    .unwrap();
                (what, String::from_utf8_lossy(&output.stdout).into_owned())
            })
            .collect();
        let settings = SETTINGS.map(|setting| {
            let value = std::fs::read_to_string(Path::new("/proc/sys").join(setting));
            format!("{setting} {}", value.unwrap_or_default())
        });
        traces.push(("settings", settings.concat()));
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mounted = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        // `ip netns` mounts its directory on itself when it is first used on a host.
        let mounted = mounted.filter(|place| *place != "/run/netns");
        traces.push(("mounts", mounted.collect::<Vec<_>>().join("\n")));
        traces.push(("processes", processes()));
        traces.push(("control groups", groups(Path::new("/sys/fs/cgroup"), 3)));
        Self(traces)
    }
}

/// Programs of Butler and of machines that run on the host.
fn processes() -> String {
    let ours = ["butler", "butleradm", "containerd", "kubelet", "runc"];
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let names = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("comm")).ok());
    let mut found: Vec<String> = names.filter(|name| ours.contains(&name.trim())).collect();
    found.sort();
    found.concat()
}

fn groups(directory: &Path, depth: usize) -> String {
    let mut found: Vec<String> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| {
            let below = if depth > 0 {
                groups(&entry.path(), depth - 1)
            } else {
                String::new()
            };
            format!("{}\n{below}", entry.path().display())
        })
        .collect();
    found.sort();
    found.concat()
}
