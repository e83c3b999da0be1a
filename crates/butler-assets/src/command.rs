//! The one place of this crate that starts other programs.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

/// How many of the last lines of standard error an error repeats.
const TAIL_LINES: usize = 15;

/// Why a program did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("{program} was not found", program = program.display())]
    NotFound { program: PathBuf },
    #[error("{program} could not be started", program = program.display())]
    Start {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the output of {program} could not be read", program = program.display())]
    Output {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{command} ended with {status}:\n{tail}")]
    Failed {
        command: String,
        status: ExitStatus,
        tail: String,
    },
}

impl CommandError {
    fn start(program: &Path, source: io::Error) -> Self {
        let program = program.to_owned();
        if source.kind() == io::ErrorKind::NotFound {
            Self::NotFound { program }
        } else {
            Self::Start { program, source }
        }
    }
}

/// A program with everything it is given.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) directory: PathBuf,
    pub(crate) environment: Vec<(&'static str, String)>,
}

impl Invocation {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .current_dir(&self.directory)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    fn text(&self) -> String {
        let arguments = self
            .arguments
            .iter()
            .map(|argument| argument.to_string_lossy());
        std::iter::once(self.program.to_string_lossy())
            .chain(arguments)
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Runs a program to its end, gives every line of standard error to `on_line`, and returns standard output.
///
/// A dropped future kills the program.
pub(crate) async fn run(
    invocation: &Invocation,
    mut on_line: impl FnMut(&str),
) -> Result<String, CommandError> {
    let unreadable = |source| CommandError::Output {
        program: invocation.program.clone(),
        source,
    };
    let mut child = tokio::process::Command::from(invocation.command())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| CommandError::start(&invocation.program, error))?;
    let (Some(mut stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(unreadable(io::Error::other("a pipe is missing")));
    };
    let mut output = Vec::new();
    let mut tail = VecDeque::new();
    let read_errors = async {
        let mut lines = BufReader::new(stderr).split(b'\n');
        while let Some(line) = lines.next_segment().await? {
            let line = String::from_utf8_lossy(&line).into_owned();
            on_line(&line);
            if tail.len() == TAIL_LINES {
                tail.pop_front();
            }
            tail.push_back(line);
        }
        Ok(())
    };
    let (_, (), status) =
        tokio::try_join!(stdout.read_to_end(&mut output), read_errors, child.wait())
            .map_err(unreadable)?;
    if status.success() {
        Ok(String::from_utf8_lossy(&output).into_owned())
    } else {
        Err(CommandError::Failed {
            command: invocation.text(),
            status,
            tail: Vec::from(tail).join("\n"),
        })
    }
}

/// What a short program printed on standard output and error, and whether it succeeded.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) success: bool,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// Runs a short program and waits for it.
pub(crate) fn output(invocation: &Invocation) -> Result<Printed, CommandError> {
    let output = invocation
        .command()
        .output()
        .map_err(|error| CommandError::start(&invocation.program, error))?;
    Ok(Printed {
        success: output.status.success(),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
