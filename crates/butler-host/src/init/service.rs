//! Something that is to run for as long as the machine does.

use std::{
    fmt,
    fs::OpenOptions,
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::{
    Console, InitConfig, LOOK,
    backoff::Backoff,
    children::{Child, Children},
    pause,
};

/// How long it may take to end by itself.
const GRACE: Duration = Duration::from_secs(8);

/// Something that is to run for as long as the machine does.
pub(super) struct Service {
    name: &'static str,
    /// What it writes.
    log: PathBuf,
    /// Program and arguments; nothing while it cannot be started yet.
    arguments: Box<dyn Fn() -> Option<Vec<String>>>,
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Service")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Service {
    pub(super) fn new(
        name: &'static str,
        config: &InitConfig,
        arguments: impl Fn() -> Option<Vec<String>> + 'static,
    ) -> Self {
        Self {
            name,
            log: config.log_directory.join(format!("{name}.log")),
            arguments: Box::new(arguments),
        }
    }

    /// What it writes.
    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// Starts it as soon as it can be, starts it again when it ends, and stops it at the end.
    pub(super) async fn keep(
        &self,
        children: &Children,
        console: &Console,
        stop: &CancellationToken,
    ) {
        let name = self.name;
        let mut backoff = Backoff::default();
        while !stop.is_cancelled() {
            let Some(arguments) = (self.arguments)() else {
                pause(LOOK, stop).await;
                continue;
            };
            let begin = Instant::now();
            match self.start(children, &arguments) {
                Err(error) => console.say(format!("{name} could not be started: {error}")),
                Ok(mut child) => {
                    console.say(format!("{name} is started as process {}", child.id()));
                    let ended = stop.run_until_cancelled(child.ended()).await;
                    if let Some(ended) = ended {
                        console.say(format!("{name} has ended with {ended}"));
                    } else {
                        let ended = child.stop(GRACE).await;
                        console.say(format!("{name} is stopped, with {ended}"));
                        return;
                    }
                }
            }
            let length = backoff.after(begin.elapsed());
            console.say(format!("{name} is started again in {length:?}"));
            pause(length, stop).await;
        }
    }

    fn start(&self, children: &Children, arguments: &[String]) -> io::Result<Child> {
        let (program, rest) = arguments
            .split_first()
            .ok_or_else(|| io::Error::other("it names no program"))?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)?;
        let mut command = Command::new(program);
        command
            .args(rest)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        children.spawn(&mut command)
    }
}
