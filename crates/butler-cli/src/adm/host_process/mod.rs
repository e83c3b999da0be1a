//! The process on this host that has its hands on the machines: `butler provider local`, kept running.
//!
//! Owns: who keeps it. Where systemd is the first process, a unit does; elsewhere a supervisor of our own, which starts it
//! again when it ends, and is found again by its record.
//!
//! Must not: know what the process does.

mod supervisor;
mod unit;

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::process::Command;

pub(crate) use supervisor::supervise;

use self::supervisor::Record;
use super::{
    error::Error,
    installation::{Installation, Places, write_private},
};

/// Where systemd says that it is the first process.
const SYSTEMD: &str = "/run/systemd/system";
/// How long the process may take to end by itself.
const GRACE: Duration = Duration::from_secs(30);
/// How long it must live to be taken for started.
const SETTLED: Duration = Duration::from_millis(1500);
/// How much of a log an error repeats.
const TAIL_LINES: usize = 20;

/// The process and what it is given.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostProcess {
    /// The `butler` binary.
    pub(crate) program: PathBuf,
    /// What it is told.
    pub(crate) arguments: Vec<String>,
    /// Which build of the binary it is: another one has to be started anew.
    pub(crate) build: String,
    /// What it reads at its start.
    pub(crate) configuration: String,
}

/// Whether the process is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// As wished.
    Running,
    /// Another one than wished.
    Other,
    /// Nobody keeps it.
    Stopped,
}

fn has_systemd() -> bool {
    Path::new(SYSTEMD).exists()
}

/// Whether the process is kept, and with these arguments if they are given.
pub(crate) async fn state(
    installation: &Installation,
    places: &Places,
    wished: Option<&HostProcess>,
) -> Result<Kept, Error> {
    if has_systemd() {
        return unit::state(&installation.name, wished, &places.host_log()).await;
    }
    let Some(record) = Record::read(&places.supervisor())?.filter(Record::is_alive) else {
        return Ok(Kept::Stopped);
    };
    let same = wished.is_none_or(|wished| *wished == record.process);
    Ok(if same { Kept::Running } else { Kept::Other })
}

/// Starts the process, or another one in its place.
pub(crate) async fn start(
    installation: &Installation,
    places: &Places,
    process: &HostProcess,
) -> Result<(), Error> {
    if has_systemd() {
        return unit::start(&installation.name, process, &places.host_log()).await;
    }
    stop(installation, places).await?;
    let wish = places.supervisor().with_extension("wish");
    let text = serde_json::to_vec(process).map_err(|source| Error::Record {
        path: wish.clone(),
        source,
    })?;
    write_private(&wish, &text)?;
    let log = places.host_log();
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File {
            doing: "start",
            path,
            source,
        }
    };
    let output = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&log)
        .map_err(failed(&log))?;
    let errors = output.try_clone().map_err(failed(&log))?;
    let me = std::env::current_exe().map_err(failed(Path::new("/proc/self/exe")))?;
    let mut child = Command::new(&me)
        .arg("supervise")
        .arg(places.root())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(failed(&me))?;
    // A process that cannot start ends at once; one that lives this long is up to its own health checks.
    if tokio::time::timeout(SETTLED, child.wait()).await.is_ok() {
        return Err(Error::HostProcess { log: tail(&log) });
    }
    Ok(())
}

/// Stops the process and whoever keeps it.
pub(crate) async fn stop(installation: &Installation, places: &Places) -> Result<(), Error> {
    if has_systemd() {
        return unit::stop(&installation.name).await;
    }
    if let Some(record) = Record::read(&places.supervisor())? {
        record.end(GRACE).await;
    }
    Ok(())
}

/// The last lines of a log; empty if there is none.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
