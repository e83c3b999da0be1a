//! What the stories of this folder share: an installation of their own, and the commands a user would type.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use butler_assets::{Asset, Component, Resolver, Settings};
use serde_json::Value;

/// How long a user would wait.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);
const GLANCE: Duration = Duration::from_millis(300);

/// One story at a time has machines: each compares the whole host before and after.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static HOST: Mutex<()> = Mutex::new(());
    HOST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The binary that machines and controllers run: built beside `butleradm`.
pub(crate) fn butler() -> String {
    let me = Path::new(env!("CARGO_BIN_EXE_butleradm"));
    me.with_file_name("butler").display().to_string()
}

/// What the run of a test shows as it goes, and a failed one repeats.
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}

/// An installation with state, home and range of its own. Dropped, it is gone, however the story ended.
pub(crate) struct Installation {
    pub(crate) name: &'static str,
    pub(crate) range: &'static str,
    directory: tempfile::TempDir,
    /// The network namespace it is in, unless that is the host's.
    namespace: Option<String>,
    /// What the last command said: a failed story repeats it, and no more than it.
    last: Mutex<String>,
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
            namespace: None,
            last: Mutex::default(),
        }
    }

    /// The same in another network namespace.
    pub(crate) fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// A program in the namespace of this installation.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let Some(namespace) = &self.namespace else {
            return Command::new(program);
        };
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{namespace}"))
            .arg(program);
        command
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
        let mut command = self.command(env!("CARGO_BIN_EXE_butleradm"));
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

    /// Runs `butleradm` and demands that it ends well.
    pub(crate) fn well(&self, arguments: &[&str]) -> String {
        let output = self.butleradm(arguments).output().unwrap();
        *self.last.lock().unwrap() = format!("butleradm {arguments:?}\n{}", words(&output));
        assert!(output.status.success(), "butleradm {arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `butleradm`, demands that it ends badly, and gives what it says.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let output = self.butleradm(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "butleradm {arguments:?}");
        words(&output)
    }

    /// `kubectl` with the kubeconfig that `up` wrote; gives what it prints.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        self.kubectl_with(arguments, "")
    }

    /// The same, with a text as its input.
    pub(crate) fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        self.kubectl_of(&self.kubeconfig(), arguments, input)
    }

    /// `kubectl` with the kubeconfig of whichever cluster.
    pub(crate) fn kubectl_of(
        &self,
        kubeconfig: &Path,
        arguments: &[&str],
        input: &str,
    ) -> Result<String, String> {
        use std::io::Write as _;
        let mut child = self
            .command(kubectl())
            .arg("--kubeconfig")
            .arg(kubeconfig)
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

    /// Whether as many nodes as that are Ready.
    pub(crate) fn ready_nodes(&self, count: usize) -> Result<(), String> {
        let nodes = self.kubectl(&["get", "nodes"])?;
        if nodes.matches(" Ready ").count() == count {
            Ok(())
        } else {
            Err(nodes)
        }
    }

    /// Names of machines that are there.
    pub(crate) fn machines(&self) -> Vec<String> {
        let list = self.well(&["machine", "list"]);
        let names = list.lines().skip(1).map(|line| line.split(' ').next());
        names.flatten().map(ToOwned::to_owned).collect()
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let last = self.last.get_mut().unwrap_or_else(PoisonError::into_inner);
            note(&format!("the last command was: {last}"));
        }
        if self.state().exists() {
            if std::thread::panicking() {
                note(&words(&self.butleradm(&["status"]).output().unwrap()));
            }
            note(&words(&self.butleradm(&["down"]).output().unwrap()));
        }
    }
}

/// All that a command said.
pub(crate) fn words(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    )
}

/// The program of the version that the cluster runs.
pub(crate) fn kubectl() -> &'static Path {
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
