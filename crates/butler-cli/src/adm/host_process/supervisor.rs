//! Keeps the process where no systemd does.
//!
//! The supervisor is this program itself, in a session of its own. It writes down who it is, starts the process, starts it
//! again when it ends, and ends with it when it is told to.

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::{
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
    time,
};

use super::{GRACE, HostProcess};
use crate::adm::{error::Error, installation::write_private};

/// Of util-linux, which every distribution has.
const SETPRIV: &str = "setpriv";
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Who lived this long is forgiven earlier deaths.
const HEALTHY: Duration = Duration::from_mins(1);
/// How often a process that was told to end is looked at; it is not our child, so nobody tells us.
const GLANCE: Duration = Duration::from_millis(100);

/// Who supervises what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    /// Number of the supervisor.
    pid: i32,
    /// When it began, as the kernel counts: another process may get its number.
    began: u64,
    /// What it keeps.
    pub(super) process: HostProcess,
}

impl Record {
    pub(super) fn read(path: &Path) -> Result<Option<Self>, Error> {
        match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::File {
                doing: "read",
                path: path.to_owned(),
                source,
            }),
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|source| Error::Record {
                    path: path.to_owned(),
                    source,
                }),
        }
    }

    /// Whether that very process runs.
    pub(super) fn is_alive(&self) -> bool {
        began(self.pid) == Some(self.began)
    }

    /// Tells it to end, and ends it if it does not.
    pub(super) async fn end(&self, grace: Duration) {
        for (sign, patience) in [(Signal::TERM, grace + GRACE), (Signal::KILL, GRACE)] {
            let deadline = Instant::now() + patience;
            if let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.is_alive()) {
                // It may be gone in this very moment, which is what we want.
                let _ = kill_process(pid, sign);
            }
            while self.is_alive() && Instant::now() < deadline {
                time::sleep(GLANCE).await;
            }
        }
    }
}

/// When a process began, if it runs and is no zombie.
fn began(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (state != "Z").then(|| fields.nth(18)?.parse().ok())?
}

/// Keeps the process of an installation until it is told to end. `root` is the directory of the installation.
pub(crate) async fn supervise(root: &Path) -> anyhow::Result<()> {
    // It fails only for who leads a group already, and then there is no terminal to be cut off from.
    let _ = rustix::process::setsid();
    let path = root.join("supervisor.json");
    let wish = path.with_extension("wish");
    let process: HostProcess = serde_json::from_slice(&fs::read(&wish)?)?;
    let pid = i32::try_from(std::process::id())?;
    let record = Record {
        pid,
        began: began(pid).unwrap_or_default(),
        process: process.clone(),
    };
    write_private(&path, &serde_json::to_vec(&record)?)?;
    drop(fs::remove_file(&wish));
    let mut terminated = signal(SignalKind::terminate())?;
    let mut pause = SHORTEST_PAUSE;
    loop {
        let started = Instant::now();
        let mut child = spawn(&process)?;
        tokio::select! {
            _ = terminated.recv() => {
                end(&mut child).await;
                break;
            }
            _ = child.wait() => {}
        }
        pause = if started.elapsed() > HEALTHY {
            SHORTEST_PAUSE
        } else {
            (pause * 2).min(LONGEST_PAUSE)
        };
        tokio::select! {
            _ = terminated.recv() => break,
            () = time::sleep(pause) => {}
        }
    }
    drop(fs::remove_file(&path));
    Ok(())
}

/// A process that would outlive its supervisor would hold what the next one needs: the kernel ends it with us.
fn spawn(process: &HostProcess) -> io::Result<Child> {
    Command::new(SETPRIV)
        .args(["--pdeathsig", "KILL"])
        .arg(&process.program)
        .args(&process.arguments)
        .kill_on_drop(true)
        .spawn()
}

async fn end(child: &mut Child) {
    let pid = child
        .id()
        .and_then(|pid| i32::try_from(pid).ok())
        .and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::TERM);
    }
    if time::timeout(GRACE, child.wait()).await.is_err() {
        drop(child.kill().await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_beginning_and_not_by_its_number_alone() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let process = HostProcess {
            program: "/bin/true".into(),
            arguments: Vec::new(),
            build: String::new(),
            configuration: String::new(),
        };
        let me = Record {
            pid,
            began: began(pid).unwrap(),
            process,
        };
        assert!(me.is_alive());
        let other = Record {
            began: me.began + 1,
            ..me
        };
        assert!(
            !other.is_alive(),
            "a number that was given to somebody else is not ours"
        );
    }
}
