//! A containerd of our own on the host, for as long as images are unpacked: no pods, no network, a root of its own.
//!
//! It runs in a mount namespace of its own, and ends when this process does, however that comes.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    net::UnixStream,
    process::{Child, Command},
};

use super::stores::{ContainerdPrograms, ImageStoreError};
use crate::command::{Failure, Program};

/// How long it may take to answer, on a host that has much to do.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(10);
const GRACE: Duration = Duration::from_secs(10);
/// Where kubelet's images are.
const NAMESPACE: &str = "k8s.io";
/// A socket's path has at most 107 characters.
const LONGEST_SOCKET: usize = 107;

/// It runs.
#[derive(Debug)]
pub(super) struct Containerd {
    child: Child,
    socket: PathBuf,
    ctr: PathBuf,
}

impl Containerd {
    /// Starts it in a directory; its root is `root` below that.
    pub(super) async fn start(
        programs: &ContainerdPrograms,
        directory: &Path,
    ) -> Result<Self, ImageStoreError> {
        let socket = directory.join("c.sock");
        // It listens on a second one beside, with another ending.
        if socket.as_os_str().len() + ".ttrpc".len() > LONGEST_SOCKET {
            return Err(ImageStoreError::PathTooLong {
                path: directory.to_owned(),
            });
        }
        let config = directory.join("containerd.toml");
        let log_path = directory.join("containerd.log");
        let failed = ImageStoreError::file;
        fs::write(&config, configuration(directory, &socket)).map_err(failed("write", &config))?;
        let log = File::create(&log_path).map_err(failed("write", &log_path))?;
        let second = log.try_clone().map_err(failed("write", &log_path))?;
        let started = |source: Failure| ImageStoreError::Containerd {
            words: crate::command::words_of(&source),
        };
        let setpriv = Program::find("setpriv", "util-linux").map_err(started)?;
        let unshare = Program::find("unshare", "util-linux").map_err(started)?;
        let mut command = setpriv.command(["--pdeathsig", "KILL"]);
        command
            .arg(unshare.path())
            .args(["--mount", "--propagation", "private"])
            .arg(&programs.containerd)
            .arg("--config")
            .arg(&config)
            .stdout(log)
            .stderr(second)
            .kill_on_drop(true);
        let child = command
            .spawn()
            .map_err(failed("start", &programs.containerd))?;
        let mut containerd = Self {
            child,
            socket,
            ctr: programs.ctr.clone(),
        };
        containerd.answers(&log_path).await?;
        Ok(containerd)
    }

    async fn answers(&mut self, log: &Path) -> Result<(), ImageStoreError> {
        let begin = Instant::now();
        while UnixStream::connect(&self.socket).await.is_err() {
            let ended = self.child.try_wait().is_ok_and(|ended| ended.is_some());
            if ended || begin.elapsed() > PATIENCE {
                let said = fs::read_to_string(log).unwrap_or_default();
                let last = said.lines().next_back().unwrap_or("it said nothing");
                return Err(ImageStoreError::Containerd {
                    words: last.to_owned(),
                });
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Unpacks an archive.
    pub(super) async fn import(&self, archive: &Path) -> Result<(), ImageStoreError> {
        let output = Command::new(&self.ctr)
            .arg("--address")
            .arg(&self.socket)
            .args(["--namespace", NAMESPACE, "images", "import"])
            .arg(archive)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(ImageStoreError::file("start", &self.ctr))?;
        if output.status.success() {
            return Ok(());
        }
        Err(ImageStoreError::Import {
            archive: archive.to_owned(),
            words: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }

    /// Lets it close its databases.
    pub(super) async fn stop(mut self) -> Result<(), ImageStoreError> {
        if let Some(pid) = self
            .child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
        {
            // One that is gone needs no signal.
            let _ = kill_process(pid, Signal::TERM);
        }
        match tokio::time::timeout(GRACE, self.child.wait()).await {
            Ok(ended) => ended
                .map(drop)
                .map_err(ImageStoreError::file("stop", &self.socket)),
            Err(_) => Err(ImageStoreError::Containerd {
                words: "it does not end".to_owned(),
            }),
        }
    }
}

/// Nothing but what unpacks images into overlays.
fn configuration(directory: &Path, socket: &Path) -> String {
    let quoted = |path: &Path| serde_json::Value::from(path.to_string_lossy()).to_string();
    format!(
        "version = 3\n\
         root = {root}\n\
         state = {state}\n\
         disabled_plugins = [\n  \
           \"io.containerd.cri.v1.images\",\n  \
           \"io.containerd.cri.v1.runtime\",\n  \
           \"io.containerd.grpc.v1.cri\",\n  \
           \"io.containerd.nri.v1.nri\",\n  \
           \"io.containerd.snapshotter.v1.blockfile\",\n  \
           \"io.containerd.snapshotter.v1.btrfs\",\n  \
           \"io.containerd.snapshotter.v1.devmapper\",\n  \
           \"io.containerd.snapshotter.v1.erofs\",\n  \
           \"io.containerd.snapshotter.v1.zfs\",\n\
         ]\n\
         [grpc]\n  address = {socket}\n",
        root = quoted(&directory.join("root")),
        state = quoted(&directory.join("state")),
        socket = quoted(socket),
    )
}

/// A directory that may be there or not.
pub(super) fn remove(directory: &Path) -> Result<(), ImageStoreError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(ImageStoreError::file("remove", directory)(error))
        }
        _ => Ok(()),
    }
}
