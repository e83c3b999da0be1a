//! Calls of `runc`.
//!
//! Owns: which arguments it gets and what its answers mean. Errors carry its own words.

use std::{
    fs::File,
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    process::Stdio,
};

use serde::Deserialize;
use tokio::process::Command;

use crate::command::{Failure, Program};

/// `runc`, with its records in a directory of ours.
#[derive(Clone, Debug)]
pub(crate) struct Runc {
    program: Program,
    root: PathBuf,
}

/// What `runc` knows of a container.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Container {
    pub(crate) id: String,
    /// Zero when it does not run.
    #[serde(default)]
    pub(crate) pid: u32,
    pub(crate) status: Status,
}

/// How far a container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Creating,
    Created,
    Running,
    Pausing,
    Paused,
    Stopped,
}

/// How a command in a machine ended, and what it printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecOutput {
    /// Absent when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

impl ExecOutput {
    /// Whether it ended well.
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }

    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// In `runc`'s words, since it has no exit status of its own for it.
const UNKNOWN_CONTAINER: &str = "does not exist";

#[derive(Deserialize)]
struct LogLine {
    level: String,
    msg: String,
}

impl Runc {
    pub(crate) fn new(program: Program, root: PathBuf) -> Self {
        Self { program, root }
    }

    /// What is known of one container; nothing if there is none.
    pub(crate) async fn state(&self, id: &str) -> Result<Option<Container>, Failure> {
        match self.run(&["state", id]).await {
            Ok(text) => parse("runc state", &text).map(Some),
            Err(failure) if is_unknown(&failure) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// All containers.
    pub(crate) async fn list(&self) -> Result<Vec<Container>, Failure> {
        let text = self.run(&["list", "--format", "json"]).await?;
        // Of none it prints "null".
        let containers: Option<Vec<Container>> = parse("runc list", &text)?;
        Ok(containers.unwrap_or_default())
    }

    /// Makes a container that waits to be started. Its first process writes to the console; `log` takes `runc`'s own
    /// words, which would be lost in there.
    ///
    /// `lock` is held until `runc` has ended, also when this process is killed before: nobody else finds a container that
    /// is still being made. A shell holds it, for what `runc` gets, the container may get.
    pub(crate) async fn create(
        &self,
        id: &str,
        bundle: &Path,
        console: File,
        log: &Path,
        lock: File,
    ) -> Result<(), Failure> {
        // The log is appended to; what an earlier call said would be taken for this one's words.
        let _ = std::fs::remove_file(log);
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "\"$@\" </dev/null; exit $?", "sh"])
            .arg(self.program.path())
            .arg("--root")
            .arg(&self.root)
            .arg("--log")
            .arg(log)
            .args(["--log-format", "json", "create", "--bundle"])
            .arg(bundle)
            .arg(id);
        let second = console
            .try_clone()
            .map_err(|source| self.program.start(source))?;
        command.stdin(lock).stdout(console).stderr(second);
        let status = command
            .status()
            .await
            .map_err(|source| self.program.start(source))?;
        if status.success() {
            return Ok(());
        }
        let said = last_error(&std::fs::read_to_string(log).unwrap_or_default());
        Err(Failure::Exit {
            command: format!("runc create {id}"),
            words: said.unwrap_or_else(|| status.to_string()),
        })
    }

    /// Lets the first process of a made container go. One that goes already is well: whoever asked for it was killed, and
    /// `runc` was not.
    pub(crate) async fn start(&self, id: &str) -> Result<(), Failure> {
        match self.run(&["start", id]).await {
            Err(failure) if words_of(&failure).contains("already running container") => Ok(()),
            other => other.map(drop),
        }
    }

    /// Sends a signal to the first process; one that is gone is no failure.
    pub(crate) async fn kill(&self, id: &str, signal: &str) -> Result<(), Failure> {
        match self.run(&["kill", id, signal]).await {
            Err(failure) if is_unknown(&failure) || is_not_running(&failure) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Ends a container if it runs, and forgets it; one that is not there is no failure.
    pub(crate) async fn delete(&self, id: &str) -> Result<(), Failure> {
        match self.run(&["delete", "--force", id]).await {
            Err(failure) if is_unknown(&failure) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Runs a command in a container to its end.
    pub(crate) async fn exec(&self, id: &str, arguments: &[String]) -> Result<ExecOutput, Failure> {
        let mut command = self
            .program
            .command(["--root".as_ref(), self.root.as_os_str()]);
        command.arg("exec").arg(id).args(arguments);
        let output = self.program.output(&mut command).await?;
        Ok(ExecOutput {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: output.stderr,
        })
    }

    /// A command in a container with a terminal of its own if there is one here; whoever gets it runs it.
    pub(crate) fn interactive(&self, id: &str, arguments: &[String]) -> Command {
        let mut command = self
            .program
            .command(["--root".as_ref(), self.root.as_os_str()]);
        command.arg("exec");
        if io::stdin().is_terminal() {
            command.arg("--tty");
        }
        command.arg(id).args(arguments).stdin(Stdio::inherit());
        command
    }

    async fn run(&self, arguments: &[&str]) -> Result<String, Failure> {
        let root = ["--root".as_ref(), self.root.as_os_str()];
        self.program
            .run(root.into_iter().chain(arguments.iter().map(AsRef::as_ref)))
            .await
    }
}

fn parse<'text, T: Deserialize<'text>>(command: &str, text: &'text str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::Exit {
        command: command.to_owned(),
        words: format!("its answer is not understood: {error}"),
    })
}

fn words_of(failure: &Failure) -> &str {
    match failure {
        Failure::Exit { words, .. } => words,
        Failure::Missing { .. } | Failure::Start { .. } => "",
    }
}

fn is_unknown(failure: &Failure) -> bool {
    words_of(failure).contains(UNKNOWN_CONTAINER)
}

fn is_not_running(failure: &Failure) -> bool {
    let words = words_of(failure);
    words.contains("container not running") || words.contains("process already finished")
}

/// The last error of `runc`'s log.
fn last_error(log: &str) -> Option<String> {
    log.lines()
        .rev()
        .filter_map(|line| serde_json::from_str::<LogLine>(line).ok())
        .find(|line| line.level == "error")
        .map(|line| line.msg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_runc_are_found_in_its_log() {
        let log = "{\"level\":\"warning\",\"msg\":\"slow\"}\nnoise\n{\"level\":\"error\",\"msg\":\"no such file\",\"time\":\"x\"}\n";
        assert_eq!(last_error(log).as_deref(), Some("no such file"));
        assert_eq!(last_error(""), None);
    }

    #[test]
    fn what_runc_prints_is_understood() {
        let container: Container = parse(
            "runc state",
            r#"{"ociVersion":"1.0.2-dev","id":"worker","pid":17,"status":"running","bundle":"/b","rootfs":"/r","owner":""}"#,
        )
        .unwrap();
        assert_eq!((container.pid, container.status), (17, Status::Running));
        assert_eq!(
            parse::<Option<Vec<Container>>>("runc list", "null").unwrap(),
            None
        );
        assert!(parse::<Container>("runc state", "{}").is_err());
    }
}
