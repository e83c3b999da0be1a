//! One process of `butler controller`, ended with the test.

use std::{
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use butler_testkit::ApiServer;

/// A running replica.
pub(crate) struct Replica {
    child: Child,
    log: PathBuf,
}

impl Replica {
    /// Starts a replica that is known by this name in the lease.
    pub(crate) fn start(server: &ApiServer, name: &str) -> Self {
        Self::start_with(server, name, &[])
    }

    /// The same, at work at once, whoever else is.
    pub(crate) fn start_without_election(server: &ApiServer, name: &str) -> Self {
        Self::start_with(server, name, &["--leader-elect=false".to_owned()])
    }

    /// The same, with webhooks that the API server reaches on this machine.
    pub(crate) fn start_with_webhooks(server: &ApiServer, name: &str) -> Self {
        Self::start_with(server, name, &webhook_flags())
    }

    /// A replica with webhooks that is whoever the kubeconfig says, in a namespace where the lease and its certificates are.
    pub(crate) fn start_as(
        server: &ApiServer,
        kubeconfig: &Path,
        namespace: &str,
        flags: &[String],
    ) -> Self {
        let flags: Vec<_> = webhook_flags().iter().chain(flags).cloned().collect();
        Self::spawn(server, "account", kubeconfig, namespace, &flags)
    }

    fn start_with(server: &ApiServer, name: &str, flags: &[String]) -> Self {
        Self::spawn(server, name, server.kubeconfig(), "default", flags)
    }

    fn spawn(
        server: &ApiServer,
        name: &str,
        kubeconfig: &Path,
        namespace: &str,
        flags: &[String],
    ) -> Self {
        // A file: a pipe that nobody reads while the test runs would fill up and hold the replica.
        let log = server.directory().join(format!("replica-{name}.log"));
        let stderr = File::options().create(true).append(true).open(&log);
        let child = Command::new(env!("CARGO_BIN_EXE_butler"))
            .args([
                "controller",
                "--metrics-bind-address=0",
                "--health-probe-bind-address=0",
            ])
            .args(["--leader-election-namespace", namespace, "--kubeconfig"])
            .arg(kubeconfig)
            .args(flags)
            .env("POD_NAME", name)
            .env("BUTLER_LOG_FORMAT", "text")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr.unwrap())
            .spawn()
            .unwrap();
        Self { child, log }
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop as Kubernetes does, and tells whether it said that all went well.
    pub(crate) fn stop(&mut self) -> bool {
        let asked = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()
            .unwrap();
        asked.success() && self.child.wait().unwrap().success()
    }
}

/// Webhooks on a port of this machine, where the API server of the test finds them.
fn webhook_flags() -> [String; 3] {
    let port = TcpListener::bind(("127.0.0.1", 0))
        .and_then(|free| free.local_addr())
        .unwrap()
        .port();
    [
        "--enable-webhooks".to_owned(),
        format!("--webhook-port={port}"),
        format!("--webhook-url=https://127.0.0.1:{port}"),
    ]
}

impl Drop for Replica {
    fn drop(&mut self) {
        // What a failed test needs to know is in the replica's log.
        let ended = self.child.kill().and_then(|()| self.child.wait());
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("replica ended with {ended:?}; its log:\n{log}");
        }
    }
}
