//! The process as a unit of systemd.

use std::{
    fs,
    path::{Path, PathBuf},
};

use butler_api::name::ClusterName;
use sha2::{Digest as _, Sha256};
use tokio::process::Command;

use super::{HostProcess, Kept};
use crate::adm::error::Error;

const UNITS: &str = "/etc/systemd/system";

fn name(installation: &ClusterName) -> String {
    format!("butler-provider-local-{installation}.service")
}

fn path(installation: &ClusterName) -> PathBuf {
    Path::new(UNITS).join(name(installation))
}

/// The text of the unit.
fn text(installation: &ClusterName, process: &HostProcess, log: &Path) -> String {
    let command = std::iter::once(process.program.to_string_lossy().into_owned())
        .chain(process.arguments.iter().cloned())
        .map(|word| quoted(&word))
        .collect::<Vec<_>>()
        .join(" ");
    let log = log.display();
    let build = &process.build;
    let digest = Sha256::digest(&process.configuration);
    let digest = digest
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .concat();
    // Machines outlive the process: it finds them again.
    format!(
        "[Unit]\n\
         Description=Butler machines of {installation} (build {build})\n\
         After=network.target\n\n\
         [Service]\n\
         Environment=BUTLER_CONFIGURATION_DIGEST={digest}\n\
         ExecStart={command}\n\
         Restart=always\n\
         RestartSec=1\n\
         KillMode=process\n\
         StandardOutput=append:{log}\n\
         StandardError=append:{log}\n\n\
         [Install]\n\
         WantedBy=multi-user.target\n"
    )
}

/// A word as systemd reads it: quotes keep spaces, and its own signs are doubled.
fn quoted(word: &str) -> String {
    let word = word
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('$', "$$");
    if word.contains(char::is_whitespace) {
        format!("\"{word}\"")
    } else {
        word
    }
}

async fn systemctl(arguments: &[&str]) -> Result<bool, Error> {
    let status = Command::new("systemctl")
        .args(arguments)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .await
        .map_err(|source| Error::File {
            doing: "run",
            path: "systemctl".into(),
            source,
        })?;
    Ok(status.success())
}

pub(super) async fn state(
    installation: &ClusterName,
    wished: Option<&HostProcess>,
    log: &Path,
) -> Result<Kept, Error> {
    if !systemctl(&["is-active", "--quiet", &name(installation)]).await? {
        return Ok(Kept::Stopped);
    }
    let written = fs::read_to_string(path(installation)).unwrap_or_default();
    let same = wished.is_none_or(|wished| text(installation, wished, log) == written);
    Ok(if same { Kept::Running } else { Kept::Other })
}

pub(super) async fn start(
    installation: &ClusterName,
    process: &HostProcess,
    log: &Path,
) -> Result<(), Error> {
    let unit = path(installation);
    fs::write(&unit, text(installation, process, log)).map_err(|source| Error::File {
        doing: "write",
        path: unit,
        source,
    })?;
    systemctl(&["daemon-reload"]).await?;
    let name = name(installation);
    systemctl(&["enable", &name]).await?;
    if systemctl(&["restart", &name]).await? {
        Ok(())
    } else {
        Err(Error::HostProcess {
            log: super::tail(log),
        })
    }
}

pub(super) async fn stop(installation: &ClusterName) -> Result<(), Error> {
    let unit = path(installation);
    if !unit.exists() {
        return Ok(());
    }
    systemctl(&["disable", "--now", &name(installation)]).await?;
    fs::remove_file(&unit).map_err(|source| Error::File {
        doing: "remove",
        path: unit,
        source,
    })?;
    systemctl(&["daemon-reload"]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_starts_the_process_again_and_leaves_machines_alone() {
        let process = HostProcess {
            program: "/opt/my tools/butler".into(),
            arguments: ["provider", "local", "--cluster", "50%"]
                .map(ToOwned::to_owned)
                .to_vec(),
            build: "0123".to_owned(),
            configuration: String::new(),
        };
        let log = Path::new("/var/lib/butler/butler-local/provider.log");
        insta::assert_snapshot!(text(&"butler-local".parse().unwrap(), &process, log));
    }
}
