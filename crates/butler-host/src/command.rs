//! Programs of the host that are called: found once, run with their words kept.
//!
//! Must not: use a shell, or lose what a program said when it failed.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use thiserror::Error;
use tokio::{io::AsyncWriteExt as _, process::Command};

/// A program on this host.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    path: PathBuf,
}

/// Why a program did not do what it was called for.
#[derive(Debug, Error)]
pub enum Failure {
    /// It is not installed.
    #[error("the program {program} is not on the search path; install {package}")]
    Missing {
        /// Its name.
        program: &'static str,
        /// What usually brings it.
        package: &'static str,
    },
    /// It could not be started.
    #[error("could not start {}", program.display())]
    Start {
        /// Where it is.
        program: PathBuf,
        /// The kernel's words.
        #[source]
        source: io::Error,
    },
    /// It ended with an error.
    #[error("\"{command}\" failed: {words}")]
    Exit {
        /// The program's name and its arguments.
        command: String,
        /// What it said, or how it ended if it said nothing.
        words: String,
    },
}

impl Program {
    /// Looks for it on the search path, and where administrators' programs are: they are not on everybody's path.
    pub(crate) fn find(program: &'static str, package: &'static str) -> Result<Self, Failure> {
        const FURTHER: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .chain(FURTHER.map(PathBuf::from))
            .map(|directory| directory.join(program))
            .find(|candidate| candidate.is_file())
            .map(|path| Self { path })
            .ok_or(Failure::Missing { program, package })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The program with these arguments, not yet started and without input.
    pub(crate) fn command<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = Command::new(&self.path);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs it and gives what it printed.
    pub(crate) async fn run<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<String, Failure> {
        let mut command = self.command(arguments);
        let output = self.output(&mut command).await?;
        finished(&command, &output)
    }

    /// Runs it with a text as its input, and gives what it printed.
    pub(crate) async fn run_with_input<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: &str,
    ) -> Result<String, Failure> {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| self.start(source))?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that ended before it read all says why by its status.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let output = child
            .wait_with_output()
            .await
            .map_err(|source| self.start(source))?;
        finished(&command, &output)
    }

    /// Runs a prepared command to its end, whatever that is.
    pub(crate) async fn output(&self, command: &mut Command) -> Result<Output, Failure> {
        command.output().await.map_err(|source| self.start(source))
    }

    pub(crate) fn start(&self, source: io::Error) -> Failure {
        Failure::Start {
            program: self.path.clone(),
            source,
        }
    }
}

fn finished(command: &Command, output: &Output) -> Result<String, Failure> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Failure::Exit {
        command: describe(command),
        words: words(output),
    })
}

/// A failure with its cause, in one line.
pub(crate) fn words_of(failure: &Failure) -> String {
    match failure {
        Failure::Start { source, .. } => format!("{failure}: {source}"),
        Failure::Missing { .. } | Failure::Exit { .. } => failure.to_string(),
    }
}

/// The command as somebody would type it.
fn describe(command: &Command) -> String {
    let command = command.as_std();
    let name = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    command.get_args().fold(name, |line, argument| {
        format!("{line} {}", argument.to_string_lossy())
    })
}

fn words(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    if said.is_empty() {
        output.status.to_string()
    } else {
        said.to_owned()
    }
}
