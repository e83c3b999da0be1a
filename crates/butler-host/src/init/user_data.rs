//! Carries out user data, once in the life of a machine.
//!
//! Commands of `bootcmd` run at every boot; files and commands of `runcmd` once for each instance, for `kubeadm join` cannot
//! be done twice. What was begun and interrupted is not begun again: nobody knows how far it came, and whoever made the
//! machine makes another. A command that fails does not keep the next from running, as cloud-init does it; a file that
//! cannot be written keeps all commands from running.

use std::{
    fs, io,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{Console, InitConfig, LOOK, children::Children, pause, write_file};
use crate::{
    cloud_config::{self, MetaData, UserData},
    host::{SEED_META_DATA, SEED_USER_DATA},
};

/// How long a command may take to end when the machine goes down.
const GRACE: Duration = Duration::from_secs(5);
/// The host name, as the kernel lets it be set.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// How far the user data of an instance is, on the machine's disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Progress {
    instance: String,
    pub(crate) stage: Stage,
}

/// How far user data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// It was begun, and has not ended or was interrupted.
    Begun,
    /// All of it was done.
    Succeeded,
    /// Something of it failed.
    Failed,
}

/// Name of the file with it, in the state directory of the machine.
pub(crate) const PROGRESS_FILE: &str = "user-data.json";

/// Waits for user data and does what it says.
pub(super) async fn carry_out(
    config: &InitConfig,
    children: &Children,
    console: &Console,
    stop: &CancellationToken,
) {
    while !config.seed_directory.join(SEED_USER_DATA).exists() {
        if !pause(LOOK, stop).await {
            return;
        }
    }
    let (meta_data, user_data) = match read(config) {
        Ok(read) => read,
        Err(words) => return console.say(format!("user data cannot be read: {words}")),
    };
    let work = Work {
        config,
        children,
        console,
        stop,
        instance: meta_data.instance_id().unwrap_or_default().to_owned(),
    };
    work.all(&user_data).await;
}

fn read(config: &InitConfig) -> Result<(MetaData, UserData), String> {
    let open = |name: &str| {
        fs::read(config.seed_directory.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let meta_data: MetaData = serde_json::from_slice(&open(SEED_META_DATA)?)
        .map_err(|error| format!("{SEED_META_DATA}: {error}"))?;
    let user_data = cloud_config::parse_bytes(&open(SEED_USER_DATA)?, &meta_data)
        .map_err(|error| error.to_string())?;
    Ok((meta_data, user_data))
}

struct Work<'machine> {
    config: &'machine InitConfig,
    children: &'machine Children,
    console: &'machine Console,
    stop: &'machine CancellationToken,
    instance: String,
}

impl Work<'_> {
    async fn all(&self, user_data: &UserData) {
        for ignored in &user_data.ignored {
            self.console.say(format!(
                "user data: {} is ignored: {}",
                ignored.key, ignored.reason
            ));
        }
        self.commands("bootcmd", &user_data.boot_commands).await;
        match self.progress() {
            Some(Stage::Succeeded) => {
                return self
                    .console
                    .say("user data was carried out at an earlier boot");
            }
            Some(Stage::Failed) => return self.console.say("user data failed at an earlier boot"),
            Some(Stage::Begun) => {
                return self.console.say(
                    "user data was interrupted at an earlier boot and is not begun again; make the machine anew",
                );
            }
            None => {}
        }
        if let Err(error) = self.write_progress(Stage::Begun) {
            return self.console.say(format!(
                "user data is not begun, for that could not be written down: {error}"
            ));
        }
        let well = self.once(user_data).await;
        if self.stop.is_cancelled() {
            return self.console.say("user data is interrupted");
        }
        let stage = if well {
            Stage::Succeeded
        } else {
            Stage::Failed
        };
        self.console.say(match self.write_progress(stage) {
            Ok(()) if well => "user data is carried out".to_owned(),
            Ok(()) => "user data has failed".to_owned(),
            Err(error) => format!("how user data ended could not be written down: {error}"),
        });
    }

    /// Whether all of it went well.
    async fn once(&self, user_data: &UserData) -> bool {
        if let Some(name) = &user_data.hostname
            && let Err(error) = fs::write(HOSTNAME, name)
        {
            self.console.say(format!(
                "user data: the host name could not be set: {error}"
            ));
            return false;
        }
        for file in &user_data.write_files {
            if let Err(error) = write_file::write(file) {
                self.console.say(format!(
                    "user data: {} could not be written: {error}",
                    file.path
                ));
                return false;
            }
            self.console
                .say(format!("user data: {} is written", file.path));
        }
        self.commands("runcmd", &user_data.run_commands).await
    }

    /// Runs commands in order, each after the end of the one before. Commands may hold secrets: they are told by number.
    async fn commands(&self, key: &str, commands: &[cloud_config::Command]) -> bool {
        let mut well = true;
        for (index, command) in commands.iter().enumerate() {
            if self.stop.is_cancelled() {
                return false;
            }
            let arguments = command.arguments();
            let place = format!("user data: {key}[{index}]");
            self.console.say(format!("{place} begins"));
            let Some((program, rest)) = arguments.split_first() else {
                continue;
            };
            let mut command = Command::new(program);
            command.args(rest).stdin(Stdio::null());
            match self.children.spawn(&mut command) {
                Err(error) => {
                    well = false;
                    self.console
                        .say(format!("{place} could not be started: {error}"));
                }
                Ok(mut child) => {
                    let ended = match self.stop.run_until_cancelled(child.ended()).await {
                        Some(ended) => ended,
                        None => child.stop(GRACE).await,
                    };
                    well &= ended.well();
                    self.console.say(format!("{place} has ended with {ended}"));
                }
            }
        }
        well
    }

    fn progress_path(&self) -> PathBuf {
        self.config.state_directory.join(PROGRESS_FILE)
    }

    /// Of this instance; a disk may have been another's.
    fn progress(&self) -> Option<Stage> {
        let bytes = fs::read(self.progress_path()).ok()?;
        let progress: Progress = serde_json::from_slice(&bytes).ok()?;
        (progress.instance == self.instance).then_some(progress.stage)
    }

    fn write_progress(&self, stage: Stage) -> io::Result<()> {
        let progress = Progress {
            instance: self.instance.clone(),
            stage,
        };
        let path = self.progress_path();
        let fresh = path.with_extension("new");
        fs::create_dir_all(&self.config.state_directory)?;
        fs::write(&fresh, serde_json::to_vec(&progress)?)?;
        fs::File::open(&fresh)?.sync_all()?;
        fs::rename(fresh, path)
    }
}
