//! The first process of a machine.
//!
//! Owns: the order in which a machine comes up and goes down. Up: mounts are shared, containerd is started and kept
//! running, the user data is carried out when it is there, kubelet is started and kept running when kubeadm has left its
//! configuration. Down, on request: the user data, kubelet, containerd; what is left ends with this process.
//!
//! Must not: run anywhere but as the first process of a machine, for it changes mounts and reaps every process.
//!
//! All that happens is told on standard output, which is the machine's console.

mod backoff;
mod children;
mod kubelet;
mod logs;
mod service;
mod user_data;
mod write_file;

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::mount::{MountPropagationFlags, mount_change};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub use user_data::Stage as UserDataStage;
pub(crate) use user_data::{PROGRESS_FILE, Progress};

use crate::machine::SEED_DIRECTORY;
use children::Children;
use service::Service;

/// How often it is looked whether a file has come. The kernel would tell, but the number of those whom it tells is small
/// and shared by all machines of a host.
const LOOK: Duration = Duration::from_millis(50);
/// Beside which commands of the user data may begin without a container runtime.
const CONTAINERD_PATIENCE: Duration = Duration::from_mins(1);
const CONTAINERD_CONFIG: &str = "/etc/containerd/config.toml";
/// Connections of the machine, and the kernel's number for one that listens.
const LISTENERS: &str = "/proc/net/tcp";
const LISTENING: &str = "0A";
const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";

/// Where the first process finds what it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitConfig {
    /// Where the host puts user data.
    pub seed_directory: PathBuf,
    /// Where it is written what was done.
    pub state_directory: PathBuf,
    /// Where programs write.
    pub log_directory: PathBuf,
}

impl Default for InitConfig {
    fn default() -> Self {
        Self {
            seed_directory: SEED_DIRECTORY.into(),
            state_directory: "/var/lib/butler".into(),
            log_directory: "/var/log".into(),
        }
    }
}

/// Why a machine did not come up.
#[derive(Debug, Error)]
pub enum InitError {
    /// It would take the host apart.
    #[error("this is not the first process of a machine; machines start it, people do not")]
    NotFirst,
    /// A step that all others need.
    #[error("could not {doing}")]
    Step {
        /// Which one.
        doing: &'static str,
        /// The kernel's words.
        #[source]
        source: io::Error,
    },
}

/// Runs a machine until it is asked to end.
pub fn run(config: &InitConfig) -> Result<(), InitError> {
    if std::process::id() != 1 {
        return Err(InitError::NotFirst);
    }
    let step = |doing| move |source| InitError::Step { doing, source };
    mount_change(
        "/",
        MountPropagationFlags::SHARED | MountPropagationFlags::REC,
    )
    .map_err(io::Error::from)
    .map_err(step("share the mounts"))?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| runtime.block_on(live(config)))
        .map_err(step("listen to signals"))
}

async fn live(config: &InitConfig) -> io::Result<()> {
    let console = Console::new();
    let children = Children::default();
    // Before the first child: the end of none is missed.
    let child_ended = signal(SignalKind::child())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    console.say("the machine is up");

    let stop = CancellationToken::new();
    let stop_containerd = CancellationToken::new();
    let containerd = containerd(config);
    let kubelet = kubelet::service(config);
    let logs: Vec<PathBuf> = containerd
        .iter()
        .chain([&kubelet])
        .map(|service| service.log().to_owned())
        .collect();
    let lives = async {
        tokio::join!(
            logs::keep_small(&logs, &console, &stop),
            async {
                match &containerd {
                    Some(service) => service.keep(&children, &console, &stop_containerd).await,
                    None => console.say("there is no containerd in this machine"),
                }
            },
            async {
                tokio::join!(
                    async {
                        if containerd.is_some() {
                            wait_for_containerd(&console, &stop).await;
                        }
                        user_data::carry_out(config, &children, &console, &stop).await;
                    },
                    kubelet.keep(&children, &console, &stop),
                );
                // Last: kubelet needs it to end well.
                stop_containerd.cancel();
            },
            async {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                console.say("the machine goes down");
                stop.cancel();
            },
        )
    };
    tokio::select! {
        () = children.reap(child_ended) => {}
        _ = lives => {}
    }
    console.say("the machine is down");
    Ok(())
}

fn containerd(config: &InitConfig) -> Option<Service> {
    find_program("containerd")?;
    Some(Service::new("containerd", config, || {
        let mut arguments = vec!["containerd".to_owned()];
        if Path::new(CONTAINERD_CONFIG).exists() {
            arguments.extend(["--config".to_owned(), CONTAINERD_CONFIG.to_owned()]);
        }
        Some(arguments)
    }))
}

/// Whether containerd can be asked for pods. Its socket is there earlier: kubeadm would be told that it is not initialized. The
/// last thing it does before is to listen for those who attach to containers, and nobody else listens in a machine that
/// has just begun.
async fn containerd_answers() -> bool {
    let connected = tokio::net::UnixStream::connect(CONTAINERD_SOCKET).await;
    let for_pods = Path::new(CONTAINERD_CONFIG).exists();
    connected.is_ok()
        && (!for_pods || somebody_listens(&fs::read_to_string(LISTENERS).unwrap_or_default()))
}

/// Whether the kernel's table of connections has a listener.
fn somebody_listens(table: &str) -> bool {
    let state = |line: &str| line.split_whitespace().nth(3).map(ToOwned::to_owned);
    table
        .lines()
        .any(|line| state(line).as_deref() == Some(LISTENING))
}

async fn wait_for_containerd(console: &Console, stop: &CancellationToken) {
    let begin = Instant::now();
    while !containerd_answers().await {
        if begin.elapsed() > CONTAINERD_PATIENCE {
            console.say("containerd does not answer; going on without it");
            return;
        }
        if !pause(LOOK, stop).await {
            return;
        }
    }
    console.say("containerd answers");
}

/// Whether the whole pause passed; not if the machine goes down.
async fn pause(length: Duration, stop: &CancellationToken) -> bool {
    stop.run_until_cancelled(tokio::time::sleep(length))
        .await
        .is_some()
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

/// The machine's console: lines with the seconds since the machine came up.
#[derive(Debug)]
struct Console {
    begin: Instant,
}

impl Console {
    fn new() -> Self {
        Self {
            begin: Instant::now(),
        }
    }

    fn say(&self, words: impl AsRef<str>) {
        let seconds = self.begin.elapsed().as_secs_f64();
        // There is nobody to tell if the console is gone.
        let _ = writeln!(io::stdout(), "[{seconds:9.3}] {}", words.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_told_from_a_connection() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
        let listener = "   0: 0100007F:A1B2 00000000:0000 0A 00000000:00000000 00:00000000\n";
        let connection = "   1: 0100007F:A1B2 0100007F:C3D4 01 00000000:00000000 00:00000000\n";
        assert!(!somebody_listens(head));
        assert!(!somebody_listens(&format!("{head}{connection}")));
        assert!(somebody_listens(&format!("{head}{connection}{listener}")));
    }
}
