//! Where everything of this measurement is, and what tells two runs apart.

use std::{
    fs::{self, DirBuilder, File},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};

use crate::progress;

/// Always the same, so that the next run finds what a killed one has left. On the disk where installations are.
const DIRECTORY: &str = "/var/lib/butler-bench";
const LOCK: &str = "/run/butler-bench.lock";
/// Name of the one installation.
pub(crate) const INSTALLATION: &str = "bench";

/// A directory for root alone; gone when dropped, unless something in it could not be removed.
#[derive(Debug)]
pub(crate) struct Place {
    directory: PathBuf,
    _lock: File,
}

impl Place {
    /// Whether there is something of an earlier run. Who may not look would not be let to do anything else either.
    pub(crate) fn was_left() -> bool {
        fs::read_dir(DIRECTORY).is_ok()
    }

    /// Makes the directory, unless another run has it.
    pub(crate) fn take() -> anyhow::Result<Self> {
        let lock = File::options()
            .create(true)
            .append(true)
            .open(LOCK)
            .with_context(|| format!("could not open {LOCK}"))?;
        ensure!(
            lock.try_lock().is_ok(),
            "another run measures on this host; wait for its end"
        );
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(DIRECTORY)
            .with_context(|| format!("could not make {DIRECTORY}"))?;
        Ok(Self {
            directory: DIRECTORY.into(),
            _lock: lock,
        })
    }

    /// The home of whoever runs `butleradm`.
    pub(crate) fn home(&self) -> PathBuf {
        self.directory.join("home")
    }

    /// Where `butleradm` keeps installations.
    pub(crate) fn installations(&self) -> PathBuf {
        self.directory.join("state")
    }

    /// The one installation.
    pub(crate) fn installation(&self) -> PathBuf {
        self.installations().join(INSTALLATION)
    }

    /// What is made by hand.
    pub(crate) fn by_hand(&self) -> PathBuf {
        self.directory.join("by-hand")
    }

    /// Machines that are not of a cluster.
    pub(crate) fn machines(&self) -> PathBuf {
        self.directory.join("machines")
    }

    /// On the same disk as the machines, and not among what is counted as theirs.
    pub(crate) fn image_stores(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let left = [self.installation(), self.by_hand(), self.machines()];
        if let Some(left) = left.iter().find(|path| path.exists()) {
            progress(&format!(
                "{} is left; the next run removes it",
                left.display()
            ));
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            progress(&format!("could not remove {DIRECTORY}: {error}"));
        }
        // Another run makes it anew.
        let _ = fs::remove_file(LOCK);
    }
}
