//! Programs of the host, as somebody would type them.

use std::{
    ffi::OsStr,
    process::{Output, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use tokio::process::Command;

/// How long one step may take before the measurement is given up.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);
/// Administrators' programs are not on everybody's path.
const FURTHER: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// A program with arguments, without input; it ends when it is dropped.
pub(crate) fn program<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = A>,
) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// A line of words, split at spaces.
pub(crate) fn line(words: &str) -> Command {
    let mut words = words.split_whitespace();
    program(words.next().unwrap_or_default(), words)
}

/// Runs it to its end, which must be a good one; gives what it printed.
pub(crate) async fn run(mut command: Command) -> anyhow::Result<String> {
    let described = describe(command.as_std());
    let output = tokio::time::timeout(PATIENCE, command.output())
        .await
        .with_context(|| format!("\"{described}\" did not end within {PATIENCE:?}"))?
        .with_context(|| format!("could not run \"{described}\""))?;
    printed(&described, &output)
}

/// The same for whoever cannot wait otherwise: what is removed when it is dropped.
pub(crate) fn run_now(words: &str) -> anyhow::Result<String> {
    let mut words_of = words.split_whitespace();
    let output = std::process::Command::new(words_of.next().unwrap_or_default())
        .args(words_of)
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not run \"{words}\""))?;
    printed(words, &output)
}

/// Waits until what others have written is on the disk, so that it slows nobody down who is measured next.
pub(crate) async fn settle() -> anyhow::Result<()> {
    run(line("sync")).await.map(drop)
}

fn printed(described: &str, output: &Output) -> anyhow::Result<String> {
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("\"{described}\" failed, {}: {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:{FURTHER}")
}

fn describe(command: &std::process::Command) -> String {
    let program = command.get_program().to_string_lossy().into_owned();
    command.get_args().fold(program, |line, argument| {
        format!("{line} {}", argument.to_string_lossy())
    })
}
