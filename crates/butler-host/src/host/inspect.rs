//! Looking into a machine: what its user data became, and a shell in it.

use std::{fs, io};

use butler_api::name::MachineName;

use super::{Error, Host, Machine, MachineState, error::FileContext as _};
use crate::{
    init::{InitConfig, PROGRESS_FILE, Progress, UserDataStage},
    machine::ROOT,
};

/// What people get who ask for no command.
const SHELL: &str = "/bin/bash";

impl Host {
    /// How far the user data of a machine is; nothing if it has not begun.
    pub async fn user_data_stage(
        &self,
        name: &MachineName,
    ) -> Result<Option<UserDataStage>, Error> {
        let directory = self.store.machine(name);
        if !directory.path.exists() {
            return Err(Error::NotFound { name: name.clone() });
        }
        let inside = InitConfig::default().state_directory.join(PROGRESS_FILE);
        let inside = inside.strip_prefix("/").unwrap_or(&inside);
        let path = directory.disk().join(ROOT).join(inside);
        self.on_disk(move |_| match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).file("read", path),
            Ok(bytes) => serde_json::from_slice::<Progress>(&bytes)
                .map(|progress| Some(progress.stage))
                .map_err(|source| Error::Record { path, source }),
        })
        .await
    }

    /// A command that opens a terminal in a running machine; a shell unless arguments are given. Whoever gets it runs it.
    pub async fn interactive(
        &self,
        name: &MachineName,
        arguments: &[String],
    ) -> Result<tokio::process::Command, Error> {
        match self.get(name).await? {
            None => Err(Error::NotFound { name: name.clone() }),
            Some(Machine {
                state: MachineState::Running { .. },
                ..
            }) => {
                let shell = [SHELL.to_owned()];
                let arguments = if arguments.is_empty() {
                    &shell[..]
                } else {
                    arguments
                };
                Ok(self.runc.interactive(name.as_str(), arguments))
            }
            Some(_) => Err(Error::NotRunning { name: name.clone() }),
        }
    }
}
