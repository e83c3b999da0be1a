//! Processes and a directory that are gone when the test process is, however it ends.
//!
//! A small shell holds one end of a pipe to the test process. It starts what it is told to, and cleans up when the pipe
//! closes: on drop, at the end of the process, on a panic, and on `kill -9`, where no code of ours runs any more.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Error;
use crate::process::is_running;

const SCRIPT: &str = include_str!("supervisor.sh");
/// How much of a log is shown in an error.
const LOG_LINES_SHOWN: usize = 20;

/// A process under supervision.
#[derive(Clone, Debug)]
pub struct Process {
    /// What it is called in the directory and in errors.
    pub program: &'static str,
    /// The number of the process.
    pub id: u32,
    log: PathBuf,
}

impl Process {
    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        is_running(self.id)
    }

    /// The last lines the process wrote.
    pub fn log_end(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }

    /// Whether it wrote this.
    pub fn wrote(&self, words: &str) -> bool {
        fs::read_to_string(&self.log).is_ok_and(|log| log.contains(words))
    }
}

/// Processes and a private directory that are gone when this is dropped, and when the test process is, however it ends:
/// the shell that keeps them, its pipe and the directory it removes.
#[derive(Debug)]
pub struct Supervisor {
    shell: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    directory: PathBuf,
}

impl Supervisor {
    /// Makes a fresh private directory and starts the shell that will remove it.
    pub fn start() -> Result<Self, Error> {
        let parent = std::env::temp_dir();
        let directory = tempfile::Builder::new()
            .prefix("butler-testkit-")
            // It holds private keys, and a socket that asks nobody for a password.
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(&parent)
            .map_err(|source| Error::File {
                action: "make a directory in",
                path: parent,
                source,
            })?;
        let failed = |source| Error::Supervisor {
            action: "start",
            source,
        };
        let mut shell = Command::new("sh")
            .arg("-c")
            .arg(SCRIPT)
            .arg(directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C in a terminal goes to the whole group of the test process; the shell must outlive it to clean up.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let requests = shell.stdin.take();
        let Some(answers) = shell.stdout.take() else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        // From here on the directory is the shell's to remove.
        let directory = directory.keep();
        Ok(Self {
            shell,
            requests,
            answers: BufReader::new(answers),
            directory,
        })
    }

    /// The directory, for whatever should go with the processes.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes a file into the directory; nobody else can read it, as the directory is private.
    pub fn write(&self, name: &str, content: &str) -> Result<PathBuf, Error> {
        write(&self.directory.join(name), content)
    }

    /// Starts a program whose log is `<program>.log` in the directory.
    pub fn run(
        &mut self,
        program: &'static str,
        path: &Path,
        arguments: &[String],
    ) -> Result<Process, Error> {
        let command: Vec<String> = std::iter::once(path.to_string_lossy().into_owned())
            .chain(arguments.iter().cloned())
            .map(|argument| quoted(&argument))
            .collect();
        self.write(
            &format!("{program}.sh"),
            &format!("exec {}\n", command.join(" ")),
        )?;
        let failed = |source| Error::Supervisor {
            action: "ask",
            source,
        };
        let requests = self.requests.as_mut().ok_or_else(|| Error::Supervisor {
            action: "ask",
            source: std::io::ErrorKind::BrokenPipe.into(),
        })?;
        writeln!(requests, "{program}").map_err(failed)?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(failed)?;
        let id = answer
            .trim()
            .parse()
            .map_err(|_not_a_number| failed(std::io::ErrorKind::InvalidData.into()))?;
        Ok(Process {
            program,
            id,
            log: self.directory.join(format!("{program}.log")),
        })
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.requests.take());
        // Killing and removing take milliseconds; who drops a server may rely on its end. A failure to wait leaves nothing
        // to do, as the shell works on without us.
        let _ = self.shell.wait();
    }
}

/// Writes a file.
pub(crate) fn write(path: &Path, content: &str) -> Result<PathBuf, Error> {
    fs::write(path, content).map_err(|source| Error::File {
        action: "write",
        path: path.to_owned(),
        source,
    })?;
    Ok(path.to_owned())
}

/// One word for the shell, whatever it holds.
fn quoted(argument: &str) -> String {
    format!("'{}'", argument.replace('\'', r"'\''"))
}
