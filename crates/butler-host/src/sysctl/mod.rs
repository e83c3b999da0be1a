//! Settings of the kernel that machines need or change: recorded before, restored after the last installation is gone.
//!
//! Owns: which settings, and the record of what they were. All installations of a host share the record, since they share
//! the kernel; it is where a reboot forgets it, since a reboot forgets the settings too.
//!
//! Must not: lower anything, or take a value that we or our machines wrote for the original.

mod plan;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::network::Egress;
use plan::{Holdings, Kernel, Setting, Wish};

/// Shared by all installations of this host.
const RECORD_DIRECTORY: &str = "/run/butler";
const RECORD: &str = "sysctls.json";
const LOCK: &str = "sysctls.lock";
const SETTINGS: &str = "/proc/sys";
/// Which network namespace this is.
const NETWORK_NAMESPACE: &str = "/proc/self/ns/net";
/// Readable to root alone.
const PRIVATE: u32 = 0o600;

/// A node needs some ten of these and a control plane a few dozen; the usual 128 is for a desktop.
const INOTIFY_INSTANCES: Setting = Setting {
    path: "fs/inotify/max_user_instances",
    wish: Wish::AtLeast(8192),
};
const INOTIFY_WATCHES: Setting = Setting {
    path: "fs/inotify/max_user_watches",
    wish: Wish::AtLeast(524_288),
};
const FORWARDING: Setting = Setting {
    path: "net/ipv4/ip_forward",
    wish: Wish::Exactly("1"),
};
/// Every kubelet writes these, and a machine's kernel is the host's.
const WRITTEN_BY_KUBELET: [&str; 6] = [
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
];

/// Why a setting is not as wished.
#[derive(Debug, Error)]
pub enum SysctlError {
    /// A file could not be read or written.
    #[error("could not {doing} {}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// The kernel's words.
        #[source]
        source: io::Error,
    },
    /// The record is not readable.
    #[error(
        "the record {} of kernel settings is not valid: set them as you want them with sysctl, then remove the file", path.display()
    )]
    Record {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

trait Context<T> {
    fn context(self, doing: &'static str, path: &Path) -> Result<T, SysctlError>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, doing: &'static str, path: &Path) -> Result<T, SysctlError> {
        self.map_err(|source| SysctlError::File {
            doing,
            path: path.to_owned(),
            source,
        })
    }
}

/// Gives an installation the settings its machines need. The state directory says who it is.
pub(crate) fn hold(state_directory: &Path, egress: Egress) -> Result<(), SysctlError> {
    let mut wishes = vec![INOTIFY_INSTANCES, INOTIFY_WATCHES];
    wishes.extend(WRITTEN_BY_KUBELET.map(|path| Setting {
        path,
        wish: Wish::Remembered,
    }));
    if egress == Egress::Nat {
        wishes.push(FORWARDING);
    }
    Shared::new(RECORD_DIRECTORY).change(state_directory, &wishes)
}

/// Takes the settings back, unless another installation needs them.
pub(crate) fn release(state_directory: &Path) -> Result<(), SysctlError> {
    Shared::new(RECORD_DIRECTORY).change(state_directory, &[])
}

/// The record that installations share.
struct Shared {
    directory: PathBuf,
}

impl Shared {
    fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
        }
    }

    /// What was there is written down before it is changed, and forgotten after it is back.
    fn change(&self, holder: &Path, wishes: &[Setting]) -> Result<(), SysctlError> {
        let (_lock, lock_path) = self.lock()?;
        let before = self.read()?;
        let kernel = observe(&before, wishes)?;
        let (after, writes) = plan::plan(&before, holder, wishes, &kernel, Path::exists);
        let union = Holdings(
            before
                .0
                .iter()
                .filter(|old| !after.0.iter().any(|new| same(old, new)))
                .chain(&after.0)
                .cloned()
                .collect(),
        );
        if union != before {
            self.write(&union)?;
        }
        for write in writes {
            let path = Path::new(SETTINGS).join(&write.path);
            fs::write(&path, write.value).context("write the kernel's setting", &path)?;
        }
        if after.0.is_empty() {
            let record = self.directory.join(RECORD);
            missing_is_well(fs::remove_file(&record)).context("remove", &record)?;
            // Who waits for this lock finds that it is no longer the file of that name, and makes another.
            missing_is_well(fs::remove_file(&lock_path)).context("remove", &lock_path)?;
            // Others may have something there.
            let _ = fs::remove_dir(&self.directory);
        } else if after != union {
            self.write(&after)?;
        }
        Ok(())
    }

    fn lock(&self) -> Result<(File, PathBuf), SysctlError> {
        let path = self.directory.join(LOCK);
        loop {
            fs::create_dir_all(&self.directory).context("make the directory", &self.directory)?;
            let opened = OpenOptions::new()
                .create(true)
                .append(true)
                .mode(PRIVATE)
                .open(&path);
            let file = match opened {
                // The last holder removes the directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.context("open the lock", &path)?,
            };
            file.lock().context("wait for the lock", &path)?;
            let ours = file.metadata().context("look at the lock", &path)?.ino();
            if fs::metadata(&path).is_ok_and(|there| there.ino() == ours) {
                return Ok((file, path));
            }
        }
    }

    fn read(&self) -> Result<Holdings, SysctlError> {
        let path = self.directory.join(RECORD);
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Holdings::default()),
            Err(error) => Err(error).context("read", &path),
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|source| SysctlError::Record { path, source }),
        }
    }

    fn write(&self, holdings: &Holdings) -> Result<(), SysctlError> {
        let path = self.directory.join(RECORD);
        let bytes = serde_json::to_vec_pretty(holdings).map_err(|source| SysctlError::Record {
            path: path.clone(),
            source,
        })?;
        let fresh = path.with_extension("new");
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(PRIVATE)
            .open(&fresh)
            .and_then(|mut file| file.write_all(&bytes));
        written.context("write", &fresh)?;
        fs::rename(&fresh, &path).context("write", &path)
    }
}

fn same(one: &plan::Holding, other: &plan::Holding) -> bool {
    one.path == other.path && one.namespace == other.namespace
}

fn observe(holdings: &Holdings, wishes: &[Setting]) -> Result<Kernel, SysctlError> {
    let namespace = Path::new(NETWORK_NAMESPACE);
    let mut kernel = Kernel {
        namespace: fs::read_link(namespace)
            .context("read", namespace)?
            .to_string_lossy()
            .into_owned(),
        ..Kernel::default()
    };
    let held = holdings.0.iter().map(|holding| holding.path.as_str());
    for path in wishes.iter().map(|setting| setting.path).chain(held) {
        let file = Path::new(SETTINGS).join(path);
        match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => {
                let value = other.context("read the kernel's setting", &file)?;
                kernel
                    .values
                    .insert(path.to_owned(), value.trim().to_owned());
            }
        }
    }
    Ok(kernel)
}

fn missing_is_well(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PANIC: [Setting; 1] = [Setting {
        path: "kernel/panic",
        wish: Wish::Remembered,
    }];

    #[test]
    fn the_record_is_there_while_somebody_holds_it() {
        let directory = tempfile::tempdir().unwrap();
        let shared = Shared::new(directory.path().join("run"));
        let (first, second) = (directory.path().join("a"), directory.path().join("b"));
        for holder in [&first, &second] {
            fs::create_dir(holder).unwrap();
            shared.change(holder, &PANIC).unwrap();
            shared.change(holder, &PANIC).unwrap();
        }
        let holdings = shared.read().unwrap();
        assert_eq!(holdings.0.len(), 1);
        assert_eq!(holdings.0[0].holders.len(), 2);
        shared.change(&first, &[]).unwrap();
        assert_eq!(shared.read().unwrap().0[0].holders.len(), 1);
        shared.change(&second, &[]).unwrap();
        assert!(!shared.directory.exists());
        shared.change(&second, &[]).unwrap();
        assert!(!shared.directory.exists());
    }

    #[test]
    fn a_record_that_is_not_readable_is_told_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let shared = Shared::new(directory.path());
        let record = directory.path().join(RECORD);
        fs::write(&record, "[{").unwrap();
        let error = shared.change(directory.path(), &PANIC).unwrap_err();
        assert!(matches!(error, SysctlError::Record { .. }), "{error}");
        assert!(record.exists());
    }
}
