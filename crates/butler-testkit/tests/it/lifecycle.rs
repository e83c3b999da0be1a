//! Nothing of a server outlives its test.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use butler_testkit::process::{eventually_ended, eventually_removed, is_running};
use butler_testkit::{ApiServer, Options};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;

use crate::{PATIENCE, config_map};

/// Which of the ends the child process meets.
const END_VARIABLE: &str = "BUTLER_TESTKIT_END";
const PANIC: &str = "panic";
const KILL: &str = "kill";
/// Begins the line in which the child says what it started.
const STARTED: &str = "started: ";

#[tokio::test]
async fn directory_with_the_keys_is_private() {
    let server = ApiServer::shared().await;
    let mode = std::fs::metadata(server.directory())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn server_is_gone_when_dropped() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let (processes, directory) = (server.process_ids(), server.directory().to_owned());
    assert_eq!(processes.len(), 2);
    assert!(processes.iter().copied().all(is_running) && directory.exists());
    drop(server);
    assert!(
        !processes.iter().copied().any(is_running),
        "{processes:?} still run"
    );
    assert!(
        !directory.exists(),
        "{} is still there",
        directory.display()
    );
}

#[tokio::test]
async fn server_is_gone_after_a_panic_that_shows_the_namespace() {
    let mut child = child_that_ends_by(PANIC);
    let (processes, directory) = child.started();
    let output = child.process.wait_with_output().unwrap();
    assert!(!output.status.success());
    assert_gone(&processes, &directory).await;
    let report = String::from_utf8(output.stderr).unwrap();
    assert!(report.contains("the test had a bad day"), "{report}");
    assert!(
        report.contains("the objects of namespace unlucky-"),
        "{report}"
    );
    assert!(report.contains(r#""witness": "was here""#), "{report}");
}

#[tokio::test]
async fn server_is_gone_after_kill_minus_nine() {
    let mut child = child_that_ends_by(KILL);
    let (processes, directory) = child.started();
    assert!(processes.iter().copied().all(is_running) && directory.exists());
    child.process.kill().unwrap();
    child.process.wait().unwrap();
    assert_gone(&processes, &directory).await;
}

async fn assert_gone(processes: &[u32], directory: &Path) {
    assert!(
        eventually_ended(processes, PATIENCE).await,
        "{processes:?} still run"
    );
    assert!(
        eventually_removed(directory, PATIENCE).await,
        "{} is there",
        directory.display()
    );
}

/// Another run of this test program, which starts a server and then ends badly.
struct ChildTest {
    process: std::process::Child,
}

fn child_that_ends_by(end: &str) -> ChildTest {
    let process = Command::new(std::env::current_exe().expect("this program has a path"))
        .args([
            "--exact",
            "lifecycle::starts_a_server_and_ends_badly",
            "--ignored",
            "--nocapture",
        ])
        .env(END_VARIABLE, end)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program can be started again");
    ChildTest { process }
}

impl ChildTest {
    /// Waits until the child has its server, and returns the server's processes and directory.
    fn started(&mut self) -> (Vec<u32>, PathBuf) {
        let output = self.process.stdout.as_mut().expect("the output is a pipe");
        let line = BufReader::new(output)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once(STARTED)?.1.to_owned()))
            .expect("the child says what it started");
        let (processes, directory) = line.split_once(' ').expect("processes and a directory");
        let processes = processes
            .split(',')
            .map(|id| id.parse().expect("a process id"))
            .collect();
        (processes, PathBuf::from(directory))
    }
}

#[tokio::test]
#[ignore = "run by the tests above, in a process that ends badly"]
async fn starts_a_server_and_ends_badly() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let namespace = server.namespace("unlucky").await;
    let api = namespace.api::<ConfigMap>(server.client());
    let witness = config_map("witness", &[("witness", "was here")]);
    api.create(&PostParams::default(), &witness).await.unwrap();
    let processes: Vec<String> = server
        .process_ids()
        .iter()
        .map(ToString::to_string)
        .collect();
    println!(
        "{STARTED}{} {}",
        processes.join(","),
        server.directory().display()
    );
    match std::env::var(END_VARIABLE).as_deref() {
        Ok(PANIC) => panic!("the test had a bad day"),
        Ok(KILL) => {
            // Bounded, so that nothing stays behind even if nobody kills us.
            let killed = tokio::time::timeout(Duration::from_mins(2), std::future::pending::<()>());
            killed
                .await
                .expect_err("a pending future ends only by its timeout");
        }
        other => panic!("{END_VARIABLE} must say how to end, not {other:?}"),
    }
}
