//! The cache on disk: content-addressed blobs, an index of assets, and stable paths with the binaries' own names.
//!
//! ```text
//! <cache>/assets/
//!   sha256/<digest>                                  blobs, read-only and executable
//!   index/<component>/<version>/<platform>           which blob an asset is, and where it came from (JSON)
//!   bin/<component>-<version>-<platform>/<binary>    hard links to blobs: the paths that are handed out
//!   partial/<digest>                                 downloads under way
//!   work/<component>-<version>-<platform>/<process>/ builds under way
//!   locks/<name>                                     see the module `lock`
//! ```
//!
//! Every file appears by a rename, after its content is on disk: a crash leaves a leftover, never half a file under a
//! name that is read. Reading checks the size; [`Store::verify`] checks the whole digest.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::asset::{Asset, Platform};
use crate::digest::Digest;
use crate::error::Error;

const BLOB_MODE: u32 = 0o555;

/// What the index says about an asset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    #[serde(flatten)]
    pub(crate) origin: Origin,
}

/// Where a blob came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "lowercase")]
pub(crate) enum Origin {
    /// The published file at this address, which had this digest.
    Download { url: String, checksum: Digest },
    /// A build from inputs with this fingerprint. The Go version is for people: another one makes no rebuild, so that
    /// a cache serves a machine with a newer Go, or with none.
    Build { fingerprint: Digest, go: String },
}

/// An asset that is in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cached {
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
}

/// What a look into the cache gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    Found(Cached),
    /// Not there, or not usable, and why.
    Missing(String),
}

/// The asset part of Butler's cache.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    root: PathBuf,
    platform: Platform,
}

impl Store {
    pub(crate) fn new(cache: &Path, platform: Platform) -> Self {
        Self {
            root: cache.join("assets"),
            platform,
        }
    }

    /// A blob that is complete, if it is there.
    pub(crate) fn existing_blob(&self, digest: &Digest) -> Option<PathBuf> {
        let path = self.blob(digest);
        path.is_file().then_some(path)
    }

    /// Where the download of something with this digest grows.
    pub(crate) fn partial(&self, digest: &Digest) -> Result<PathBuf, Error> {
        let directory = self.root.join("partial");
        create_directory(&directory)?;
        Ok(directory.join(digest.as_hex()))
    }

    /// An empty directory to make an asset in. Only the holder of the asset's lock may ask.
    pub(crate) fn work(&self, asset: &Asset) -> Result<PathBuf, Error> {
        let directory = self.work_directory(asset);
        remove_directory(&directory)?;
        // A compiler that outlived its killed parent still writes to its own place, not to ours.
        let own = directory.join(std::process::id().to_string());
        create_directory(&own)?;
        Ok(own)
    }

    /// The file to lock for a purpose.
    pub(crate) fn lock_file(&self, purpose: &str) -> Result<PathBuf, Error> {
        let directory = self.root.join("locks");
        create_directory(&directory)?;
        Ok(directory.join(purpose))
    }

    /// The name of an asset in file names.
    pub(crate) fn key(&self, asset: &Asset) -> String {
        format!("{}-{}-{}", asset.component, asset.version, self.platform)
    }

    /// Looks an asset up. A build whose pins changed since does not count; without pins to compare it does.
    pub(crate) fn find(
        &self,
        asset: &Asset,
        binary: &str,
        fingerprint: Option<&Digest>,
    ) -> Result<Lookup, Error> {
        let Some(entry) = self.entry(asset)? else {
            return Ok(Lookup::Missing(format!(
                "nothing yet in {}",
                self.root.display()
            )));
        };
        if let (
            Origin::Build {
                fingerprint: built, ..
            },
            Some(current),
        ) = (&entry.origin, fingerprint)
            && built != current
        {
            return Ok(Lookup::Missing(
                "what is there was built from other pins or flags".to_owned(),
            ));
        }
        let blob = self.blob(&entry.digest);
        match fs::metadata(&blob) {
            Ok(metadata) if metadata.len() == entry.size => {}
            Ok(metadata) => {
                return Ok(Lookup::Missing(format!(
                    "{} has {} bytes instead of {}",
                    blob.display(),
                    metadata.len(),
                    entry.size
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Lookup::Missing(format!("{} is gone", blob.display())));
            }
            Err(error) => return Err(Error::cache("look at", &blob)(error)),
        }
        let path = self.link(asset, binary, &entry.digest)?;
        Ok(Lookup::Found(Cached {
            path,
            size: entry.size,
        }))
    }

    /// Moves a finished file into the blobs. It must be on the same file system: in `work` or `partial`.
    pub(crate) fn adopt(&self, file: &Path) -> Result<(Digest, u64), Error> {
        let (digest, size) = Digest::of_file(file).map_err(Error::cache("read", file))?;
        self.adopt_verified(file, &digest)?;
        Ok((digest, size))
    }

    /// Moves a finished file whose digest is known into the blobs.
    pub(crate) fn adopt_verified(&self, file: &Path, digest: &Digest) -> Result<PathBuf, Error> {
        create_directory(&self.root.join("sha256"))?;
        let blob = self.blob(digest);
        fs::set_permissions(file, Permissions::from_mode(BLOB_MODE))
            .and_then(|()| File::open(file)?.sync_all())
            .and_then(|()| fs::rename(file, &blob))
            .map_err(Error::cache("move a finished file to", &blob))?;
        Ok(blob)
    }

    /// Makes the asset known, and gives its stable path. Only the holder of the asset's lock may ask.
    pub(crate) fn record(
        &self,
        asset: &Asset,
        binary: &str,
        entry: &Entry,
    ) -> Result<PathBuf, Error> {
        let path = self.link(asset, binary, &entry.digest)?;
        let index = self.index(asset);
        if let Some(parent) = index.parent() {
            create_directory(parent)?;
        }
        let temporary = temporary_beside(&index);
        let write = || -> io::Result<()> {
            let file = File::create(&temporary)?;
            serde_json::to_writer_pretty(&file, entry)?;
            file.sync_all()?;
            fs::rename(&temporary, &index)
        };
        write().map_err(Error::cache("write", &index))?;
        remove_directory(&self.work_directory(asset))?;
        Ok(path)
    }

    /// Reads the whole blob of an asset and compares its digest. An asset that is not cached is fine.
    pub(crate) fn verify(&self, asset: &Asset) -> Result<(), Error> {
        let Some(entry) = self.entry(asset)? else {
            return Ok(());
        };
        let path = self.blob(&entry.digest);
        let (actual, _) = Digest::of_file(&path).map_err(Error::cache("read", &path))?;
        if actual == entry.digest {
            Ok(())
        } else {
            Err(Error::Corrupt {
                asset: Box::new(asset.clone()),
                path,
                expected: entry.digest,
                actual,
            })
        }
    }

    fn blob(&self, digest: &Digest) -> PathBuf {
        self.root.join("sha256").join(digest.as_hex())
    }

    fn index(&self, asset: &Asset) -> PathBuf {
        self.root
            .join("index")
            .join(asset.component.name())
            .join(asset.version.as_str())
            .join(self.platform.to_string())
    }

    fn work_directory(&self, asset: &Asset) -> PathBuf {
        self.root.join("work").join(self.key(asset))
    }

    fn entry(&self, asset: &Asset) -> Result<Option<Entry>, Error> {
        let path = self.index(asset);
        match fs::read(&path) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(entry) => Ok(Some(entry)),
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "ignoring an index entry that cannot be read");
                    Ok(None)
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::cache("read", &path)(error)),
        }
    }

    /// The hard link under the binary's own name. A symbolic link would show the digest as the program's name.
    fn link(&self, asset: &Asset, binary: &str, digest: &Digest) -> Result<PathBuf, Error> {
        let directory = self.root.join("bin").join(self.key(asset));
        let path = directory.join(binary);
        let blob = self.blob(digest);
        let identity =
            |path: &Path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
        let wanted = identity(&blob).map_err(Error::cache("look at", &blob))?;
        if identity(&path).is_ok_and(|present| present == wanted) {
            return Ok(path);
        }
        create_directory(&directory)?;
        let temporary = temporary_beside(&path);
        fs::hard_link(&blob, &temporary)
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(Error::cache("link", &path))?;
        Ok(path)
    }
}

/// A name nobody else uses, in the same directory. Readers link without a lock, so a fixed name would collide.
fn temporary_beside(path: &Path) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{count}.tmp", std::process::id()));
    path.with_file_name(name)
}

fn create_directory(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(Error::cache("create", path))
}

fn remove_directory(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::cache("remove", path)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use tempfile::TempDir;

    use super::*;
    use crate::component::Component;

    fn stored(content: &str) -> (TempDir, Store, Asset, Entry, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::new(directory.path(), Platform::host());
        let asset = Asset::default_of(Component::CniBridge);
        let file = store.work(&asset).unwrap().join("bridge");
        fs::write(&file, content).unwrap();
        let (digest, size) = store.adopt(&file).unwrap();
        let origin = Origin::Build {
            fingerprint: Digest::of(b"pins"),
            go: "go1.26".to_owned(),
        };
        let entry = Entry {
            digest,
            size,
            origin,
        };
        let path = store.record(&asset, "bridge", &entry).unwrap();
        (directory, store, asset, entry, path)
    }

    #[test]
    fn recorded_asset_is_found_again_under_its_own_name() {
        let (_directory, store, asset, entry, path) = stored("content");
        assert!(path.ends_with(format!("bin/cni-bridge-1.9.1-{}/bridge", Platform::host())));
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            BLOB_MODE
        );
        let found = store
            .find(&asset, "bridge", Some(&Digest::of(b"pins")))
            .unwrap();
        assert_eq!(found, Lookup::Found(Cached { path, size: 7 }));
        assert_eq!(store.entry(&asset).unwrap(), Some(entry));
        assert!(!store.work_directory(&asset).exists());
    }

    #[test]
    fn changed_pins_make_a_build_stale() {
        let (_directory, store, asset, _, _) = stored("content");
        let found = store
            .find(&asset, "bridge", Some(&Digest::of(b"new pins")))
            .unwrap();
        assert!(matches!(found, Lookup::Missing(reason) if reason.contains("other pins")));
    }

    #[test]
    fn lost_link_is_made_again() {
        let (_directory, store, asset, _, path) = stored("content");
        fs::remove_file(&path).unwrap();
        assert!(matches!(
            store.find(&asset, "bridge", None).unwrap(),
            Lookup::Found(_)
        ));
        assert_eq!(fs::read_to_string(path).unwrap(), "content");
    }

    #[test]
    fn truncated_blob_does_not_count() {
        let (_directory, store, asset, entry, _) = stored("content");
        let blob = store.blob(&entry.digest);
        fs::remove_file(&blob).unwrap();
        fs::write(&blob, "cont").unwrap();
        let found = store.find(&asset, "bridge", None).unwrap();
        assert!(
            matches!(found, Lookup::Missing(reason) if reason.contains("4 bytes instead of 7"))
        );
    }

    #[test]
    fn verify_names_a_blob_whose_content_changed() {
        let (_directory, store, asset, entry, _) = stored("content");
        store.verify(&asset).unwrap();
        let blob = store.blob(&entry.digest);
        fs::remove_file(&blob).unwrap();
        fs::write(&blob, "CONTENT").unwrap();
        let error = store.verify(&asset).unwrap_err().to_string();
        assert!(
            error.contains(entry.digest.as_hex()) && error.contains("delete it"),
            "{error}"
        );
    }

    #[test]
    fn damaged_index_entry_is_ignored() {
        let (_directory, store, asset, _, _) = stored("content");
        fs::write(store.index(&asset), "{").unwrap();
        assert!(matches!(
            store.find(&asset, "bridge", None).unwrap(),
            Lookup::Missing(_)
        ));
    }
}
