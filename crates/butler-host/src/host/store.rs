//! What is known of the machines after everything was killed: files below the state directory.
//!
//! Owns: where each file is, that a record is either old or new and never in between, and that two processes do not work
//! on the same machine. A record is written before anything it speaks of is made, and removed after all of that is gone.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use butler_api::name::{ClusterName, MachineName};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use super::{Error, ServiceAddresses, error::FileContext as _};
use crate::{
    images::{LIBRARY_DIRECTORY, OWN_DIRECTORY, STORES_DIRECTORY},
    machine::MachineSpec,
    network::{NetworkSpec, PodNetwork},
};

const RECORD: &str = "machine.json";
const NETWORK: &str = "network.json";
/// Readable to root alone.
const PRIVATE: u32 = 0o600;

/// Whether a machine is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    /// Also after the host was started anew.
    Running,
    /// Its disk stays.
    Stopped,
}

/// What is written of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) wanted: Wanted,
    pub(super) spec: MachineSpec,
}

/// What is written of the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NetworkRecord {
    pub(super) cluster: ClusterName,
    pub(super) network: NetworkSpec,
}

/// Who works on something; let go when dropped, and by the kernel when the process ends.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// The same lock once more: it is let go when both are.
    pub(super) fn share(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

/// The state directory.
#[derive(Clone, Debug)]
pub(super) struct Store {
    root: PathBuf,
}

/// The directory of one machine.
#[derive(Clone, Debug)]
pub(super) struct MachineDirectory {
    pub(super) path: PathBuf,
}

impl MachineDirectory {
    pub(super) fn record(&self) -> PathBuf {
        self.path.join(RECORD)
    }

    pub(super) fn disk(&self) -> PathBuf {
        self.path.join("disk")
    }

    pub(super) fn seed(&self) -> PathBuf {
        self.path.join("seed")
    }

    pub(super) fn bundle(&self) -> PathBuf {
        self.path.join("bundle")
    }

    fn pod_network(&self) -> PathBuf {
        self.path.join("pod-network.json")
    }

    fn service_addresses(&self) -> PathBuf {
        self.path.join("service-addresses.json")
    }

    pub(super) fn console(&self) -> PathBuf {
        self.path.join("console.log")
    }

    /// All that is in it, the record last: while there is something to remove, there is a record that says so.
    pub(super) fn remove(&self) -> Result<(), Error> {
        for path in entries(&self.path)? {
            if path != self.record() {
                remove(&path)?;
            }
        }
        remove(&self.record())?;
        remove(&self.path)
    }
}

impl Store {
    /// Nothing is made yet.
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Makes the directories.
    pub(super) fn prepare(&self) -> Result<(), Error> {
        for directory in [self.machines(), self.runc(), self.locks()] {
            fs::create_dir_all(&directory).file("make the directory", directory)?;
        }
        Ok(())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn runc(&self) -> PathBuf {
        self.root.join("runc")
    }

    fn machines(&self) -> PathBuf {
        self.root.join("machines")
    }

    fn locks(&self) -> PathBuf {
        self.root.join("locks")
    }

    pub(super) fn machine(&self, name: &MachineName) -> MachineDirectory {
        MachineDirectory {
            path: self.machines().join(name.as_str()),
        }
    }

    /// Names of all machines, also of those that were half made.
    pub(super) fn names(&self) -> Result<Vec<MachineName>, Error> {
        let mut names: Vec<MachineName> = entries(&self.machines())?
            .iter()
            .filter_map(|path| path.file_name()?.to_str()?.parse().ok())
            .collect();
        names.sort();
        Ok(names)
    }

    /// Nothing if the machine has none.
    pub(super) fn record(&self, name: &MachineName) -> Result<Option<Record>, Error> {
        read(&self.machine(name).record())
    }

    pub(super) fn write_record(&self, record: &Record) -> Result<(), Error> {
        let directory = self.machine(&record.spec.name);
        fs::create_dir_all(&directory.path).file("make the directory", &directory.path)?;
        write(&directory.record(), record)
    }

    /// Nothing if the machine was given none.
    pub(super) fn pod_network(&self, name: &MachineName) -> Result<Option<PodNetwork>, Error> {
        read(&self.machine(name).pod_network())
    }

    pub(super) fn write_pod_network(
        &self,
        name: &MachineName,
        pods: &PodNetwork,
    ) -> Result<(), Error> {
        write_changed(&self.machine(name).pod_network(), pods)
    }

    /// None at all if the machine was given none.
    pub(super) fn service_addresses(&self, name: &MachineName) -> Result<ServiceAddresses, Error> {
        Ok(read(&self.machine(name).service_addresses())?.unwrap_or_default())
    }

    pub(super) fn write_service_addresses(
        &self,
        name: &MachineName,
        addresses: &ServiceAddresses,
    ) -> Result<(), Error> {
        write_changed(&self.machine(name).service_addresses(), addresses)
    }

    /// Nothing if no network was made.
    pub(super) fn network(&self) -> Result<Option<NetworkRecord>, Error> {
        read(&self.root.join(NETWORK))
    }

    pub(super) fn write_network(&self, record: &NetworkRecord) -> Result<(), Error> {
        write(&self.root.join(NETWORK), record)
    }

    /// Everything of ours; the state directory itself stays if somebody put something else there.
    pub(super) fn remove(&self) -> Result<(), Error> {
        for path in [
            self.machines(),
            self.runc(),
            self.root.join(NETWORK),
            self.root.join(STORES_DIRECTORY),
            self.root.join(LIBRARY_DIRECTORY).join(OWN_DIRECTORY),
            self.locks(),
        ] {
            remove(&path)?;
        }
        // Archives of users stay.
        let _ = fs::remove_dir(self.root.join(LIBRARY_DIRECTORY));
        match fs::remove_dir(&self.root) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => {
                missing_is_well(Err(error)).file("remove", &self.root)
            }
            _ => Ok(()),
        }
    }

    /// Waits until nobody else works on the machine.
    pub(super) fn lock_machine(&self, name: &MachineName) -> Result<Lock, Error> {
        // One file for each of 256 groups of machines: files of single machines would never be removed.
        let group = Sha256::digest(name.as_str())
            .first()
            .copied()
            .unwrap_or_default();
        self.lock(&format!("machines-{group:02x}"))
    }

    /// Waits until nobody else changes the network.
    pub(super) fn lock_network(&self) -> Result<Lock, Error> {
        self.lock("network")
    }

    /// Waits until nobody else takes an address.
    pub(super) fn lock_addresses(&self) -> Result<Lock, Error> {
        self.lock("addresses")
    }

    fn lock(&self, what: &str) -> Result<Lock, Error> {
        let path = self.locks().join(what);
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(PRIVATE)
            .open(&path)
            .file("open the lock", &path)?;
        file.lock().file("wait for the lock", &path)?;
        Ok(Lock { file })
    }
}

/// The paths in a directory; none if it is missing.
pub(super) fn entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let listing = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.file("list", directory)?,
    };
    listing
        .map(|entry| entry.map(|entry| entry.path()).file("list", directory))
        .collect()
}

/// A file, or a directory with all that is in it; one that is missing is well.
pub(super) fn remove(path: &Path) -> Result<(), Error> {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_directory {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    missing_is_well(removed).file("remove", path)
}

fn missing_is_well(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.file("read", path)?,
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|source| Error::Record {
            path: path.to_owned(),
            source,
        })
}

fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let bytes = serde_json::to_vec_pretty(value).map_err(|source| Error::Record {
        path: path.to_owned(),
        source,
    })?;
    write_atomically(path, &bytes)
}

/// Leaves a file alone that says the same already.
fn write_changed<T: Serialize + DeserializeOwned + PartialEq>(
    path: &Path,
    value: &T,
) -> Result<(), Error> {
    match read::<T>(path) {
        Ok(Some(found)) if found == *value => Ok(()),
        _ => write(path, value),
    }
}

/// Whoever reads the file finds the old text or the new one, also after the power failed.
pub(super) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let fresh = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(PRIVATE)
        .open(&fresh)
        .file("write", &fresh)?;
    file.write_all(bytes).file("write", &fresh)?;
    file.sync_all().file("write", &fresh)?;
    fs::rename(&fresh, path).file("write", path)?;
    let directory = path.parent().unwrap_or(path);
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .file("write", directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::worker_for_tests;

    fn store() -> (tempfile::TempDir, Store) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::new(directory.path().join("state"));
        store.prepare().unwrap();
        (directory, store)
    }

    #[test]
    fn a_record_is_found_again() {
        let (_directory, store) = store();
        let record = Record {
            wanted: Wanted::Running,
            spec: worker_for_tests(),
        };
        let name = &record.spec.name;
        assert_eq!(store.record(name).unwrap(), None);
        store.write_record(&record).unwrap();
        assert_eq!(store.record(name).unwrap(), Some(record.clone()));
        assert_eq!(store.names().unwrap(), std::slice::from_ref(name));
        assert_eq!(
            entries(&store.machine(name).path).unwrap(),
            [store.machine(name).record()],
            "no temporary file stays"
        );
    }

    #[test]
    fn a_record_that_was_cut_off_is_told_and_can_be_removed() {
        let (_directory, store) = store();
        let name: MachineName = "broken".parse().unwrap();
        let directory = store.machine(&name);
        fs::create_dir_all(directory.disk()).unwrap();
        fs::write(directory.record(), "{\"wanted\":").unwrap();
        let error = store.record(&name).unwrap_err();
        assert!(matches!(error, Error::Record { .. }), "{error}");
        directory.remove().unwrap();
        directory.remove().unwrap();
        assert_eq!(store.names().unwrap(), []);
    }

    #[test]
    fn what_others_put_into_the_state_directory_stays() {
        let (_directory, store) = store();
        fs::write(store.root.join("notes.txt"), "mine").unwrap();
        store.remove().unwrap();
        assert_eq!(
            entries(&store.root).unwrap(),
            [store.root.join("notes.txt")]
        );
        remove(&store.root.join("notes.txt")).unwrap();
        store.remove().unwrap();
        store.remove().unwrap();
        assert!(!store.root.exists());
    }

    #[test]
    fn a_lock_is_let_go_when_it_is_dropped() {
        let (_directory, store) = store();
        let name: MachineName = "worker".parse().unwrap();
        for _ in 0..2 {
            drop(store.lock_machine(&name).unwrap());
        }
        let held = store.lock_machine(&name).unwrap();
        let path = fs::read_dir(store.locks())
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert!(File::open(path.path()).unwrap().try_lock().is_err());
        drop(held);
    }
}
