//! One process of `butler controller`, ended with the test.

use std::{
    fs::{self, File},
    io,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use butler_testkit::ApiServer;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// How the numbers of a replica begin that say how many objects wait or are worked on.
const LOAD: [&str; 2] = ["butler_queue_depth{", "butler_passes_running{"];
/// The same, of those that were worked on: there are none before the caches are filled, and the queues with them.
const BEGUN: &str = "butler_passes_total{";

/// A running replica.
pub(crate) struct Replica {
    child: Child,
    log: PathBuf,
    numbers: u16,
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
        let numbers = free_port();
        let child = Command::new(env!("CARGO_BIN_EXE_butler"))
            .args(["controller", "--health-probe-bind-address=0"])
            .arg(format!("--metrics-bind-address=127.0.0.1:{numbers}"))
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
        Self {
            child,
            log,
            numbers,
        }
    }

    /// Whether it has nothing to do: no object waits and none is worked on. One that has not begun yet has all to do.
    pub(crate) async fn is_idle(&self) -> bool {
        let numbers = self.numbers("").await.unwrap_or_default();
        let mut load = numbers
            .lines()
            .filter(|line| LOAD.iter().any(|name| line.starts_with(name)));
        let begun = numbers.lines().any(|line| line.starts_with(BEGUN));
        begun && load.all(|line| line.ends_with(" 0"))
    }

    /// The numbers as it tells them to somebody with this token, or why it does not.
    pub(crate) async fn numbers_for(&self, token: &str) -> io::Result<String> {
        let header = format!("authorization: Bearer {token}\r\n");
        self.numbers(&header).await
    }

    async fn numbers(&self, headers: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.numbers)).await?;
        let request = format!("GET /metrics HTTP/1.0\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
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
    let port = free_port();
    [
        "--enable-webhooks".to_owned(),
        format!("--webhook-port={port}"),
        format!("--webhook-url=https://127.0.0.1:{port}"),
    ]
}

fn free_port() -> u16 {
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr());
    free.unwrap().port()
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
